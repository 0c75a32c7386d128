//! Training: settings, the loop, and what it reports. Knows no front end: a listener gets [`Event`]s, a [`Control`]
//! steers.

mod auto;
mod binding;
mod callback;
mod checkpoint;
mod clock;
mod config;
mod control;
mod devices;
mod early_stopping;
mod environment;
mod evaluate;
mod event;
mod export;
mod folder;
mod forecast;
mod learned;
mod learner;
mod length;
mod onnx_predictor;
mod pictures;
mod predictor;
mod rates;
pub mod record;
mod run;
mod save;
mod saved_model;
mod scores;
mod shown;
mod spread;
mod targets;
mod tensorboard;
mod trainer;
mod tune;

pub use binding::{Binding, what_binds};
pub use callback::{Callback, Context};
pub use checkpoint::CHECKPOINT_VERSION;
#[cfg(feature = "ui")]
pub(crate) use checkpoint::last_saved;
pub use clock::StageReport;
pub use config::{ClassWeights, Config, LossName, ModelName, OnNan, OptimizerName, Precision};
#[cfg(feature = "cli")]
pub(crate) use config::{MAX_IMAGE_SIDE, SECTIONS};
pub use control::Control;
pub use early_stopping::{EarlyStopping, Monitor};
pub use environment::Environment;
#[cfg(feature = "cli")]
pub(crate) use evaluate::{Asked, evaluate_for};
pub use evaluate::{Judged, evaluate};
pub use event::{EpochMetrics, Event, MemoryNeed, Start, StepMetrics, Summary};
pub use export::{Exported, ModelExport, export};
pub use forecast::{RunForecast, forecast};
pub use onnx_predictor::Preprocessing;
pub use predictor::{GivenPicture, PredictedPicture, Prediction, Predictor};
#[cfg(feature = "cli")]
pub(crate) use run::{BEST, WEIGHTS};
pub use save::SaveEvery;
#[cfg(feature = "cli")]
pub(crate) use saved_model::best_weights;
pub use scores::{
    ClassScores, ClassificationScores, Confusion, ErrorSums, HeldOut, MeanScores, MicroScores, RegressionScores,
    Residuals, Score, Scores, Tally, TestMetrics,
};
pub use tensorboard::TensorBoard;
pub use trainer::Trainer;
pub use tune::{TunedStep, Tuning, tune};
