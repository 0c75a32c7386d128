//! What targets are measured by: one set of scales for all parts of the data, and how many are of each class.

use crate::data::{Augment, Batch, Description, Goal, Last, Normalization, On, Pipeline, Split, Targets};
use crate::error::{Error, Result};

use super::record::RunRecord;
use super::spread::Spread;

/// Samples that are read at once to measure what they are.
const ROWS: usize = 256;

/// The parts with the scales of the training part, which are measured where it does not tell them; as they are where
/// no numbers are asked for.
///
/// # Errors
/// If the parts have other goals or numbers than the training part, its scales are none, or it cannot be read.
pub(super) fn settled(data: Split<Pipeline>) -> Result<Split<Pipeline>> {
    let of = data.train.description();
    let (goal, count, name) = (of.goal, of.classes.len(), &of.name);
    for part in data.parts().map(Pipeline::description) {
        if part.goal != goal || goal == Goal::Regress && part.classes.len() != count {
            let message =
                "asks for something else than the training part: all parts have one goal, and as many numbers";
            return Err(Error::Config(format!("{}: a part {message}", part.name)));
        }
    }
    if goal != Goal::Regress {
        return Ok(data);
    }
    if count == 0 {
        return Err(Error::Config(format!("{name}: there is no number to predict: its description names none")));
    }
    let scales = match &of.scales {
        Some(scales) => scales.clone(),
        None => measured(&data.train)?,
    };
    check(&scales, count).map_err(|reason| Error::Config(format!("{name}: {reason}")))?;
    Ok(described(data, |of| of.scales = Some(scales.clone())))
}

/// The parts with the scales, or the counts of classes, that the run of `record` has learned by.
pub(super) fn learned(data: Split<Pipeline>, record: Option<&RunRecord>) -> Split<Pipeline> {
    let Some(RunRecord { input, .. }) = record else { return data };
    let regresses = data.train.description().goal == Goal::Regress;
    match (&input.scales, &input.counts) {
        (Some(scales), _) if regresses => described(data, |of| of.scales = Some(scales.clone())),
        (_, Some(counts)) if !regresses => described(data, |of| of.counts = Some(counts.clone())),
        _ => data,
    }
}

/// The parts with what the training part is known to be.
fn described(data: Split<Pipeline>, change: impl Fn(&mut Description)) -> Split<Pipeline> {
    data.map(|part| {
        let mut of = part.description().clone();
        change(&mut of);
        part.described(of)
    })
}

/// What is wrong with the scales of so many numbers.
pub(super) fn check(scales: &Normalization, count: usize) -> Result<(), String> {
    let Normalization { mean, std } = scales;
    if mean.len() != count || std.len() != count {
        let (mean, std) = (mean.len(), std.len());
        return Err(format!("the scales have {mean} means and {std} deviations for {count} numbers"));
    }
    // of a smaller one, what divides by it is infinite
    if !mean.iter().all(|mean| mean.is_finite()) || !std.iter().all(|std| std.is_normal() && *std > 0.0) {
        return Err(format!(
            "the scales are {mean:?} and {std:?}: means must be finite, deviations greater than 0, too"
        ));
    }
    Ok(())
}

/// The parts, of whose training part the samples of each class are counted, where it does not tell.
///
/// # Errors
/// If it cannot be read.
pub(super) fn counted(data: Split<Pipeline>) -> Result<Split<Pipeline>> {
    let of = data.train.description();
    if of.goal == Goal::Regress || of.counts.is_some() {
        return Ok(data);
    }
    let mut counts = vec![0; of.classes.len()];
    // a pixel that is not known is of no class
    let mut add = |class: usize| counts.get_mut(class).into_iter().for_each(|count| *count += 1);
    for batch in samples(&data.train)? {
        match batch?.targets {
            Targets::Classes(classes) => classes.into_iter().for_each(|class| add(class as usize)),
            Targets::Masks(classes) => classes.into_iter().for_each(|class| add(class.into())),
            Targets::Numbers(_) | Targets::Mixed { .. } => {}
        }
    }
    Ok(described(data, |of| of.counts = Some(counts.clone())))
}

/// Mean and standard deviation of each number over all samples; 1 where it does not vary.
fn measured(train: &Pipeline) -> Result<Normalization> {
    let count = train.description().classes.len();
    let mut spread = Spread::default();
    for batch in samples(train)? {
        if let Targets::Numbers(numbers) = batch?.targets {
            spread.add(&numbers, count, usize::MAX);
        }
    }
    Ok(spread.scales(count))
}

/// The samples of one epoch, not augmented.
fn samples(train: &Pipeline) -> Result<impl Iterator<Item = Result<Batch>>> {
    train.clone().augment(Augment::default(), On::Host).epochs(1).batch(ROWS, Last::Keep).start()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::data::{Dataset, Sample, Values};

    /// Years with a number that does not vary.
    struct Years(Description);

    impl Dataset for Years {
        fn description(&self) -> &Description {
            &self.0
        }
        fn len(&self) -> usize {
            301
        }
        fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
            sample.shape = vec![1];
            sample.input = Values::F32(vec![index as f32]);
            sample.set_numbers(&[1.0e6 + (index % 3) as f32, 7.0]);
            Ok(())
        }
    }

    fn years(change: impl Fn(Description) -> Description) -> Pipeline {
        let of = Description::new("years", Goal::Regress, ["year", "seven"].map(str::to_owned), [1]);
        Pipeline::new(Arc::new(Years(change(of))))
    }

    #[test]
    fn scales_that_nobody_tells_are_measured_and_those_of_the_training_part_are_for_all() {
        let scales = |data: &Pipeline| data.description().scales.clone().expect("they are settled");
        let data = settled(Split::new(years(|of| of), years(|of| of))).expect("numbers");
        let measured = scales(&data.train);
        // 101 zeros, 100 ones, 100 twos
        let mean: f64 = 300.0 / 301.0;
        let std = (500.0 / 301.0 - mean * mean).sqrt();
        assert!((f64::from(measured.mean[0]) - 1.0e6 - mean).abs() < 0.1, "{measured:?}");
        assert!((f64::from(measured.std[0]) - std).abs() < 1e-5, "{measured:?}");
        assert_eq!((measured.mean[1], measured.std[1]), (7.0, 1.0));
        assert_eq!(scales(&data.test), measured);
        let own = |mean: f32| Some(Normalization { mean: vec![mean; 2], std: vec![2.0; 2] });
        let parts = Split::new(
            years(|of| Description { scales: own(1.0), ..of }),
            years(|of| Description { scales: own(5.0), ..of }),
        );
        assert_eq!(scales(&settled(parts).expect("numbers").test).mean, [1.0; 2]);
    }

    #[test]
    fn parts_that_do_not_go_together_and_scales_that_are_none_are_refused() {
        let refuse = |train: Pipeline, test: Pipeline, words: &str| {
            let error = settled(Split::new(train, test)).expect_err("should be refused").to_string();
            assert!(error.contains(words), "{error}");
        };
        refuse(years(|of| of), years(|of| Description { goal: Goal::Classify, ..of }), "asks for something else");
        refuse(years(|of| of), years(|of| Description { classes: vec!["year".into()], ..of }), "as many numbers");
        refuse(
            years(|of| Description { classes: Vec::new(), ..of }),
            years(|of| Description { classes: Vec::new(), ..of }),
            "no number",
        );
        for (mean, std, words) in [
            (vec![0.0; 2], vec![1.0, 0.0], "greater than 0"),
            (vec![0.0; 2], vec![1.0, f32::NAN], "greater than 0"),
            (vec![0.0; 2], vec![1.0, 1e-40], "greater than 0"),
            (vec![f32::INFINITY, 0.0], vec![1.0; 2], "finite"),
            (vec![0.0], vec![1.0; 2], "1 means and 2 deviations for 2"),
            (Vec::new(), Vec::new(), "0 means"),
        ] {
            let scales = Some(Normalization { mean, std });
            let of = || years(|of| Description { scales: scales.clone(), ..of });
            refuse(of(), of(), words);
        }
    }
}
