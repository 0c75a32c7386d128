//! Every environment variable that changes what is shown. None of them changes results.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::graph::Program;
use crate::plan::Plan;
use crate::timing::KernelTime;

/// `BRASA_DEBUG`: 0 (default) silent; 1 one line per plan; 2 also its kernels, each timed by itself; 3 also its
/// program, why values are stored and kernels apart, and the driver's validation layers.
pub fn level() -> u8 {
    static LEVEL: OnceLock<u8> = OnceLock::new();
    *LEVEL.get_or_init(|| number("BRASA_DEBUG", 3))
}

/// `BRASA_DUMP`: a folder that gets, for each plan, `N.plan.txt`, `N.program.txt`, `N.explain.txt` (why values are
/// stored and kernels apart) and `N.dot`, and the text of shaders.
pub fn dump_folder() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOLDER.get_or_init(|| std::env::var_os("BRASA_DUMP").filter(|name| !name.is_empty()).map(PathBuf::from)).as_ref()
}

/// `BRASA_VALIDATE=1`: compares every kernel's results with the f64 interpreter of its plan. It finds wrong kernels and
/// drivers, not errors of the planner: `tests/graphs/` compares whole graphs with a reference that knows no plans.
pub fn validate() -> bool {
    static VALIDATE: OnceLock<bool> = OnceLock::new();
    *VALIDATE.get_or_init(|| number("BRASA_VALIDATE", 1) == 1)
}

/// `BRASA_CHECKED=1`: WGSL kernels are compiled with bounds checks and bounded loops.
pub fn checked() -> bool {
    static CHECKED: OnceLock<bool> = OnceLock::new();
    *CHECKED.get_or_init(|| number("BRASA_CHECKED", 1) == 1)
}

/// The number that a variable holds, at most `most`; 0 where it is not set or, with a word about it, no number.
fn number(variable: &str, most: u8) -> u8 {
    let text = std::env::var(variable).unwrap_or_default();
    match text.trim() {
        "" => 0,
        text => text.parse().map_or_else(
            |_| {
                eprint_line(&format!(
                    "brasa: {variable} is `{text}`, but must be a number from 0 to {most}; taken as 0"
                ));
                0
            },
            |number: u8| number.min(most),
        ),
    }
}

/// Whether every kernel is to be timed by itself.
pub(crate) fn profile() -> bool {
    level() >= 2
}

/// Shows a new plan as the variables ask. `why`: what kept an earlier plan from being used again.
pub(crate) fn plan_made(program: &Program, plan: &Plan, why: Option<&str>) {
    if level() >= 1 {
        let why = why.map(|why| format!(", compiled again because {why}")).unwrap_or_default();
        eprint_line(&format!("brasa: {}{why}", plan.summary()));
    }
    if level() >= 2 {
        eprint_line(&plan.to_string());
    }
    if level() >= 3 {
        eprint_line(&program.to_string());
        eprint_line(&plan.explanation());
    }
    if let Some(folder) = dump_folder() {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let write = |name: &str, text: String| {
            let path = folder.join(format!("{number}.{name}"));
            if let Err(error) = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text)) {
                eprint_line(&format!("brasa: cannot write {}: {error}", path.display()));
            }
        };
        write("plan.txt", plan.to_string());
        write("program.txt", program.to_string());
        write("explain.txt", plan.explanation());
        write("dot", plan.to_dot());
    }
}

/// Shows what the kernels of a plan took, once it has run for the last time.
pub(crate) fn plan_done(plan: &Plan, kernels: &[KernelTime]) {
    if kernels.is_empty() {
        return;
    }
    let replay: f64 = kernels.iter().map(|kernel| kernel.milliseconds).sum();
    eprint_line(&format!("brasa: {replay:.3} ms in the {} kernels of: {}", kernels.len(), plan.summary()));
    for KernelTime { label, stage, milliseconds, samples, gflops_per_second, gigabytes_per_second, source } in kernels {
        eprint_line(&format!(
            "  {stage:<8} {milliseconds:>9.4} ms {gflops_per_second:>8.2} GFLOP/s {gigabytes_per_second:>8.2} GB/s  {label}  \
             ({samples} × {})",
            source.name()
        ));
    }
}

#[expect(clippy::print_stderr, reason = "debug output is asked for by an environment variable")]
fn eprint_line(text: &str) {
    eprintln!("{text}");
}
