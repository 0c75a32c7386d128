//! From index expressions to WGSL: coordinates, lanes, and which part of an index can be computed outside a loop.

use crate::plan::{Atom, Ix};

use super::module::Module;

/// An expression of u32 bits: one value, or one for each of four lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Expr {
    pub text: String,
    /// True for a `vec4u`.
    pub varying: bool,
}

impl Expr {
    pub(crate) fn scalar(text: impl Into<String>) -> Self {
        Self { text: text.into(), varying: false }
    }

    pub(crate) fn varying(text: impl Into<String>) -> Self {
        Self { text: text.into(), varying: true }
    }

    /// As a `vec4u`, or as one value where `width` is 1.
    pub(crate) fn wide(&self, width: usize) -> String {
        if self.varying || width == 1 { self.text.clone() } else { format!("vec4u({})", self.text) }
    }
}

/// Where code runs: coordinates along axes, one point or four lanes at a time.
///
/// Kernel axes are first rewritten as expressions over the space's own axes (`of_kernel`). Usually they are the same;
/// an axis that is run through four at a time becomes `4 · quarter + lane`, where the lane has an axis of its own, so
/// that simplifying an index also tells what is contiguous over the lanes.
#[derive(Clone, Default)]
pub(crate) struct Space {
    /// Sizes of the space's axes, for proofs about ranges.
    pub axes: Vec<usize>,
    /// The coordinate along each.
    pub coordinates: Vec<Expr>,
    /// Each kernel axis over the space's axes.
    pub of_kernel: Vec<Ix>,
    /// The axis that counts lanes.
    pub lane: Option<usize>,
    /// 1, or 4 lanes.
    pub width: usize,
    /// An index whose four lanes are neighbours although no axis counts them, and the text of its first.
    pub linear: Option<(Ix, String)>,
    /// Which lanes are points of the kernel (`vec4<bool>`), where not all are.
    pub active: Option<String>,
    /// Set while a function is generated whose index parts come in as parameters.
    pub hoist: Option<Hoist>,
}

/// Splits indices into a part that changes along some axes and one that does not; both become parameters.
#[derive(Clone, Default)]
pub(crate) struct Hoist {
    /// For each axis of the space: whether it belongs to the changing part.
    pub moving: Vec<bool>,
    /// The parameters so far.
    pub parameters: Vec<Parameter>,
}

/// One part of an index.
#[derive(Clone)]
pub(crate) struct Parameter {
    /// Over the space's axes.
    pub ix: Ix,
    /// Whether it uses axes of the changing part.
    pub moving: bool,
    /// Whether it differs between lanes.
    pub varying: bool,
}

impl Parameter {
    /// The type in WGSL.
    pub(crate) fn ty(&self) -> &'static str {
        if self.varying { "vec4u" } else { "u32" }
    }
}

/// How the four lanes of an index lie in memory.
pub(crate) enum Lanes {
    /// All at the same place.
    Same,
    /// Next to each other, the first at a multiple of four.
    Aligned(First),
    /// Anything else.
    Apart,
}

/// The first lane's index.
pub(crate) enum First {
    /// An expression over the space's axes.
    Ix(Ix),
    /// A text.
    Text(String),
}

impl Space {
    /// `ix` over the space's axes.
    pub(crate) fn rewrite(&self, ix: &Ix) -> Ix {
        ix.substitute(&self.of_kernel, &self.axes)
    }

    /// Whether an index (over the space's axes) differs between lanes.
    pub(crate) fn varies(&self, ix: &Ix) -> bool {
        let mut varies = false;
        ix.for_each_axis(&mut |axis| varies |= self.coordinates[axis].varying);
        varies
    }

    /// How the lanes of an index (over the space's axes) lie.
    pub(crate) fn lanes(&self, ix: &Ix) -> Lanes {
        if !self.varies(ix) {
            return Lanes::Same;
        }
        if let Some((linear, first)) = &self.linear
            && let Some(offset) = ix.plus(&linear.times(-1)).as_constant()
            && offset >= 0
            && offset % 4 == 0
        {
            let text = if offset == 0 { first.clone() } else { format!("({first} + {offset}u)") };
            return Lanes::Aligned(First::Text(text));
        }
        let Some(lane) = self.lane else { return Lanes::Apart };
        let first = ix.plus(&Ix::axis(lane).times(-1));
        if self.varies(&first) || first.rem(4, &self.axes).as_constant() != Some(0) {
            return Lanes::Apart;
        }
        Lanes::Aligned(First::Ix(first))
    }
}

impl Module<'_> {
    /// The value of an index over the space's axes; negative values are huge as u32.
    pub(crate) fn index(&mut self, space: &mut Space, ix: &Ix) -> Expr {
        let Some(hoist) = &space.hoist else { return self.sum(space, ix) };
        let moving = hoist.moving.clone();
        let (mut still, mut moved, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
        for term in &ix.terms {
            let (mut any_moving, mut any_still) = (false, false);
            let single = Ix { terms: vec![term.clone()], offset: 0 };
            single.for_each_axis(&mut |axis| if moving[axis] { any_moving = true } else { any_still = true });
            match (any_moving, any_still) {
                (true, true) => mixed.push(term.clone()),
                (true, false) => moved.push(term.clone()),
                _ => still.push(term.clone()),
            }
        }
        if still.is_empty() && moved.is_empty() && mixed.is_empty() {
            return self.sum(space, ix);
        }
        let mut parts = Vec::new();
        let mut offset = ix.offset;
        if !still.is_empty() {
            let part = Ix { terms: still, offset: std::mem::take(&mut offset) };
            parts.push(self.parameter(space, part, false));
        }
        if !moved.is_empty() {
            let part = Ix { terms: moved, offset: std::mem::take(&mut offset) };
            parts.push(self.parameter(space, part, true));
        }
        if !mixed.is_empty() {
            parts.push(self.sum(space, &Ix { terms: mixed, offset }));
        }
        let varying = parts.iter().any(|part| part.varying);
        let texts: Vec<String> = parts.into_iter().map(|part| part.text).collect();
        Expr { text: if texts.len() == 1 { texts[0].clone() } else { format!("({})", texts.join(" + ")) }, varying }
    }

    fn parameter(&mut self, space: &mut Space, ix: Ix, moving: bool) -> Expr {
        let varying = space.varies(&ix);
        let hoist = space.hoist.as_mut().expect("only called while hoisting");
        let found = hoist.parameters.iter().position(|p| p.ix == ix);
        let number = found.unwrap_or_else(|| {
            hoist.parameters.push(Parameter { ix, moving, varying });
            hoist.parameters.len() - 1
        });
        Expr { text: format!("p{number}"), varying }
    }

    fn coordinate(&mut self, space: &mut Space, axis: usize) -> Expr {
        match &space.hoist {
            None => space.coordinates[axis].clone(),
            Some(hoist) => {
                let moving = hoist.moving[axis];
                self.parameter(space, Ix::axis(axis), moving)
            }
        }
    }

    /// Terms with positive coefficients first; u32 arithmetic wraps, so only the total has to be right.
    fn sum(&mut self, space: &mut Space, ix: &Ix) -> Expr {
        let mut text = String::new();
        let mut varying = false;
        let mut terms: Vec<&(Atom, i64)> = ix.terms.iter().collect();
        terms.sort_by_key(|term| term.1 < 0);
        for (atom, coefficient) in terms {
            let value = self.atom(space, atom);
            varying |= value.varying;
            let sign = match (text.is_empty(), *coefficient > 0) {
                (true, true) => "",
                (true, false) => "0u - ",
                (false, true) => " + ",
                (false, false) => " - ",
            };
            text.push_str(sign);
            text.push_str(&value.text);
            if coefficient.abs() != 1 {
                text.push_str(" * ");
                text.push_str(&self.number(coefficient.unsigned_abs()));
            }
        }
        if text.is_empty() {
            // Two's complement: a negative constant has no u32 literal of its own.
            text = if ix.offset == 0 { "0u".into() } else { self.number(u64::from(ix.offset as u32)) };
        } else if ix.offset != 0 {
            let offset = self.number(ix.offset.unsigned_abs());
            text = format!("{text} {} {offset}", if ix.offset > 0 { '+' } else { '-' });
        }
        let compound = text.contains(' ');
        Expr { text: if compound { format!("({text})") } else { text }, varying }
    }

    /// What is divided is never negative, so that u32's operators are right ([`Atom`]).
    fn atom(&mut self, space: &mut Space, atom: &Atom) -> Expr {
        let (inner, by, operator) = match atom {
            Atom::Axis(axis) => return self.coordinate(space, *axis),
            Atom::Div(inner, by) => (inner, *by, '/'),
            Atom::Mod(inner, by) => (inner, *by, '%'),
        };
        let value = self.sum(space, inner);
        let by = self.number(by.unsigned_abs());
        Expr { text: format!("({} {operator} {by})", value.text), varying: value.varying }
    }
}

/// Statements that split `position` (u32 or `vec4u`) into row-major coordinates over `sizes`, named `prefix0`,
/// `prefix1`…
pub(crate) fn unravel(
    module: &mut Module<'_>,
    position: &Expr,
    sizes: &[usize],
    prefix: &str,
    code: &mut String,
) -> Vec<Expr> {
    let mut coordinates = vec![Expr::scalar("0u"); sizes.len()];
    let mut rest = position.text.clone();
    let outermost = sizes.iter().position(|&size| size > 1);
    for (axis, &size) in sizes.iter().enumerate().rev() {
        if size <= 1 {
            continue;
        }
        let name = format!("{prefix}{axis}");
        if outermost == Some(axis) {
            code.push_str(&format!("    let {name} = {rest};\n"));
        } else {
            let number = module.number(size as u64);
            code.push_str(&format!("    let {name} = {rest} % {number};\n    let {name}_rest = {rest} / {number};\n"));
            rest = format!("{name}_rest");
        }
        coordinates[axis] = Expr { text: name, varying: position.varying };
    }
    coordinates
}
