//! What the workflow of the public CI must have in common with the rest.

use std::path::Path;

#[test]
fn it_builds_with_the_oldest_toolchain_that_is_promised() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows/ci.yml");
    // a package of the crate has none
    let Ok(workflow) = std::fs::read_to_string(path) else { return };
    let version = env!("CARGO_PKG_RUST_VERSION");
    assert!(workflow.contains(&format!("RUSTUP_TOOLCHAIN: \"{version}\"")), "not pinned to {version}");
    let jobs = workflow.matches("runs-on:").count();
    assert_eq!(workflow.matches(&format!("rustup toolchain install {version} ")).count(), jobs, "in each job");
}
