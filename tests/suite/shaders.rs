//! Every file in `shaders/` is valid WGSL as it stands, so that editors and other compilers can read it.

use std::path::{Path, PathBuf};

use naga::valid::{Capabilities, ValidationFlags, Validator};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders").join(folder);
    let entries = std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "wgsl")).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn validate(name: &str, text: &str) -> naga::Module {
    let module = naga::front::wgsl::parse_str(text).unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(text)));
    // families are plain WGSL but for those of units for small matrices and of subgroups
    let mut capabilities = Capabilities::empty();
    if text.contains("enable wgpu_cooperative_matrix;") {
        capabilities |= Capabilities::SHADER_FLOAT16 | Capabilities::COOPERATIVE_MATRIX | Capabilities::SUBGROUP;
    }
    if text.contains("@builtin(subgroup_invocation_id)") {
        capabilities |= Capabilities::SUBGROUP;
    }
    Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .unwrap_or_else(|e| panic!("{name}: {}", e.emit_to_string(text)));
    module
}

#[test]
fn families_are_valid_with_their_default_slots() {
    for path in files("") {
        let text = std::fs::read_to_string(&path).expect("readable");
        let module = validate(&path.display().to_string(), &text);
        assert!(module.entry_points.iter().any(|entry| entry.name == "main"), "{} has no `main`", path.display());
        assert_eq!(text.matches("//@slot ").count(), text.matches("//@end").count(), "{}", path.display());
    }
}

/// To the languages of Metal, and of DirectX with its older compiler.
fn translate(path: &Path, module: &naga::Module, info: &naga::valid::ModuleInfo) {
    use naga::back::{hlsl, msl};
    let options = msl::Options { fake_missing_bindings: true, lang_version: (2, 4), ..Default::default() };
    msl::write_string(module, info, &options, &msl::PipelineOptions::default())
        .unwrap_or_else(|e| panic!("{}: MSL: {e}", path.display()));
    let shader_model = hlsl::ShaderModel::V5_1;
    let options = hlsl::Options { fake_missing_bindings: true, shader_model, ..Default::default() };
    hlsl::Writer::new(&mut String::new(), &options, &hlsl::PipelineOptions::default())
        .write(module, info, None)
        .unwrap_or_else(|e| panic!("{}: HLSL: {e}", path.display()));
}

#[test]
fn own_kernels_are_valid_and_need_no_feature() {
    for path in ["linalg", "fft"].into_iter().flat_map(files) {
        let text = std::fs::read_to_string(&path).expect("readable");
        let module = naga::front::wgsl::parse_str(&text).unwrap_or_else(|e| panic!("{}", e.emit_to_string(&text)));
        let valid = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module);
        assert!(valid.is_ok(), "{}: {valid:?}", path.display());
        let shared = module.global_variables.iter().filter(|(_, v)| v.space == naga::AddressSpace::WorkGroup);
        let bytes: u32 = shared.map(|(_, v)| module.types[v.ty].inner.size(module.to_ctx())).sum();
        assert!(bytes <= 16 << 10, "{} shares {bytes} bytes, WebGPU promises 16 KiB", path.display());
        translate(&path, &module, &valid.expect("it is valid"));
    }
}

#[test]
fn the_library_is_valid_and_its_functions_have_one_home() {
    // A name twice would not parse.
    let text: String =
        files("lib").iter().map(|path| std::fs::read_to_string(path).expect("readable") + "\n").collect();
    let module = validate("shaders/lib", &text);
    assert!(module.functions.len() > 40);
}
