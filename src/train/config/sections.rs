//! Which settings stand together: in the help of the command line, and in the window's form.

/// Titles with the flags under them. Every flag is in here, or nobody would find it.
pub(crate) const SECTIONS: [(&str, &[&str]); 6] = [
    ("Data", &["dataset", "validation", "image-size", "data-dir", "download", "cache", "strict"]),
    ("Model", &["model", "weights", "skip-weights", "freeze", "freeze-statistics"]),
    (
        "Training",
        &[
            "epochs",
            "batch-size",
            "loss",
            "optimizer",
            "lr",
            "schedule",
            "momentum",
            "weight-decay",
            "accumulate",
            "seed",
        ],
    ),
    (
        "Augmentation and regularisation",
        &["augment", "augment-on", "label-smoothing", "class-weights", "ema", "clip-norm", "clip-value"],
    ),
    (
        "Device and precision",
        &["device", "precision", "matmul-precision", "checkpoint-activations", "workers", "on-nan"],
    ),
    ("Run folder", &["out", "name", "save-every", "keep", "patience", "tensorboard", "log-every"]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Args as _, Command};

    use super::*;
    use crate::train::Config;

    #[test]
    fn every_flag_has_its_place() {
        let command = Config::augment_args(Command::new("brasa"));
        let flags: BTreeSet<_> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        let placed: BTreeSet<_> = SECTIONS.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
        assert_eq!(flags, placed);
    }
}
