//! Sequences that come bit by bit, or padded, and models that take more than one tensor.

use std::path::Path;
use std::sync::Arc;

use brasa::autodiff::{Gradcheck, grad, gradcheck};
use brasa::nn::{
    self, Attention, AttentionMasks, BatchNorm1d, Init, LSTM, Linear, LoadOptions, Mode, Module, MultiheadAttention,
    RecurrentOptions, Transformer, TransformerDecoder, TransformerEncoder, TransformerOptions, Variables,
};
use brasa::runtime::{Step, functional_call};
use brasa::tensor::autocast;
use brasa::{DType, Device, Tensor, no_grad};

use crate::common::{assert_close, devices, doubles, fresh_devices, panic_of, read};

/// Sums of a few dozen products in another order.
#[track_caller]
fn assert_near(what: &str, got: &Tensor, expected: &Tensor) {
    assert_eq!(got.shape(), expected.shape(), "{what}");
    assert_close(what, &doubles(got), &doubles(expected), 1e-4, 1e-5);
}

fn causal() -> TransformerOptions {
    TransformerOptions { attention: Attention::Causal, hidden: 24, ..TransformerOptions::new(8, 2) }
}

fn used<T>(f: impl FnOnce() -> T) -> T {
    no_grad(|| Mode::Evaluate.scope(f))
}

/// Where each of these parts of a sequence begins, and how long it is.
fn parts(lengths: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    lengths.iter().scan(0, |start, &length| {
        *start += length;
        Some((*start - length, length))
    })
}

#[test]
fn new_positions_see_those_before_them_and_no_padding() {
    for device in devices() {
        let init = Init::new(&device, 4);
        let layer = MultiheadAttention::new(8, 2, Attention::Causal, &init.at("layer")).expect("memory");
        let input = Tensor::randn([2, 7, 8], &device);
        // the second sequence begins behind two positions of padding
        let hidden = [[false; 7], [true, true, false, false, false, false, false]].concat();
        let padding = Tensor::from_slice(&hidden, [2, 7], &device).expect("memory");
        let room = padding.pad(&[(0, 0), (0, 2)], 0.0);
        for padded in [false, true] {
            let whole = AttentionMasks { key_padding: padded.then_some(&padding), attn: None };
            let masks = AttentionMasks { key_padding: padded.then_some(&room), attn: None };
            // besides, the third position is seen by itself alone
            let hidden_third = Tensor::arange(7, &device).eq(2).logical_and(&Tensor::eye(7, &device).eq(0.0));
            let whole = AttentionMasks { attn: Some(&hidden_third), ..whole };
            let all = used(|| layer.attend(&input, &input, &input, whole));
            for lengths in [&[1; 7][..], &[3, 1, 2, 1], &[7], &[6, 1]] {
                let cache = layer.cache(2, 9, &init.at("cache")).expect("memory");
                for (start, length) in parts(lengths) {
                    let new = input.narrow(1, start, length);
                    let position = Tensor::scalar(start as i32, &device);
                    let rows = hidden_third.narrow(0, start, length).pad(&[(0, 0), (0, 2)], 0.0);
                    let masks = AttentionMasks { attn: Some(&rows), ..masks };
                    let next = used(|| layer.attend_next(&new, &position, &cache, masks));
                    let what = format!("{lengths:?} from {start} on {device:?}, padded: {padded}");
                    assert_near(&what, &next, &all.narrow(1, start, length));
                }
            }
        }
    }
}

#[test]
fn positions_beyond_the_room_of_a_cache_are_an_error() {
    for device in fresh_devices() {
        let init = Init::new(&device, 3);
        let layer = MultiheadAttention::new(8, 2, Attention::Full, &init.at("layer")).expect("memory");
        for (new, room) in [(1, 3), (3, 4)] {
            let cache = layer.cache(1, room, &init.at("cache")).expect("memory");
            let next = |position: usize| {
                let (input, none) = (Tensor::full([1, new, 8], 0.5, &device), AttentionMasks::default());
                let position = Tensor::scalar(position as i32, &device);
                no_grad(|| layer.attend_next(&input, &position, &cache, none)).to_vec::<f32>()
            };
            let places = room - new + 1;
            for position in 0..places {
                next(position).unwrap_or_else(|error| panic!("{new} from {position} of {room}: {error}"));
            }
            let error = next(places).expect_err("there is no room for all").to_string();
            assert!(error.contains("attend_next") && error.contains(&format!("0..{places}")), "{error}");
        }
    }
}

#[test]
fn a_decoder_is_given_a_sequence_bit_by_bit() {
    for device in devices() {
        let init = Init::new(&device, 6);
        let decoder = Arc::new(TransformerDecoder::new(causal(), 2, true, &init.at("decoder")).expect("memory"));
        let caches = Arc::new(decoder.caches(2, 6, 5, &init.at("caches")).expect("memory"));
        let none = AttentionMasks::default();
        let hidden = [[false; 5], [false, false, true, false, true]].concat();
        let padding = Tensor::from_slice(&hidden, [2, 5], &device).expect("memory");
        let (traced, kept, mask) = (Arc::clone(&decoder), Arc::clone(&caches), padding.clone());
        let mut step = Step::new(&device, move |inputs| {
            let encoded = AttentionMasks { key_padding: Some(&mask), attn: None };
            vec![used(|| traced.forward_next(&inputs[0], &inputs[1], &kept, none, encoded))]
        })
        .expect("a step");
        // a second text must not see the first one
        for seed in [1, 2] {
            brasa::runtime::seed(&device, seed).expect("seeded");
            let [target, memory] = [[2, 6, 8], [2, 5, 8]].map(|shape| Tensor::randn(shape, &device));
            used(|| decoder.remember(&memory, &caches));
            let encoded = AttentionMasks { key_padding: Some(&padding), attn: None };
            let all = used(|| decoder.forward(&target, &memory, none, encoded));
            for (start, length) in parts(&[2, 1, 1, 2]) {
                let (new, position) = (target.narrow(1, start, length), Tensor::scalar(start as i32, &device));
                let next = step.run(&[new, position]).expect("a step").remove(0);
                assert_near(&format!("text {seed} from {start} on {device:?}"), &next, &all.narrow(1, start, length));
            }
        }
    }
}

#[test]
fn caches_keep_what_is_computed_in_halves() {
    for device in devices() {
        let init = Init::new(&device, 6);
        let decoder = TransformerDecoder::new(causal(), 1, true, &init.at("decoder")).expect("memory");
        let caches = decoder.caches(1, 2, 3, &init.at("caches")).expect("memory");
        let [target, memory] = [[1, 2, 8], [1, 3, 8]].map(|shape| Tensor::randn(shape, &device));
        let none = AttentionMasks::default();
        let run = || {
            decoder.remember(&memory, &caches);
            let position = Tensor::scalar(0_i32, &device);
            decoder.forward_next(&target, &position, &caches, none, none).to_dtype(DType::F32)
        };
        let (exact, halves) = used(|| (run(), autocast(DType::F16, run)));
        // of f16, values of about 1
        assert_close(&format!("{device:?}"), &doubles(&halves), &doubles(&exact), 0.02, 0.02);
    }
}

#[test]
fn an_encoder_is_given_a_sequence_bit_by_bit() {
    for device in devices() {
        let init = Init::new(&device, 7);
        let encoder = TransformerEncoder::new(causal(), 2, true, &init.at("encoder")).expect("memory");
        let caches = encoder.caches(1, 5, &init.at("caches")).expect("memory");
        let input = Tensor::randn([1, 5, 8], &device);
        let all = used(|| encoder.forward(&input));
        for (start, length) in parts(&[3, 2]) {
            let (new, position) = (input.narrow(1, start, length), Tensor::scalar(start as i32, &device));
            let next = used(|| encoder.forward_next(&new, &position, &caches, AttentionMasks::default()));
            assert_near(&format!("from {start} on {device:?}"), &next, &all.narrow(1, start, length));
        }
    }
}

#[test]
fn padding_does_not_reach_a_recurrent_layer() {
    for device in devices() {
        let options = RecurrentOptions { bidirectional: true, layers: 2, ..Default::default() };
        let lstm = LSTM::new(3, 4, options, &Init::new(&device, 1)).expect("memory");
        let input = Tensor::randn([5, 4, 3], &device);
        let lengths = [3_i32, 0, 5, 1];
        let given = Tensor::from_slice(&lengths, [4], &device).expect("memory");
        let [hidden, cell] = [(); 2].map(|()| Tensor::randn([4, 4, 4], &device));
        let run = |input: &Tensor| lstm.run_padded(input, &given, Some((&hidden, &cell)));
        let (outputs, (last_hidden, last_cell)) = run(&input);
        for (row, length) in lengths.into_iter().enumerate() {
            let of = |states: &Tensor| states.narrow(1, row, 1);
            let what = format!("row {row} on {device:?}");
            let (own_outputs, own_length) = (of(&outputs), length as usize);
            let behind = own_outputs.narrow(0, own_length, 5 - own_length);
            assert!(read(&behind).iter().all(|&value| value == 0.0), "{what}");
            if length == 0 {
                // nothing happens to its state
                assert_eq!(read(&of(&last_hidden)), read(&of(&hidden)), "{what}");
                assert_eq!(read(&of(&last_cell)), read(&of(&cell)), "{what}");
                continue;
            }
            let own = of(&input).narrow(0, 0, own_length);
            let (alone, (alone_hidden, alone_cell)) = lstm.run(&own, Some((&of(&hidden), &of(&cell))));
            assert_near(&what, &own_outputs.narrow(0, 0, own_length), &alone);
            assert_near(&what, &of(&last_hidden), &alone_hidden);
            assert_near(&what, &of(&last_cell), &alone_cell);
        }
        let time = Tensor::arange(5, &device).unsqueeze(-1);
        let other = time.lt(&given).unsqueeze(-1).where_(&input, f64::NAN);
        assert_eq!(read(&run(&other).0), read(&outputs), "padding counts on {device:?}");
        // nor do gradients pass by it
        let gradients = |input: &Tensor| {
            let (outputs, (last, _)) = run(input);
            let parameters: Vec<Tensor> = lstm.parameters().iter().map(|parameter| parameter.tensor()).collect();
            let by: Vec<&Tensor> = parameters.iter().chain([input]).collect();
            grad(&(outputs.square().sum() + last.sum()), &by).iter().map(read).collect::<Vec<_>>()
        };
        let (clean, padded) = (gradients(&input), gradients(&other));
        assert_eq!(clean, padded, "on {device:?}");
        let is_padding = read(&time.ge(&given).unsqueeze(-1).expand([5, 4, 3]).to_dtype(DType::F32));
        let of_input = clean.last().expect("the last one");
        assert!(of_input.iter().zip(is_padding).all(|(&slope, padding)| padding == 0.0 || slope == 0.0), "{device:?}");
    }
}

#[test]
fn a_transformer_is_saved_and_read_again() {
    for device in devices() {
        let make = |seed| Transformer::new(causal(), 1, 2, &Init::new(&device, seed)).expect("memory");
        let (model, other) = (make(1), make(2));
        assert_eq!(nn::state(&model).len(), model.variables().len());
        let bytes = nn::to_safetensors(&model).expect("bytes");
        let report = nn::weights_from_bytes(&other, Path::new("a file"), &bytes, &LoadOptions::default());
        assert_eq!(report.expect("the same model").loaded, model.variables().len());
        let [source, target] = [[2, 4, 8], [2, 3, 8]].map(|shape| Tensor::randn(shape, &device));
        let [first, second] =
            [&model, &other].map(|model| used(|| model.forward(&source, &target, [AttentionMasks::default(); 3])));
        assert_eq!(read(&first), read(&second), "on {device:?}");
    }
}

/// A linear layer with a norm behind it.
struct Normed(Linear, BatchNorm1d);

brasa::variables!(Normed: 0, 1);

impl Module for Normed {
    fn forward(&self, input: &Tensor) -> Tensor {
        self.1.forward(&self.0.forward(input)).tanh()
    }
}

#[test]
fn gradients_pass_through_a_step_of_an_inner_optimizer() {
    for device in devices() {
        let init = Init::new(&device, 8);
        let norm = BatchNorm1d::new(2, &init.at("norm")).expect("memory");
        let model = Normed(Linear::new(3, 2, &init.at("fc")).expect("memory"), norm);
        let (inner, outer) = (Tensor::randn([5, 3], &device), Tensor::randn([4, 3], &device));
        let parameters = model.parameters();
        let start: Vec<Tensor> = parameters.iter().map(|parameter| parameter.tensor()).collect();
        let loss_of = |values: &[Tensor], input: &Tensor| {
            let pairs: Vec<_> = parameters.iter().zip(values).collect();
            functional_call(&pairs, || (model.forward(input) - 0.3).square().mean())
        };
        let after_a_step = |values: &[Tensor]| {
            let wanted: Vec<&Tensor> = values.iter().collect();
            let gradients = grad(&loss_of(values, &inner), &wanted);
            let stepped: Vec<Tensor> = values.iter().zip(gradients).map(|(now, slope)| now - slope * 0.5).collect();
            loss_of(&stepped, &outer)
        };
        gradcheck(after_a_step, &start, &Gradcheck::default()).unwrap_or_else(|error| panic!("{device:?}: {error}"));
        // nothing was assigned but the statistics, which are no parameters
        for (parameter, before) in parameters.iter().zip(&start) {
            assert_eq!(read(&parameter.tensor()), read(before), "{} on {device:?}", parameter.name());
        }
        let plain = grad(&loss_of(&start, &outer), &[&start[0]]).remove(0);
        let meta = grad(&after_a_step(&start), &[&start[0]]).remove(0);
        assert_ne!(read(&plain), read(&meta), "on {device:?}");
    }
}

#[test]
fn a_step_knows_of_the_scopes_in_its_function_alone() {
    for device in devices() {
        let layer = Arc::new(Linear::without_bias(1, 1, &Init::zeros(&device).at("fc")).expect("memory"));
        let traced = Arc::clone(&layer);
        let mut step = Step::new(&device, move |inputs| {
            let doubled = traced.weight.tensor() + 2.0;
            let within = functional_call(&[(&traced.weight, &doubled)], || traced.forward(&inputs[0]));
            vec![traced.forward(&inputs[0]), within]
        })
        .expect("a step");
        let input = Tensor::full([1, 1], 1.0_f32, &device);
        let mut run = || step.run(std::slice::from_ref(&input)).expect("a step").iter().map(read).collect::<Vec<_>>();
        let within = functional_call(&[(&layer.weight, &Tensor::full([1, 1], 9.0_f32, &device))], &mut run);
        assert_eq!(within, [[0.0], [2.0]], "{device:?}");
        layer.weight.set(&Tensor::full([1, 1], 3.0_f32, &device)).expect("the device is there");
        assert_eq!(run(), [[3.0], [5.0]], "{device:?}");
    }
}

#[test]
fn what_a_variable_is_read_as_ends_with_the_scope() {
    let device = Device::cpu();
    let layer = Linear::without_bias(1, 1, &Init::zeros(&device).at("fc")).expect("memory");
    let value = |value: f32| Tensor::full([1, 1], value, &device);
    let now = || read(&layer.forward(&value(1.0)))[0];
    let nested = functional_call(&[(&layer.weight, &value(2.0))], || {
        let inner = functional_call(&[(&layer.weight, &value(3.0))], now);
        (inner, now())
    });
    assert_eq!((nested, now()), ((3.0, 2.0), 0.0));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        functional_call(&[(&layer.weight, &value(2.0))], || panic!("within"));
    }));
    assert!(panicked.is_err() && now() == 0.0);
    let (message, ..) = panic_of(|| functional_call(&[(&layer.weight, &Tensor::zeros([2, 1], &device))], now));
    assert_eq!(message, "functional_call: `fc.weight` is f32 [1, 1] on cpu, and was given f32 [2, 1] on cpu");
}
