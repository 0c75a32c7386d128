//! Which stages does a device speed up?

use crate::data::On;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::train::{Config, Control, ModelName, Trainer};

use super::StageRow;

/// Short, and long enough that the first steps do not count much.
const EPOCHS: usize = 2;
const BATCH: usize = 128;
/// The digits as large as the pictures of CIFAR-10.
const SIDE: usize = 32;

/// Trains the tutorial's CNN on the digits for a moment, all that can be done there on `device`, and tells where time
/// went.
pub(super) fn measure(device: &Device) -> Result<Vec<StageRow>> {
    let folder = tempfile::tempdir().map_err(|error| Error::io("a temporary folder", error))?;
    let config = Config {
        model: ModelName::new("tutorial-cnn")?,
        image_size: Some(SIDE),
        batch_size: BATCH,
        epochs: EPOCHS,
        augment: "crop=4,rotate=10,color=0.2".parse()?,
        augment_on: if device.is_cpu() { On::Host } else { On::Device },
        device: Some(device.info().selector.clone()),
        out: folder.path().into(),
        ..Config::default()
    };
    let train = |config: Config| Trainer::new_beside(config)?.run(&Control::default(), &mut |_| {});
    // which compiles, in the driver, too, as late as when a kernel first runs
    train(Config { epochs: 1, ..config.clone() })?;
    let summary = train(config)?;
    let row = |report: crate::train::StageReport| StageRow {
        stage: report.stage,
        busy_ms: report.busy_ms / summary.steps.max(1) as f64,
        place: report.device,
        source: report.source,
    };
    Ok(summary.stages.into_iter().map(row).collect())
}
