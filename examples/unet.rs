//! Segmentation: a U-Net learns which pixels belong to a shape, which to its border and which to the background, from
//! pictures that the program draws. With `oxford-pets` as argument it learns cats and dogs, of the files as they are
//! published (`brasa data oxford-pets --download`).
//!
//! `cargo run --release --example unet [DATASET]`

#![expect(clippy::print_stdout, reason = "an example prints")]

use brasa::Result;
use brasa::train::{Config, Control, Event, ModelName, Trainer};

fn main() -> Result<()> {
    let dataset = std::env::args().nth(1).unwrap_or_else(|| "shapes:n=1000,size=64".into());
    let config = Config {
        // pictures of pets differ in size
        image_size: dataset.contains("pets").then_some(128),
        dataset: dataset.parse()?,
        model: ModelName::new("unet")?,
        epochs: 10,
        batch_size: 16,
        // masks go through the same changes as their pictures
        augment: "flip".parse()?,
        ..Config::default()
    };
    let mut trainer = Trainer::new(config)?;
    // writes masks beside pictures into the run's event files: `tensorboard --logdir runs`
    trainer.add_tensorboard();
    let summary = trainer.run(&Control::default(), &mut |event| {
        if let Event::Evaluated { epoch, test, tally, .. } = event
            && let Some(confusion) = tally.confusion()
        {
            let [inside, outside, border] = [0, 1, 2].map(|class| 100.0 * confusion.class(class).iou);
            println!(
                "epoch {epoch:2}: loss {:.4}, mean IoU {:.1} % (inside {inside:.1}, outside {outside:.1}, border {border:.1})",
                test.loss,
                100.0 * test.score()
            );
        }
    })?;
    println!("saved in {}", summary.folder.display());
    Ok(())
}
