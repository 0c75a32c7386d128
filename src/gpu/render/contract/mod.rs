//! Contractions: register tiles without workgroup memory, workgroup tiles for real GPUs, and matrix units where they
//! are.
//!
//! Operand tapes become functions whose parameters are the parts of their indices: one part for the row (or column),
//! computed once, one for k, computed once per step and shared by all rows. Convolutions are of this form, too: their
//! indices and their conditions are sums of a part over positions and a part over the window.

mod cooperative;
mod epilogue;
mod fetch;
mod lanes;
mod lefts;
mod operand;
mod points;
mod register_tiles;
mod sliding;
mod software;
mod variants;
mod workgroup_tiles;

use crate::error::Result;
use crate::plan::ContractKernel;

pub(crate) use cooperative::{Units, probe_terms_text, probe_text};
pub(crate) use software::lanes_probe_text;
pub(crate) use variants::{Tuned, Variant, identity, variants};
#[cfg(test)]
pub(crate) use workgroup_tiles::Tile;

use super::Launch;
use super::module::Module;
use super::rewrite::exchange;
use super::scalar::LANES;
use register_tiles::Together;

/// Where the components of a vector are on an axis that counts them.
const ALL_LANES: &str = "vec4u(0u, 1u, 2u, 3u)";

/// The groups of axes in a [`ContractKernel`].
const BATCH: usize = 0;
const ROWS: usize = 1;
const COLUMNS: usize = 2;
const INNER: usize = 3;

/// The kernel with rows and columns exchanged, if it is better computed that way.
fn turned(kernel: &ContractKernel) -> Option<ContractKernel> {
    let exchanged = exchange(kernel);
    lanes::prefers_exchange(kernel, &exchanged).then_some(exchanged)
}

fn has_large_tiles(kernel: &ContractKernel) -> bool {
    let [batch, rows, columns, inner] = kernel.sizes();
    let tiles = batch * rows.div_ceil(64) * columns.div_ceil(64);
    rows >= 32 && columns >= 32 && inner >= variants::MIN_TILED_INNER && tiles >= 4
}

/// The launch for a contraction, in this variant or in that of the rule; `None` if it has no results. It is a piece of
/// `whole`, whose sizes say who adds up a sum: all pieces are computed in the same way, or some would have other bits.
pub(crate) fn render(
    module: Module<'_>,
    kernel: &ContractKernel,
    whole: &ContractKernel,
    variant: Option<Variant>,
) -> Result<Option<Launch>> {
    let [batch, rows, columns, _] = kernel.sizes();
    if batch * rows * columns == 0 {
        return Ok(None);
    }
    let exchanged = turned(kernel);
    let kernel = exchanged.as_ref().unwrap_or(kernel);
    let shares = variants::shares(module.caps, whole);
    // sums that are shared were not cut for them
    let units = if shares == 1 && has_large_tiles(whole) { cooperative::tile(module.caps, kernel) } else { None };
    if let Some(tile) = units {
        return cooperative::render(module, kernel, tile).map(Some);
    }
    match variant.unwrap_or_else(|| variants::rule(module.caps, kernel, shares)) {
        Variant::Registers { rows, columns, threads } => {
            let together = if shares > 1 { Together::Sums(shares) } else { Together::Nothing };
            register_tiles::render(module, kernel, [rows, columns], threads, together).map(Some)
        }
        Variant::Subgroups { rows, columns, sharing } => {
            let lanes = software::lanes(module.caps).expect("the variant is one of an adapter with subgroups");
            register_tiles::render(module, kernel, [rows, columns], lanes, Together::Lefts(sharing)).map(Some)
        }
        Variant::Workgroup(tile) => workgroup_tiles::render(module, kernel, tile).map(Some),
    }
}
