//! Recurrent layers, unrolled over time after one product that projects all inputs.

use crate::error::Result;
use crate::runtime::{realize, trace};
use crate::tensor::Tensor;

use super::activation::Activation;
use super::call::{Call, Outputs, Pass, fail};
use super::table::{Operator, op};

pub(super) const OPERATORS: &[Operator] = &[
    op("GRU", 7, |call| layer(call, Kind::Gru)),
    op("LSTM", 7, |call| layer(call, Kind::Lstm)),
    op("RNN", 7, |call| layer(call, Kind::Rnn)),
];

/// The longest sequence: each step is traced.
const LONGEST: usize = 1 << 13;
/// Steps after which everything that the next ones need is computed, unless a step of the caller is traced: graphs that
/// grow further are computed a node at a time, over and over.
const COMPUTED_EVERY: usize = 64;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Rnn,
    /// Gates in the order update, reset, hidden.
    Gru,
    /// Gates in the order input, output, forget, cell.
    Lstm,
}

impl Kind {
    const fn gates(self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }

    /// The functions of gates, of candidates and, of an LSTM, of cells.
    fn activations(self) -> &'static [&'static str] {
        match self {
            Self::Rnn => &["Tanh"],
            Self::Gru => &["Sigmoid", "Tanh"],
            Self::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}

/// One direction of a layer.
struct Direction {
    kind: Kind,
    hidden: usize,
    /// `[gates · hidden, inputs]`
    weight: Tensor,
    /// `[gates · hidden, hidden]`
    recurrence: Tensor,
    /// Of the inputs and of the state, `[gates · hidden]`.
    biases: Option<[Tensor; 2]>,
    /// Of an LSTM's gates by its cell, `[3 · hidden]`: input, output, forget.
    peepholes: Option<Tensor>,
    activations: Vec<Activation>,
    /// Gates' inputs are limited to this size.
    clip: Option<f64>,
    /// A GRU's reset gate multiplies the product, not the state.
    linear_before_reset: bool,
    /// The forget gate is one less the input gate.
    coupled: bool,
}

impl Direction {
    fn part(&self, x: &Tensor, gate: usize) -> Tensor {
        x.narrow(-1, gate * self.hidden, self.hidden)
    }

    fn clipped(&self, x: Tensor) -> Tensor {
        match self.clip {
            Some(limit) => x.clamp(-limit, limit),
            None => x,
        }
    }

    /// One step from `[batch, hidden]` with the projected input `[batch, gates · hidden]`.
    fn step(&self, projected: &Tensor, state: &[Tensor]) -> Vec<Tensor> {
        let hidden = &state[0];
        let gate = |number: usize, x: Tensor| self.activations[number].apply(&self.clipped(x));
        match self.kind {
            Kind::Rnn => {
                let bias = self.biases.as_ref().map(|[_, bias]| bias);
                vec![gate(0, projected + hidden.linear(&self.recurrence, bias))]
            }
            Kind::Gru => {
                let weights = |first: usize, count: usize| {
                    let rows = |x: &Tensor| x.narrow(0, first * self.hidden, count * self.hidden);
                    (rows(&self.recurrence), self.biases.as_ref().map(|[_, bias]| rows(bias)))
                };
                let (weight, bias) = weights(0, 2);
                let own = hidden.linear(&weight, bias.as_ref());
                let update = gate(0, self.part(projected, 0) + self.part(&own, 0));
                let reset = gate(0, self.part(projected, 1) + self.part(&own, 1));
                let (weight, bias) = weights(2, 1);
                let candidate = if self.linear_before_reset {
                    reset * hidden.linear(&weight, bias.as_ref())
                } else {
                    (reset * hidden).linear(&weight, bias.as_ref())
                };
                let new = gate(1, self.part(projected, 2) + candidate);
                vec![(hidden - &new) * update + new]
            }
            Kind::Lstm => {
                let bias = self.biases.as_ref().map(|[_, bias]| bias);
                let gates = projected + hidden.linear(&self.recurrence, bias);
                let cell = &state[1];
                let seen = |x: Tensor, number: usize, cell: &Tensor| match &self.peepholes {
                    Some(weights) => x + cell * self.part(weights, number),
                    None => x,
                };
                let input = gate(0, seen(self.part(&gates, 0), 0, cell));
                let forget = if self.coupled { 1.0 - &input } else { gate(0, seen(self.part(&gates, 2), 2, cell)) };
                let cell = forget * cell + input * gate(1, self.part(&gates, 3));
                let output = gate(0, seen(self.part(&gates, 1), 1, &cell));
                vec![output * self.activations[2].apply(&cell), cell]
            }
        }
    }

    /// All steps over `[time, batch, inputs]`: outputs `[time, batch, hidden]` and the last state. Samples of other
    /// `lengths` end earlier; what comes after is zero.
    fn scan(
        &self,
        x: &Tensor,
        mut state: Vec<Tensor>,
        lengths: Option<&Tensor>,
        reverse: bool,
        pass: &Pass<'_>,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let times = x.shape()[0];
        let before = pass.take_steps(times)?;
        let projected = x.linear(&self.weight, self.biases.as_ref().map(|[bias, _]| bias));
        let mut outputs = Vec::with_capacity(times);
        for step in 0..times {
            let time = if reverse { times - 1 - step } else { step };
            let mut next = self.step(&projected.select(0, time), &state);
            let mut output = next[0].clone();
            if let Some(lengths) = lengths {
                let runs = lengths.gt(time as i64).unsqueeze(-1);
                next = next.iter().zip(&state).map(|(next, old)| runs.where_(next, old)).collect();
                output = runs.where_(&output, output.zeros_like());
            }
            state = next;
            outputs.push(output);
            // counted over all layers: a chain of short ones grows as well
            if (before + step + 1).is_multiple_of(COMPUTED_EVERY) && !trace::is_tracing() {
                computed([x, &projected].into_iter().chain(&state).chain(&outputs))?;
            }
        }
        if reverse {
            outputs.reverse();
        }
        Ok((Tensor::stack(&outputs.iter().collect::<Vec<_>>(), 0), state))
    }
}

/// Computes these at once, so that nothing waits below them.
fn computed<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Result<()> {
    let mut nodes: Vec<_> = tensors.map(|tensor| tensor.node().clone()).collect();
    // an output may be the state
    nodes.sort_by_key(|node| node.id);
    nodes.dedup_by_key(|node| node.id);
    realize(&nodes)
}

/// An input of this shape.
fn shaped(call: &Call<'_>, number: usize, shape: &[usize]) -> Result<Option<Tensor>> {
    match call.optional_float(number)? {
        Some(x) if x.shape().dims() != shape => fail(format!("input {number} is {}, not {shape:?}", x.shape())),
        Some(x) => Ok(Some(x.to_dtype(call.value(0)?.dtype()))),
        None => Ok(None),
    }
}

fn layer(call: &Call<'_>, kind: Kind) -> Outputs {
    let batch_first = call.flag("layout")?;
    let x = call.float(0)?;
    let weights = call.value(1)?.shape().clone();
    let [times, batch, inputs] = match *x.shape().dims() {
        [batch, times, inputs] if batch_first => [times, batch, inputs],
        [times, batch, inputs] => [times, batch, inputs],
        _ => return fail(format!("{} is not [time, batch, inputs]", x.shape())),
    };
    let x = if batch_first { x.transpose(0, 1) } else { x };
    if times == 0 || times > LONGEST || batch == 0 || inputs == 0 {
        return fail(format!("a sequence of shape {} is empty or longer than {LONGEST}", x.shape()));
    }
    let directions: &[bool] = match call.text("direction", "forward")?.as_str() {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => return fail(format!("direction `{other}` is not known")),
    };
    let (count, gates) = (directions.len(), kind.gates());
    let hidden = match *weights.dims() {
        [own, rows, _] if own == count && rows > 0 && rows.is_multiple_of(gates) => rows / gates,
        _ => return fail(format!("weights {weights} for {count} directions and {gates} gates")),
    };
    if let Some(told) = call.int_or_none("hidden_size")?
        && told != hidden as i64
    {
        return fail(format!("hidden_size is {told}, and weights are {weights}"));
    }
    call.shape(&[times, batch, count.saturating_mul(gates).saturating_mul(hidden)])?;
    let rows = gates * hidden;
    let required = |tensor: Option<Tensor>, number: usize| match tensor {
        Some(tensor) => Ok(tensor),
        None => fail(format!("has no input {number}")),
    };
    let weight = required(shaped(call, 1, &[count, rows, inputs])?, 1)?;
    let recurrence = required(shaped(call, 2, &[count, rows, hidden])?, 2)?;
    let biases = shaped(call, 3, &[count, 2 * rows])?;
    let lengths = match call.given(4) {
        Some(value) if *value.shape() != [batch].into() => return fail(format!("lengths are {}", value.shape())),
        Some(_) => Some(call.index(4)?),
        None => None,
    };
    let state_shape = if batch_first { [batch, count, hidden] } else { [count, batch, hidden] };
    let mut starts = vec![shaped(call, 5, &state_shape)?];
    let mut peepholes = None;
    if kind == Kind::Lstm {
        starts.push(shaped(call, 6, &state_shape)?);
        peepholes = shaped(call, 7, &[count, 3 * hidden])?;
    }
    let activations = activations(call, kind, count)?;
    let clip = call.number_or_none("clip")?;
    let batch_axis = isize::from(batch_first);
    let (mut outputs, mut last) = (Vec::new(), vec![Vec::new(); starts.len()]);
    for (number, &reverse) in directions.iter().enumerate() {
        let halves = |bias: Tensor| [bias.narrow(0, 0, rows), bias.narrow(0, rows, rows)];
        let direction = Direction {
            kind,
            hidden,
            weight: weight.select(0, number),
            recurrence: recurrence.select(0, number),
            biases: biases.as_ref().map(|biases| halves(biases.select(0, number))),
            peepholes: peepholes.as_ref().map(|weights| weights.select(0, number)),
            activations: activations[number].clone(),
            clip,
            linear_before_reset: call.flag("linear_before_reset")?,
            coupled: call.flag("input_forget")?,
        };
        let start = starts.iter().map(|start| match start {
            Some(start) => start.select(batch_axis, number),
            None => Tensor::zeros_of([batch, hidden], x.dtype(), call.device()),
        });
        let (output, state) = direction.scan(&x, start.collect(), lengths.as_ref(), reverse, call.pass)?;
        outputs.push(output);
        last.iter_mut().zip(state).for_each(|(last, state)| last.push(state));
    }
    let along = |tensors: &[Tensor], axis: isize| Tensor::stack(&tensors.iter().collect::<Vec<_>>(), axis);
    // [time, directions, batch, hidden], or [batch, time, directions, hidden]
    let whole = along(&outputs, 1);
    let whole = if batch_first { whole.permute([2, 0, 1, 3]) } else { whole };
    let states = last.iter().map(|states| along(states, batch_axis));
    Ok(std::iter::once(whole).chain(states).map(Into::into).collect())
}

/// The functions of each direction.
fn activations(call: &Call<'_>, kind: Kind, directions: usize) -> Result<Vec<Vec<Activation>>> {
    let defaults = kind.activations();
    let names = match call.texts("activations")? {
        Some(names) => names,
        None => defaults.iter().cycle().take(defaults.len() * directions).map(ToString::to_string).collect(),
    };
    if names.len() != defaults.len() * directions {
        return fail(format!("{} activations, not {}", names.len(), defaults.len() * directions));
    }
    let (alphas, betas) = (call.floats("activation_alpha")?, call.floats("activation_beta")?);
    let numbers = |values: Option<Vec<f32>>| values.unwrap_or_default().into_iter().map(f64::from);
    let (mut alphas, mut betas) = (numbers(alphas), numbers(betas));
    let mut all = Vec::with_capacity(names.len());
    for name in &names {
        all.push(Activation::of(name, [&mut alphas, &mut betas])?);
    }
    Ok(all.chunks(defaults.len()).map(<[Activation]>::to_vec).collect())
}
