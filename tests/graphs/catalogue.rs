//! Every public op is in the choice table.

use std::collections::BTreeSet;
use std::path::Path;

/// Methods of a tensor that are no ops: what asks about it, moves it to the host, or decides its shape by its values.
const NO_OPS: [&str; 30] = [
    "allclose",
    "backward",
    "device",
    "dtype",
    "from_bytes",
    "from_host",
    "from_iter",
    "from_node",
    "from_slice",
    "from_vec",
    "item",
    "item_async",
    "masked_select",
    "new",
    "node",
    "nonzero",
    "numel",
    "rank",
    "realize",
    "shape",
    "size",
    "to_bytes",
    "to_device",
    "to_vec",
    "to_vec_async",
    "tokens",
    "unique",
    "var_names",
    "with_names",
    "zip",
];

/// The text of all Rust files below a folder.
fn text_below(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = entries.collect();
    paths.sort();
    paths
        .iter()
        .map(|path| if path.is_dir() { text_below(path) } else { std::fs::read_to_string(path).expect("text") })
        .collect()
}

/// The word that `text` begins with.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Names of public methods, those that macros make of `name => Op;` included.
fn public_methods(text: &str) -> BTreeSet<&str> {
    let functions = text.split("\n    pub fn ").skip(1).map(word);
    let by_macro = text.lines().filter(|line| line.starts_with("    ") && line.ends_with(';')).filter_map(|line| {
        let (name, op) = line.trim().strip_suffix(';')?.split_once(" => ")?;
        (word(name) == name && word(op) == op && op.starts_with(char::is_uppercase)).then_some(name)
    });
    functions.chain(by_macro).filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_public_op_has_a_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let methods = text_below(&root.join("src/tensor"));
    let methods = public_methods(&methods);
    // that the names were found at all
    assert!(methods.len() > 250 && methods.contains("sqrt") && methods.contains("atan2"), "{}", methods.len());
    let rows = text_below(&root.join("tests/graphs/rows")) + &text_below(&root.join("tests/graphs"));
    let called: BTreeSet<&str> = rows.split(['.', ':']).map(word).collect();
    let in_macros: BTreeSet<&str> = rows.split_whitespace().map(word).collect();
    let missing: Vec<&str> = methods
        .into_iter()
        .filter(|name| !NO_OPS.contains(name) && !called.contains(name) && !in_macros.contains(name))
        .collect();
    assert!(missing.is_empty(), "no row of tests/graphs/rows calls {missing:?}");
}
