//! The program's training loop inside an application: settings go in, events come out.

#![expect(clippy::print_stdout, reason = "an example prints")]

use brasa::Result;
use brasa::train::{Config, Control, Event, ModelName, Trainer};

fn main() -> Result<()> {
    let config = Config { model: ModelName::new("mlp")?, epochs: 5, seed: 1, ..Config::default() };
    // Any thread may hold a clone of this and call `stop`.
    let control = Control::default();
    let summary = Trainer::new(config)?.run(&control, &mut |event| match event {
        Event::Started(start) => println!("{} parameters on {}", start.parameters, start.device),
        Event::Evaluated { epoch, test, .. } => println!("epoch {epoch}: {:.1} % right", 100.0 * test.score()),
        _ => {}
    })?;
    println!("saved in {}", summary.folder.display());
    Ok(())
}
