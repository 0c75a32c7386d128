//! Text from a GPT, token by token.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::nn::{Generator as Random, Init, KeyValueCache, Mode, Variables};
use crate::runtime::Step;
use crate::tensor::Tensor;

use super::Gpt;

/// How the next token is chosen from its logits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Logits are divided by it: below 1 likely tokens become more likely. 0: always the likeliest.
    pub temperature: f64,
    /// Only this many of the likeliest tokens are drawn from, at least one.
    pub top_k: Option<usize>,
    /// Decides the draws.
    pub seed: u64,
}

impl Sampling {
    /// Always the likeliest token.
    pub const GREEDY: Self = Self { temperature: 0.0, top_k: None, seed: 0 };

    fn check(self) -> Result<()> {
        match self {
            Self { top_k: Some(0), .. } => Err(Error::Config("sampling: top_k is 0, which is to be at least 1".into())),
            Self { temperature, .. } if temperature.is_nan() || temperature < 0.0 => {
                Err(Error::Config(format!("sampling: the temperature is {temperature}, which is to be at least 0")))
            }
            _ => Ok(()),
        }
    }
}

/// Tokens of a prompt that are read at once.
const CHUNK: usize = 32;

/// A [`Gpt`] that writes: one captured step per token, which keeps keys and values of all positions before, so that its
/// cost does not grow with the text. Prompts are read in chunks of 32 tokens.
///
/// ```
/// use std::sync::Arc;
///
/// use brasa::Device;
/// use brasa::models::{Generator, Gpt, GptOptions, Sampling};
/// use brasa::nn::Init;
///
/// let sizes = GptOptions { width: 16, heads: 2, layers: 1, ..GptOptions::new(50, 12) };
/// let model = Arc::new(Gpt::new(sizes, &Init::new(&Device::cpu(), 0))?);
/// let text = Generator::new(&model)?.generate(&[7, 3], 5, Sampling::GREEDY)?;
/// assert_eq!(text.len(), 5);
/// # Ok::<(), brasa::Error>(())
/// ```
pub struct Generator {
    step: Step,
    model: Arc<Gpt>,
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generator").field("options", &self.model.options()).finish_non_exhaustive()
    }
}

impl Generator {
    /// A generator with room for the model's longest sequence.
    ///
    /// # Errors
    /// If there is no memory for keys and values.
    pub fn new(model: &Arc<Gpt>) -> Result<Self> {
        let device = model.variables()[0].device().clone();
        let init = Init::zeros(&device).at("cache");
        let caches: Vec<KeyValueCache> = model.caches(&init)?;
        let traced = model.clone();
        let step = Step::new(&device, move |inputs| {
            let [tokens, position] = inputs else { panic!("a step takes tokens and the first one's position") };
            vec![Mode::Evaluate.scope(|| traced.forward_next(tokens, position, &caches))]
        })?;
        Ok(Self { step, model: model.clone() })
    }

    /// `count` tokens that continue `prompt`.
    ///
    /// # Errors
    /// If the prompt is empty, prompt and continuation are longer than the model's sequences, a token is none of its
    /// vocabulary, the sampling has a negative temperature or no tokens to draw from, or the device fails.
    pub fn generate(&mut self, prompt: &[i32], count: usize, sampling: Sampling) -> Result<Vec<i32>> {
        sampling.check()?;
        let options = self.model.options();
        let (total, longest) = (prompt.len() + count, options.sequence);
        // the last token is never read
        if prompt.is_empty() || total > longest + 1 {
            let message = format!("a prompt of {} tokens and {count} more: 1 to {} fit", prompt.len(), longest + 1);
            return Err(Error::Shape(message));
        }
        if let Some(token) =
            prompt.iter().find(|&&token| usize::try_from(token).map_or(true, |t| t >= options.vocabulary))
        {
            return Err(Error::Shape(format!("token {token} is none of the {} of the vocabulary", options.vocabulary)));
        }
        let mut random = Random::new(sampling.seed, "sampling");
        let mut text = prompt.to_vec();
        let mut position = 0;
        while text.len() < total {
            let new = if text.len() - position < CHUNK { 1 } else { CHUNK };
            let logits = self.read(&text[position..position + new], position)?;
            position += new;
            if position == text.len() {
                text.push(choose(&logits.to_vec()?, sampling, &mut random));
            }
        }
        Ok(text.split_off(prompt.len()))
    }

    /// Logits of what follows `tokens`, of which the first stands at `position`.
    fn read(&mut self, tokens: &[i32], position: usize) -> Result<Tensor> {
        let device = self.model.variables()[0].device().clone();
        let tokens = Tensor::from_slice(tokens, [1, tokens.len()], &device)?;
        let position = Tensor::from_slice(&[position as i32], [], &device)?;
        Ok(self.step.run(&[tokens, position])?.remove(0))
    }
}

/// The number of a logit: the largest of (logit / temperature + Gumbel noise) is drawn with the softmax's probabilities
/// (Gumbel 1954).
fn choose(logits: &[f32], sampling: Sampling, random: &mut Random) -> i32 {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // stable: of equal ones the first
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    if sampling.temperature == 0.0 {
        return order[0] as i32;
    }
    order.truncate(sampling.top_k.unwrap_or(logits.len()));
    let mut best = (f64::NEG_INFINITY, order[0]);
    for token in order {
        let score = f64::from(logits[token]) / sampling.temperature - (-random.uniform().ln()).ln();
        if score > best.0 {
            best = (score, token);
        }
    }
    best.1 as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_drawn_with_the_probabilities_of_the_softmax() {
        let logits = [0.0, 2.0_f32.ln(), 3.0_f32.ln(), 0.5_f32.ln()];
        let draws = |sampling: Sampling| {
            let mut random = Random::new(sampling.seed, "test");
            let mut counts = [0_usize; 4];
            for _ in 0..20_000 {
                counts[choose(&logits, sampling, &mut random) as usize] += 1;
            }
            counts.map(|count| count as f64 / 20_000.0)
        };
        let all = Sampling { temperature: 1.0, top_k: None, seed: 1 };
        let square = 1.0 + 4.0 + 9.0 + 0.25;
        for (sampling, expected) in [
            (all, [1.0 / 6.5, 2.0 / 6.5, 3.0 / 6.5, 0.5 / 6.5]),
            (Sampling { temperature: 0.5, ..all }, [1.0 / square, 4.0 / square, 9.0 / square, 0.25 / square]),
            (Sampling { top_k: Some(2), ..all }, [0.0, 0.4, 0.6, 0.0]),
            (Sampling { top_k: Some(1), ..all }, [0.0, 0.0, 1.0, 0.0]),
            (Sampling::GREEDY, [0.0, 0.0, 1.0, 0.0]),
        ] {
            for (got, expected) in draws(sampling).into_iter().zip(expected) {
                // 20,000 draws: a standard deviation of at most 0.0036; five of them
                assert!((got - expected).abs() <= 0.018, "{sampling:?}: {got} instead of {expected}");
            }
        }
    }
}
