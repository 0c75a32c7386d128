//! A callback of one's own: keeps an eye on the weights, and stops a run that is good enough.
//!
//! `cargo run --release --example custom_callback`

#![expect(clippy::print_stdout, reason = "an example prints")]

use brasa::Result;
use brasa::train::{Callback, Config, Context, Control, EpochMetrics, Tally, TestMetrics, Trainer};

/// Prints how large each layer's weights are after each pass, and ends the run at an accuracy.
struct Watch {
    enough: f64,
}

impl Callback for Watch {
    fn on_epoch_end(&mut self, run: &mut Context<'_>, epoch: &EpochMetrics) -> Result<()> {
        print!("epoch {:2}: loss {:.4}, root mean square of", epoch.epoch, epoch.loss);
        for variable in run.model().parameters().iter().filter(|variable| variable.name().ends_with("weight")) {
            // tensors can be computed with at any time, also here
            let size = variable.tensor().square().mean().sqrt().item::<f32>()?;
            print!(" {} {size:.3}", variable.name());
        }
        println!();
        Ok(())
    }

    fn on_test_end(&mut self, run: &mut Context<'_>, test: &TestMetrics, tally: &Tally) -> Result<()> {
        let Some(confusion) = tally.confusion() else { return Ok(()) };
        let hardest = (0..confusion.classes()).min_by(|&a, &b| {
            let recall = |class| confusion.class(class).recall;
            recall(a).total_cmp(&recall(b))
        });
        let hardest = hardest.map_or_else(|| "none".to_owned(), |digit| digit.to_string());
        println!("          {} accuracy {:.2} %, hardest digit {hardest}", test.part.name(), 100.0 * test.score());
        if test.score() >= self.enough {
            run.stop(format!("{:.1} % is enough", 100.0 * self.enough));
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let mut trainer = Trainer::new(Config { schedule: "constant".parse()?, ..Config::default() })?;
    trainer.add_callback(Watch { enough: 0.97 });
    let summary = trainer.run(&Control::default(), &mut |_| {})?;
    println!("{} after {} steps", summary.stopped.as_deref().unwrap_or("never enough"), summary.steps);
    Ok(())
}
