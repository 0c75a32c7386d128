//! The text of loops: points, sweeps over rows, reductions and stores.

use std::fmt::Write as _;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ReduceOp;
use crate::plan::{Level, Phase};

use super::super::module::Module;
use super::super::space::{Expr, Space, unravel};
use super::super::tape::Outside;
use super::super::tree::number_of_bool;
use super::super::{Launch, grid, scalar};
use super::groups::{self, Group};
use super::kept::Kept;
use super::{Shape, Wide, transpose};

/// Points or fours of points from which on workgroups of a map have more invocations than 64, and how many: an H200
/// adds 1 to 16 Mi values in 35.6 µs so, and in 45.5 with 64.
const MANY_POINTS: usize = 1 << 18;
const MAP_THREADS: usize = 256;

impl<'k> Shape<'k> {
    /// One invocation for each outer point or four.
    pub(super) fn serial(&self, mut module: Module<'_>, family: &str) -> Result<Launch> {
        let mut space = self.space(self.wide).expect("the choice checked it");
        let mut code = String::new();
        let work = self.outer_coordinates(&mut module, &mut space, &mut code);
        for phase in &self.kernel.phases {
            self.phase(&mut module, &mut space, phase, None, &mut code)?;
        }
        let threads = match family {
            "map.wgsl" if !module.caps.software && work >= MANY_POINTS => {
                MAP_THREADS.min(module.caps.max_workgroup_invocations as usize)
            }
            "reduce.wgsl" if module.caps.software && work <= 1024 => 8,
            _ => 64,
        };
        let (grid, groups) = grid(&mut module, work, threads)?;
        let compute = format!("fn compute(work: u32) {{\n{code}}}\n");
        module.finish(family, &[("grid", &grid), ("compute", &compute)], groups)
    }

    /// Statements that find the outer coordinates of `work`; returns how many values `work` takes.
    pub(super) fn outer_coordinates(&self, module: &mut Module<'_>, space: &mut Space, code: &mut String) -> usize {
        let outer = self.kernel.outer;
        let lanes = "vec4u(0u, 1u, 2u, 3u)";
        let mut position = Expr::scalar("work");
        let mut work = self.outer;
        if let Some(lane) = space.lane {
            space.coordinates[lane] = Expr::varying("lanes");
        }
        if self.wide == Wide::Outer || self.wide == Wide::Points {
            let ragged = !self.outer.is_multiple_of(4);
            work = self.outer.div_ceil(4);
            if self.wide == Wide::Points {
                code.push_str("    let first = work * 4u;\n");
            }
            if ragged {
                // Lanes behind the last point repeat it: their reads stay in bounds and their writes are left out.
                let count = module.number(self.outer as u64);
                let _ = writeln!(code, "    let left = {count} - work * 4u;");
                let _ = writeln!(code, "    let inside = {lanes} < vec4u(left);");
                let _ = writeln!(code, "    let lanes = min({lanes}, vec4u(left - 1u));");
                space.active = Some("inside".into());
            } else {
                let _ = writeln!(code, "    let lanes = {lanes};");
            }
            if self.wide == Wide::Points {
                position = Expr::varying("(vec4u(first) + lanes)");
            }
        } else if self.wide == Wide::Inner {
            let _ = writeln!(code, "    let lanes = {lanes};");
        }
        let sizes = space.axes[..outer].to_vec();
        let coordinates = match self.read_along {
            Some(axis) => {
                let (coordinates, invocations) = transpose::block_coordinates(module, &sizes, axis, code);
                work = invocations;
                coordinates
            }
            None => unravel(module, &position, &sizes, "o", code),
        };
        space.coordinates[..outer].clone_from_slice(&coordinates);
        work
    }

    /// Statements of one phase; `group` shares the row, or several.
    pub(super) fn phase(
        &self,
        module: &mut Module<'_>,
        space: &mut Space,
        phase: &'k Phase,
        group: Option<Group>,
        code: &mut String,
    ) -> Result<()> {
        let mut space = space.clone();
        let first_reduction: usize = self
            .kernel
            .phases
            .iter()
            .take_while(|other| !std::ptr::eq(*other, phase))
            .map(|p| p.reductions.len())
            .sum();
        if phase.level == Level::Outer {
            if self.wide == Wide::Inner {
                (space.width, space.lane) = (1, None);
            }
            let mut body = String::new();
            module.tape(&mut space, &phase.tape, Outside::default(), &mut body)?;
            self.stores(module, &mut space, phase, &mut body)?;
            let head = group.map_or(String::new(), |group| format!("if ({} == 0u) ", group.share().0));
            let _ = write!(code, "    {head}{{\n{body}    }}\n");
            return Ok(());
        }
        let width = space.width;
        let dtype_of = |value: usize| phase.tape.instrs[value].dtype;
        for (number, &(op, value)) in phase.reductions.iter().enumerate() {
            let start = module.constant(op.identity(dtype_of(value)), width);
            let _ = writeln!(code, "    var a{} = {start};", first_reduction + number);
        }
        if self.inner > 0 {
            self.sweep(module, &mut space, phase, first_reduction, group, code)?;
        }
        for (number, &(op, value)) in phase.reductions.iter().enumerate() {
            let dtype = dtype_of(value);
            let name = first_reduction + number;
            let mut total = format!("a{name}");
            if self.wide == Wide::Inner {
                let pair = |a: &str, b: &str| {
                    self.combined(module, op, dtype, 1, &format!("{total}.{a}"), &format!("{total}.{b}"))
                };
                let (low, high) = (pair("x", "y")?, pair("z", "w")?);
                total = self.combined(module, op, dtype, 1, &low, &high)?;
            }
            let target = if group.is_some() {
                format!("{}[thread]", groups::scratch_name(number, dtype))
            } else {
                format!("let r{name}")
            };
            if group.is_some() && dtype == DType::Bool {
                total = number_of_bool(&total, if self.wide == Wide::Inner { 1 } else { width });
            }
            let _ = writeln!(code, "    {target} = {total};");
        }
        if let Some(group) = group
            && !phase.reductions.is_empty()
        {
            self.tree(module, phase, first_reduction, group, code)?;
        }
        Ok(())
    }

    /// The loop over the row (or this thread's share of it).
    fn sweep(
        &self,
        module: &mut Module<'_>,
        space: &mut Space,
        phase: &'k Phase,
        first_reduction: usize,
        group: Option<Group>,
        code: &mut String,
    ) -> Result<()> {
        let outer = self.kernel.outer;
        let rank = self.inner_axes().len();
        let sizes = space.axes[outer..outer + rank].to_vec();
        let steps: usize = sizes.iter().product();
        let threads = group.and_then(Group::of_row);
        let for_all = !module.is_literal();
        let kept = threads.and_then(|threads| Kept::of(self, steps, threads, for_all));
        let mut body = String::new();
        let coordinates = unravel(module, &Expr::scalar("q"), &sizes, "q", &mut body);
        space.coordinates[outer..outer + rank].clone_from_slice(&coordinates);
        let known = kept.as_ref().map_or_else(Vec::new, |kept| kept.known(phase));
        let outside = Outside { narrow_reduced: self.wide == Wide::Inner, known, only: None };
        module.tape(space, &phase.tape, outside, &mut body)?;
        for (number, &(op, value)) in phase.reductions.iter().enumerate() {
            let dtype = phase.tape.instrs[value].dtype;
            let total = format!("a{}", first_reduction + number);
            let sum = self.combined(module, op, dtype, space.width, &total, &format!("v{value}"))?;
            let _ = writeln!(body, "    {total} = {sum};");
        }
        self.stores(module, space, phase, &mut body)?;
        let (Some(kept), Some(threads)) = (kept, threads) else {
            let count = module.rounds(steps);
            let (start, step) = group.map_or(("0u", "1u"), Group::share);
            let _ = write!(code, "    for (var q = {start}; q < {count}; q += {step}) {{\n{body}    }}\n");
            return Ok(());
        };
        let count = module.number(steps as u64);
        let [declared, keeping] = kept.read(phase, space.width);
        code.push_str(&declared);
        for step in 0..kept.steps {
            // in the last one some threads may have nothing left
            let all = !for_all && (step + 1) * threads <= steps;
            let head = if all { String::new() } else { format!("if (thread + {}u < {count}) ", step * threads) };
            let body = format!("{body}{keeping}").replace("_STEP", &format!("_{step}"));
            let _ = write!(code, "    {head}{{\n    let q = thread + {}u;\n{body}    }}\n", step * threads);
        }
        Ok(())
    }

    pub(super) fn combined(
        &self,
        module: &Module<'_>,
        op: ReduceOp,
        dtype: DType,
        width: usize,
        a: &str,
        b: &str,
    ) -> Result<String> {
        scalar::binary(op.join(), dtype, width, a, b)
            .ok_or_else(|| module.error(format!("{op:?} does not exist for {dtype}")))
    }

    pub(super) fn stores(
        &self,
        module: &mut Module<'_>,
        space: &mut Space,
        phase: &Phase,
        code: &mut String,
    ) -> Result<()> {
        for store in &phase.stores {
            let last = store.index.range(&self.kernel.axes).1;
            let slot = module.storage(store.buffer)?;
            // with a place for each inner point, only one of them is the last
            let reaches_end = phase.level == Level::Outer && last + 1 == module.storages[slot].elements as i64;
            module.store(space, store, reaches_end, code)?;
        }
        Ok(())
    }
}
