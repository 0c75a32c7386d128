//! Einstein's summation: products and sums named by letters.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::ops::{ok, shape_error};
use crate::shape::Shape;

use super::Tensor;

/// Numbers of the axes of `...`: no letter has them. They count from the back, so that operands align there.
const ELLIPSIS: u8 = 200;

impl Tensor {
    /// The sum of products that `equation` describes, as in PyTorch: a letter for each axis, operands separated by
    /// commas. A letter twice in one operand takes its diagonal, one that is not in the output is summed, and `...` are
    /// axes that broadcast. Without `->` the output has the letters that occur once, in alphabetical order, after
    /// `...`. Several operands are multiplied from left to right.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let x = Tensor::arange(6, &Device::cpu()).reshape([2, 3]);
    /// assert_eq!(Tensor::einsum("ij,kj->ik", &[&x, &x]).to_vec::<i32>()?, [5, 14, 14, 50]);
    /// assert_eq!(Tensor::einsum("ij->j", &[&x]).to_vec::<i32>()?, [3, 5, 7]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    #[track_caller]
    pub fn einsum(equation: &str, operands: &[&Self]) -> Self {
        ok(Self::einsum_within(equation, operands, |_| Ok(())))
    }

    /// [`Tensor::einsum`], if `check` accepts the shape of each product on the way and that of the result.
    ///
    /// # Errors
    /// If the equation is none, or does not fit the operands, and those of `check`.
    #[track_caller]
    pub(crate) fn einsum_within(
        equation: &str,
        operands: &[&Self],
        check: impl Fn(&Shape) -> Result<()>,
    ) -> Result<Self> {
        let Equation { inputs, output, sizes } = Equation::parse(equation, operands)?;
        let check = |labels: &[u8]| check(&labels.iter().map(|label| sizes[label]).collect());
        check(&output)?;
        let mut terms = Vec::with_capacity(operands.len());
        for (operand, labels) in operands.iter().zip(inputs) {
            terms.push(Term { tensor: (*operand).clone(), labels }.with_diagonals().without_repeated(&sizes));
        }
        let mut rest = terms.into_iter();
        let mut product = rest.next().expect("an equation has an operand");
        while let Some(term) = rest.next() {
            let wanted =
                |label: u8| output.contains(&label) || rest.as_slice().iter().any(|t| t.labels.contains(&label));
            let labels = product.labels_with(&term, wanted);
            check(&labels)?;
            product = product.times(term, labels);
        }
        Ok(product.summed(|label| output.contains(&label)).arranged(&output, &sizes))
    }
}

/// A tensor with a label for each axis.
struct Term {
    tensor: Tensor,
    labels: Vec<u8>,
}

impl Term {
    /// With a label that occurs twice replaced by its diagonal.
    #[track_caller]
    fn with_diagonals(mut self) -> Self {
        while let Some((first, second)) = twice(&self.labels) {
            let label = self.labels[first];
            self.tensor = self.tensor.diagonal(0, first.cast_signed(), second.cast_signed());
            self.labels.remove(second);
            self.labels.remove(first);
            self.labels.push(label);
        }
        self
    }

    /// Without axes of size 1 that stand for a larger size elsewhere.
    #[track_caller]
    fn without_repeated(mut self, sizes: &BTreeMap<u8, usize>) -> Self {
        let repeated: Vec<usize> =
            (0..self.labels.len()).filter(|&axis| self.tensor.shape()[axis] != sizes[&self.labels[axis]]).collect();
        self.tensor = self.tensor.squeeze(repeated.as_slice());
        let mut axis = 0;
        self.labels.retain(|_| {
            axis += 1;
            !repeated.contains(&(axis - 1))
        });
        self
    }

    /// Summed over the axes that are not wanted.
    #[track_caller]
    fn summed(mut self, wanted: impl Fn(u8) -> bool) -> Self {
        let unwanted: Vec<usize> = (0..self.labels.len()).filter(|&axis| !wanted(self.labels[axis])).collect();
        if !unwanted.is_empty() {
            self.tensor = self.tensor.sum_dim(unwanted);
            self.labels.retain(|&label| wanted(label));
        }
        self
    }

    /// The labels of either term that are wanted.
    fn labels_with(&self, other: &Self, wanted: impl Fn(u8) -> bool) -> Vec<u8> {
        let mut labels: Vec<u8> = self.labels.iter().copied().filter(|&label| wanted(label)).collect();
        labels.extend(other.labels.iter().filter(|label| wanted(**label) && !self.labels.contains(label)));
        labels
    }

    /// The product, summed over the axes that are not among its `labels`.
    #[track_caller]
    fn times(self, other: Self, labels: Vec<u8>) -> Self {
        let left = self.summed_for(&other, &labels);
        let right = other.summed_for(&left, &labels);
        let tensor = left.tensor.contract_for("einsum", &right.tensor, &left.labels, &right.labels, &labels);
        Self { tensor, labels }
    }

    #[track_caller]
    fn summed_for(self, other: &Self, labels: &[u8]) -> Self {
        self.summed(|label| labels.contains(&label) || other.labels.contains(&label))
    }

    /// With its axes in the output's order.
    #[track_caller]
    fn arranged(self, output: &[u8], sizes: &BTreeMap<u8, usize>) -> Tensor {
        let order: Vec<usize> =
            output.iter().filter_map(|label| self.labels.iter().position(|own| own == label)).collect();
        let present = output.iter().map(|label| if self.labels.contains(label) { sizes[label] } else { 1 });
        let whole: Vec<usize> = output.iter().map(|label| sizes[label]).collect();
        self.tensor.permute(order).reshape(present.collect::<Vec<_>>()).expand(whole)
    }
}

/// The first label that occurs twice, by its places.
fn twice(labels: &[u8]) -> Option<(usize, usize)> {
    let again = |first: usize| labels[first + 1..].iter().position(|label| *label == labels[first]);
    (0..labels.len()).find_map(|first| again(first).map(|second| (first, first + 1 + second)))
}

/// A checked equation.
struct Equation {
    inputs: Vec<Vec<u8>>,
    output: Vec<u8>,
    sizes: BTreeMap<u8, usize>,
}

impl Equation {
    fn parse(text: &str, operands: &[&Tensor]) -> Result<Self> {
        let wrong = |reason: String| shape_error(format!("einsum `{text}`: {reason}"));
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match plain.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (plain.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != operands.len() {
            return wrong(format!("{} operands for {} terms", operands.len(), terms.len()));
        }
        let (mut inputs, mut sizes, mut widest) = (Vec::new(), BTreeMap::new(), 0);
        for (term, operand) in terms.iter().zip(operands) {
            let shape = operand.shape();
            let letters = term.replacen("...", "", 1).len();
            let Some(extra) = shape.rank().checked_sub(letters) else {
                return wrong(format!("`{term}` has more letters than {shape} has axes"));
            };
            let labels = match labels(term, extra) {
                Some(labels) if labels.len() == shape.rank() => labels,
                Some(_) => return wrong(format!("`{term}` has fewer letters than {shape} has axes")),
                None => return wrong(format!("`{term}` has something else than letters and one `...`")),
            };
            widest = widest.max(labels.iter().filter(|label| **label >= ELLIPSIS).count());
            for (&label, &size) in labels.iter().zip(shape.iter()) {
                let known = sizes.entry(label).or_insert(size);
                if *known == 1 {
                    *known = size;
                } else if size != 1 && size != *known {
                    return wrong(format!("{} has sizes {known} and {size}", name(label)));
                }
            }
            // within one operand nothing is broadcast
            for (place, &label) in labels.iter().enumerate() {
                let first = labels.iter().position(|other| *other == label).unwrap_or(place);
                if shape[first] != shape[place] {
                    return wrong(format!("{} has sizes {} and {}", name(label), shape[first], shape[place]));
                }
            }
            inputs.push(labels);
        }
        let output = match right {
            Some(right) => match labels(right, widest) {
                Some(output) => output,
                None => return wrong(format!("`{right}` has something else than letters and one `...`")),
            },
            None => {
                let all: Vec<u8> = inputs.iter().flatten().copied().collect();
                let once = |label: &u8| all.iter().filter(|other| *other == label).count() == 1;
                let ellipsis = (0..widest as u8).rev().map(|number| ELLIPSIS + number);
                ellipsis.chain(sizes.keys().copied().filter(|label| *label < ELLIPSIS && once(label))).collect()
            }
        };
        if twice(&output).is_some() {
            return wrong("a letter occurs twice in the output".into());
        }
        match output.iter().find(|label| !sizes.contains_key(label)) {
            Some(&label) => wrong(format!("{} is in no operand", name(label))),
            None => Ok(Self { inputs, output, sizes }),
        }
    }
}

/// A term's labels, with `extra` axes for `...`; `None` if it is not made of letters and at most one `...`.
fn labels(term: &str, extra: usize) -> Option<Vec<u8>> {
    let (before, after) = term.split_once("...").map_or((term, None), |(before, after)| (before, Some(after)));
    let letters = |part: &str| part.bytes().all(|c| c.is_ascii_alphabetic()).then(|| part.bytes().collect::<Vec<u8>>());
    let mut labels = letters(before)?;
    if let Some(after) = after {
        labels.extend((0..extra as u8).rev().map(|number| ELLIPSIS + number));
        labels.extend(letters(after)?);
    }
    Some(labels)
}

fn name(label: u8) -> String {
    if label >= ELLIPSIS { "`...`".into() } else { format!("`{}`", char::from(label)) }
}
