//! The WGSL files in `shaders/`, embedded, and the two things done to their text: filling slots and adding the library
//! functions that the result calls.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::LazyLock;

use super::scalar::LANES;

/// One embedded file.
pub(crate) struct ShaderFile {
    /// Path below `shaders/`.
    pub(crate) path: &'static str,
    /// Its text.
    pub(crate) text: &'static str,
}

macro_rules! shader_files {
    ($($path:literal),* $(,)?) => {
        &[$(ShaderFile { path: $path, text: include_str!(concat!("../../../shaders/", $path)) }),*]
    };
}

/// Kernel families: valid WGSL as they are, with slots between `//@slot name` and `//@end`.
pub(crate) const FAMILIES: &[ShaderFile] = shader_files![
    "attention.wgsl",
    "attention_keys.wgsl",
    "attention_queries.wgsl",
    "attention_tiles.wgsl",
    "attention_tiles_keys.wgsl",
    "attention_tiles_queries.wgsl",
    "contract.wgsl",
    "contract_cooperative.wgsl",
    "contract_shared.wgsl",
    "contract_subgroups.wgsl",
    "contract_tiled.wgsl",
    "map.wgsl",
    "merge.wgsl",
    "probe_lanes.wgsl",
    "probe_subgroups.wgsl",
    "probe_terms.wgsl",
    "probe_units.wgsl",
    "reduce.wgsl",
    "reduce_block.wgsl",
    "reduce_group.wgsl",
    "reduce_subgroups.wgsl",
    "scan.wgsl",
    "search.wgsl",
    "segment.wgsl",
    "sort.wgsl",
    "transpose.wgsl",
];

/// Kernels of the executor itself, complete as they are.
pub(crate) const FIXED: &[ShaderFile] = shader_files!["move_bytes.wgsl", "zero.wgsl", "tally.wgsl"];

/// The kernel that copies bytes from and to any place.
pub(crate) const MOVE_BYTES: &str = FIXED[0].text;

/// The kernel that writes zeros.
pub(crate) const ZERO: &str = FIXED[1].text;

/// The kernel that counts submissions.
pub(crate) const TALLY: &str = FIXED[2].text;

/// Functions that generated code calls by name.
pub(crate) const LIBRARY: &[ShaderFile] =
    shader_files!["lib/convert.wgsl", "lib/indexing.wgsl", "lib/packing.wgsl", "lib/random.wgsl", "lib/scalar.wgsl"];

/// The text of family `path` with its slots replaced. A bug in the caller, a slot that is not there, panics.
pub(crate) fn fill(path: &str, slots: &[(&str, &str)]) -> String {
    let file = FAMILIES.iter().find(|file| file.path == path).expect("the family is in the table");
    let mut text = String::with_capacity(file.text.len() + 4096);
    let mut filled = 0;
    let mut skipping = false;
    for line in file.text.lines() {
        if let Some(name) = line.strip_prefix("//@slot ") {
            if let Some((_, code)) = slots.iter().find(|(slot, _)| *slot == name.trim()) {
                text.push_str(code);
                filled += 1;
                skipping = true;
            }
        } else if line == "//@end" {
            skipping = false;
        } else if !skipping {
            text.push_str(line);
            text.push('\n');
        }
    }
    assert!(
        filled == slots.len(),
        "{path} lacks one of the slots {:?}",
        slots.iter().map(|slot| slot.0).collect::<Vec<_>>()
    );
    text
}

/// True if the library has a function of that name.
pub(crate) fn has_function(name: &str) -> bool {
    function(name).is_some()
}

/// Appends every library function that `text` calls, directly or through others, and missing `_4` forms of those that
/// exist for one value only.
pub(crate) fn link(text: &mut String) {
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    let mut wrappers = String::new();
    let mut pending: Vec<&str> = Vec::new();
    let own = text.clone();
    for word in identifiers(&own) {
        if let Some((name, code)) = function(word) {
            if wanted.insert(name) {
                pending.push(code);
            }
        } else if let Some(single) = word.strip_suffix("_4").and_then(function)
            && !wrappers.contains(&format!("fn {word}("))
        {
            wrappers.push_str(&wrapper(single.0, single.1));
            if wanted.insert(single.0) {
                pending.push(single.1);
            }
        }
    }
    while let Some(code) = pending.pop() {
        for word in identifiers(code) {
            if let Some((name, code)) = function(word)
                && wanted.insert(name)
            {
                pending.push(code);
            }
        }
    }
    for name in wanted {
        let (_, code) = function(name).expect("it was found before");
        text.push('\n');
        text.push_str(code);
        text.push('\n');
    }
    text.push_str(&wrappers);
}

/// `(name, whole text)` of a library function.
fn function(name: &str) -> Option<(&'static str, &'static str)> {
    static FUNCTIONS: LazyLock<HashMap<&str, &str>> =
        LazyLock::new(|| LIBRARY.iter().flat_map(|file| functions(file.text)).collect());
    FUNCTIONS.get_key_value(name).map(|(name, code)| (*name, *code))
}

/// The functions of a library file, which begin at the left margin and end with a brace there.
fn functions(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let starts = text.match_indices("fn ").map(|(at, _)| at).filter(move |&at| at == 0 || text[..at].ends_with('\n'));
    starts.filter_map(move |start| {
        let code = &text[start..];
        Some((&code[3..code.find('(')?], &code[..code.find("\n}")? + 2]))
    })
}

/// `fn name_4` that applies `name` to each of four components.
fn wrapper(name: &str, code: &str) -> String {
    let signature = &code[..code.find(" {").unwrap_or(code.len())];
    let (parameters, result) = signature.split_once(") -> ").expect("library functions return a value");
    let parameters = &parameters[parameters.find('(').map_or(0, |at| at + 1)..];
    let parameters: Vec<(&str, &str)> = parameters.split(", ").filter_map(|p| p.split_once(": ")).collect();
    let mut text = String::new();
    let list: Vec<String> = parameters.iter().map(|(name, ty)| format!("{name}: vec4<{ty}>")).collect();
    let _ = write!(text, "\nfn {name}_4({}) -> vec4<{result}> {{\n    return vec4<{result}>(", list.join(", "));
    for (index, lane) in LANES.iter().enumerate() {
        let arguments: Vec<String> = parameters.iter().map(|(name, _)| format!("{name}.{lane}")).collect();
        let _ = write!(text, "{}{name}({})", if index > 0 { ", " } else { "" }, arguments.join(", "));
    }
    text.push_str(");\n}\n");
    text
}

fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or(line))
        .flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_is_in_the_table() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
        for (folder, tables) in [("", vec![FAMILIES, FIXED]), ("lib/", vec![LIBRARY])] {
            for entry in std::fs::read_dir(root.join(folder)).expect("the folder is there") {
                let name = entry.expect("readable").file_name().into_string().expect("a plain name");
                if name.ends_with(".wgsl") {
                    let path = format!("{folder}{name}");
                    let known = tables.iter().copied().flatten().any(|file| file.path == path);
                    assert!(known, "shaders/{path} is not embedded");
                }
            }
        }
    }

    #[test]
    fn links_functions_with_what_they_call_and_lanes_that_are_missing() {
        let mut text = "fn f(x: vec4f) -> vec4f {\n    return erf_4(round_to_half_4(x));\n}\n".to_owned();
        link(&mut text);
        for name in ["erf", "erf_4", "round_to_half", "round_to_half_4", "half_bits", "half_value"] {
            assert_eq!(text.matches(&format!("fn {name}(")).count(), 1, "{name} in\n{text}");
        }
        assert!(!text.contains("fn philox("));
        naga::front::wgsl::parse_str(&text).expect("it parses");
    }

    #[test]
    #[should_panic(expected = "lacks one of the slots")]
    fn an_unknown_slot_is_a_bug() {
        fill("map.wgsl", &[("nonsense", "")]);
    }
}
