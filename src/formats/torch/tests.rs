use std::io::Write as _;

use super::*;

/// What `tests/reference/record_state.py` wrote.
const STATE: &[u8] = include_bytes!("../../../tests/reference/state.pth");
const OTHERS: &[u8] = include_bytes!("../../../tests/reference/others.pth");
const CHECKPOINT: &[u8] = include_bytes!("../../../tests/reference/checkpoint.pth");

/// `record_state.py`'s `numbers`.
fn numbers(count: i32) -> Vec<f32> {
    (0..count).map(|index| (index - count / 2) as f32 / 8.0).collect()
}

fn tensors(file: &[u8]) -> Vec<StoredTensor> {
    let Contents { tensors, unreadable } = read(file).expect("a state dict");
    assert_eq!(unreadable, []);
    tensors
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(bytes)
}

#[test]
fn tensors_are_those_that_pytorch_wrote() {
    let tensors = tensors(STATE);
    let names: Vec<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    let expected =
        "fc.weight fc.bias transposed channels_last part same double half bfloat num_batches_tracked bytes truth empty";
    assert_eq!(names.join(" "), expected);
    let of = |name: &str| tensors.iter().find(|tensor| tensor.name == name).expect("it is there");
    let check = |name: &str, shape: &[usize], values: &[f32]| {
        let tensor = of(name);
        assert_eq!(
            (tensor.dtype, &tensor.shape[..], floats(&tensor.bytes)),
            (Dtype::F32, shape, values.to_vec()),
            "{name}"
        );
    };
    let (six, all) = (numbers(6), numbers(24));
    check("fc.weight", &[2, 3], &six);
    check("fc.bias", &[2], &numbers(2));
    check("transposed", &[3, 2], &[six[0], six[3], six[1], six[4], six[2], six[5]]);
    check("channels_last", &[1, 2, 3, 4], &all);
    check("part", &[3, 2], &[all[7], all[8], all[11], all[12], all[15], all[16]]);
    check("same", &[24], &all);
    check("empty", &[0, 3], &[]);
    let three = numbers(3);
    let doubles: Vec<f64> = bytemuck::pod_collect_to_vec(&of("double").bytes);
    assert_eq!((of("double").dtype, doubles), (Dtype::F64, three.iter().map(|&x| x.into()).collect()));
    for (name, dtype, sign_and_first) in [("half", Dtype::F16, 0xb000_u16), ("bfloat", Dtype::BF16, 0xbe00)] {
        assert_eq!((of(name).dtype, &of(name).bytes[..2]), (dtype, &sign_and_first.to_le_bytes()[..]), "{name}");
    }
    assert_eq!((of("num_batches_tracked").dtype, of("num_batches_tracked").shape.len()), (Dtype::I64, 0));
    assert_eq!(of("num_batches_tracked").bytes, 7_i64.to_le_bytes());
    assert_eq!((of("bytes").dtype, &of("bytes").bytes[..]), (Dtype::U8, &[0, 1, 255][..]));
    assert_eq!((of("truth").dtype, &of("truth").bytes[..]), (Dtype::BOOL, &[1, 0, 1][..]));
}

#[test]
fn weights_are_found_among_other_things() {
    let tensors = tensors(CHECKPOINT);
    let said: Vec<_> = tensors.iter().map(|tensor| (tensor.name.as_str(), floats(&tensor.bytes))).collect();
    assert_eq!(said, [("weight", numbers(2)), ("bias", vec![0.5])]);
}

#[test]
fn tensors_that_cannot_be_read_are_named_with_the_reason() {
    let Contents { tensors, unreadable } = read(OTHERS).expect("a state dict");
    let said: Vec<_> = tensors.iter().map(|tensor| (tensor.name.as_str(), floats(&tensor.bytes))).collect();
    assert_eq!(said, [("weight", numbers(2)), ("bias", vec![0.0; 2])]);
    let reasons = [
        ("negative", "resolve_neg"),
        ("complex", "torch.ComplexFloatStorage"),
        ("sparse", "_rebuild_sparse_tensor"),
        ("unsigned", "_rebuild_tensor_v3"),
    ];
    for ((name, said), (expected, reason)) in unreadable.iter().zip(reasons) {
        assert!(name == expected && said.contains(reason), "{name} {said}");
    }
    assert_eq!(unreadable.len(), reasons.len());
}

/// No damage makes it panic, and what is read after all is as large as it says.
#[test]
fn damaged_files_are_refused() {
    for file in [STATE, CHECKPOINT, OTHERS] {
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "{length} bytes");
        }
        let mut refused = 0;
        for position in 0..file.len() {
            for bits in [0x01, 0x80, 0xff] {
                let mut bytes = file.to_vec();
                bytes[position] ^= bits;
                let Ok(contents) = read(&bytes) else {
                    refused += 1;
                    continue;
                };
                refused += usize::from(!contents.unreadable.is_empty());
                for StoredTensor { dtype, shape, bytes, .. } in contents.tensors {
                    assert_eq!(bytes.len(), shape.iter().product::<usize>() * dtype.bitsize() / 8);
                }
            }
        }
        // what lies in the archive has checksums
        assert!(refused > file.len(), "{refused}");
    }
}

/// An archive with this pickle and one storage.
fn archive(pickle: &[u8], storage: &[u8]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in [("a/data.pkl", pickle), ("a/data/0", storage)] {
        zip.start_file(name, options).expect("in memory");
        zip.write_all(bytes).expect("in memory");
    }
    zip.finish().expect("in memory").into_inner()
}

/// A state dict with one float tensor, `x`, of a storage of `count` elements.
fn dict(function: &str, sizes: &str, strides: &str) -> Vec<u8> {
    let storage = "(X\u{7}\0\0\0storagectorch\nFloatStorage\nX\u{1}\0\0\0\u{30}X\u{3}\0\0\0cpuK\u{8}tQ";
    let text = format!("\u{80}\u{2}}}X\u{1}\0\0\0xc{function}\n({storage}K\0{sizes}{strides}\u{89}}}tRs.");
    // opcodes are bytes, not UTF-8
    text.chars().map(|byte| u8::try_from(u32::from(byte)).expect("Latin-1")).collect()
}

#[test]
fn what_is_no_tensor_of_its_storage_is_refused() {
    let storage: Vec<u8> = numbers(8).iter().flat_map(|number| number.to_le_bytes()).collect();
    let rebuild = "torch._utils\n_rebuild_tensor_v2";
    let good = tensors(&archive(&dict(rebuild, "K\u{2}K\u{4}\u{86}", "K\u{4}K\u{1}\u{86}"), &storage));
    assert_eq!((good.len(), &good[0].shape[..], floats(&good[0].bytes)), (1, &[2, 4][..], numbers(8)));
    let huge = "J\u{ff}\u{ff}\u{ff}\u{7f}";
    let cases = [
        (rebuild, "K\u{3}K\u{4}\u{86}", "K\u{4}K\u{1}\u{86}", "beyond its storage"),
        (rebuild, "K\u{2}K\u{4}\u{86}", "K\u{4}\u{85}", "is damaged"),
        (rebuild, "K\u{9}K\u{1}\u{86}", "K\0K\0\u{86}", "repeats elements"),
        (rebuild, &format!("{huge}{huge}{huge}\u{87}"), &format!("{huge}{huge}{huge}\u{87}"), "beyond its storage"),
        (rebuild, "J\u{ff}\u{ff}\u{ff}\u{ff}\u{85}", "K\u{1}\u{85}", "is damaged"),
        ("torch._utils\n_rebuild_qtensor", "K\u{2}\u{85}", "K\u{1}\u{85}", "_rebuild_qtensor"),
        // it is not called, and makes no tensor
        ("os\nsystem", "K\u{2}\u{85}", "K\u{1}\u{85}", "no tensors in it"),
    ];
    for (function, sizes, strides, reason) in cases {
        let error = match read(&archive(&dict(function, sizes, strides), &storage)) {
            Ok(contents) => format!("{:?}", contents.unreadable),
            Err(error) => error,
        };
        assert!(error.contains(reason), "{reason}: {error}");
    }
    // millions of axes of one element would take hours
    let (ones, zeros) = ("K\u{1}".repeat(100), "K\0".repeat(100));
    let many = read(&archive(&dict(rebuild, &format!("({ones}t"), &format!("({zeros}t")), &storage)).expect("a dict");
    assert!(many.unreadable[0].1.contains("is damaged"), "{many:?}");
}

#[test]
fn tensors_may_be_wrapped_a_few_times() {
    let storage: Vec<u8> = numbers(8).iter().flat_map(|number| number.to_le_bytes()).collect();
    let plain = dict("torch._utils\n_rebuild_tensor_v2", "K\u{2}K\u{4}\u{86}", "K\u{4}K\u{1}\u{86}");
    let wrapped = |times: usize| {
        let at = plain.iter().position(|&byte| byte == b'c').expect("a call");
        let (before, call) = plain[..plain.len() - 2].split_at(at);
        let around = b"ctorch._utils\n_rebuild_parameter\n".repeat(times);
        read(&archive(&[before, &around, call, &b"\x85R".repeat(times), b"s."].concat(), &storage)).expect("a dict")
    };
    assert_eq!(floats(&wrapped(1).tensors[0].bytes), numbers(8));
    assert_eq!(floats(&wrapped(4).tensors[0].bytes), numbers(8));
    let many = wrapped(200_000);
    assert!(many.tensors.is_empty() && many.unreadable[0].1.contains("is damaged"), "{:?}", many.unreadable);
}

/// What a few bytes of a pickle ask for again and again.
#[test]
fn small_files_take_little_memory() {
    // a name of 100,000 bytes, made into a class 100,000 times
    let mut names = b"\x80\x04X\xa0\x86\x01\0".to_vec();
    names.extend(std::iter::repeat_n(b'a', 100_000));
    names.extend(b"q\0");
    names.extend(b"h\0h\0\x93".repeat(100_000));
    names.push(b'.');
    assert!(read(&archive(&names, b"")).expect_err("a long name").contains("too long"));
    // one storage, again and again
    let storage = vec![1; 40_000];
    let mut dict = b"\x80\x02}(".to_vec();
    let storage_id = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x08tQ";
    for number in 0..20_u8 {
        dict.extend(b"X\x01\0\0\0");
        dict.push(b'a' + number);
        dict.extend(b"ctorch._utils\n_rebuild_tensor_v2\n(");
        dict.extend(storage_id);
        dict.extend(b"K\0M\x10\x27\x85K\x01\x85\x89}tR");
    }
    dict.extend(b"u.");
    assert!(read(&archive(&dict, &storage)).expect_err("too much").contains("8 times its size"));
}

#[test]
fn pickles_that_make_no_sense_are_refused() {
    let pickles: [(&[u8], &str); 8] = [
        (b"", "ends early"),
        (b".", "lacks a value"),
        (b"\x80\x02K\x01.", "no state dict"),
        (b"\x80\x02}.", "it has nothing"),
        (b"(((((.", "lacks a value"),
        (b"\x80\x02h\x05.", "has not made"),
        (b"X\xff\xff\xff\xff", "ends early"),
        (b"I1\n.", "not known here: 0x49"),
    ];
    for (pickle, reason) in pickles {
        let error = read(&archive(pickle, b"")).expect_err(reason);
        assert!(error.contains(reason), "{reason}: {error}");
    }
    for (bytes, reason) in
        [(LEGACY, "PyTorch before 1.6"), (b"PK\x03\x04and so on", "is it whole"), (&archive(b"", b"")[..60], "whole")]
    {
        let error = read(bytes).expect_err(reason);
        assert!(error.contains(reason), "{reason}: {error}");
    }
}
