//! Classes that do not all count the same.

use std::sync::Arc;

use brasa::data::{Dataset, Description, Goal, Pipeline, Sample, Split, Subset, Target, Values};
use brasa::train::record;
use brasa::train::{ClassWeights, Config, Confusion, OptimizerName, Precision, Trainer};
use brasa::{Device, Result};

use crate::common::{self, assert_close};

use super::{file, folder, losses, run, settings, train, weights};

/// One number, around 0 for nine samples of ten and around 1.5 for the tenth, whose class is the rare one; each by the
/// quantiles of a logistic distribution as wide as a normal one of deviation 1.
struct Rare(Description);

impl Rare {
    fn split() -> Split<Pipeline> {
        let classes = ["often", "rare"].map(str::to_owned);
        let data = Arc::new(Self(Description::new("rare", Goal::Classify, classes, [1])));
        Split::new(Pipeline::new(data.clone()), Pipeline::new(data))
    }
}

impl Dataset for Rare {
    fn description(&self) -> &Description {
        &self.0
    }
    fn len(&self) -> usize {
        400
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        let class = u32::from(index.is_multiple_of(10));
        let (number, count) = if class == 1 { (index / 10, 40.0) } else { (index - index / 10 - 1, 360.0) };
        let part = (number as f32 + 0.5) / count;
        sample.shape = vec![1];
        sample.input = Values::F32(vec![1.5 * class as f32 + 0.55 * (part / (1.0 - part)).ln()]);
        sample.target = Target::Class(class);
        Ok(())
    }
}

#[test]
fn a_rare_class_is_found_if_it_counts_more() {
    for device in common::devices() {
        let out = folder();
        let plain = Config { epochs: 30, batch_size: 50, ..settings(&device, out.path()) };
        let weighted = Config { class_weights: Some(ClassWeights::Balanced), ..plain.clone() };
        // which part of either class is found
        let [plain, weighted] = [plain, weighted].map(|config| {
            let (summary, _) = train(Trainer::with_data(config, Rare::split()).expect("good settings"));
            let counts = file::<Confusion>(&summary.folder, record::CONFUSION);
            [0, 1].map(|class| counts.class(class).recall)
        });
        // where both are equally likely without weights a quarter of the rare ones is above, with them three quarters
        assert!(plain[1] < 0.4 && plain[0] > 0.95, "{device:?}: {plain:?}");
        assert!(weighted[1] > 0.6 && weighted[0] > 0.6, "{device:?}: {weighted:?}");
    }
}

#[test]
fn balanced_weights_are_those_of_the_counts() {
    let (out, device) = (folder(), Device::cpu());
    let balanced = |data: Split<Pipeline>, class_weights: ClassWeights| {
        let config = Config { class_weights: Some(class_weights), ..settings(&device, out.path()) };
        weights(&train(Trainer::with_data(config, data).expect("good settings")).0)
    };
    let told = Rare::split().map(|part| {
        let of = Description { counts: Some(vec![360, 40]), ..part.description().clone() };
        part.described(of)
    });
    let counted = balanced(Rare::split(), ClassWeights::Balanced);
    assert!(counted == balanced(told, ClassWeights::Balanced));
    assert!(counted == balanced(Rare::split(), ClassWeights::Given(vec![400.0 / 720.0, 400.0 / 80.0])));
    assert!(counted != balanced(Rare::split(), ClassWeights::Given(vec![1.0, 1.0])));
    // counts of a whole say nothing of a part
    let told = Description { counts: Some(vec![360, 40]), ..Rare::split().train.description().clone() };
    let data: Arc<dyn Dataset> = Arc::new(Rare(told.clone()));
    assert_eq!(Subset::new(Arc::clone(&data), vec![1, 2]).description().counts, None);
    assert_eq!(Pipeline::new(Arc::clone(&data)).shuffle().description().counts, told.counts);
    assert_eq!(Pipeline::new(data).take(20).description().counts, None);
}

#[test]
fn a_run_goes_on_with_the_weights_that_it_began_with() {
    let (out, device) = (folder(), Device::cpu());
    let class_weights = Some(ClassWeights::Balanced);
    let config = |name: &str, epochs| {
        let name = Some(name.to_owned());
        Config { class_weights: class_weights.clone(), name, epochs, ..settings(&device, out.path()) }
    };
    let begin =
        |name: &str, epochs| train(Trainer::with_data(config(name, epochs), Rare::split()).expect("good settings")).0;
    let (whole, begun) = (begin("whole", 2), begin("begun", 1));
    let input: serde_json::Value = file(&begun.folder, record::RUN);
    assert_eq!(input["input"]["counts"], serde_json::json!([360, 40]));
    // data that tell other counts now
    let others = Rare::split().map(|part| {
        let of = Description { counts: Some(vec![40, 360]), ..part.description().clone() };
        part.described(of)
    });
    let trainer = Trainer::resume_with_data(&begun.folder, config("begun", 2), others).expect("a checkpoint");
    assert_eq!(train(trainer).0.steps, whole.steps);
    let input: serde_json::Value = file(&begun.folder, record::RUN);
    assert_eq!(input["input"]["counts"], serde_json::json!([360, 40]));
}

#[test]
fn weighted_parts_of_a_batch_are_worth_the_batch() {
    for device in common::devices() {
        let out = folder();
        let class_weights: ClassWeights = "1,5,1,0,1,0.1,1,20,1,1".parse().expect("weights");
        for precision in [Precision::F32, Precision::F16] {
            let (epochs, class_weights) = (1, Some(class_weights.clone()));
            let optimizer = OptimizerName::SGD;
            let whole = Config { epochs, precision, class_weights, optimizer, ..settings(&device, out.path()) };
            let parts = Config { batch_size: 16, accumulate: 4, ..whole.clone() };
            let [whole, parts] = [whole, parts].map(|config| {
                let (summary, events) = run(config);
                let losses = losses(&events).into_iter().map(f64::from);
                losses.chain([summary.test.expect("it was judged").loss]).collect::<Vec<_>>()
            });
            let tolerance = if precision == Precision::F16 { 2e-2 } else { 1e-3 };
            assert_close(&format!("{device:?} {precision:?}"), &parts, &whole, tolerance, 0.0);
        }
    }
}
