//! How a transform is divided.

/// Points of a workgroup: as many as 16 KiB hold, which WebGPU promises.
pub(super) const POINTS: usize = 2048;

/// The largest radix; its transform is by the definition.
const LARGEST: usize = 31;

/// Lines that are not adjacent in memory are read by 64 bytes or more, if they are as short as that.
const STRIDED: usize = 128;

/// The radices whose product this is, or `None` if one would have to be too large.
pub(super) fn radices(mut n: usize) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for radix in std::iter::once(4).chain(2..=LARGEST) {
        while n > 1 && n.is_multiple_of(radix) {
            found.push(radix);
            n /= radix;
        }
    }
    (n == 1).then_some(found)
}

/// The sizes of at most three passes of transforms that fit into a workgroup, or `None` if there are none. Lines with
/// `inner` elements between their points, and those of several passes, are short.
pub(super) fn split(n: usize, inner: usize) -> Option<Vec<usize>> {
    radices(n)?;
    let one = if inner == 1 { POINTS } else { STRIDED };
    if n <= one {
        return Some(vec![n]);
    }
    in_two(n, 2 * STRIDED)
        .or_else(|| (n <= POINTS).then(|| vec![n]))
        .or_else(|| in_three(n, 2 * STRIDED))
        .or_else(|| in_two(n, POINTS))
        .or_else(|| in_three(n, POINTS))
}

/// Two factors up to `limit` that differ as little as they can.
fn in_two(n: usize, limit: usize) -> Option<Vec<usize>> {
    let first = (1..=n.isqrt()).rev().find(|&factor| n.is_multiple_of(factor))?;
    (n / first <= limit).then(|| vec![first, n / first])
}

fn in_three(n: usize, limit: usize) -> Option<Vec<usize>> {
    let root = (1..).find(|root| root * root * root >= n)?;
    let rests = (1..=root).rev().filter(|&factor| n.is_multiple_of(factor));
    rests.filter_map(|first| Some([vec![first], in_two(n / first, limit)?].concat())).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radices_are_factors_and_passes_fit() {
        assert_eq!(radices(1).as_deref(), Some(&[][..]));
        assert_eq!(radices(2048).as_deref(), Some(&[4, 4, 4, 4, 4, 2][..]));
        assert_eq!(radices(31 * 7 * 6).as_deref(), Some(&[2, 3, 7, 31][..]));
        assert_eq!(radices(37), None);
        for n in 1..20_000 {
            for inner in [1, 3] {
                let (Some(factors), Some(passes)) = (radices(n), split(n, inner)) else {
                    assert_eq!(split(n, inner), None, "{n}");
                    continue;
                };
                assert_eq!(factors.iter().product::<usize>(), n);
                assert_eq!(passes.iter().product::<usize>(), n);
                assert!(passes.iter().all(|&pass| pass <= POINTS) && passes.len() <= 3, "{n}: {passes:?}");
            }
        }
        assert!((1..=POINTS).filter_map(radices).all(|radices| radices.len() <= 8));
        assert_eq!(split(2048, 1), Some(vec![2048]));
        assert_eq!(split(4096, 1), Some(vec![64, 64]));
        assert_eq!(split(1024, 7), Some(vec![32, 32]));
        assert_eq!(split(1 << 20, 1), Some(vec![64, 128, 128]));
        assert_eq!(split(1 << 33, 1), Some(vec![2048; 3]));
    }
}
