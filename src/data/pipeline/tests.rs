use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use crate::Tensor;
use crate::data::{Batch, Description, Goal, HostTimes, IGNORED, InMemory, Normalization, Target, Targets, Values};
use crate::device::tests::fresh_devices;

/// `len` samples of two pixels: the number's low byte, and 100; its class is the number modulo 3.
fn counted(len: usize) -> Arc<dyn Dataset> {
    let pixels = (0..len).flat_map(|number| [number as u8, 100]).collect();
    let labels = (0..len).map(|number| number as u32 % 3).collect();
    let classes = ["a", "b", "c"].map(String::from).to_vec();
    Arc::new(InMemory::new("counted", classes, [1, 1, 2], Normalization::default(), pixels, labels))
}

/// All batches, without what cannot be the same twice.
fn all(batches: Loader) -> Vec<Batch> {
    let timeless = |batch| Batch { times: HostTimes::default(), ..batch };
    batches.map(|batch| timeless(batch.expect("good data"))).collect()
}

fn run(pipeline: &Pipeline) -> Vec<Batch> {
    all(pipeline.start().expect("threads"))
}

/// The numbers of the samples of all batches.
fn numbers(pipeline: &Pipeline) -> Vec<usize> {
    run(pipeline).into_iter().flat_map(|batch| batch.indices).collect()
}

/// A data set that counts what is read of it, where samples whose number leaves 2 modulo 5 are broken if `broken` says
/// so.
struct Odd {
    description: Description,
    len: usize,
    broken: bool,
    read: AtomicUsize,
}

impl Odd {
    fn new(len: usize, broken: bool) -> Arc<Self> {
        let description = counted(1).description().clone();
        Arc::new(Self { description, len, broken, read: AtomicUsize::new(0) })
    }
}

impl Dataset for Odd {
    fn description(&self) -> &Description {
        &self.description
    }
    fn len(&self) -> usize {
        self.len
    }
    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        self.read.fetch_add(1, Ordering::SeqCst);
        if self.broken && index % 5 == 2 {
            return Err(Error::format(format!("{index}.png"), "it is damaged"));
        }
        sample.set_picture([1, 1, 2]).copy_from_slice(&[index as u8, 100]);
        sample.target = Target::Class(index as u32 % 3);
        Ok(())
    }
}

/// With an operation of each kind.
fn busy(data: Arc<dyn Dataset>) -> Pipeline {
    Pipeline::new(data)
        .shuffle_buffer(5)
        .map(|sample, random| {
            sample.input.as_bytes_mut()[1] = random.below(200) as u8;
            Ok(())
        })
        .filter(|sample| !sample.input.as_bytes()[0].is_multiple_of(7))
        .augment("flip,noise=3,mixup=0.4".parse().expect("good text"), On::Host)
        .batch(4, Last::Keep)
        .epochs(3)
        .seed(11)
}

#[test]
fn the_number_of_workers_changes_nothing() {
    for data in [counted(61), Odd::new(61, true) as Arc<dyn Dataset>] {
        for on in [On::Host, On::Device] {
            let pipeline = busy(Arc::clone(&data));
            let pipeline = pipeline.clone().augment(pipeline.augment.clone(), on);
            let one = run(&pipeline.clone().workers(1).prefetch(0));
            assert!(one.len() > 24);
            for (workers, prefetch) in [(2, 1), (7, 4)] {
                assert_eq!(one, run(&pipeline.clone().workers(workers).prefetch(prefetch)));
            }
        }
    }
}

#[test]
fn each_epoch_has_each_sample_once_in_its_own_order() {
    let batches = run(&Pipeline::new(counted(11)).shuffle().batch(4, Last::Keep).epochs(3));
    let mut orders = Vec::new();
    for epoch in 0..3 {
        let of_epoch = || batches.iter().filter(|batch| batch.epoch == epoch);
        let order: Vec<_> = of_epoch().flat_map(|batch| batch.indices.clone()).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..11).collect::<Vec<_>>());
        orders.push(order);
        assert_eq!(of_epoch().map(Batch::rows).collect::<Vec<_>>(), [4, 4, 3]);
        assert_eq!(of_epoch().map(|batch| batch.last).collect::<Vec<_>>(), [false, false, true]);
    }
    assert!(orders[0] != orders[1] && orders[1] != orders[2]);
    for batch in &batches {
        let pixels: Vec<_> = batch.inputs.as_bytes().iter().step_by(2).map(|&pixel| usize::from(pixel)).collect();
        assert_eq!(pixels, batch.indices);
        assert_eq!(batch.targets, Targets::Classes(pixels.iter().map(|&pixel| pixel as u32 % 3).collect()));
    }
}

#[test]
fn what_does_not_fill_a_batch_is_kept_dropped_or_padded() {
    let rows = |last| {
        let pipeline = Pipeline::new(counted(6)).batch(4, last);
        let batches = run(&pipeline);
        assert_eq!(batches.len(), pipeline.batches_per_epoch());
        batches.iter().map(|batch| (batch.samples, batch.rows())).collect::<Vec<_>>()
    };
    assert_eq!(rows(Last::Keep), [(4, 4), (2, 2)]);
    assert_eq!(rows(Last::Drop), [(4, 4)]);
    assert_eq!(rows(Last::Pad), [(4, 4), (2, 4)]);
    let padded = run(&Pipeline::new(counted(6)).batch(4, Last::Pad)).remove(1);
    assert_eq!(padded.inputs.as_bytes(), [4, 100, 5, 100, 0, 0, 0, 0]);
    assert_eq!(padded.weights, [1.0, 1.0, 0.0, 0.0]);
    assert_eq!(padded.targets, Targets::Classes(vec![1, 2, 0, 0]));
    assert_eq!(padded.shape, [4, 1, 1, 2]);
}

#[test]
fn numbers_to_predict_are_put_together_and_padded() {
    struct Numbers(Description);
    impl Dataset for Numbers {
        fn description(&self) -> &Description {
            &self.0
        }
        fn len(&self) -> usize {
            7
        }
        fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
            sample.shape = vec![1];
            sample.input = Values::F32(vec![index as f32]);
            sample.set_numbers(&[index as f32, 10.0 * index as f32]);
            Ok(())
        }
    }
    let scales = Some(Normalization { mean: vec![1.0, 20.0], std: vec![2.0, 5.0] });
    let classes = vec!["one".into(), "ten".into()];
    let of = counted(1).description().clone();
    let data = Arc::new(Numbers(Description { goal: Goal::Regress, shape: vec![1], classes, scales, ..of }));
    // several workers, whose rows are put together in pieces
    let pipeline = Pipeline::new(data).workers(3).batch(4, Last::Pad);
    let batches = run(&pipeline);
    assert_eq!(batches[0].targets, Targets::Numbers(vec![0.0, 0.0, 1.0, 10.0, 2.0, 20.0, 3.0, 30.0]));
    assert_eq!(batches[1].targets, Targets::Numbers(vec![4.0, 40.0, 5.0, 50.0, 6.0, 60.0, 0.0, 0.0]));
    let format = pipeline.format();
    let uploads = batches[0].uploads();
    let signature: Vec<_> = uploads.iter().map(|(shape, dtype, _)| (shape.clone(), *dtype)).collect();
    assert_eq!(signature, format.signature(4));
    for device in fresh_devices() {
        let upload = |(shape, dtype, bytes)| Tensor::from_bytes(bytes, shape, dtype, &device).expect("memory");
        let received = format.receive(&batches[0].uploads().into_iter().map(upload).collect::<Vec<_>>());
        let expected = [-0.5, -4.0, 0.0, -2.0, 0.5, 0.0, 1.0, 2.0];
        assert_eq!(received.labels.classes.to_vec::<f32>().expect("values"), expected, "{device:?}");
    }
}

#[test]
fn orders_are_what_their_names_say() {
    let of = |pipeline: Pipeline| numbers(&pipeline);
    let ten = || Pipeline::new(counted(10));
    assert_eq!(of(ten().skip(2).take(3)), [2, 3, 4]);
    assert_eq!(of(ten().shard(1, 4)), [1, 5, 9]);
    assert_eq!(of(ten().interleave(3, 2)), [0, 1, 4, 5, 7, 8, 2, 3, 6, 9]);
    assert_eq!(of(ten().shard(1, 2).skip(1).interleave(2, 1)), [3, 7, 5, 9]);
    assert_eq!(of(ten().shuffle_buffer(1)), (0..10).collect::<Vec<_>>());
    let shuffled = of(ten().shuffle_buffer(3).skip(1).shard(0, 2).take(2));
    assert_eq!(shuffled.len(), 2);
    let parts: Vec<_> = (0..3).flat_map(|part| of(ten().shuffle().shard(part, 3))).collect();
    let mut sorted = parts.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..10).collect::<Vec<_>>(), "shards of a shuffle are its parts");
}

/// Items come out of a buffer at most its size early, each once.
#[test]
fn a_buffer_reaches_as_far_as_it_is_long() {
    for size in [1, 2, 7, 40, 100] {
        let order = numbers(&Pipeline::new(counted(40)).shuffle_buffer(size));
        assert!(order.iter().enumerate().all(|(position, &number)| number < position + size), "{order:?}");
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn weights_are_how_often_samples_come() {
    const EPOCHS: usize = 2000;
    let weights = [0.0, 1.0, 3.0, 0.5, 0.5];
    let data = Pipeline::new(counted(5)).weighted(&weights).batch(5, Last::Keep).epochs(EPOCHS);
    let mut counts = [0.0; 5];
    for number in numbers(&data) {
        counts[number] += 1.0;
    }
    assert_eq!(counts[0], 0.0);
    for (count, weight) in counts.iter().zip(weights) {
        let (total, part) = (EPOCHS as f64 * 5.0, weight / 5.0);
        let bound = 6.0 * (total * part * (1.0 - part)).sqrt();
        assert!((count - total * part).abs() <= bound, "{counts:?}");
    }
    // draws of one sample are changed in ways of their own
    let both = Pipeline::new(counted(1)).interleave(1, 1);
    assert_eq!(both.samples_per_epoch(), 1);
    let noisy = Pipeline::new(counted(4)).weighted(&[0.0, 0.0, 1.0, 0.0]).map(|sample, random| {
        sample.input.as_bytes_mut()[1] = random.bits() as u8;
        Ok(())
    });
    let batch = run(&noisy).remove(0);
    assert_eq!(batch.indices, [2; 4]);
    let drawn: std::collections::BTreeSet<u8> = batch.inputs.as_bytes().iter().skip(1).step_by(2).copied().collect();
    assert!(drawn.len() > 1, "{drawn:?}");
}

/// A step of a random chain.
#[derive(Clone, Debug)]
enum Link {
    Skip(usize),
    Take(usize),
    Shard(usize, usize),
    Shuffle,
    Buffer(usize),
    Interleave(usize, usize),
    Filter(u8),
    Map,
}

fn links() -> impl Strategy<Value = Vec<Link>> {
    let picks = prop_oneof![
        (0..6_usize).prop_map(Link::Skip),
        (9..30_usize).prop_map(Link::Take),
        (1..3_usize)
            .prop_flat_map(|count| (0..count, Just(count)))
            .prop_map(|(index, count)| Link::Shard(index, count)),
        Just(Link::Shuffle),
        (1..5_usize, 1..4_usize).prop_map(|(streams, block)| Link::Interleave(streams, block)),
        (2..9_u8).prop_map(Link::Filter),
        Just(Link::Map),
    ];
    let walks = prop_oneof![
        (1..12_usize).prop_map(Link::Buffer),
        (0..4_usize).prop_map(Link::Skip),
        (9..30_usize).prop_map(Link::Take),
        (1..3_usize)
            .prop_flat_map(|count| (0..count, Just(count)))
            .prop_map(|(index, count)| Link::Shard(index, count)),
    ];
    (
        proptest::collection::vec(picks, 0..4),
        proptest::option::of((1..12_usize).prop_map(Link::Buffer)),
        proptest::collection::vec(walks, 0..3),
    )
        .prop_map(|(mut links, buffer, walks)| {
            links.extend(buffer);
            // only behind a buffer do walks differ from picks
            links.extend(walks);
            links
        })
}

fn chained(data: Arc<dyn Dataset>, links: &[Link], weighted: bool) -> Pipeline {
    let len = data.len();
    let mut pipeline = Pipeline::new(data);
    if weighted {
        let weights: Vec<f64> = (0..len).map(|number| 1.0 + number as f64).collect();
        pipeline = pipeline.weighted(&weights);
    }
    for link in links {
        pipeline = match *link {
            Link::Skip(count) => pipeline.skip(count),
            Link::Take(count) => pipeline.take(count),
            Link::Shard(index, count) => pipeline.shard(index, count),
            Link::Shuffle => pipeline.shuffle(),
            Link::Buffer(size) => pipeline.shuffle_buffer(size),
            Link::Interleave(streams, block) => pipeline.interleave(streams, block),
            Link::Filter(divisor) => pipeline.filter(move |sample| !sample.input.as_bytes()[0].is_multiple_of(divisor)),
            Link::Map => pipeline.map(|sample, random| {
                sample.input.as_bytes_mut()[1] = random.bits() as u8;
                Ok(())
            }),
        };
    }
    pipeline
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// From behind any batch, a resumed pipeline gives the rest, bit for bit; also if the state went through a file.
    #[test]
    fn what_is_resumed_is_the_rest(
        links in links(),
        weighted in any::<bool>(),
        broken in any::<bool>(),
        size in 1..7_usize,
        last in prop_oneof![Just(Last::Keep), Just(Last::KeepSeveral), Just(Last::Drop), Just(Last::Pad)],
        workers in 1..4_usize,
        seed in any::<u64>(),
    ) {
        let pipeline = chained(Odd::new(97, broken), &links, weighted).batch(size, last).epochs(3);
        let pipeline = pipeline.workers(workers).seed(seed);
        // a place in the data can be written in two ways: as one behind another mark
        let plain = |batch: &Batch| {
            let place = (batch.state.epoch(), batch.state.samples());
            (place, Batch { times: HostTimes::default(), state: pipeline.beginning(), ..batch.clone() })
        };
        // the error at the end, if there is one, is that of an epoch that has no batch
        let batches: Vec<Batch> = pipeline.start().expect("threads").map_while(Result::ok).collect();
        let expected: Vec<_> = batches.iter().map(plain).collect();
        for (done, batch) in batches.iter().enumerate() {
            let json = serde_json::to_string(&batch.state).expect("numbers");
            let state: State = serde_json::from_str(&json).expect("it was written");
            prop_assert_eq!(&state, &batch.state);
            let resumed = pipeline.clone().workers(1 + done % 3).resume(&state).expect("its own state");
            let rest: Vec<_> = resumed.map_while(Result::ok).map(|batch| plain(&batch)).collect();
            prop_assert!(rest[..] == expected[done + 1..], "behind batch {} of {}", done, batches.len());
        }
    }

    /// Turns of parts are what a queue of parts gives.
    #[test]
    fn interleaving_is_taking_turns(len in 0..60_usize, streams in 1..9_usize, block in 1..5_usize) {
        let (short, longer) = (len / streams, len % streams);
        let mut start = 0;
        let mut parts: std::collections::VecDeque<Vec<usize>> = (0..streams)
            .map(|part| {
                let size = short + usize::from(part < longer);
                start += size;
                (start - size..start).collect()
            })
            .collect();
        let mut expected = Vec::new();
        while let Some(mut part) = parts.pop_front() {
            let rest = part.split_off(block.min(part.len()));
            expected.extend(part);
            if !rest.is_empty() {
                parts.push_back(rest);
            }
        }
        let mut order = Order::all(len);
        order.interleave(streams, block);
        let mut cursor = order::Cursor::new(Arc::new(order), 0, 0);
        let items: Vec<usize> = std::iter::from_fn(|| cursor.next()).map(|item| item.sample as usize).collect();
        prop_assert_eq!(items, expected);
    }
}

#[test]
fn a_state_of_another_pipeline_is_refused() {
    let pipeline = Pipeline::new(counted(20)).shuffle_buffer(4).batch(3, Last::Keep).seed(1);
    let state = pipeline.start().expect("threads").next().expect("a batch").expect("good data").state;
    assert!(pipeline.clone().batch(5, Last::Drop).workers(3).resume(&state).is_ok());
    let others = [
        pipeline.clone().seed(2),
        pipeline.clone().take(19),
        Pipeline::new(counted(20)).shuffle_buffer(5).seed(1),
        Pipeline::new(counted(21)).shuffle_buffer(4).seed(1),
    ];
    for other in others {
        assert!(matches!(other.resume(&state), Err(Error::Resume(_))));
    }
    let mut json: serde_json::Value = serde_json::to_value(&state).expect("numbers");
    json["since"] = 1000.into();
    let changed: State = serde_json::from_value(json).expect("still a state");
    assert!(matches!(pipeline.resume(&changed), Err(Error::Resume(_))));
    // one that counts what is not there ends
    let plain = Pipeline::new(counted(20)).batch(3, Last::Keep);
    let state = plain.start().expect("threads").next().expect("a batch").expect("good data").state;
    let mut json: serde_json::Value = serde_json::to_value(&state).expect("numbers");
    (json["mark"]["passed"], json["mark"]["position"]) = (0.into(), 20.into());
    let changed: State = serde_json::from_value(json).expect("still a state");
    if let Ok(loader) = plain.resume(&changed) {
        assert!(loader.take(100).count() < 100);
    }
}

#[test]
fn broken_samples_are_skipped_counted_and_named() {
    let mut batches = Pipeline::new(Odd::new(17, true)).batch(4, Last::Keep).epochs(2).start().expect("threads");
    let rows: Vec<_> = batches.by_ref().map(|batch| batch.expect("skipped").samples).collect();
    assert_eq!(rows, [4, 4, 4, 2, 4, 4, 4, 2], "no holes");
    assert_eq!(batches.skipped().count, 6);
    assert!(batches.skipped().messages[0].contains("2.png: it is damaged"), "{:?}", batches.skipped());

    let mut batches = Pipeline::new(Odd::new(17, true)).batch(2, Last::Keep).strict(true).start().expect("threads");
    assert_eq!(batches.next().expect("a batch").expect("whole").indices, [0, 1]);
    let error = batches.next().expect("an error").expect_err("it is damaged");
    assert!(error.to_string().contains("2.png: it is damaged"));
    assert!(batches.next().is_none());
}

#[test]
fn labels_out_of_range_are_broken() {
    let pipeline = Pipeline::new(counted(4)).map(|sample, _| {
        sample.target = Target::Class(3);
        Ok(())
    });
    let error = pipeline.start().expect("threads").next().expect("an error").expect_err("no batch");
    let text = error.to_string();
    assert!(text.contains("has no batch") && text.contains("sample 0 has label 3, but labels lie in 0..3"), "{text}");
}

#[test]
fn classes_of_pixels_out_of_range_are_broken() {
    /// One picture of two pixels with this mask.
    struct Masked(Description, [u8; 2]);

    impl Dataset for Masked {
        fn description(&self) -> &Description {
            &self.0
        }
        fn len(&self) -> usize {
            1
        }
        fn get(&self, _: usize, sample: &mut Sample) -> Result<()> {
            sample.shape.clone_from(&self.0.shape);
            sample.input = Values::U8(vec![0; 2]);
            sample.target = Target::Mask(self.1.to_vec());
            Ok(())
        }
    }

    let with_mask = |mask: [u8; 2]| {
        let classes = ["a", "b", "c"].map(String::from);
        let masked = Masked(Description::new("masked", Goal::Segment, classes, [1, 1, 2]), mask);
        let pipeline = Pipeline::new(Arc::new(masked));
        pipeline.start().expect("threads").next().expect("a batch or an error")
    };
    with_mask([2, IGNORED]).expect("a class and none");
    let text = with_mask([2, 3]).expect_err("there is no class 3").to_string();
    assert!(text.contains("sample 0 has class 3 at row 0, column 1, but classes lie in 0..3"), "{text}");
}

#[test]
fn a_panic_is_an_error() {
    for workers in [1, 4] {
        let pipeline = Pipeline::new(counted(40)).batch(4, Last::Keep).workers(workers).map(|sample, _| {
            assert_ne!(sample.input.as_bytes()[0], 9, "nobody expects nine");
            Ok(())
        });
        let mut batches = pipeline.start().expect("threads");
        assert!(batches.next().expect("a batch").is_ok());
        assert!(batches.next().expect("a batch").is_ok());
        let error = batches.next().expect("an error").expect_err("it panicked").to_string();
        assert!(error.contains("sample 9") && error.contains("nobody expects nine"), "{error}");
        assert!(batches.next().is_none());
    }
}

#[test]
fn shapes_that_differ_are_named() {
    let differing = |sample: &mut Sample, _: &mut Random| {
        let width = 2 + usize::from(sample.input.as_bytes()[0] == 6);
        sample.set_picture([1, 1, width]);
        Ok(())
    };
    for size in [4, 8] {
        let pipeline = Pipeline::new(counted(10)).map(differing).batch(size, Last::Keep);
        let error = pipeline.start().expect("threads").find_map(Result::err).expect("it cannot be batched");
        assert!(matches!(error, Error::Shape(_)));
        let error = error.to_string();
        assert!(error.contains("[1, 1, 2]") && error.contains("[1, 1, 3]") && error.contains(" and 6 "), "{error}");
    }
    let resized = Pipeline::new(counted(10)).map(differing).resize(3, 5).batch(8, Last::Keep);
    assert_eq!(resized.description().shape, [1, 3, 5]);
    assert_eq!(run(&resized)[0].shape, [8, 1, 3, 5]);
}

#[test]
fn memory_is_bounded_whatever_the_length() {
    let data = Odd::new(1_000_000, false);
    let (size, workers, prefetch) = (3, 2, 4);
    let pipeline = Pipeline::new(data.clone()).batch(size, Last::Keep).workers(workers).prefetch(prefetch).repeat();
    let mut batches = pipeline.start().expect("threads");
    for taken in 1..4 {
        batches.next().expect("a batch").expect("good data");
        let read = || data.read.load(Ordering::SeqCst);
        // nobody takes a batch until the threads have nothing more to do
        let mut before = read();
        loop {
            std::thread::sleep(std::time::Duration::from_millis(50));
            if std::mem::replace(&mut before, read()) == read() {
                break;
            }
        }
        let most = (prefetch + 2 * workers + 3 + taken) * size;
        assert!(read() <= most, "{} samples were read for {taken} batches, not {most}", read());
    }
}

#[test]
fn dropping_a_loader_ends_its_threads() {
    let data = Odd::new(1_000_000, false);
    for taken in [0, 1] {
        let pipeline = Pipeline::new(data.clone()).batch(2, Last::Keep).workers(5).repeat();
        let mut batches = pipeline.start().expect("threads");
        batches.by_ref().take(taken).for_each(|batch| drop(batch.expect("good data")));
        drop((batches, pipeline));
        assert_eq!(Arc::strong_count(&data), 1, "a thread still has the data");
    }
}

#[test]
fn memory_that_was_given_back_is_used_again() {
    let pipeline = Pipeline::new(counted(50)).shuffle().batch(8, Last::Pad).epochs(3);
    let expected = run(&pipeline);
    let mut batches = pipeline.start().expect("threads");
    for expected in expected {
        let batch = batches.next().expect("as many").expect("good data");
        assert_eq!(Batch { times: HostTimes::default(), ..batch.clone() }, expected);
        batches.recycle(batch);
    }
}

#[test]
fn an_epoch_without_a_batch_is_an_error() {
    let none = [
        Pipeline::new(counted(0)),
        Pipeline::new(counted(5)).take(0),
        Pipeline::new(counted(5)).batch(6, Last::Drop),
        Pipeline::new(counted(5)).filter(|_| false).repeat(),
    ];
    for pipeline in none {
        let error = pipeline.start().expect("threads").next().expect("an error").expect_err("there is nothing");
        assert!(error.to_string().contains("epoch 1 has no batch"), "{error}");
    }
}

#[test]
fn what_does_not_suit_the_samples_is_refused() {
    let table = Description { shape: vec![4], ..counted(1).description().clone() };
    let augmented = |text: &str| Pipeline::new(counted(5)).augment(text.parse().expect("good text"), On::Host);
    assert!(matches!(augmented("flip").described(table).start(), Err(Error::Config(_))));
    let masks = Description { goal: Goal::Segment, ..counted(1).description().clone() };
    assert!(matches!(augmented("mixup").described(masks).start(), Err(Error::Config(_))));
}

#[test]
fn a_cache_reads_once_and_freezes_what_comes_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let random = |sample: &mut Sample, random: &mut Random| {
        let pixel = &mut sample.input.as_bytes_mut()[1];
        *pixel = pixel.wrapping_add(random.bits() as u8);
        Ok(())
    };
    for cache in [Cache::Memory, Cache::Disk(folder.path().join("samples"))] {
        let data = Odd::new(10, false);
        let kept = Pipeline::new(data.clone()).shuffle().map(random).cache(cache).batch(10, Last::Keep).epochs(3);
        // of two workers one may need a sample while the other is reading it for the epoch before
        let kept = kept.workers(1);
        let batches = run(&kept);
        assert_eq!(data.read.load(Ordering::SeqCst), 10);
        let of = |batch: &Batch| {
            let mut pixels: Vec<_> = batch.inputs.as_bytes().as_chunks::<2>().0.to_vec();
            pixels.sort_unstable();
            pixels
        };
        assert!(batches.iter().all(|batch| of(batch) == of(&batches[0])));
        // the epoch that comes first makes no difference
        let fresh =
            Pipeline::new(data.clone()).shuffle().map(random).cache(Cache::Memory).batch(10, Last::Keep).epochs(3);
        let rest = all(fresh.resume(&batches[0].state).expect("its own state"));
        assert!(rest.iter().zip(&batches[1..]).all(|(rest, batch)| rest.inputs == batch.inputs) && rest.len() == 2);
        // behind a cache, each epoch has its own
        let moving = run(&kept.map(random));
        assert_ne!(of(&moving[0]), of(&moving[1]));
    }
}

#[test]
fn a_cache_is_not_taken_for_that_of_other_samples() {
    let random = |sample: &mut Sample, random: &mut Random| {
        sample.input.as_bytes_mut()[1] = random.bits() as u8;
        Ok(())
    };
    let pixels = |pipeline: &Pipeline| run(pipeline).remove(0).inputs.as_bytes().to_vec();
    let kept = Pipeline::new(counted(10)).map(random).cache(Cache::Memory).batch(10, Last::Keep).seed(1);
    let first = pixels(&kept);
    assert_ne!(pixels(&kept.clone().seed(2)), first, "what is random depends on the seed");
    assert_eq!(pixels(&kept), first);
    let read = Odd::new(10, false);
    let plain = Pipeline::new(read.clone()).cache(Cache::Memory).batch(10, Last::Keep).workers(1);
    assert_eq!(pixels(&plain.clone().seed(3)), pixels(&plain.clone().seed(4)));
    assert_eq!(read.read.load(Ordering::SeqCst), 10, "what is not, is shared");

    let folder = tempfile::tempdir().expect("a folder");
    let on_disk = |indices: &[usize], seed| {
        let data = Arc::new(crate::data::Subset::new(counted(10), indices.to_vec()));
        let path = folder.path().join("samples");
        Pipeline::new(data).map(random).cache(Cache::Disk(path)).batch(10, Last::Keep).seed(seed)
    };
    let first = pixels(&on_disk(&[1, 2, 3], 1));
    assert_eq!(pixels(&on_disk(&[1, 2, 3], 1)), first);
    for other in [on_disk(&[1, 2, 4], 1), on_disk(&[1, 2, 3], 2)] {
        assert!(other.start().is_err_and(|error| error.to_string().contains("remove it")));
    }
}

#[test]
fn a_single_sample_at_the_end_is_left_out_but_not_if_it_is_all_there_is() {
    for (len, expected) in [(7, vec![3, 3]), (8, vec![3, 3, 2]), (1, vec![1]), (2, vec![2]), (3, vec![3])] {
        let pipeline = Pipeline::new(counted(len)).shuffle().batch(3, Last::KeepSeveral).epochs(2);
        let batches = run(&pipeline);
        let rows: Vec<_> = batches.iter().map(Batch::rows).collect();
        assert_eq!(rows, expected.repeat(2), "of {len}");
        assert_eq!(pipeline.batches_per_epoch(), expected.len(), "of {len}");
        assert!(batches[expected.len() - 1].last);
    }
    // broken ones are not known before
    let rows: Vec<_> =
        run(&Pipeline::new(Odd::new(5, true)).batch(3, Last::KeepSeveral)).iter().map(Batch::rows).collect();
    assert_eq!(rows, [3]);
    let rows: Vec<_> = run(&Pipeline::new(counted(3)).batch(1, Last::KeepSeveral)).iter().map(Batch::rows).collect();
    assert_eq!(rows, [1, 1, 1], "batches of one are what was asked for");
}

#[test]
fn floats_are_not_augmented_and_not_taken_for_augmented() {
    for (augment, on) in [("flip", On::Host), ("mixup=0.2", On::Host), ("crop=1", On::Device), ("cutmix=1", On::Device)]
    {
        let pipeline = Pipeline::new(counted(8)).map(|sample, _| {
            sample.input = Values::F32(vec![0.5; sample.input.len()]);
            Ok(())
        });
        let pipeline = pipeline.augment(augment.parse().expect("good text"), on).batch(4, Last::Keep);
        let error = pipeline.start().expect("threads").find_map(Result::err).expect("they are floats");
        let says = error.to_string();
        assert!(matches!(error, Error::Config(_)) && says.contains("sample 0 is f32"), "{augment}: {says}");
    }
}
