//! Operand tapes as functions of the parts of their indices.

use std::fmt::Write as _;

use crate::error::Result;
use crate::gpu::render::module::Module;
use crate::gpu::render::scalar::Register;
use crate::gpu::render::space::{Expr, Hoist, Parameter, Space};
use crate::gpu::render::tape::Outside;
use crate::plan::ContractKernel;

use super::lanes::{Wide, side_space};
use super::points::point_coordinates;
use super::{ALL_LANES, BATCH, INNER, ROWS};

/// A function that evaluates an operand, and the index parts it takes.
pub(super) struct Operand {
    pub name: &'static str,
    pub wide: Wide,
    pub text: String,
    /// Uses the same axes as the hoisted parts; coordinates are filled in where they are computed.
    space: Space,
    hoist: Hoist,
    side: usize,
}

impl Operand {
    pub(super) fn new(
        module: &mut Module<'_>,
        kernel: &ContractKernel,
        name: &'static str,
        side: usize,
        wide: Wide,
    ) -> Result<Self> {
        let (tape, value) = if side == ROWS { &kernel.lhs } else { &kernel.rhs };
        let space = side_space(kernel, side, wide);
        let inner = kernel.group(INNER);
        let moving: Vec<bool> = (0..space.axes.len())
            .map(|axis| inner.contains(&axis) || (Some(axis) == space.lane && wide == Wide::Inner))
            .collect();
        let mut inside = Space { hoist: Some(Hoist { moving, parameters: Vec::new() }), ..space.clone() };
        let mut body = String::new();
        module.tape(&mut inside, tape, Outside::default(), &mut body)?;
        let hoist = inside.hoist.take().expect("it was set above");
        let parameters: Vec<String> =
            hoist.parameters.iter().enumerate().map(|(number, p)| format!("p{number}: {}", p.ty())).collect();
        let register = Register::of(kernel.accumulator).wide(space.width);
        let given = Register::of(tape.instrs[*value].dtype);
        let result = if given == Register::of(kernel.accumulator) {
            format!("v{value}")
        } else {
            format!("{register}(v{value})")
        };
        let text = format!("fn {name}({}) -> {register} {{\n{body}    return {result};\n}}\n\n", parameters.join(", "));
        Ok(Self { name, wide, text, space, hoist, side })
    }

    /// Statements for the parts that do not change with k, at the given batch and row (or column) coordinates; the
    /// names start with `prefix`. `lane` is the coordinate of the four lanes, if an axis counts them.
    #[allow(clippy::too_many_arguments, reason = "where, what, and what it is called")]
    pub(super) fn still(
        &self,
        module: &mut Module<'_>,
        kernel: &ContractKernel,
        batch: &[Expr],
        points: &[Expr],
        lane: &str,
        prefix: &str,
        code: &mut String,
    ) {
        let mut space = self.space.clone();
        space.coordinates[kernel.group(BATCH)].clone_from_slice(batch);
        space.coordinates[kernel.group(self.side)].clone_from_slice(points);
        self.parts(module, &mut space, false, lane, prefix, code);
    }

    /// The same at the rows (or columns) from number `first` on that are read together. Names of their coordinates
    /// start with the first prefix, those of the parts with the second one.
    pub(super) fn still_from(
        &self,
        module: &mut Module<'_>,
        kernel: &ContractKernel,
        batch: &[Expr],
        first: &str,
        [of_points, prefix]: [String; 2],
        code: &mut String,
    ) {
        let points = point_coordinates(module, kernel, self.side, (self.wide, false), first, &of_points, code);
        self.still(module, kernel, batch, &points, ALL_LANES, &prefix, code);
    }

    /// Statements for the parts that change with k, at its given coordinates.
    pub(super) fn moving(
        &self,
        module: &mut Module<'_>,
        kernel: &ContractKernel,
        inner: &[Expr],
        prefix: &str,
        code: &mut String,
    ) {
        let mut space = self.space.clone();
        space.coordinates[kernel.group(INNER)].clone_from_slice(inner);
        self.parts(module, &mut space, true, ALL_LANES, prefix, code);
    }

    fn parts(
        &self,
        module: &mut Module<'_>,
        space: &mut Space,
        moving: bool,
        lane: &str,
        prefix: &str,
        code: &mut String,
    ) {
        if let Some(axis) = space.lane {
            space.coordinates[axis] = Expr::varying(lane);
        }
        for (number, parameter) in self.hoist.parameters.iter().enumerate() {
            if parameter.moving == moving {
                let value = module.index(space, &parameter.ix);
                let width = if parameter.varying { 4 } else { 1 };
                let _ = writeln!(code, "    let {prefix}_{number} = {};", value.wide(width));
            }
        }
    }

    /// The call with parts computed under these prefixes.
    pub(super) fn call(&self, still: &str, moving: &str) -> String {
        let part = |(number, p): (usize, &Parameter)| format!("{}_{number}", if p.moving { moving } else { still });
        let parts: Vec<String> = self.hoist.parameters.iter().enumerate().map(part).collect();
        format!("{}({})", self.name, parts.join(", "))
    }
}
