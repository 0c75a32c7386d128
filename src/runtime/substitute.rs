//! Variables that are read as other tensors.

use std::cell::{Cell, RefCell};

use crate::graph::refuse;
use crate::tensor::Tensor;

use super::Var;

thread_local! {
    /// What variables are read as on this thread, by number; the last one of a variable counts.
    static VALUES: RefCell<Vec<(u64, Tensor)>> = const { RefCell::new(Vec::new()) };
    /// How many of the first ones are hidden now.
    static HIDDEN: Cell<usize> = const { Cell::new(0) };
}

/// Runs `f` with variables that are read as these tensors instead, so that gradients go through what the tensors were
/// computed from: as `torch.func.functional_call`. It holds for this thread; within another such scope the inner one
/// decides. What is [assigned](Var::assign) to a variable still becomes its own value, and a [`Step`](super::Step) that is
/// run or prepared within knows nothing of it, as its function is traced once for all runs: within that function it holds
/// as elsewhere.
///
/// The gradient of a loss after a step of an inner optimizer, as in meta-learning (Finn et al., arXiv 1703.03400):
///
/// ```
/// use brasa::autodiff::grad;
/// use brasa::prelude::*;
/// use brasa::runtime::functional_call;
///
/// # fn main() -> Result<()> {
/// let device = Device::cpu();
/// let model = nn::Linear::without_bias(1, 1, &Init::new(&device, 0))?;
/// model.weight.set(&Tensor::full([1, 1], 2.0_f32, &device))?;
/// let loss = |x: f32| (model.forward(&Tensor::full([1, 1], x, &device)) - 1.0).square().sum();
///
/// let weight = model.weight.tensor();
/// let inner = grad(&loss(1.0), &[&weight]).remove(0); // 2 (w - 1)
/// let stepped = &weight - inner * 0.1; // 0.8 w + 0.2
/// let outer = functional_call(&[(&model.weight, &stepped)], || loss(3.0)); // (2.4 w - 0.4)²
/// let meta = grad(&outer, &[&weight]).remove(0); // 4.8 (2.4 w - 0.4)
/// assert!((meta.item::<f32>()? - 21.12).abs() < 1e-4);
/// assert_eq!(model.weight.tensor().item::<f32>()?, 2.0);
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// If a tensor has not the shape, type and device of its variable.
#[track_caller]
pub fn functional_call<T>(values: &[(&Var, &Tensor)], f: impl FnOnce() -> T) -> T {
    /// Ends the scope, also when a panic passes.
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            drop(VALUES.with_borrow_mut(|values| values.split_off(self.0)));
        }
    }
    for (variable, value) in values {
        let is_alike = value.shape() == variable.shape() && value.dtype() == variable.dtype();
        if !is_alike || value.device() != variable.device() {
            refuse(format_args!(
                "functional_call: `{}` is {} {} on {}, and was given {} {} on {}",
                variable.name(),
                variable.dtype(),
                variable.shape(),
                variable.device().name(),
                value.dtype(),
                value.shape(),
                value.device().name(),
            ));
        }
    }
    let _restore = VALUES.with_borrow_mut(|current| {
        let before = current.len();
        current.extend(values.iter().map(|(variable, value)| (variable.id(), (*value).clone())));
        Restore(before)
    });
    f()
}

/// Runs `f` with variables that are read as their own values, except where it says otherwise.
pub(super) fn hidden<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            HIDDEN.set(self.0);
        }
    }
    let _restore = Restore(HIDDEN.replace(VALUES.with_borrow(Vec::len)));
    f()
}

/// What a variable is read as now, if not as its own value.
pub(super) fn value(id: u64) -> Option<Tensor> {
    VALUES.with_borrow(|values| {
        let now = values[HIDDEN.get()..].iter().rev().find(|(of, _)| *of == id);
        now.map(|(_, value)| value.clone())
    })
}
