//! Layers over whole sequences.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::refuse;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::variables;

use super::super::module::Scope;
use super::super::{Dropout, Init, Module};
use super::step::{Kind, Weights};

/// Options of recurrent layers, PyTorch's arguments with its defaults.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RecurrentOptions {
    /// Layers, each on top of the one before: `num_layers`.
    pub layers: usize,
    /// A second direction, whose outputs are joined to those of the first.
    pub bidirectional: bool,
    /// Inputs and outputs are `[batch, time, features]` instead of `[time, batch, features]`.
    pub batch_first: bool,
    /// Whether there are biases.
    pub bias: bool,
    /// Probability of dropping an output of any layer but the last.
    pub dropout: f64,
    /// Features that each hidden state is projected to, of [`LSTM`] only (Sak, Senior, Beaufays, arXiv 1402.1128):
    /// `proj_size`.
    pub projection: Option<usize>,
}

impl Default for RecurrentOptions {
    fn default() -> Self {
        Self { layers: 1, bidirectional: false, batch_first: false, bias: true, dropout: 0.0, projection: None }
    }
}

/// What all recurrent layers are: layers of one or two directions.
#[derive(Debug)]
struct Stack {
    weights: Vec<Weights>,
    options: RecurrentOptions,
    scope: Scope,
}

impl Stack {
    #[track_caller]
    fn new(kind: Kind, inputs: usize, hidden: usize, options: RecurrentOptions, init: &Init) -> Result<Self> {
        assert!(options.layers > 0, "{}: no layers", kind.name());
        Dropout::new(options.dropout);
        let outputs = options.projection.unwrap_or(hidden);
        let fits = options.projection.is_none() || kind == Kind::Lstm && (1..hidden).contains(&outputs);
        assert!(fits, "{}: {hidden} features projected to {outputs}", kind.name());
        let directions: &[&str] = if options.bidirectional { &["", "_reverse"] } else { &[""] };
        let mut weights = Vec::new();
        for layer in 0..options.layers {
            let inputs = if layer == 0 { inputs } else { outputs * directions.len() };
            for direction in directions {
                let suffix = format!("_l{layer}{direction}");
                let made = Weights::projected(kind, inputs, [hidden, outputs], options.bias, &suffix, init)?;
                weights.push(made);
            }
        }
        Ok(Self { weights, options, scope: Scope::new(kind.layer(), init.path()) })
    }

    /// Outputs of all times and the last state, each `[layers · directions, batch, hidden]`; `lengths` of the sequences,
    /// i32 `[batch]`, if they do not all fill the input.
    #[track_caller]
    fn run(&self, input: &Tensor, lengths: Option<&Tensor>, initial: Option<&[&Tensor]>) -> (Tensor, Vec<Tensor>) {
        let _scope = self.scope.enter();
        let first = &self.weights[0];
        let (name, inputs) = (first.kind.name(), first.weight_ih.shape()[1]);
        if input.rank() != 3 || input.size(2) != inputs {
            let axes = if self.options.batch_first { "batch, time" } else { "time, batch" };
            refuse(format_args!("{name}: input {} is not [{axes}, {inputs}]", input.shape()));
        }
        let mut value = if self.options.batch_first { input.transpose(0, 1) } else { input.clone() };
        if value.size(0) == 0 {
            refuse(format_args!("{name}: input {} is of no time at all", input.shape()));
        }
        let zeros = first.zero_state(&value.select(0, 0));
        for (state, zero) in initial.into_iter().flatten().zip(&zeros) {
            let shape = Shape::from([&[self.weights.len()], zero.shape().dims()].concat());
            if *state.shape() != shape {
                let state = state.shape();
                refuse(format_args!(
                    "{name}: the initial state is {state}, not [layers · directions, batch, hidden] = {shape}"
                ));
            }
        }
        let start = |number: usize| match initial {
            Some(states) => states.iter().map(|state| state.select(0, number)).collect(),
            None => zeros.clone(),
        };
        let counts = counts(name, lengths, &value);
        if let Some(counts) = &counts {
            // what is no number would reach gradients as 0 · NaN
            value = counts.where_(&value, 0.0);
        }
        let directions = self.weights.len() / self.options.layers;
        let dropout = Dropout::new(self.options.dropout);
        let mut last: Vec<Vec<Tensor>> = vec![Vec::new(); first.kind.states()];
        for (layer, weights) in self.weights.chunks(directions).enumerate() {
            if layer > 0 {
                value = dropout.forward(&value);
            }
            let mut outputs = Vec::with_capacity(directions);
            for (direction, weights) in weights.iter().enumerate() {
                let start = start(layer * directions + direction);
                let (output, states) = weights.scan(&value, start, counts.as_ref(), direction == 1);
                outputs.push(output);
                last.iter_mut().zip(states).for_each(|(last, state)| last.push(state));
            }
            value = match &outputs[..] {
                [one] => one.clone(),
                several => Tensor::cat(&several.iter().collect::<Vec<_>>(), -1),
            };
        }
        let value = if self.options.batch_first { value.transpose(0, 1) } else { value };
        (value, last.iter().map(|states| Tensor::stack(&states.iter().collect::<Vec<_>>(), 0)).collect())
    }
}

variables!(Stack: weights);

/// Where a `[time, batch, ..]` input of sequences of these lengths is no padding: bool `[time, batch, 1]`.
#[track_caller]
fn counts(name: &str, lengths: Option<&Tensor>, input: &Tensor) -> Option<Tensor> {
    let (lengths, batch) = (lengths?, input.size(1));
    if lengths.dtype() != DType::I32 || *lengths.shape() != Shape::from([batch]) {
        let (dtype, shape) = (lengths.dtype(), lengths.shape());
        refuse(format_args!("{name}: lengths are {dtype} {shape}, not i32 [batch] = [{batch}]"));
    }
    Some(Tensor::iota([input.size(0), batch], 0, input.device()).lt(lengths).unsqueeze(-1))
}

/// A public recurrent layer with one tensor of state.
macro_rules! recurrent {
    ($($(#[$doc:meta])* $name:ident = $kind:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// Variables `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, then `_l0_reverse` if bidirectional,
        /// then `_l1` and so on, all uniform within 1/√hidden at first, as in PyTorch.
        #[derive(Debug)]
        pub struct $name(Stack);

        impl $name {
            /// From `inputs` features to `hidden` ones (twice as many if bidirectional).
            ///
            /// # Errors
            /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the
            /// device fails.
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize, options: RecurrentOptions, init: &Init) -> Result<Self> {
                Stack::new($kind, inputs, hidden, options, init).map(Self)
            }

            /// Outputs `[time, batch, hidden · directions]` (batch first if so set) and the last hidden state, from
            /// this initial one (zero if `None`), both `[layers · directions, batch, hidden]`.
            #[track_caller]
            pub fn run(&self, input: &Tensor, initial: Option<&Tensor>) -> (Tensor, Tensor) {
                self.run_lengths(input, None, initial)
            }

            /// The same for sequences of these lengths, i32 `[batch]`, that are padded to a common one: behind its end
            /// an output is 0, the last state is that of the end, and the second direction begins there. What the
            /// padding is does not matter: PyTorch's `pack_padded_sequence` with `enforce_sorted=False`. A sequence of
            /// length 0 leaves its state as it is; one beyond the input's time ends with that.
            ///
            /// # Panics
            /// If the lengths are no such tensor, or the input or the initial state is none of this layer.
            #[track_caller]
            pub fn run_padded(&self, input: &Tensor, lengths: &Tensor, initial: Option<&Tensor>) -> (Tensor, Tensor) {
                self.run_lengths(input, Some(lengths), initial)
            }

            #[track_caller]
            fn run_lengths(
                &self,
                input: &Tensor,
                lengths: Option<&Tensor>,
                initial: Option<&Tensor>,
            ) -> (Tensor, Tensor) {
                let initial = initial.map(|state| [state]);
                let (output, mut last) = self.0.run(input, lengths, initial.as_ref().map(<[_; 1]>::as_slice));
                (output, last.remove(0))
            }
        }

        variables!($name: 0);

        impl Module for $name {
            /// The outputs, from an initial state of zero.
            #[track_caller]
            fn forward(&self, input: &Tensor) -> Tensor {
                self.run(input, None).0
            }
        }
    )*};
}

recurrent! {
    /// `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)` at each time (Elman 1990).
    RNN = Kind::Tanh;
    /// [`RNN`] with ReLU instead of the hyperbolic tangent: PyTorch's `nonlinearity="relu"`.
    RNNReLU = Kind::Relu;
    /// A gated recurrent unit (Cho et al., arXiv 1406.1078) at each time: `r, z = σ(..)`, `n = tanh(W_in x + b_in + r
    /// (W_hn h + b_hn))`, `h' = (1 - z) n + z h`.
    GRU = Kind::Gru;
}

/// Long short-term memory (Hochreiter and Schmidhuber 1997) at each time: `i, f, o = σ(..)`, `g = tanh(..)` of
/// `W_ih x + b_ih + W_hh h + b_hh`, then `c' = f c + i g` and `h' = o tanh(c')`.
///
/// Variables `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, then `_l0_reverse` if bidirectional, then
/// `_l1` and so on, all uniform within 1/√hidden at first, as in PyTorch; gates in the order i, f, g, o. With a
/// projection `h'` is `weight_hr_l0` times that, and outputs and hidden states have as many features as it has rows.
///
/// ```
/// use brasa::nn::{Init, LSTM, RecurrentOptions};
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let options = RecurrentOptions { batch_first: true, bidirectional: true, ..Default::default() };
/// let lstm = LSTM::new(5, 16, options, &Init::new(&device, 0))?;
/// let (outputs, (hidden, _cell)) = lstm.run(&Tensor::zeros([3, 7, 5], &device), None);
/// assert_eq!(outputs.shape().dims(), [3, 7, 32]);
/// assert_eq!(hidden.shape().dims(), [2, 3, 16]);
/// # Ok::<(), brasa::Error>(())
/// ```
#[derive(Debug)]
pub struct LSTM(Stack);

impl LSTM {
    /// From `inputs` features to `hidden` ones (twice as many if bidirectional).
    ///
    /// # Errors
    /// If there is no memory for its variables, one of them has more elements than 32-bit indices reach, or the device
    /// fails.
    #[track_caller]
    pub fn new(inputs: usize, hidden: usize, options: RecurrentOptions, init: &Init) -> Result<Self> {
        Stack::new(Kind::Lstm, inputs, hidden, options, init).map(Self)
    }

    /// Outputs `[time, batch, hidden · directions]` (batch first if so set) and the last (hidden, cell) state, from
    /// this initial one (zero if `None`), all states `[layers · directions, batch, hidden]` (hidden ones with the
    /// features of the projection, if there is one).
    #[track_caller]
    pub fn run(&self, input: &Tensor, initial: Option<(&Tensor, &Tensor)>) -> (Tensor, (Tensor, Tensor)) {
        self.run_lengths(input, None, initial)
    }

    /// The same for sequences of these lengths, i32 `[batch]`, that are padded to a common one: behind its end an output
    /// is 0, the last state is that of the end, and the second direction begins there. What the padding is does not
    /// matter: PyTorch's `pack_padded_sequence` with `enforce_sorted=False`. A sequence of length 0 leaves its state as it
    /// is; one beyond the input's time ends with that.
    ///
    /// # Panics
    /// If the lengths are no such tensor, or the input or the initial state is none of this layer.
    #[track_caller]
    pub fn run_padded(
        &self,
        input: &Tensor,
        lengths: &Tensor,
        initial: Option<(&Tensor, &Tensor)>,
    ) -> (Tensor, (Tensor, Tensor)) {
        self.run_lengths(input, Some(lengths), initial)
    }

    #[track_caller]
    fn run_lengths(
        &self,
        input: &Tensor,
        lengths: Option<&Tensor>,
        initial: Option<(&Tensor, &Tensor)>,
    ) -> (Tensor, (Tensor, Tensor)) {
        let initial = initial.map(|(hidden, cell)| [hidden, cell]);
        let (output, mut last) = self.0.run(input, lengths, initial.as_ref().map(<[_; 2]>::as_slice));
        let cell = last.remove(1);
        (output, (last.remove(0), cell))
    }
}

variables!(LSTM: 0);

impl Module for LSTM {
    /// The outputs, from an initial state of zero.
    #[track_caller]
    fn forward(&self, input: &Tensor) -> Tensor {
        self.run(input, None).0
    }
}
