//! Contractions.

use crate::dtype::DType;
use crate::graph::{Contract, Op};
use crate::matmul_precision::MatmulPrecision;
use crate::plan::index::Ix;
use crate::plan::kernel::{Body, ContractKernel, Tape, ValueId};

use super::coords::forward_coords;
use super::writer::{Local, LocalValue, Writer};
use super::{Context, Refusal};

/// A contraction with its prologues and epilogue.
pub(super) fn build_contract(
    context: Context<'_>,
    contract: usize,
    members: &[usize],
    stores: &[usize],
) -> Result<Body, Refusal> {
    let node = &context.program.nodes[contract];
    let Op::Contract(spec) = &node.op else { unreachable!("a contraction") };
    let (spec, lhs, rhs) = oriented(spec, node.inputs[0], node.inputs[1]);
    let (labels, counts) = axis_order(&spec);
    let size = |label: u8| {
        let of = |labels: &[u8], input: usize| {
            labels.iter().position(|&l| l == label).map(|axis| context.program.nodes[input].shape[axis])
        };
        of(&spec.lhs, lhs).or_else(|| of(&spec.rhs, rhs)).expect("every label is in an operand")
    };
    let axes: Vec<usize> = labels.iter().map(|&label| size(label)).collect();
    let coords = |operand: &[u8]| -> Vec<Ix> {
        operand
            .iter()
            .map(|label| {
                let axis = labels.iter().position(|l| l == label).expect("every label has an axis");
                if axes[axis] == 1 { Ix::constant(0) } else { Ix::axis(axis) }
            })
            .collect()
    };
    let operand = |input: usize, labels: &[u8]| -> Result<(Tape, ValueId), Refusal> {
        let mut writer = Writer::new(context, &axes);
        let value = writer.emit(input, &coords(labels), &[])?;
        Ok((writer.tape, value))
    };
    let mut writer = Writer::new(context, &axes);
    let own = coords(&spec.out);
    let forward = forward_coords(context, contract, &own, members, &axes);
    writer.local.insert(contract, Local { coords: own.clone(), value: LocalValue::Accumulator });
    let mut targets = vec![(contract, own)];
    for &member in members.iter().filter(|&&member| member != contract) {
        let coords = forward.get(&member).cloned().ok_or(Refusal::OtherSpace)?;
        writer.local.insert(member, Local { coords: coords.clone(), value: LocalValue::Inline });
        targets.push((member, coords));
    }
    let stores = writer.stores(&targets, stores)?;
    let epilogue = writer.tape;
    let accumulator = if node.dtype.is_float() { DType::F32 } else { node.dtype };
    let precision = match context.program.nodes[lhs].dtype {
        DType::F32 => context.precision,
        _ => MatmulPrecision::Highest,
    };
    Ok(Body::Contract(ContractKernel {
        lhs: operand(lhs, &spec.lhs)?,
        rhs: operand(rhs, &spec.rhs)?,
        axes,
        counts,
        epilogue,
        stores,
        accumulator,
        precision,
    }))
}

/// The contraction with its operands exchanged if that puts the output's last axis among the columns.
fn oriented(spec: &Contract, lhs: usize, rhs: usize) -> (Contract, usize, usize) {
    let is_row = |label: &u8| spec.lhs.contains(label) && !spec.rhs.contains(label);
    let own = |label: &&u8| spec.lhs.contains(label) != spec.rhs.contains(label);
    match spec.out.iter().rev().find(own) {
        Some(label) if is_row(label) => {
            (Contract { lhs: spec.rhs.clone(), rhs: spec.lhs.clone(), out: spec.out.clone() }, rhs, lhs)
        }
        _ => (spec.clone(), lhs, rhs),
    }
}

/// Labels in the order batch, m, n, k, and how many of each.
fn axis_order(spec: &Contract) -> (Vec<u8>, [usize; 4]) {
    let in_lhs = |label: &u8| spec.lhs.contains(label);
    let in_rhs = |label: &u8| spec.rhs.contains(label);
    let pick = |from: &[u8], test: &dyn Fn(&u8) -> bool| from.iter().copied().filter(|l| test(l)).collect::<Vec<_>>();
    let groups = [
        pick(&spec.out, &|l| in_lhs(l) && in_rhs(l)),
        pick(&spec.out, &|l| in_lhs(l) && !in_rhs(l)),
        pick(&spec.out, &|l| !in_lhs(l) && in_rhs(l)),
        pick(&spec.rhs, &|l| !spec.out.contains(l)),
    ];
    let counts = [groups[0].len(), groups[1].len(), groups[2].len(), groups[3].len()];
    (groups.concat(), counts)
}
