//! Tests of devices, on the CPU and on the first GPU, software ones included.

use std::io::Write as _;
use std::sync::atomic::AtomicUsize;

use pollster::block_on;
use proptest::prelude::*;

use super::*;

/// Counts a test that is left out for want of a GPU, and says so; a failure with `BRASA_REQUIRE_GPU=1`.
pub(crate) fn skip_without_gpu() {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let required = std::env::var_os("BRASA_REQUIRE_GPU").is_some_and(|value| value == "1");
    assert!(!required, "BRASA_REQUIRE_GPU is 1 and there is no GPU adapter");
    let number = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    // Not `eprintln!`: what that writes is shown for failing tests only.
    let _unseen = writeln!(std::io::stderr(), "skipped, as there is no GPU adapter: {number} so far");
}

#[test]
fn what_no_buffer_holds_is_told_as_that() {
    let Some(device) = fresh_gpu() else { return };
    let limit_bytes = device.info().max_buffer_bytes;
    let error = device.alloc(limit_bytes + 1, "logits").expect_err("no buffer is as large");
    assert!(error.to_string().starts_with("logits needs "), "{error}");
    assert!(matches!(error, Error::BufferTooLarge { limit_bytes: told, .. } if told == limit_bytes), "{error}");
}

/// A GPU of its own for a test; `None` if there is none.
pub(crate) fn fresh_gpu() -> Option<Device> {
    match Device::gpu(0) {
        Ok(device) => Some(device.reopen().expect("an adapter opens twice")),
        Err(Error::NoAdapter) => {
            skip_without_gpu();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The same twice, the second of which does without the subgroups that the first uses; `None` if it uses none.
pub(crate) fn fresh_gpus_with_and_without_subgroups() -> Option<[Device; 2]> {
    let with = fresh_gpu().filter(|device| device.info().subgroups.is_some())?;
    Some([with, fresh_gpu_with(|gpu| gpu.caps.subgroups = None)])
}

/// The first GPU, of which there is one, changed before it is used.
pub(crate) fn fresh_gpu_with(change: impl FnOnce(&mut Gpu)) -> Device {
    let adapter = Arc::clone(&gpu::adapters()[0]);
    let mut gpu = Gpu::open(&adapter).expect("an adapter opens twice");
    change(Arc::get_mut(&mut gpu).expect("nobody else has it"));
    Device::on_gpu(gpu, adapter.info.clone(), adapter.identity.clone())
}

pub(crate) fn fresh_devices() -> impl Iterator<Item = Device> {
    let cpu = Device::cpu().reopen().expect("the CPU opens");
    [Some(cpu), fresh_gpu()].into_iter().flatten()
}

fn read_all(device: &Device, storage: &Storage) -> Vec<u8> {
    device.begin_read::<u8>(storage, 0, storage.bytes()).now().expect("read")
}

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    (0..count as u64).map(|n| ((n + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[test]
fn the_list_ends_with_the_cpu_and_its_selectors_open() {
    let list = Device::list();
    assert_eq!(list.last().map(|info| info.selector.as_str()), Some("cpu"));
    for info in &list {
        let device = Device::named(&info.selector).expect("a listed device opens");
        assert_eq!(device.info(), info);
    }
}

#[test]
fn asking_twice_gives_the_same_device() {
    assert_eq!(Device::cpu(), Device::named(" CPU ").expect("cpu"));
    assert_ne!(Device::cpu(), Device::cpu().reopen().expect("cpu"));
    let Some(gpu) = fresh_gpu() else { return };
    let first = Device::gpu(0).expect("gpu");
    assert_eq!(first, Device::named("gpu:0").expect("gpu"));
    assert_ne!(first, gpu);
    let part = &first.info().name[..4];
    assert_eq!(first.info().kind, Device::named(part).expect("by name").info().kind);
}

#[test]
fn unknown_names_say_what_is_known() {
    for name in ["no such adapter", "", "gpu:99"] {
        match Device::named(name) {
            Err(Error::UnknownDevice { known, .. }) => {
                assert!(known.contains("cpu, best"), "{known}");
                assert_eq!(known.contains("gpu, "), Device::list().len() > 1, "{known}");
            }
            Err(Error::NoAdapter) if name == "gpu:99" => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn new_memory_reads_as_zero_and_is_counted() {
    for device in fresh_devices() {
        let storage = device.alloc(1001, "test").expect("alloc");
        assert_eq!((storage.bytes(), storage.capacity()), (1001, 1008));
        assert_eq!(read_all(&device, &storage), vec![0; 1001]);
        let empty = device.alloc(0, "test").expect("alloc");
        assert_eq!(read_all(&device, &empty), [0u8; 0]);
        assert_eq!(device.memory(), MemoryUse { live_bytes: 1024, peak_bytes: 1024, cached_bytes: 0 });
        drop(storage);
        assert_eq!(device.memory(), MemoryUse { live_bytes: 16, peak_bytes: 1024, cached_bytes: 0 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn writes_and_copies_touch_exactly_their_bytes(
        moves in prop::collection::vec((0u8..3, 0usize..300, 0usize..300, 0usize..200), 1..12),
    ) {
        for device in [Some(Device::cpu()), Device::gpu(0).ok()].into_iter().flatten() {
            let sizes = [301, 333];
            let storages = sizes.map(|size| device.alloc(size as u64, "test").expect("alloc"));
            let mut models = sizes.map(|size| vec![0u8; size]);
            for (step, &(kind, from, to, length)) in moves.iter().enumerate() {
                let length = length.min(sizes[0] - from.max(to));
                match kind {
                    0 => {
                        let data = bytes(length, step as u64);
                        models[0][to..to + length].copy_from_slice(&data);
                        device.write(&storages[0], to as u64, &data).expect("write");
                    }
                    1 => {
                        let data = models[0][from..from + length].to_vec();
                        models[1][to..to + length].copy_from_slice(&data);
                        let (from, to) = (from as u64, to as u64);
                        device.copy(&storages[0], from, &storages[1], to, length as u64).expect("copy");
                    }
                    _ => {
                        models[1].copy_within(from..from + length, to);
                        let (from, to) = (from as u64, to as u64);
                        device.copy(&storages[1], from, &storages[1], to, length as u64).expect("copy");
                    }
                }
            }
            for (storage, model) in storages.iter().zip(&models) {
                prop_assert_eq!(&read_all(&device, storage), model);
                let middle = device.begin_read::<u8>(storage, 7, 90).now().expect("read");
                prop_assert_eq!(&middle, &model[7..97]);
            }
        }
    }
}

#[test]
fn uploads_larger_than_the_staging_ring_arrive() {
    for device in fresh_devices() {
        let data = bytes(70 << 20, 5);
        let storage = device.alloc(data.len() as u64 + 3, "test").expect("alloc");
        device.write(&storage, 3, &data).expect("write to an odd place");
        let read = device.begin_read::<u8>(&storage, 3, data.len() as u64).now().expect("read");
        assert!(read == data, "{device:?}");
        device.write(&storage, 0, &data).expect("write");
        assert!(device.begin_read::<u8>(&storage, 0, data.len() as u64).now().expect("read") == data, "{device:?}");
    }
}

#[test]
fn many_small_writes_make_few_buffers() {
    let Some(device) = fresh_gpu() else { return };
    let storage = device.alloc(4 << 20, "test").expect("alloc");
    let data = bytes(4 << 20, 9);
    device.write(&storage, 0, &data[..4]).expect("write");
    let before = device.counters();
    for (number, part) in data.chunks(1000).enumerate() {
        device.write(&storage, number as u64 * 1000, part).expect("write");
    }
    assert_eq!(device.counters().buffers, before.buffers);
    assert!(read_all(&device, &storage) == data);
}

#[test]
fn a_read_sees_the_moment_of_its_call() {
    for device in fresh_devices() {
        let storage = device.alloc(8, "test").expect("alloc");
        device.write(&storage, 0, &[1; 8]).expect("write");
        let read = device.begin_read::<u8>(&storage, 0, 8).watched();
        device.write(&storage, 0, &[2; 8]).expect("write");
        assert_eq!(block_on(read).expect("read"), [1; 8]);
        assert_eq!(read_all(&device, &storage), [2; 8]);
    }
}

#[test]
fn no_memory_is_an_error_that_names_what_it_was_for() {
    for device in fresh_devices() {
        let held = device.alloc(100, "held").expect("alloc");
        device.inject(Fault::OutOfMemory);
        let check = |error| match error {
            Error::OutOfMemory { what, live_bytes, .. } => assert_eq!((what.as_str(), live_bytes), ("weights", 112)),
            other => panic!("{other:?}"),
        };
        check(device.alloc(100, "weights").expect_err("refused"));
        if device.is_cpu() {
            check(device.alloc(1 << 50, "weights").expect_err("too much"));
        }
        assert_eq!(device.memory().live_bytes, 112, "what was refused is not counted");
        device.alloc(100, "weights").expect("the device is as good as before");
        assert_eq!(read_all(&device, &held), [0; 100]);
    }
}

#[test]
fn a_lost_device_says_so_for_ever_and_can_be_opened_again() {
    for device in fresh_devices() {
        let storage = device.alloc(64, "test").expect("alloc");
        let other = device.alloc(64, "test").expect("alloc");
        let read = device.begin_read::<u8>(&storage, 0, 64).watched();
        device.inject(Fault::Lost);
        let _either_is_fine: Result<_> = block_on(read); // begun before: its bytes or an error, but it ends
        let lost = |result: Result<()>| assert!(matches!(result, Err(Error::DeviceLost { .. })), "{result:?}");
        for _ in 0..2 {
            lost(device.alloc(64, "test").map(drop));
            lost(device.write(&storage, 0, &[1; 64]));
            lost(device.copy(&storage, 0, &other, 0, 64));
            lost(device.begin_read::<u8>(&storage, 0, 64).now().map(drop));
            lost(device.sync());
        }
        assert!(device.is_lost());
        let again = device.reopen().expect("reopen");
        assert_eq!(read_all(&again, &again.alloc(4, "test").expect("alloc")), [0; 4]);
    }
}
