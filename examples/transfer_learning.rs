//! Transfer learning: what a network has learned of eight classes helps it with two others, of which there are few
//! pictures.
//!
//! `cargo run --release --example transfer_learning -- cifar10` (after `brasa data cifar10 --download`), or with a
//! folder of the same pictures: `... -- folder:PATH`, where PATH has `train/CLASS/*.png` and `test/CLASS/*.png`, or
//! `train.tar.gz` and `test.tar.gz` of such folders.
//!
//! What that is worth depends on the pair and on how many pictures there are. Bird and deer, 200 pictures, judged by
//! 2,000 others: 60.5 % from scratch, 71.5 % on the frozen backbone (84.0 % of its own eight classes after ten passes).
//! Other pairs, on backbones of five to eleven passes: dog and horse 66.7 and 81.2 % of 100 pictures, 77.6 and 83.7 %
//! of 300; airplane and bird, which color tells apart, 84.7 and 85.3 % of 300; automobile and truck, of which the other
//! eight tell nothing, 80.5 and 68.3 %.
//!
//! Two switches that are easily confused: `freeze` says which *parameters* stay as they are; `freeze_statistics` says
//! that batch norms use, and keep, the *running statistics* they have. A frozen batch norm still follows the new data's
//! statistics unless the second switch says otherwise; here both are set, so that the backbone is a fixed function.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use brasa::data::{OpenOptions, Pipeline, Split, Subset, open};
use brasa::train::{Config, Control, ModelName, OptimizerName, Trainer};
use brasa::{Error, Result};

/// The classes that are learned from few pictures.
const NEW: [&str; 2] = ["bird", "deer"];
/// How many pictures there are of them.
const FEW: usize = 200;

fn main() -> Result<()> {
    let name = std::env::args().nth(1).ok_or_else(|| Error::Config("say where CIFAR-10 is".into()))?;
    let data = open(&name.parse()?, &OpenOptions::default())?;
    let others = data.train.description().classes.iter().filter(|class| !NEW.contains(&class.as_str()));
    let others: Vec<String> = others.cloned().collect();
    let eight = Split::new(
        Pipeline::new(Arc::new(Subset::of_classes(data.train.clone(), &others)?)),
        Pipeline::new(Arc::new(Subset::of_classes(data.test.clone(), &others)?)),
    );
    let two = Split::new(
        Pipeline::new(Arc::new(Subset::of_classes(data.train, &NEW)?.sampled(FEW, 1))),
        Pipeline::new(Arc::new(Subset::of_classes(data.test, &NEW)?)),
    );

    let out = std::env::temp_dir().join(format!("brasa-transfer-{}", std::process::id()));
    let base = Config { model: ModelName::new("resnet20")?, batch_size: 128, workers: 2, out, ..Config::default() };
    let run = |name: &str, config: Config, data: Split<Pipeline>| {
        let config = Config { name: Some(name.into()), ..config };
        let summary = Trainer::with_data(config, data)?.run(&Control::default(), &mut |_| {})?;
        let accuracy = summary.test.map_or(0.0, |test| test.score());
        println!("{name:<24} {:.1} %", 100.0 * accuracy);
        Ok::<_, Error>((accuracy, summary.folder))
    };

    let backbone = Config { epochs: 10, augment: "cifar".parse()?, ..base.clone() };
    let (_, backbone) = run("backbone, eight classes", backbone, eight)?;

    let small = Config { epochs: 40, batch_size: 32, augment: "cifar".parse()?, ..base };
    let (scratch, _) = run("from scratch", small.clone(), Split::new(two.train.clone(), two.test.clone()))?;
    let frozen = Config {
        weights: Some(backbone.join("model.safetensors")),
        freeze: ["conv1.*", "bn1.*", "layer*"].map(String::from).to_vec(),
        freeze_statistics: true,
        optimizer: OptimizerName::SGD,
        lr: Some(0.05),
        // without it 64 weights a class learn the few pictures by heart: 68.5 %
        weight_decay: Some(0.02),
        ..small
    };
    let (transferred, _) = run("frozen backbone, new head", frozen, two)?;
    println!("the backbone is worth {:.1} points", 100.0 * (transferred - scratch));
    Ok(())
}
