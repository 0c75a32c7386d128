//! Every public op and layer is in the choice table.

use std::collections::BTreeSet;
use std::path::Path;

/// Methods of a tensor that are no ops: what asks about it, moves it to the host, or decides its shape by its values.
const NO_OPS: [&str; 24] = [
    "allclose",
    "device",
    "dtype",
    "from_bytes",
    "from_iter",
    "from_node",
    "from_slice",
    "from_vec",
    "from_wgpu_buffer",
    "item",
    "masked_select",
    "masked_select_async",
    "node",
    "nonzero",
    "numel",
    "rank",
    "realize",
    "shape",
    "size",
    "to_device",
    "to_vec",
    "to_vec_async",
    "unique",
    "wgpu_buffer",
];

/// Names of `brasa::nn` that are no layers: what they are made of, told or described by, and what stands for the three
/// dropouts of channels.
const NO_LAYERS: [&str; 24] = [
    "Activation",
    "Attention",
    "AttentionMasks",
    "AttentionOptions",
    "BagMode",
    "Block",
    "ChannelDropout",
    "DecoderCache",
    "InProjection",
    "Init",
    "Initial",
    "InstanceStatistics",
    "KeyValueCache",
    "LayerSummary",
    "LoadOptions",
    "LoadReport",
    "Mode",
    "Module",
    "Nonlinearity",
    "Quantized",
    "RecurrentOptions",
    "Summary",
    "TransformerOptions",
    "Variables",
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
    let rows = text_below(&root.join("tests/graphs/rows"));
    // `x.sqrt()`, `Tensor::cat(`, and what a list hands to a macro: `"eq": eq`
    let called: BTreeSet<&str> =
        [".", "Tensor::", "\": "].iter().flat_map(|before| rows.split(before).skip(1)).map(word).collect();
    let known = |name: &&str| NO_OPS.contains(name) || called.contains(name);
    let missing: Vec<&str> = methods.iter().copied().filter(|name| !known(name)).collect();
    let superfluous: Vec<&str> = NO_OPS.into_iter().filter(|name| !methods.contains(name)).collect();
    assert!(superfluous.is_empty(), "no public methods: {superfluous:?}");
    assert!(missing.is_empty(), "no row of tests/graphs/rows calls {missing:?}");
}

#[test]
fn every_function_of_linear_algebra_and_of_transforms_has_a_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (module, known) in [("linalg", "svd"), ("fft", "irfftn")] {
        let functions = text_below(&root.join("src").join(module));
        let functions: BTreeSet<&str> = functions.split("\npub fn ").skip(1).map(word).collect();
        assert!(functions.len() > 15 && functions.contains(known), "{functions:?}");
        for rows in ["tests/graphs/rows", "src/doctor/rows", "tests/suite/torch_ops"] {
            let rows = text_below(&root.join(rows));
            let called: BTreeSet<&str> = rows.split(&format!("{module}::")).skip(1).map(word).collect();
            let missing: Vec<_> = functions.difference(&called).collect();
            assert!(missing.is_empty(), "no row calls {module}'s {missing:?}");
        }
    }
}

#[test]
fn every_public_layer_has_a_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("text");
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let exports = read("src/nn/mod.rs");
    let exports: String = exports.lines().filter(|line| !line.starts_with("pub(crate)")).collect();
    let exports = words(exports.split_once("pub use").expect("exports").1);
    let is_name = |word: &&String| word.starts_with(char::is_uppercase);
    // `Conv` stands for its three numbers of axes
    let layers = exports.iter().filter(is_name).filter(|name| !exports.contains(&format!("{name}1d")));
    let made = words(&[read("tests/graphs/layers.rs"), read("tests/graphs/rows/networks.rs")].concat());
    let layers: Vec<&String> = layers.filter(|name| !NO_LAYERS.contains(&name.as_str())).collect();
    assert!(layers.len() > 110, "{}", layers.len());
    let missing: Vec<_> = layers.into_iter().filter(|name| !made.contains(*name)).collect();
    let superfluous: Vec<_> = NO_LAYERS.into_iter().filter(|name| !exports.contains(*name)).collect();
    assert!(superfluous.is_empty(), "no public names: {superfluous:?}");
    assert!(missing.is_empty(), "no row of tests/graphs uses {missing:?}");
}
