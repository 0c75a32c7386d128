//! Every kernel of every op of the table, and of its gradient, is valid WGSL, and SPIR-V, MSL and HLSL can be made of
//! it.

use crate::autodiff::grad;
use crate::device::Device;
use crate::doctor::rows;
use crate::dtype::DType;
use crate::plan::{Plan, PlanOptions};
use crate::runtime::Step;
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::BUFFERS;
use super::texts::Texts;

/// The plan of `function` over inputs of these shapes and types, for an adapter that binds eight buffers, one of which
/// may be the status word.
pub(super) fn plan(inputs: &[(Shape, DType)], function: impl FnMut(&[Tensor]) -> Vec<Tensor> + Send + 'static) -> Plan {
    let step = Step::new(&Device::cpu(), function).expect("a step");
    let mut step = step.with_options(|options| *options = PlanOptions::gpu(BUFFERS));
    Plan::clone(&step.prepare(inputs).expect("a plan").plan)
}

/// Gradients of Σ y² along the inputs that have them; nothing if y has none.
fn gradients(output: &Tensor, inputs: &[Tensor]) -> Vec<Tensor> {
    let floats: Vec<&Tensor> = inputs.iter().filter(|input| input.dtype().is_float()).collect();
    if floats.is_empty() || !output.dtype().is_float() {
        return Vec::new();
    }
    grad(&output.square().sum(), &floats)
}

/// The families with these numbers; in parts, so that they share the machine's cores.
fn check(families: std::ops::Range<usize>) {
    let mut texts = Texts::default();
    for (family, rows) in &rows::FAMILIES[families] {
        for row in rows() {
            for case in &row.cases {
                let name = format!("{family}, {} of {:?}", row.name, case.iter().map(|i| &i.shape).collect::<Vec<_>>());
                let inputs: Vec<_> = case.iter().map(|input| (Shape::from(&input.shape[..]), input.dtype)).collect();
                let call = row.call;
                texts.check(&name, plan(&inputs, move |x| vec![call(x)]));
                texts.check(&format!("gradient of {name}"), plan(&inputs, move |x| gradients(&call(x), x)));
            }
        }
    }
    // forward and backward, literal and not, with and without f16: more than one text for a row
    assert!(texts.count() > 100, "{} different kernels", texts.count());
}

#[test]
fn kernels_of_simple_ops_are_valid_everywhere() {
    check(0..5);
}

#[test]
fn kernels_of_products_and_movement_are_valid_everywhere() {
    check(5..9);
}

#[test]
fn kernels_of_reductions_sorts_and_windows_are_valid_everywhere() {
    check(9..rows::FAMILIES.len());
}
