//! Numbers instead of classes: what a house costs, learned by the trainer from data of the program's own.
//!
//! `cargo run --release --example regression`; a table in a file needs no program:
//! `brasa train --dataset csv:houses.csv,target=price`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use brasa::Result;
use brasa::data::{Dataset, Description, Goal, Normalization, Pipeline, Random, Sample, Split, Values};
use brasa::train::{Config, Control, EarlyStopping, Event, LossName, ModelName, Monitor, Predictor, Trainer};

/// Houses with their area, their age and how far off they are; and what they cost, and what heating them does in a year.
struct Houses {
    description: Description,
    rows: Vec<[f32; 3]>,
}

impl Houses {
    fn new(count: usize, seed: u64) -> Self {
        let mut random = Random::new(&[seed]);
        let mut between = |low, high| random.between(low, high) as f32;
        let rows = (0..count).map(|_| [between(30.0, 250.0), between(0.0, 120.0), between(0.0, 60.0)]).collect();
        // What becomes 0 and 1 in the loss: of data in files, the program takes mean and deviation of the training part.
        let scales = Some(Normalization { mean: vec![300_000.0, 2_500.0], std: vec![180_000.0, 1_500.0] });
        let names = ["price", "heating"].map(str::to_owned);
        Self { description: Description { scales, ..Description::new("houses", Goal::Regress, names, [3]) }, rows }
    }

    fn costs([area, age, distance]: [f32; 3]) -> [f32; 2] {
        [area * (1_500.0 + 2_000.0 * (-distance / 15.0).exp()), area * (8.0 + 0.2 * age)]
    }
}

impl Dataset for Houses {
    fn description(&self) -> &Description {
        &self.description
    }
    fn len(&self) -> usize {
        self.rows.len()
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let row @ [area, age, distance] = self.rows[index];
        sample.shape = vec![3];
        sample.input = Values::F32(vec![area / 100.0 - 1.4, age / 40.0 - 1.5, distance / 20.0 - 1.5]);
        sample.set_numbers(&Self::costs(row));
        Ok(())
    }
}

fn main() -> Result<()> {
    let part = |count, seed| Pipeline::new(Arc::new(Houses::new(count, seed)));
    let data = Split::new(part(4_000, 1), part(500, 2));
    // errors beyond a standard deviation count less than squared ones would
    let loss = Some(LossName::Huber);
    let config = Config { model: ModelName::new("mlp")?, epochs: 20, loss, ..Config::default() };
    let mut trainer = Trainer::with_data(config, data)?;
    trainer.add_callback(EarlyStopping::new(5).monitor(Monitor::R2));
    let summary = trainer.run(&Control::default(), &mut |event| {
        if let Event::Evaluated { epoch, test, tally, .. } = event
            && let Some(residuals) = tally.residuals()
        {
            let [price, heating] = [0, 1].map(|number| residuals.number(number).mae);
            println!("epoch {epoch:2}: R² {:.4}; off by {price:.0} and {heating:.0} on average", test.score());
        }
    })?;

    let predictor = Predictor::open_best(&summary.folder, None)?;
    let (mut sample, houses) = (Sample::default(), Houses::new(500, 2));
    houses.get(0, &mut sample)?;
    let said = predictor.predict(&[sample])?.remove(0).numbers;
    for ((name, is), said) in predictor.classes().iter().zip(Houses::costs(houses.rows[0])).zip(said) {
        println!("{name}: {is:.0}, predicted {said:.0}");
    }
    println!("saved in {}", summary.folder.display());
    Ok(())
}
