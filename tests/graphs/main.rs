//! Random graphs over the whole catalogue of ops: planned in several ways and interpreted in f64 (`interpreted.rs`),
//! and run on every device, captured and not (`executed.rs`), against the f64 reference, which knows no plans. Their
//! values are small; `sizes/` has single workloads of larger ones, `variables.rs` programs that read, assign and update.
//!
//! A list of small numbers decides everything (`case.rs`). An op is a row in `rows/`: its name, what it draws, how it
//! is applied; a public op without a row fails `catalogue.rs`. A failing graph is reported with its seed and as the
//! smallest one that fails in the same way.
//!
//! The everyday tests run some hundreds. Many more, in optimised code and with whatever fails printed as it is found:
//!
//! ```text
//! BRASA_GRAPHS=100000 cargo test --release --test graphs a_hundred_thousand -- --ignored --nocapture
//! BRASA_GRAPHS=10000 cargo test --release --test graphs many_middle_sizes -- --ignored --nocapture
//! BRASA_GRAPHS=1000 cargo test --release --test graphs many_graphs_on_devices -- --ignored --nocapture
//! ```
//!
//! `BRASA_GRAPHS` says how many, `BRASA_FIRST_GRAPH` the seed of the first; `BRASA_SKIP_DEVICES=1` leaves out the CPU.

mod build;
mod case;
mod catalogue;
mod checkpointing;
#[path = "../common/mod.rs"]
mod common;
mod draw;
mod executed;
mod expected;
mod interpreted;
mod layers;
mod outcome;
mod pool;
mod rows;
mod sizes;
mod state;
mod variables;
