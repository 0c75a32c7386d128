//! Dates in words to dates in figures: an encoder and a decoder learn from pairs such as "5 de março de 2024" and
//! "2024-03-05", and then write down days that they have never seen, one character at a time.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use brasa::nn::{AttentionMasks, Embedding, Linear, Mode, Transformer, TransformerOptions, save_weights};
use brasa::optim::{Adam, AdamOptions, Schedule};
use brasa::prelude::*;

/// Characters, numbered from 2 on: 0 is the padding behind a short text, and 1 what each answer begins with.
const ALPHABET: &str = " ,/-0123456789abcdefghijlmnopqrstuvzç";
const BEGIN: i32 = 1;
/// The longest text, and an answer.
const SOURCE: usize = 23;
const ANSWER: usize = 10;
const MONTHS: [&str; 12] = [
    "janeiro",
    "fevereiro",
    "março",
    "abril",
    "maio",
    "junho",
    "julho",
    "agosto",
    "setembro",
    "outubro",
    "novembro",
    "dezembro",
];
const BATCH: usize = 64;
const STEPS: u64 = 600;
const WIDTH: usize = 64;

struct Translator {
    source: Embedding,
    source_positions: Embedding,
    target: Embedding,
    target_positions: Embedding,
    transformer: Transformer,
    head: Linear,
}

// what an optimizer changes, and what is saved
variables!(Translator: source, source_positions, target, target_positions, transformer, head);

impl Translator {
    fn new(init: &Init) -> Result<Self> {
        let characters = ALPHABET.chars().count() + 2;
        let options = TransformerOptions {
            attention: nn::Attention::Causal,
            hidden: 2 * WIDTH,
            dropout: 0.0,
            norm_first: true,
            ..TransformerOptions::new(WIDTH, 4)
        };
        Ok(Self {
            source: Embedding::new(characters, WIDTH, &init.at("source"))?,
            source_positions: Embedding::new(SOURCE, WIDTH, &init.at("source_positions"))?,
            target: Embedding::new(characters, WIDTH, &init.at("target"))?,
            target_positions: Embedding::new(ANSWER, WIDTH, &init.at("target_positions"))?,
            transformer: Transformer::new(options, 2, 2, &init.at("transformer"))?,
            head: Linear::new(WIDTH, characters, &init.at("head"))?,
        })
    }

    /// What the encoder says of texts `[batch, SOURCE]`, and where they are padding.
    fn read(&self, texts: &Tensor) -> (Tensor, Tensor) {
        let padding = texts.eq(0);
        let places = Tensor::arange(SOURCE, texts.device()).unsqueeze(0);
        let input = self.source.forward(texts) + self.source_positions.forward(&places);
        let masks = AttentionMasks { key_padding: Some(&padding), attn: None };
        (self.transformer.encoder.forward_masked(&input, masks), padding)
    }

    /// Characters `[batch, new]` as the decoder takes them, the first of which stands at `position`.
    fn embed(&self, characters: &Tensor, position: &Tensor) -> Tensor {
        let places = (Tensor::arange(characters.size(1), characters.device()) + position).unsqueeze(0);
        self.target.forward(characters) + self.target_positions.forward(&places)
    }

    /// Logits `[batch, characters, ANSWER]` of what follows each character of the answers so far.
    fn forward(&self, texts: &Tensor, answers: &Tensor) -> Tensor {
        let (memory, padding) = self.read(texts);
        let masks = AttentionMasks { key_padding: Some(&padding), attn: None };
        let input = self.embed(answers, &Tensor::scalar(0_i32, texts.device()));
        let said = self.transformer.decoder.forward(&input, &memory, AttentionMasks::default(), masks);
        self.head.forward(&said).transpose(1, 2)
    }
}

/// Days from 1950 to 2049, each written in one of three ways.
struct Days(u64);

impl Days {
    /// A whole number below `bound` (Steele, Lea and Flood 2014: SplitMix).
    fn draw(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// A text and its answer; of days to be tested with, every tenth one, only if they are `held_out`.
    fn pair(&mut self, held_out: bool) -> (String, String) {
        loop {
            let (year, month, day) = (1950 + self.draw(100), 1 + self.draw(12), 1 + self.draw(28));
            let name = MONTHS[month as usize - 1];
            let text = match self.draw(3) {
                0 => format!("{day} de {name} de {year}"),
                1 => format!("{name} {day}, {year}"),
                _ => format!("{day}/{month}/{year}"),
            };
            if ((year * 12 + month) * 28 + day).is_multiple_of(10) == held_out {
                return (text, format!("{year}-{month:02}-{day:02}"));
            }
        }
    }

    /// So many pairs, as texts and as numbers: the text, the answer moved back by one, and the answer.
    fn pairs(&mut self, count: usize, held_out: bool, device: &Device) -> Result<(Vec<[String; 2]>, [Tensor; 3])> {
        let (mut pairs, mut numbers) = (Vec::new(), [const { Vec::new() }; 3]);
        for _ in 0..count {
            let (text, answer) = self.pair(held_out);
            let (mut source, target) = (encode(&text), encode(&answer));
            source.resize(SOURCE, 0);
            numbers[0].extend(source);
            numbers[1].push(BEGIN);
            numbers[1].extend(&target[..ANSWER - 1]);
            numbers[2].extend(target);
            pairs.push([text, answer]);
        }
        let [texts, before, answers] = numbers;
        let tensor = |numbers: Vec<i32>, length| Tensor::from_slice(&numbers, [count, length], device);
        Ok((pairs, [tensor(texts, SOURCE)?, tensor(before, ANSWER)?, tensor(answers, ANSWER)?]))
    }
}

fn encode(text: &str) -> Vec<i32> {
    let number = |character| ALPHABET.chars().position(|known| known == character).expect("a character of dates");
    text.chars().map(|character| number(character) as i32 + 2).collect()
}

fn decode(numbers: &[i32]) -> String {
    let character = |&number: &i32| ALPHABET.chars().nth(usize::try_from(number - 2).ok()?);
    numbers.iter().map(|number| character(number).unwrap_or('?')).collect()
}

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("learning to write dates on {}", device.info().name);
    let model = Arc::new(Translator::new(&Init::new(&device, 1))?);
    println!("{} numbers to learn", nn::parameter_count(&*model));
    let optimizer = Arc::new(Adam::new(&model.parameters(), AdamOptions::default())?);

    let (learner, updater) = (Arc::clone(&model), Arc::clone(&optimizer));
    let mut learn = Step::new(&device, move |inputs| {
        let [texts, before, answers] = inputs else { panic!("texts, answers so far, answers") };
        let loss = learner.forward(texts, before).cross_entropy(answers);
        updater.update(&loss.backward());
        vec![loss]
    })?;
    let schedule = "cosine:warmup=60".parse::<Schedule>()?.for_run(STEPS);
    let mut days = Days(1);
    for number in 0..STEPS {
        optimizer.set_learning_rate(schedule.lr(3e-3, number) as f32);
        let (_, batch) = days.pairs(BATCH, false, &device)?;
        let loss = learn.run(&batch)?.remove(0);
        if (number + 1).is_multiple_of(100) {
            learn.ensure_finite()?;
            println!("step {}: loss {:.4}", number + 1, loss.item::<f32>()?);
        }
    }

    // Writing: the encoder reads once, and each further character takes one run of a captured step, which keeps what the
    // decoder needs of those before.
    const COUNT: usize = 200;
    let (pairs, [texts, ..]) = Days(2).pairs(COUNT, true, &device)?;
    let decoder = &model.transformer.decoder;
    let caches = Arc::new(decoder.caches(COUNT, ANSWER, SOURCE, &Init::zeros(&device).at("caches"))?);
    let padding = no_grad(|| {
        Mode::Evaluate.scope(|| {
            let (memory, padding) = model.read(&texts);
            decoder.remember(&memory, &caches);
            padding
        })
    });
    let writer = Arc::clone(&model);
    let mut write = Step::new(&device, move |inputs| {
        let [character, position, padding] = inputs else { panic!("the last characters, where they stand, padding") };
        let masks = AttentionMasks { key_padding: Some(padding), attn: None };
        let said = Mode::Evaluate.scope(|| {
            let input = writer.embed(character, position);
            let decoder = &writer.transformer.decoder;
            writer.head.forward(&decoder.forward_next(&input, position, &caches, AttentionMasks::default(), masks))
        });
        vec![said.argmax(-1)]
    })?;
    let mut written = Vec::new();
    let mut character = Tensor::full([COUNT, 1], BEGIN, &device);
    for position in 0..ANSWER {
        let position = Tensor::scalar(position as i32, &device);
        // stays on the device until all are written
        character = write.run(&[character, position, padding.clone()])?.remove(0);
        written.push(character.clone());
    }
    let written = Tensor::cat(&written.iter().collect::<Vec<_>>(), 1).to_vec::<i32>()?;
    let written: Vec<String> = written.chunks(ANSWER).map(decode).collect();
    for ([text, answer], written) in pairs.iter().zip(&written).take(6) {
        println!("{text:>23} -> {written}{}", if written == answer { "" } else { "  (wrong)" });
    }
    let right = pairs.iter().zip(&written).filter(|([_, answer], written)| answer == *written).count();
    println!("{right} of {COUNT} days that were not learned from are right");
    save_weights(&*model, "translator.safetensors")
}
