//! What decides a graph, how it is drawn from a seed, and how a failing one is made smaller.

use brasa::{DType, Device};

use super::rows::ROWS;
use super::state::State;

/// One step: which row, and the numbers it draws. Numbers it does not have are 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(crate) row: u16,
    pub(crate) bytes: Vec<u8>,
}

/// What is computed at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Nothing more.
    Values,
    /// Gradients by the float inputs.
    Gradients,
    /// Gradients of gradients.
    SecondDerivatives,
    /// An optimizer's update of the state's parameters.
    Update,
}

/// A graph as data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    /// Types and shapes of the inputs; the first one is float and not empty, the fourth i32 with an axis and not empty:
    /// rows count on them.
    pub(crate) inputs: Vec<(DType, Vec<usize>)>,
    pub(crate) choices: Vec<Choice>,
    pub(crate) ending: Ending,
    /// Whether there are variables, and which optimizer.
    pub(crate) state: Option<u8>,
}

/// A sequence of numbers from a seed (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }
}

/// Numbers a choice has; no row draws more that matter.
const BYTES: usize = 14;

impl Case {
    /// The case of this number, of 3 to 30 choices.
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let shape = |random: &mut SplitMix, empty: bool| -> Vec<usize> {
            // ranks up to 8, small ones more often; sizes with few common factors
            let rank = [0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8][random.below(15)];
            let most = if rank > 4 { 3 } else { 7 };
            let mut shape: Vec<usize> = (0..rank).map(|_| 1 + random.below(most)).collect();
            while shape.iter().product::<usize>() > 210 {
                let largest = (0..rank).max_by_key(|&axis| shape[axis]).expect("it has axes");
                shape[largest] /= 2;
            }
            if empty && rank > 0 && random.below(12) == 0 {
                shape[random.below(rank)] = 0;
            }
            shape
        };
        let mut inputs: Vec<(DType, Vec<usize>)> = (0..3).map(|n| (DType::F32, shape(&mut random, n > 0))).collect();
        for dtype in [DType::I32, DType::U32, DType::U8, DType::Bool] {
            inputs.push((dtype, shape(&mut random, true)));
        }
        let integers = &mut inputs[3].1;
        if integers.iter().product::<usize>() == 0 || integers.is_empty() {
            *integers = vec![3];
        }
        // f16 rounds, which allows for more difference, so it is not everywhere
        if random.below(5) == 0 {
            inputs.push((DType::F16, shape(&mut random, true)));
        }
        let count = 3 + random.below(28).min(random.below(28));
        let choice = |random: &mut SplitMix| Choice {
            row: random.below(ROWS.len()) as u16,
            bytes: (0..BYTES).map(|_| random.next() as u8).collect(),
        };
        let choices: Vec<Choice> = (0..count).map(|_| choice(&mut random)).collect();
        let has_variables =
            random.below(5) == 0 || choices.iter().any(|choice| ROWS[usize::from(choice.row)].needs_variables());
        let state = has_variables.then(|| random.below(256) as u8);
        let ending = match random.below(8) {
            0 | 1 => Ending::Values,
            2 => Ending::SecondDerivatives,
            3 | 4 if state.is_some() => Ending::Update,
            _ => Ending::Gradients,
        };
        Self { inputs, choices, ending, state }
    }

    /// Its variables; the optimizer's come last.
    pub(crate) fn make_state(&self, device: &Device) -> Option<State> {
        let with_layers = self.choices.iter().any(|choice| ROWS[usize::from(choice.row)].needs_layers());
        let updates = self.ending == Ending::Update;
        self.state.map(|kind| State::new(device, kind, updates, with_layers).expect("memory"))
    }

    /// Cases that are a little smaller, the smallest first.
    fn smaller(&self) -> Vec<Self> {
        let mut cases = Vec::new();
        let count = self.choices.len();
        let mut length = count / 2;
        while length > 0 {
            for start in (0..=count - length).rev().step_by(length.div_ceil(2)) {
                let mut case = self.clone();
                case.choices.drain(start..start + length);
                cases.push(case);
            }
            length /= 2;
        }
        if self.ending == Ending::SecondDerivatives {
            cases.push(Self { ending: Ending::Gradients, ..self.clone() });
        }
        if self.ending != Ending::Values {
            cases.push(Self { ending: Ending::Values, ..self.clone() });
        }
        if self.state.is_some() && self.ending != Ending::Update {
            cases.push(Self { state: None, ..self.clone() });
        }
        if self.inputs.len() > 7 {
            cases.push(Self { inputs: self.inputs[..7].to_vec(), ..self.clone() });
        }
        for (number, (_, shape)) in self.inputs.iter().enumerate() {
            for axis in 0..shape.len() {
                let mut with = |change: &dyn Fn(&mut Vec<usize>)| {
                    let mut case = self.clone();
                    change(&mut case.inputs[number].1);
                    cases.push(case);
                };
                with(&|shape| _ = shape.remove(axis));
                if shape[axis] > 1 {
                    with(&|shape| shape[axis] = 1);
                    with(&|shape| shape[axis] -= 1);
                }
            }
        }
        for (number, choice) in self.choices.iter().enumerate() {
            for (place, &byte) in choice.bytes.iter().enumerate() {
                for less in [0, byte / 2, byte.saturating_sub(1)] {
                    if less < byte {
                        let mut case = self.clone();
                        case.choices[number].bytes[place] = less;
                        cases.push(case);
                    }
                }
            }
        }
        cases
    }

    /// The smallest case found for which `fails` holds as it does for this one.
    pub(crate) fn shrunk(self, mut fails: impl FnMut(&Self) -> bool) -> Self {
        let mut smallest = self;
        // bounded, as a small case is a help and no result
        let mut tries = 1500;
        while tries > 0 {
            let mut candidates = smallest.smaller().into_iter().take(tries);
            let found = candidates.find(|case| {
                tries -= 1;
                fails(case)
            });
            let Some(case) = found else { break };
            smallest = case;
        }
        smallest
    }

    /// The values of the inputs: floats multiples of 1/64, which are exact in f16 too.
    pub(crate) fn values(&self) -> Vec<Vec<f64>> {
        let value = |dtype: DType, random: &mut SplitMix| match dtype {
            DType::F32 | DType::F16 => random.below(256) as f64 / 64.0 - 2.0,
            DType::I32 => random.below(19) as f64 - 9.0,
            DType::U32 => random.below(10) as f64,
            DType::U8 => random.below(256) as f64,
            DType::Bool => random.below(2) as f64,
        };
        let of = |(number, (dtype, shape)): (u64, &(DType, Vec<usize>))| {
            let mut random = SplitMix(number);
            (0..shape.iter().product()).map(|_| value(*dtype, &mut random)).collect()
        };
        (1..).zip(&self.inputs).map(of).collect()
    }

    /// In words, for a report.
    pub(crate) fn describe(&self) -> String {
        let rows: Vec<_> = self.choices.iter().map(|choice| ROWS[usize::from(choice.row)].name).collect();
        format!("{rows:?} over {:?}, then {:?}, state {:?}\n{self:?}", self.inputs, self.ending, self.state)
    }
}
