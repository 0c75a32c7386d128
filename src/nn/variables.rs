//! What a model's variables are.

use std::collections::HashSet;
use std::sync::Arc;

use crate::runtime::{Var, VarKind};

/// Something with variables: a layer, a model, or parts of one. They are what optimizers change, and what files of
/// weights hold.
///
/// [`variables!`](crate::variables) implements it for a struct.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which variables it has",
    note = "`brasa::variables!(Name: field, field)` implements `Variables` for a struct, from those fields that have some"
)]
pub trait Variables {
    /// Calls `visitor` with each variable, parameters and buffers, always in the same order.
    fn visit(&self, visitor: &mut dyn FnMut(&Var));

    /// Calls `visitor` with each further name that a variable goes by in PyTorch's `state_dict`: tied weights.
    fn visit_tied(&self, _visitor: &mut dyn FnMut(&str, &Var)) {}

    /// All variables, each once; [`Var::name`] is the path, such as `layer1.0.conv1.weight`, as in PyTorch's
    /// `state_dict`.
    fn variables(&self) -> Vec<Var> {
        let (mut variables, mut seen) = (Vec::new(), HashSet::new());
        self.visit(&mut |variable| {
            if seen.insert(variable.id()) {
                variables.push(variable.clone());
            }
        });
        variables
    }

    /// The variables that an optimizer may change. One that is not handed to an optimizer is frozen, and costs no
    /// gradient: see [`trainable`](super::trainable).
    fn parameters(&self) -> Vec<Var> {
        let mut variables = self.variables();
        variables.retain(|variable| variable.kind() == VarKind::Parameter);
        variables
    }
}

/// Implements [`Variables`](crate::nn::Variables) for a struct: those of the fields that are named, in this order.
///
/// A field is a [`Var`](crate::runtime::Var), something else with variables, or a reference, `Option`, `Vec`, `Box`,
/// `Arc`, array, pair or triple of such; `inner.field` is a field of a field, and a struct that has no variables is
/// `variables!(Name)`. What is generic names its parameters first.
///
/// ```
/// use brasa::nn::{Init, Linear, Module, Transformer, TransformerOptions, Variables};
/// use brasa::{Device, Tensor, variables};
///
/// /// Learns which of several sentences is the translation of another one.
/// struct Translator { embeddings: [Linear; 2], transformer: Transformer, name: String }
///
/// variables!(Translator: embeddings, transformer);
///
/// /// A layer that scales what another one gives.
/// struct Scaled<M>(M, f64);
///
/// variables!(impl[M: Module] Scaled<M>: 0);
///
/// let init = &Init::new(&Device::cpu(), 0);
/// let linear = Linear::new(3, 2, &init.at("linear"))?;
/// let names: Vec<String> = Scaled(linear, 0.5).variables().iter().map(|variable| variable.name().into()).collect();
/// assert_eq!(names, ["linear.weight", "linear.bias"]);
/// # Ok::<(), brasa::Error>(())
/// ```
#[macro_export]
macro_rules! variables {
    (impl[$($generics:tt)*] $type:ty $(: $($($field:tt).+),+ $(,)?)?) => {
        impl<$($generics)*> $crate::nn::Variables for $type {
            fn visit(&self, visitor: &mut dyn FnMut(&$crate::runtime::Var)) {
                $($($crate::nn::Variables::visit(&self.$($field).+, visitor);)+)?
                let _ = visitor;
            }

            fn visit_tied(&self, visitor: &mut dyn FnMut(&str, &$crate::runtime::Var)) {
                $($($crate::nn::Variables::visit_tied(&self.$($field).+, visitor);)+)?
                let _ = visitor;
            }
        }
    };
    ($type:ty $(: $($($field:tt).+),+ $(,)?)?) => {
        $crate::variables!(impl[] $type $(: $($($field).+),+)?);
    };
}

impl Variables for Var {
    fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
        visitor(self);
    }
}

/// Those of what this type hands on, by `$all`.
macro_rules! of_contents {
    ($(impl[$($generics:tt)*] $type:ty: |$self:ident| $all:expr;)*) => {$(
        impl<$($generics)*> Variables for $type {
            fn visit(&self, visitor: &mut dyn FnMut(&Var)) {
                let $self = self;
                $all.for_each(|one| one.visit(visitor));
            }

            fn visit_tied(&self, visitor: &mut dyn FnMut(&str, &Var)) {
                let $self = self;
                $all.for_each(|one| one.visit_tied(visitor));
            }
        }
    )*};
}

of_contents! {
    impl[V: Variables] Option<V>: |option| option.iter();
    impl[V: Variables] Vec<V>: |several| several.iter();
    impl[V: Variables] [V]: |several| several.iter();
    impl[V: Variables, const N: usize] [V; N]: |several| several.iter();
    impl[V: Variables + ?Sized] &V: |other| std::iter::once(*other);
    impl[V: Variables + ?Sized] Box<V>: |boxed| std::iter::once(&**boxed);
    impl[V: Variables + ?Sized] Arc<V>: |shared| std::iter::once(&**shared);
}

crate::variables!(impl[A: Variables, B: Variables] (A, B): 0, 1);
crate::variables!(impl[A: Variables, B: Variables, C: Variables] (A, B, C): 0, 1, 2);
