//! The steps of recurrent layers, and their weights.

use crate::error::Result;
use crate::graph::refuse;
use crate::runtime::Var;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::variables;

use super::super::linear::linear;
use super::super::{Init, Initial};

/// What a step does; the order of its gates in the weights is PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Tanh,
    Relu,
    /// Input, forget, cell, output.
    Lstm,
    /// Reset, update, new.
    Gru,
}

impl Kind {
    fn gates(self) -> usize {
        match self {
            Self::Tanh | Self::Relu => 1,
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// Tensors of the state: the hidden one, for LSTM also the cell's.
    pub(super) fn states(self) -> usize {
        if self == Self::Lstm { 2 } else { 1 }
    }

    /// Its layer's type.
    pub(super) fn layer(self) -> &'static str {
        match self {
            Self::Tanh => "RNN",
            Self::Relu => "RNNReLU",
            Self::Lstm => "LSTM",
            Self::Gru => "GRU",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tanh | Self::Relu => "rnn",
            Self::Lstm => "lstm",
            Self::Gru => "gru",
        }
    }
}

/// The weights of one layer in one direction, or of a cell.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) weight_ih: Var,
    weight_hh: Var,
    bias: Option<[Var; 2]>,
    /// From the hidden features to those of outputs and hidden states, if these are fewer.
    weight_hr: Option<Var>,
    pub(super) kind: Kind,
    hidden: usize,
}

impl Weights {
    /// All values uniform within 1/√hidden, as in PyTorch.
    pub(super) fn new(kind: Kind, inputs: usize, hidden: usize, init: &Init) -> Result<Self> {
        Self::projected(kind, inputs, [hidden, hidden], true, "", init)
    }

    /// The same with `outputs` features of the hidden state; `suffix` ends the variables' names.
    pub(super) fn projected(
        kind: Kind,
        inputs: usize,
        [hidden, outputs]: [usize; 2],
        bias: bool,
        suffix: &str,
        init: &Init,
    ) -> Result<Self> {
        let rows = kind.gates() * hidden;
        let make = |name: &str, shape: &[usize]| {
            init.parameter(&format!("{name}{suffix}"), shape, Initial::pytorch_default(hidden))
        };
        Ok(Self {
            weight_ih: make("weight_ih", &[rows, inputs])?,
            weight_hh: make("weight_hh", &[rows, outputs])?,
            bias: if bias { Some([make("bias_ih", &[rows])?, make("bias_hh", &[rows])?]) } else { None },
            weight_hr: if outputs == hidden { None } else { Some(make("weight_hr", &[outputs, hidden])?) },
            kind,
            hidden,
        })
    }

    /// The inputs' part of all gates, `[.., gates · hidden]`, with what biases can be added early.
    #[track_caller]
    pub(super) fn project(&self, input: &Tensor) -> Tensor {
        match (&self.bias, self.kind) {
            (None, _) => linear(input, &self.weight_ih, None),
            // the reset gate multiplies the hidden part together with its bias
            (Some([bias_ih, _]), Kind::Gru) => linear(input, &self.weight_ih, Some(bias_ih)),
            (Some([bias_ih, bias_hh]), _) => {
                input.linear(&self.weight_ih.tensor(), Some(&(bias_ih.tensor() + bias_hh.tensor())))
            }
        }
    }

    /// Refuses what a cell cannot go on from.
    #[track_caller]
    pub(super) fn check_step(&self, input: &Tensor, state: &[&Tensor]) {
        let (name, inputs) = (self.kind.name(), self.weight_ih.shape()[1]);
        if input.rank() != 2 || input.size(1) != inputs {
            refuse(format_args!("{name}: input {} is not [batch, {inputs}]", input.shape()));
        }
        for (state, features) in state.iter().zip([self.weight_hh.shape()[1], self.hidden]) {
            let expected = Shape::from([input.size(0), features]);
            if *state.shape() != expected {
                refuse(format_args!("{name}: the state is {}, not [batch, hidden] = {expected}", state.shape()));
            }
        }
    }

    /// The state to start from, `[batch, hidden]` each.
    #[track_caller]
    pub(super) fn zero_state(&self, input: &Tensor) -> Vec<Tensor> {
        let features = [self.weight_hh.shape()[1], self.hidden];
        let zeros = |features| Tensor::zeros_of([input.size(0), features], input.dtype(), input.device());
        features[..self.kind.states()].iter().map(|&features| zeros(features)).collect()
    }

    /// One step from `state` (`[batch, hidden]` each) with the projected input `[batch, gates · hidden]`.
    #[track_caller]
    pub(super) fn step(&self, projected: &Tensor, state: &[Tensor]) -> Vec<Tensor> {
        let hidden = &state[0];
        if self.kind == Kind::Gru {
            let bias = self.bias.as_ref().map(|[_, bias_hh]| bias_hh);
            let own = linear(hidden, &self.weight_hh, bias);
            let reset = (self.gate(projected, 0) + self.gate(&own, 0)).sigmoid();
            let update = (self.gate(projected, 1) + self.gate(&own, 1)).sigmoid();
            let new = (self.gate(projected, 2) + reset * self.gate(&own, 2)).tanh();
            return vec![(hidden - &new) * update + new];
        }
        let gates = projected + linear(hidden, &self.weight_hh, None);
        match self.kind {
            Kind::Relu => vec![gates.relu()],
            Kind::Lstm => {
                let [input, forget, output] = [0, 1, 3].map(|gate| self.gate(&gates, gate).sigmoid());
                let cell = forget * &state[1] + input * self.gate(&gates, 2).tanh();
                let hidden = output * cell.tanh();
                let projected = self.weight_hr.as_ref().map(|weight| linear(&hidden, weight, None));
                vec![projected.unwrap_or(hidden), cell]
            }
            _ => vec![gates.tanh()],
        }
    }

    #[track_caller]
    fn gate(&self, gates: &Tensor, number: usize) -> Tensor {
        gates.narrow(-1, number * self.hidden, self.hidden)
    }

    /// All steps over `[time, batch, inputs]`, from the last one on if `reverse`: outputs `[time, batch, hidden]` and
    /// the last state. Where `counts`, bool `[time, batch, 1]`, is false, outputs are 0 and the state stays as it is.
    #[track_caller]
    pub(super) fn scan(
        &self,
        input: &Tensor,
        mut state: Vec<Tensor>,
        counts: Option<&Tensor>,
        reverse: bool,
    ) -> (Tensor, Vec<Tensor>) {
        let times = input.size(0);
        let projected = self.project(input);
        let mut outputs = Vec::with_capacity(times);
        for step in 0..times {
            let time = if reverse { times - 1 - step } else { step };
            let next = self.step(&projected.select(0, time), &state);
            state = match counts.map(|counts| counts.select(0, time)) {
                None => next,
                Some(counts) => next.iter().zip(&state).map(|(next, now)| counts.where_(next, now)).collect(),
            };
            outputs.push(state[0].clone());
        }
        if reverse {
            outputs.reverse();
        }
        let outputs = Tensor::stack(&outputs.iter().collect::<Vec<_>>(), 0);
        (counts.map_or_else(|| outputs.clone(), |counts| counts.where_(&outputs, 0.0)), state)
    }
}

variables!(Weights: weight_ih, weight_hh, bias, weight_hr);
