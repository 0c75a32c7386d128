//! How good answers are that are classes, from one table: how often each was taken for each.

use serde::{Deserialize, Serialize};

/// Counts of targets by true class (row) and by what the model said (column): everything that training, `brasa eval`
/// and the window say about a model's answers is computed from these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    classes: usize,
    counts: Vec<u64>,
}

/// One class's scores; each is 0 where it would be 0/0, as scikit-learn has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassScores {
    /// Part of what was said to be of the class that is: TP / (TP + FP).
    pub precision: f64,
    /// Part of the class that was said to be: TP / (TP + FN).
    pub recall: f64,
    /// Harmonic mean of the two: 2 TP / (2 TP + FP + FN). Of masks it is called Dice.
    pub f1: f64,
    /// Intersection over union, TP / (TP + FP + FN).
    pub iou: f64,
    /// Targets of the class: TP + FN.
    pub support: u64,
}

/// Scores of all classes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanScores {
    /// Mean of the classes' precisions; classes without targets and answers count in none of the means.
    pub precision: f64,
    /// Mean of their recalls.
    pub recall: f64,
    /// Mean of their F1 (macro F1); of masks, mean Dice.
    pub f1: f64,
    /// Mean of their intersections over unions.
    pub iou: f64,
}

/// Scores from the classes' counts added up, so that each target counts the same (micro averages).
///
/// As each target has one class and gets one answer, whatever is wrong is a false positive of one class and a false
/// negative of another: precision, recall and F1 are all the accuracy (of masks, pixel accuracy and micro Dice).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MicroScores {
    /// Sum of TP over that of TP + FP.
    pub precision: f64,
    /// Sum of TP over that of TP + FN.
    pub recall: f64,
    /// Twice the sum of TP over that of 2 TP + FP + FN.
    pub f1: f64,
    /// Sum of TP over that of TP + FP + FN.
    pub iou: f64,
}

impl Confusion {
    /// From `classes * classes` counts, row by row.
    ///
    /// # Panics
    /// If their number is another.
    #[track_caller]
    pub fn new(classes: usize, counts: Vec<u64>) -> Self {
        assert_eq!(counts.len(), classes * classes, "a confusion matrix of {classes} classes");
        Self { classes, counts }
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// How many targets of class `of` were said to be `said`.
    pub fn count(&self, of: usize, said: usize) -> u64 {
        self.counts[of * self.classes + said]
    }

    /// All targets.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Targets whose class the model said.
    pub fn correct(&self) -> u64 {
        (0..self.classes).map(|class| self.count(class, class)).sum()
    }

    /// The part of the targets whose class the model said: accuracy, of masks pixel accuracy.
    pub fn accuracy(&self) -> f64 {
        ratio(self.correct(), self.total())
    }

    /// Scores of one class.
    pub fn class(&self, class: usize) -> ClassScores {
        let true_positive = self.count(class, class);
        let support: u64 = (0..self.classes).map(|said| self.count(class, said)).sum();
        let said: u64 = (0..self.classes).map(|of| self.count(of, class)).sum();
        ClassScores {
            precision: ratio(true_positive, said),
            recall: ratio(true_positive, support),
            f1: ratio(2 * true_positive, support + said),
            iou: ratio(true_positive, support + said - true_positive),
            support,
        }
    }

    /// Scores in which each target counts the same.
    pub fn micro(&self) -> MicroScores {
        let (correct, all) = (self.correct(), self.total());
        let accuracy = ratio(correct, all);
        MicroScores { precision: accuracy, recall: accuracy, f1: accuracy, iou: ratio(correct, 2 * all - correct) }
    }

    /// Means over the classes that have targets or answers.
    pub fn means(&self) -> MeanScores {
        let seen =
            |class: &usize| (0..self.classes).any(|other| self.count(*class, other) + self.count(other, *class) > 0);
        let scores: Vec<_> = (0..self.classes).filter(seen).map(|class| self.class(class)).collect();
        let mean = |of: fn(&ClassScores) -> f64| match scores.len() {
            0 => 0.0,
            len => scores.iter().map(of).sum::<f64>() / len as f64,
        };
        MeanScores {
            precision: mean(|class| class.precision),
            recall: mean(|class| class.recall),
            f1: mean(|class| class.f1),
            iou: mean(|class| class.iou),
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Truth 0 0 0 1 1 2 against answers 0 0 1 1 1 0; class 3 never occurs. Values from scikit-learn's definitions.
    #[test]
    fn scores_follow_their_definitions() {
        let confusion = Confusion::new(4, vec![2, 1, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((confusion.total(), confusion.correct()), (6, 4));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} and {b}");
        let [zero, one, two] = [0, 1, 2].map(|class| confusion.class(class));
        close(zero.precision, 2.0 / 3.0);
        close(zero.recall, 2.0 / 3.0);
        close(zero.iou, 2.0 / 4.0);
        close(one.precision, 2.0 / 3.0);
        close(one.recall, 1.0);
        close(one.f1, 0.8);
        assert_eq!((two.precision, two.recall, two.f1, two.iou, two.support), (0.0, 0.0, 0.0, 0.0, 1));
        let means = confusion.means();
        close(means.recall, (2.0 / 3.0 + 1.0) / 3.0);
        close(means.iou, (0.5 + 2.0 / 3.0) / 3.0);
        let (micro, classes) = (confusion.micro(), [0, 1, 2].map(|class| confusion.class(class)));
        close(micro.f1, confusion.accuracy());
        // by the definition: all classes' counts added up
        let union: f64 = classes.iter().map(|class| class.support as f64).sum::<f64>() + (6 - 4) as f64;
        close(micro.iou, 4.0 / union);
        assert_eq!(Confusion::new(1, vec![0]).means().iou, 0.0);
    }
}
