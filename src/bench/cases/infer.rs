//! Inference: how long one sample takes, and how many there are in a second.

use crate::error::Result;
use crate::models::create;
use crate::nn::Mode;
use crate::tensor::no_grad;

use super::super::Suite;
use super::super::method::TAIL_RUNS;
use super::train::{CNN, MLP, Network, RESNET20, UNET};
use super::{Case, replay};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, network, quick) in
        [("mlp", MLP, true), ("cnn", CNN, true), ("resnet20", RESNET20, true), ("unet", UNET, false)]
    {
        cases.push(forward(name, network, 1).quick(quick));
        for batch in [8, 64] {
            cases.push(forward(name, network, batch).quick(quick && name == "cnn" && batch == 64));
        }
    }
    cases
}

fn forward(name: &str, network: Network, batch: usize) -> Case {
    let make = move |device: &crate::Device| -> Result<_> {
        let model = create(network.model, &network.spec(), device)?;
        replay(device, vec![network.samples(batch, device)], move |inputs| {
            vec![no_grad(|| Mode::Evaluate.scope(|| model.forward(&inputs[0])))]
        })
    };
    of_batch(Case::new(Suite::Infer, format!("infer_{name}_b{batch}"), make), network.model, batch)
}

/// Answers of `model`: of one sample, how long each takes; of more, how many there are in a second.
pub(super) fn of_batch(case: Case, model: &str, batch: usize) -> Case {
    let case = case.samples(batch);
    if batch == 1 {
        case.what(format!("{model}, one sample, waited for each time")).least_runs(TAIL_RUNS)
    } else {
        case.what(format!("{model}, batch {batch}, one after the other")).throughput()
    }
}
