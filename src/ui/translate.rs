//! A kernel's text in the languages that drivers get, by naga, which is what wgpu uses as well.

use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{Module, front::wgsl};
use rspirv::binary::Disassemble as _;

/// A language of shaders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    Wgsl,
    Msl,
    Hlsl,
    SpirV,
}

impl Dialect {
    pub(super) const ALL: [Self; 4] = [Self::Wgsl, Self::Msl, Self::Hlsl, Self::SpirV];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wgsl => "WGSL",
            Self::Msl => "MSL (Metal)",
            Self::Hlsl => "HLSL (DX12)",
            Self::SpirV => "SPIR-V (Vulkan)",
        }
    }
}

/// The text in that language, or why there is none.
pub(super) fn translate(wgsl: &str, dialect: Dialect) -> Result<String, String> {
    if dialect == Dialect::Wgsl {
        return Ok(wgsl.to_owned());
    }
    let module = wgsl::parse_str(wgsl).map_err(|error| error.emit_to_string(wgsl))?;
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    let info = validator.validate(&module).map_err(|error| error.emit_to_string(wgsl))?;
    match dialect {
        Dialect::Wgsl => unreachable!("returned above"),
        Dialect::Msl => metal(&module, &info),
        Dialect::Hlsl => direct_x(&module, &info),
        Dialect::SpirV => vulkan(&module, &info),
    }
}

fn metal(module: &Module, info: &ModuleInfo) -> Result<String, String> {
    let options = msl::Options { fake_missing_bindings: true, lang_version: (3, 1), ..msl::Options::default() };
    let written = msl::write_string(module, info, &options, &msl::PipelineOptions::default());
    written.map(|(text, _)| text).map_err(|error| error.to_string())
}

fn direct_x(module: &Module, info: &ModuleInfo) -> Result<String, String> {
    let mut text = String::new();
    let model = hlsl::ShaderModel::V6_5;
    let options = hlsl::Options { fake_missing_bindings: true, shader_model: model, ..hlsl::Options::default() };
    let pipeline = hlsl::PipelineOptions::default();
    let mut writer = hlsl::Writer::new(&mut text, &options, &pipeline);
    writer.write(module, info, None).map_err(|error| error.to_string())?;
    Ok(text)
}

fn vulkan(module: &Module, info: &ModuleInfo) -> Result<String, String> {
    let options = spv::Options { lang_version: (1, 3), ..spv::Options::default() };
    let words = spv::write_vec(module, info, &options, None).map_err(|error| error.to_string())?;
    rspirv::dr::load_words(words).map(|module| module.disassemble()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBLE: &str = "
        @group(0) @binding(0) var<storage, read_write> values: array<f32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            values[id.x] = 2.0 * values[id.x];
        }";

    #[test]
    fn a_kernel_is_written_in_every_language() {
        let text = |dialect| translate(DOUBLE, dialect).expect("a valid kernel");
        assert!(text(Dialect::Msl).contains("kernel void"));
        assert!(text(Dialect::Hlsl).contains("numthreads(64, 1, 1)"));
        assert!(text(Dialect::SpirV).contains("OpEntryPoint GLCompute"));
        assert_eq!(text(Dialect::Wgsl), DOUBLE);
    }

    #[test]
    fn what_is_no_kernel_is_an_error_with_its_place() {
        assert!(translate("fn main() { nonsense }", Dialect::Msl).expect_err("not WGSL").contains("nonsense"));
    }
}
