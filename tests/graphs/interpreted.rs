//! Whatever the planner makes of a graph, interpreted in f64, is what the reference says.

use brasa::graph::{NodeRef, Op};
use brasa::plan::interpret::interpret_plan;
use brasa::plan::{PlanOptions, plan};
use brasa::runtime::traced::Traced;
use brasa::{Device, Tensor};

use super::build::build;
use super::case::Case;
use super::expected::{Expected, first_difference};
use super::outcome::{Outcome, Run, Sweep, number};
use super::rows::ROWS;

/// What the executors plan with (a GPU that binds as few buffers as WebGPU promises, 8 with the status word, and Mesa's
/// llvmpipe), and limits so small that everything is cut.
const OPTIONS: [(&str, PlanOptions); 4] = [
    ("CPU", PlanOptions::CPU),
    ("GPU of 7 buffers", PlanOptions::gpu(7)),
    ("GPU of 31 buffers", PlanOptions::gpu(31)),
    ("small limits", PlanOptions { max_row: 16, max_contract_steps: 7, sort_run: 4, ..PlanOptions::gpu(4) }),
];

/// A traced case and what it reads and should write.
struct Trial {
    traced: Traced,
    /// Values of the external storages before it runs.
    externals: Vec<Vec<f64>>,
    expected: Vec<Vec<f64>>,
    allowed: f64,
}

impl Trial {
    /// The first difference between what a plan computes and what it should.
    fn difference(&self, options: &PlanOptions) -> Option<String> {
        let plan = plan(&self.traced.program, options);
        let uniforms: Vec<u32> = self.traced.hosts.iter().map(|host| host.get()).collect();
        let (outputs, status) = interpret_plan(&plan, &self.externals, &uniforms);
        let program = &self.traced.program;
        if status != 0 {
            return Some(format!("an index that is in range was found outside\n{plan}\n{program}"));
        }
        for (number, ((node, output), expected)) in self.traced.wanted.iter().zip(&self.expected).enumerate() {
            let got = &outputs[output.external][output.offset..][..expected.len()];
            if let Some(index) = first_difference(got, expected, self.allowed) {
                let (got, want) = (got[index], expected[index]);
                return Some(format!(
                    "output {number}, {node:?}, is {got} instead of {want} at {index}\n{plan}\n{program}"
                ));
            }
        }
        None
    }
}

/// Plans a case in these ways and compares.
fn run(case: &Case, device: &Device, options: &[&(&str, PlanOptions)]) -> Run {
    let values = case.values();
    let state = case.make_state(device);
    let signature: Vec<_> = case.inputs.iter().map(|(dtype, shape)| (shape.as_slice().into(), *dtype)).collect();
    let mut made = None;
    let traced = Traced::new(device, &signature, |inputs: &[Tensor]| {
        let inputs: Vec<(Tensor, Vec<f64>)> = inputs.iter().cloned().zip(values.iter().cloned()).collect();
        let graph = build(case, &inputs, state.as_ref());
        made = Some((graph.drawn, graph.half));
        graph.outputs
    })
    .expect("a device that works");
    let (drawn, half) = made.expect("the function was called");
    let nodes: Vec<NodeRef> = traced.wanted.iter().map(|(node, _)| node.clone()).collect();
    let inputs: Vec<(Tensor, Vec<f64>)> = traced.inputs.iter().cloned().zip(values.iter().cloned()).collect();
    let expected = Expected::new(nodes, &inputs);
    let contents = |number: usize| {
        if let Some(values) = values.get(number) {
            return values.clone();
        }
        // what must be written is not there before; a vector's gaps are
        let result = traced.wanted.iter().find(|(_, output)| output.external == number).map(|(node, _)| node);
        let kept = traced.contents(device, number).expect("a device that works");
        kept.unwrap_or_else(|| {
            let node = result.expect("neither input nor kept: a result");
            let before = if matches!(node.op, Op::Pack { .. }) { 0.0 } else { f64::NAN };
            vec![before; node.shape.numel()]
        })
    };
    let externals = (0..traced.program.externals.len()).map(contents).collect();
    // differences of f64 sums in another order, after some dozen ops; f16 rounds at 5e-4, at another place in every
    // plan
    let (allowed, noisy) = if half { (2e-2, 1e-3) } else { (1e-9, 1e-13) };
    let trial = Trial { externals, expected: expected.values(), allowed, traced };
    let wrong = options.iter().find_map(|(name, options)| Some(format!("{name}: {}", trial.difference(options)?)));
    let outcome = match wrong {
        None => Outcome::Same,
        Some(_) if !expected.is_steady(noisy, allowed / 2.0) => Outcome::Unsteady,
        Some(failure) => Outcome::Wrong(failure),
    };
    (outcome, drawn)
}

#[test]
fn plans_compute_what_the_reference_says() {
    let device = Device::cpu();
    let mut sweep = Sweep::default();
    sweep.run(0..400, 1, |case| run(case, &device, &OPTIONS.each_ref()));
    sweep.assert_same();
    let missing: Vec<_> = ROWS.iter().map(|row| row.name).filter(|name| !sweep.drawn.contains(name)).collect();
    assert!(missing.is_empty(), "never drawn: {missing:?}");
}

#[test]
#[ignore = "takes half an hour; see the head of main.rs"]
#[expect(clippy::print_stdout, reason = "a long test shows how far it is")]
fn a_hundred_thousand_graphs() {
    let (first, count) = (number("BRASA_FIRST_GRAPH", 1_000_000), number("BRASA_GRAPHS", 100_000));
    let device = Device::cpu();
    let mut sweep = Sweep::default();
    let start = std::time::Instant::now();
    for chunk in (first..first + count).step_by(500) {
        let failed = sweep.failures.len();
        // as the CPU plans, and in turn as GPUs do
        let options = [&OPTIONS[0], &OPTIONS[1 + (chunk / 500 % 3) as usize]];
        sweep.run(chunk..(chunk + 500).min(first + count), usize::MAX, |case| run(case, &device, &options));
        sweep.failures[failed..].iter().for_each(|failure| println!("{failure}"));
        let seconds = start.elapsed().as_secs();
        let (same, unsteady, wrong) = (sweep.same, sweep.unsteady, sweep.failures.len());
        println!("{same} the same, {unsteady} decided by rounding, {wrong} wrong after {seconds} s");
    }
    sweep.assert_same();
}
