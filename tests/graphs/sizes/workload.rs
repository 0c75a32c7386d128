//! What a workload of random sizes draws: numbers, sizes, and operands that lie in memory in different ways.

use std::sync::{Arc, Mutex};

use brasa::autodiff::grad;
use brasa::{DType, Device, Tensor};

use super::super::case::SplitMix;
use super::super::executed::leaf;
use super::super::expected::Expected;

/// What was drawn, for a report.
pub(crate) type Notes = Arc<Mutex<Vec<String>>>;

/// A workload being built.
pub(crate) struct Workload<'a> {
    random: SplitMix,
    device: &'a Device,
    inputs: Vec<(Tensor, Vec<f64>)>,
    notes: &'a Notes,
    /// Whether numbers are rounded to f16 on the way.
    pub(crate) half: bool,
}

impl<'a> Workload<'a> {
    pub(crate) fn new(seed: u64, device: &'a Device, notes: &'a Notes) -> Self {
        Self { random: SplitMix(seed), device, inputs: Vec::new(), notes, half: false }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    /// Whether something happens that does in one of `times` cases.
    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A size up to `most`, each power of two as often as the others: that, a little more or less, or anything between.
    pub(crate) fn size(&mut self, most: usize) -> usize {
        let octave = 1 << self.below(most.ilog2() as usize + 1);
        let size = match self.below(5) {
            0 => octave,
            1 => octave + 1,
            2 => octave - 1,
            _ => octave + self.below(octave),
        };
        size.clamp(1, most)
    }

    pub(crate) fn sizes<const N: usize>(&mut self, most: [usize; N]) -> [usize; N] {
        most.map(|most| self.size(most))
    }

    pub(crate) fn note(&mut self, what: impl std::fmt::Debug) {
        self.notes.lock().expect("no panic").push(format!("{what:?}"));
    }

    /// An input of the device: multiples of 1/64, which are exact in f16 too.
    pub(crate) fn input(&mut self, shape: &[usize], dtype: DType) -> Tensor {
        let bound = |random: &mut SplitMix| match dtype {
            DType::F32 | DType::F16 => random.below(256) as f64 / 64.0 - 2.0,
            DType::I32 => random.below(19) as f64 - 9.0,
            _ => random.below(2) as f64,
        };
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| bound(&mut self.random)).collect();
        let leaf = leaf(dtype, shape, &values, self.device);
        self.inputs.push((leaf.clone(), values));
        leaf
    }

    pub(crate) fn leaf(&mut self, shape: &[usize]) -> Tensor {
        let dtype = if self.half { DType::F16 } else { DType::F32 };
        self.input(shape, dtype)
    }

    /// Numbers from 0 to below `bound`.
    pub(crate) fn index(&mut self, bound: usize, shape: &[usize]) -> Tensor {
        let values: Vec<i32> = (0..shape.iter().product()).map(|_| self.below(bound) as i32).collect();
        let leaf = Tensor::from_slice(&values, shape, self.device).expect("memory");
        self.inputs.push((leaf.clone(), values.into_iter().map(f64::from).collect()));
        leaf
    }

    /// A tensor of this shape: as it lies in memory, or a view of something else.
    pub(crate) fn operand(&mut self, shape: &[usize]) -> Tensor {
        if shape.is_empty() {
            return self.leaf(shape);
        }
        let axis = self.below(shape.len());
        let (at, size) = (axis.cast_signed(), shape[axis]);
        let with = |other: usize| {
            let mut shape = shape.to_vec();
            shape[axis] = other;
            shape
        };
        let way = self.below(16);
        match way {
            0..=2 => {
                let order = self.order(shape.len());
                let mut lying = vec![0; shape.len()];
                order.iter().zip(shape).for_each(|(&to, &size)| lying[to] = size);
                self.note(("lies as", &lying));
                let order: Vec<isize> = order.iter().map(|&axis| axis.cast_signed()).collect();
                self.leaf(&lying).permute(order)
            }
            3 => {
                let (before, behind) = (self.below(4), self.below(3));
                self.note(("narrow", axis, before, behind));
                self.leaf(&with(before + size + behind)).narrow(at, before, size)
            }
            4 => {
                self.note(("flip", axis));
                self.leaf(shape).flip(at)
            }
            5 => {
                self.note(("expand", axis));
                self.leaf(&with(1)).expand(shape)
            }
            6 if size < 200 => {
                self.note(("every other", axis));
                self.leaf(&with(2 * size)).slice_step(at, .., 2)
            }
            7 if size > 2 => {
                self.note(("pad", axis));
                self.padded(shape, axis)
            }
            8 => {
                self.note(("repeat_interleave", axis));
                self.leaf(&with(size.div_ceil(2))).repeat_interleave(2, at).narrow(at, 0, size)
            }
            9 => {
                self.note(("relu of half", axis));
                self.leaf(shape).relu() * 0.5
            }
            10 => {
                self.note("tanh of scaled");
                let scale = self.leaf(&shape[shape.len() - 1..]);
                (self.leaf(shape) * scale).tanh()
            }
            _ => self.leaf(shape),
        }
    }

    fn padded(&mut self, shape: &[usize], axis: usize) -> Tensor {
        let mut inside = shape.to_vec();
        inside[axis] -= 2;
        let widths: Vec<(isize, isize)> =
            (0..shape.len()).map(|own| if own == axis { (1, 1) } else { (0, 0) }).collect();
        self.leaf(&inside).pad(&widths, 0.0)
    }

    /// A random order of so many axes.
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.shuffle(&mut order);
        order
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }

    /// What rides on a result, if anything does.
    pub(crate) fn epilogue(&mut self, y: Tensor) -> Vec<Tensor> {
        if y.rank() == 0 {
            return vec![y];
        }
        let axis = self.below(y.rank()).cast_signed();
        let way = self.below(12);
        self.note(("epilogue", way, axis));
        match way {
            0 => {
                let bias = self.leaf(&[y.size(axis)]);
                let mut shape = vec![1; y.rank()];
                shape[axis.unsigned_abs()] = y.size(axis);
                vec![(y + bias.reshape(shape)).relu()]
            }
            1 => {
                let residual = self.operand(y.shape());
                vec![(&y * 0.5 + residual).relu(), y]
            }
            2 => vec![y.sum_dim(axis) * 0.1, y],
            3 => vec![y.max_keepdim(axis), y],
            4 => vec![(&y - y.mean_keepdim(axis)).sigmoid()],
            5 => vec![y.transpose(axis, -1).relu()],
            6 => vec![(y * 0.1).softmax(axis)],
            7 => vec![(&y * 0.05).tanh(), y.square().mean()],
            _ => vec![y],
        }
    }

    /// `outputs`, and gradients by all inputs of some weighted sum of them.
    pub(crate) fn with_gradients(&mut self, outputs: Vec<Tensor>) -> Vec<Tensor> {
        let inputs = self.inputs.iter().map(|(input, _)| input);
        let inputs: Vec<Tensor> = inputs.filter(|input| input.dtype().is_float()).cloned().collect();
        let terms: Vec<Tensor> = outputs
            .iter()
            .filter(|output| output.dtype().is_float())
            .map(|output| (output * self.leaf(output.shape())).to_dtype(DType::F32).sum())
            .collect();
        let Some(loss) = terms.into_iter().reduce(|a, b| a + b) else { return outputs };
        let gradients = grad(&loss, &inputs.iter().collect::<Vec<_>>());
        outputs.into_iter().chain(gradients).collect()
    }

    /// What `outputs` should be.
    pub(crate) fn expected(&self, outputs: &[Tensor]) -> Expected {
        Expected::new(outputs.iter().map(|output| output.node().clone()).collect(), &self.inputs)
    }
}

/// Makes the largest sizes smaller until `cost` is at most `limit`.
pub(crate) fn within<const N: usize>(
    mut sizes: [usize; N],
    limit: usize,
    cost: impl Fn([usize; N]) -> usize,
) -> [usize; N] {
    while cost(sizes) > limit {
        let largest = (0..N).max_by_key(|&axis| sizes[axis]).expect("it has sizes");
        sizes[largest] = (sizes[largest] * 2 / 3).max(1);
        if sizes.iter().all(|&size| size == 1) {
            break;
        }
    }
    sizes
}
