//! The texts of whole plans: each is checked once, however many kernels share it.

use std::collections::HashSet;

use crate::plan::{Body, Plan};

use super::{Capabilities, capabilities, render, validate};

/// The modules that were seen so far.
#[derive(Default)]
pub(super) struct Texts(HashSet<String>);

impl Texts {
    /// Renders every kernel of `plan` with its sizes in the text and beside it, for software and real adapters with and
    /// without f16 and subgroups, and checks what is new. `name` says in messages where it comes from.
    pub(super) fn check(&mut self, name: &str, mut plan: Plan) {
        plan.kernels.iter_mut().for_each(|kernel| kernel.label = format!("{name}: {}", kernel.label));
        for literal in [true, false] {
            plan.literal_sizes = literal;
            for kernel in &plan.kernels {
                let [software, real, poor] = [(true, true), (false, true), (false, false)].map(|(software, f16)| {
                    let subgroups = software.then_some([8, 8]);
                    Capabilities { shares_sums: !software, subgroups, ..capabilities(software, f16) }
                });
                let grouped = Capabilities { subgroups: Some([32, 32]), ..real.clone() };
                // only reductions differ in it
                let reduces = matches!(&kernel.body, Body::Loop(body) if body.phases.iter().any(|phase| !phase.reductions.is_empty()));
                for caps in [software, real, poor].into_iter().chain(reduces.then_some(grouped)) {
                    for launch in render(&plan, kernel, &caps).unwrap_or_else(|error| panic!("{error}\n{plan}")) {
                        if self.0.insert(launch.wgsl.clone()) {
                            validate(&launch);
                        }
                    }
                }
            }
        }
    }

    /// How many different ones there were.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}
