//! Which of an adapter's optional features are used.

use std::sync::OnceLock;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use super::render::Units;

/// The environment variable that says which to do without.
pub(super) const VARIABLE: &str = "BRASA_FEATURES";

/// What may be done without.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Feature {
    /// Half precision in shaders.
    F16,
    /// The GPU's clock.
    Timestamps,
    /// Units for small matrices.
    Cooperative,
    /// The driver's compiled kernels from earlier runs.
    PipelineCache,
    /// What tuning found.
    Tuned,
    /// Sums by the lanes of a subgroup, and what they read for each other.
    Subgroups,
    /// Machine code made by several devices on adapters that compute on the CPU.
    Ahead,
    /// What suits adapters that compute on the CPU.
    Software,
}

/// Needed to reach units for small matrices.
const MATRIX_UNITS: wgpu::Features = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(wgpu::Features::SUBGROUP);

/// What a person says about features.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Choice {
    without: Vec<Feature>,
    with: Vec<Feature>,
}

impl Choice {
    /// `-f16,+cooperative`; what is wrong comes back as well.
    fn parse(text: &str) -> (Self, Vec<&str>) {
        let mut choice = Self::default();
        let mut wrong = Vec::new();
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            let feature = |name: &str| name.parse::<Feature>().ok();
            match (word.strip_prefix('-').and_then(feature), word.strip_prefix('+').and_then(feature)) {
                (Some(feature), _) => choice.without.push(feature),
                (_, Some(feature)) => choice.with.push(feature),
                _ => wrong.push(word),
            }
        }
        (choice, wrong)
    }
}

/// `BRASA_FEATURES`: features of adapters to do without, such as `-f16,-subgroups`, `-tuned` for what tuning found, and
/// `+cooperative` for units that a software adapter only imitates; `-software` has such an adapter run what GPUs run,
/// which is slower there, but the only way to try it where there is no GPU.
fn choice() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(|| {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        let (choice, wrong) = Choice::parse(&text);
        if !wrong.is_empty() {
            tracing::warn!(
                "{VARIABLE}: `{}` is not understood; give - (without) or + (with) and one of {}",
                wrong.join(" "),
                Feature::VARIANTS.iter().map(<&str>::from).collect::<Vec<_>>().join(", ")
            );
        }
        choice
    })
}

/// Whether a person wants to do without this one.
pub(super) fn without(feature: Feature) -> bool {
    choice().without.contains(&feature)
}

/// Whether a processor stands in for a GPU, and is to be treated so.
pub(super) fn is_software(kind: wgpu::DeviceType) -> bool {
    kind == wgpu::DeviceType::Cpu && !without(Feature::Software)
}

/// Those that kernels, timing and the compiler make use of where they are.
pub(super) fn wanted() -> wgpu::Features {
    let mut wanted = wgpu::Features::empty();
    if !without(Feature::F16) {
        wanted |= wgpu::Features::SHADER_F16;
    }
    if !without(Feature::Timestamps) {
        wanted |= wgpu::Features::TIMESTAMP_QUERY;
    }
    if !without(Feature::Cooperative) {
        wanted |= MATRIX_UNITS;
    }
    if !without(Feature::Subgroups) {
        wanted |= wgpu::Features::SUBGROUP;
    }
    if !without(Feature::PipelineCache) {
        wanted |= wgpu::Features::PIPELINE_CACHE;
    }
    wanted
}

/// The smallest and the largest number of lanes of the subgroups that a device with these features makes use of.
pub(super) fn subgroups(info: &wgpu::AdapterInfo, features: wgpu::Features) -> Option<[u32; 2]> {
    if without(Feature::Subgroups) || !features.contains(wgpu::Features::SUBGROUP) {
        return None;
    }
    let sizes = subgroup_sizes(info);
    sizes.iter().all(|size| size.is_power_of_two() && *size >= 4).then_some(sizes)
}

/// The smallest and the largest number of lanes of the adapter's subgroups.
fn subgroup_sizes(info: &wgpu::AdapterInfo) -> [u32; 2] {
    match info.backend {
        wgpu::Backend::Metal if is_apple(info) => [32, 32], // wgpu tells what any GPU might have
        _ => [info.subgroup_min_size, info.subgroup_max_size],
    }
}

/// Whether Apple made it.
fn is_apple(info: &wgpu::AdapterInfo) -> bool {
    info.name.starts_with("Apple")
}

/// The adapter's units for small matrices that a device with these features makes use of. A software adapter's are
/// slower than its other instructions, and used only on request.
pub(super) fn units(adapter: &wgpu::Adapter, features: wgpu::Features) -> Option<Units> {
    let asked_for = choice().with.contains(&Feature::Cooperative);
    let worth_it = !is_software(adapter.get_info().device_type) || asked_for;
    if worth_it { offered_units(adapter, features) } else { None }
}

/// The units for square matrices whose products are summed in f32.
pub(super) fn offered_units(adapter: &wgpu::Adapter, features: wgpu::Features) -> Option<Units> {
    use wgpu::CooperativeScalarType as Scalar;
    let info = adapter.get_info();
    // wgpu tells them of all newer GPUs on Metal, also of those of Intel and AMD, which have none
    let is_there = info.backend != wgpu::Backend::Metal || is_apple(&info);
    if without(Feature::Cooperative) || !features.contains(MATRIX_UNITS) || !is_there {
        return None;
    }
    let offered = adapter.cooperative_matrix_properties();
    let largest = |scalar: Scalar| {
        let good = offered.iter().filter(|unit| {
            unit.ab_type == scalar
                && unit.cr_type == Scalar::F32
                && (unit.n_size, unit.k_size) == (unit.m_size, unit.m_size)
                && !unit.saturating_accumulation
        });
        good.map(|unit| unit.m_size as usize).max()
    };
    let units = Units {
        subgroups: subgroup_sizes(&info).map(|size| size as usize),
        f16: features.contains(wgpu::Features::SHADER_F16).then(|| largest(Scalar::F16)).flatten(),
        f32: largest(Scalar::F32),
        terms: true,
    };
    (units.f16.is_some() || units.f32.is_some()).then_some(units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_left_aside_by_name() {
        let (choice, wrong) = Choice::parse("-f16, +cooperative -pipeline-cache -speed f16");
        assert_eq!(choice.without, [Feature::F16, Feature::PipelineCache]);
        assert_eq!(choice.with, [Feature::Cooperative]);
        assert_eq!(wrong, ["-speed", "f16"]);
        assert_eq!(Choice::parse(""), (Choice::default(), Vec::new()));
    }
}
