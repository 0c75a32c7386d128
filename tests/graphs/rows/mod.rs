//! The choice table: what a graph may be made of, one row per op. A row draws what it needs and applies its op.

mod classes;
mod elementwise;
mod fft;
mod indexing;
mod integers;
mod layers;
mod linalg;
mod linear;
mod losses;
mod movement;
mod networks;
mod pictures;
mod random;
mod reductions;
mod sorting;
mod stateful;
mod windows;

use std::sync::LazyLock;

use brasa::Tensor;

use super::draw::Draw;
use super::layers::Layers;
use super::state::State;

type Unary = fn(&Tensor) -> Tensor;
type Binary = fn(&Tensor, &Tensor) -> Tensor;
type Apply = fn(&mut Draw) -> Vec<Tensor>;

enum Needs {
    /// A float value with elements in a range.
    One(f64, f64, Unary),
    /// Two float values that broadcast, with elements in a range.
    Two(f64, f64, Binary),
    /// Whatever it draws.
    Own(Apply),
    /// The same, and variables.
    Variables(fn(&mut Draw, &State) -> Vec<Tensor>),
    /// The same, and layers.
    Layers(fn(&mut Draw, &Layers) -> Vec<Tensor>),
}

/// An op by its name, with what it needs and how it is applied.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    needs: Needs,
}

impl Row {
    /// The op's results; none if it cannot be applied here.
    pub(crate) fn results(&self, draw: &mut Draw) -> Vec<Tensor> {
        match self.needs {
            Needs::One(low, high, apply) => {
                let value = draw.real();
                vec![apply(&draw.pressed(&value, low, high))]
            }
            Needs::Two(low, high, apply) => {
                let value = draw.real();
                let partner = draw.partner(&value);
                vec![apply(&draw.pressed(&value, low, high), &draw.pressed(&partner, low, high))]
            }
            Needs::Own(apply) => apply(draw),
            Needs::Variables(apply) => draw.state().map(|state| apply(draw, state)).unwrap_or_default(),
            Needs::Layers(apply) => {
                let layers = draw.state().and_then(|state| state.layers.as_ref());
                layers.map(|layers| apply(draw, layers)).unwrap_or_default()
            }
        }
    }

    /// Whether it has results only where there are variables.
    pub(crate) fn needs_variables(&self) -> bool {
        matches!(self.needs, Needs::Variables(_) | Needs::Layers(_))
    }

    /// Whether it has results only where there are layers.
    pub(crate) fn needs_layers(&self) -> bool {
        matches!(self.needs, Needs::Layers(_))
    }
}

/// An op of a float value with elements between `low` and `high`.
fn unary(name: &'static str, low: f64, high: f64, apply: Unary) -> Row {
    Row { name, needs: Needs::One(low, high, apply) }
}

/// An op of two float values with elements between `low` and `high`.
fn binary(name: &'static str, low: f64, high: f64, apply: Binary) -> Row {
    Row { name, needs: Needs::Two(low, high, apply) }
}

/// An op that draws what it needs.
fn row(name: &'static str, apply: Apply) -> Row {
    Row { name, needs: Needs::Own(apply) }
}

/// The same with one result.
macro_rules! one {
    ($name:expr, |$draw:ident| $body:expr) => {
        $crate::rows::row($name, |$draw| vec![$body])
    };
}
use one;

/// All rows.
pub(crate) static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let families = [
        classes::rows,
        elementwise::rows,
        fft::rows,
        indexing::rows,
        integers::rows,
        layers::rows,
        linalg::rows,
        linear::rows,
        losses::rows,
        movement::rows,
        networks::rows,
        pictures::rows,
        random::rows,
        reductions::rows,
        sorting::rows,
        stateful::rows,
        windows::rows,
    ];
    families.into_iter().flat_map(|rows| rows()).collect()
});
