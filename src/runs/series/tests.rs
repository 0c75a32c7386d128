use proptest::prelude::*;

use super::*;

fn series(values: impl IntoIterator<Item = f64>) -> Series {
    let mut series = Series::new();
    for (index, value) in values.into_iter().enumerate() {
        series.push(Point { step: index as u64, epoch: index as f32 / 100.0, seconds: index as f64 * 0.5, value });
    }
    series
}

fn decimated(series: &Series, axis: impl Into<Axis>, range: RangeInclusive<f64>, most: usize) -> Vec<[f64; 2]> {
    let mut out = vec![[7.0; 2]];
    series.decimated(axis, range, most, &mut out);
    out
}

fn smoothed(series: &Series, range: RangeInclusive<f64>, weight: f64, most: usize) -> Vec<[f64; 2]> {
    let mut out = vec![[7.0; 2]];
    series.smoothed(XAxis::Step, range, weight, most, &mut out);
    out
}

/// Noise that is the same every time.
fn noise(index: usize) -> f64 {
    let mixed = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)) % 1000) as f64 / 1000.0
}

/// TensorBoard's `classicSmoothing`, line by line.
fn classic(values: &[f64], weight: f64) -> Vec<f64> {
    let (mut last, mut accumulated) = (0.0, 0);
    let step = |&value: &f64| {
        if !value.is_finite() {
            return f64::NAN;
        }
        last = last * weight + (1.0 - weight) * value;
        accumulated += 1;
        let debias = if weight == 1.0 { 1.0 } else { 1.0 - weight.powi(accumulated) };
        last / debias
    };
    values.iter().map(step).collect()
}

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance || (a.is_nan() && b.is_nan()), "{a} and {b}");
}

#[test]
fn few_points_are_all_drawn() {
    let series = series([1.0, f64::NAN, 3.0, f64::INFINITY, -2.0]);
    let drawn = decimated(&series, XAxis::Time, 0.0..=2.0, 10);
    assert_eq!(drawn.len(), 5);
    assert_eq!([drawn[0], drawn[2], drawn[4]], [[0.0, 1.0], [1.0, 3.0], [2.0, -2.0]]);
    assert!(drawn[1][1].is_nan() && drawn[3][1].is_nan(), "{drawn:?}");
    assert_eq!((series.min(), series.max()), (Some(-2.0), Some(3.0)));
    // one more on either side of what is looked at
    let drawn = decimated(&series, XAxis::Time, 0.9..=1.1, 10);
    assert_eq!(drawn.iter().map(|[x, _]| *x).collect::<Vec<_>>(), [0.5, 1.0, 1.5]);
    assert_eq!(decimated(&series, XAxis::Time, 0.6..=0.7, 10).len(), 2, "the line through the picture");
}

#[test]
fn spikes_stay_wherever_they_are() {
    for spike in [0, 1, 31, 32, 4_095, 50_000, 99_999] {
        let series = series((0..100_000).map(|index| if index == spike { 100.0 } else { noise(index) }));
        for most in [100, 1_000, 10_000] {
            let drawn = decimated(&series, XAxis::Step, 0.0..=1e5, most);
            assert!(drawn.len() <= most && drawn.len() > most / 4, "{} of {most}", drawn.len());
            assert!(drawn.contains(&[spike as f64, 100.0]), "{spike}, {most}");
            assert!(drawn.is_sorted_by(|a, b| a[0] < b[0]));
            assert_eq!((drawn[0][0], drawn[drawn.len() - 1][0]), (0.0, 99_999.0));
        }
    }
}

#[test]
fn what_is_drawn_stays_while_points_are_added() {
    let mut series = series((0..50_000).map(noise));
    let range = 0.0..=60_000.0;
    let before = decimated(&series, XAxis::Step, range.clone(), 800);
    for step in 50_000..50_300 {
        series.push(Point { step, epoch: 0.0, seconds: 0.0, value: 0.5 });
    }
    let after = decimated(&series, XAxis::Step, range, 800);
    let same = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
    assert!(same + 40 > before.len(), "{same} of {}", before.len());
}

#[test]
fn a_logarithmic_axis_shows_its_beginning() {
    let series = series((0..1_000_000).map(noise));
    let drawn = decimated(&series, XAxis::Step.log(), 0.0..=1e6, 2_000);
    assert!(drawn.len() <= 2_000 && drawn.len() > 500, "{}", drawn.len());
    // each decade but the first has its share; zero has no logarithm
    assert_eq!(drawn[0][0], 1.0);
    for decade in 2..6 {
        let inside = drawn.iter().filter(|[x, _]| (10f64.powi(decade)..10f64.powi(decade + 1)).contains(x)).count();
        assert!(inside > 80, "{inside} in decade {decade}");
    }
    let linear = decimated(&series, XAxis::Step, 0.0..=1e6, 2_000);
    assert!(linear.iter().filter(|[x, _]| *x < 1e4).count() < 50);
}

#[test]
fn smoothing_is_tensorboards() {
    for weight in [0.0, 0.6, 0.99, 0.999] {
        let mut values: Vec<f64> = (0..3_000).map(noise).collect();
        values[700] = f64::NAN;
        values[0] = f64::NEG_INFINITY;
        let expected = classic(&values, weight);
        let series = series(values);
        let drawn = smoothed(&series, 0.0..=3_000.0, weight, 3_000);
        assert_eq!(drawn.len(), 3_000);
        for (index, [x, y]) in drawn.into_iter().enumerate() {
            assert_eq!(x, index as f64);
            close(y, expected[index], 1e-12);
        }
        // what was before the range is summarized, but what counts of it is not
        for [x, y] in smoothed(&series, 2_000.0..=2_100.0, weight, 3_000) {
            close(y, expected[x as usize], 1e-3);
        }
    }
}

#[test]
fn a_constant_stays_one_to_the_last_bit() {
    for constant in [412_368.0, 0.1, -1.0 / 3.0, 1e300] {
        let values = |index| if index % 7 == 3 { f64::NAN } else { constant };
        let series = series((0..3_000).map(values));
        for (weight, most) in [(0.0, 3_000), (0.6, 3_000), (0.999, 3_000), (0.6, 100), (0.999, 100)] {
            let drawn = smoothed(&series, 1_000.0..=2_500.0, weight, most);
            assert!(drawn.len() > 20);
            assert!(drawn.iter().all(|[_, y]| y.is_nan() || *y == constant), "{constant}, {weight}: {drawn:?}");
        }
        let seeds = band(&[&series, &series, &series], XAxis::Step, 0.0..=3e3, 0.6, 100);
        assert!(seeds.iter().all(|point| [point.low, point.mean, point.high] == [constant; 3]), "{constant}");
    }
}

#[test]
fn smoothing_many_points_is_close_to_tensorboards() {
    let values: Vec<f64> = (0..200_000).map(|index| (index as f64 / 2e4).sin() + 0.2 * noise(index)).collect();
    for weight in [0.9, 0.999, 0.9999] {
        let expected = classic(&values, weight);
        let drawn = smoothed(&series(values.clone()), 0.0..=2e5, weight, 2_000);
        assert!(drawn.len() <= 2_000 && drawn.len() > 500, "{}", drawn.len());
        for [x, y] in drawn {
            // 0.9 smooths over 10 points, fewer than a bucket has: noise of a tenth of its range is left in
            // TensorBoard's line
            close(y, expected[x as usize], if weight < 0.99 { 0.08 } else { 2e-3 });
        }
    }
}

#[test]
fn steps_may_come_in_any_order() {
    let mut series = Series::new();
    for step in (0..20_000_u64).rev().chain(5_000..30_000) {
        series.push(Point { step, epoch: f32::NAN, seconds: 1.0, value: step as f64 });
    }
    let drawn = decimated(&series, XAxis::Step, 100.0..=200.0, 1_000);
    assert_eq!(drawn.len(), 101);
    assert!(drawn.iter().all(|[x, y]| x == y && (100.0..=200.0).contains(x)));
    assert!(decimated(&series, XAxis::Step, 0.0..=1e9, 1_000).len() <= 1_000);
    assert_eq!(series.bounds(XAxis::Step), Some([0.0, 29_999.0]));
    assert_eq!(series.nearest(XAxis::Step, 1_234.4).map(|point| point.step), Some(1_234));
    // nothing is known of epochs, and all was at once
    assert_eq!(decimated(&series, XAxis::Epoch, 0.0..=1e9, 100), Vec::<[f64; 2]>::new());
    assert_eq!((series.bounds(XAxis::Epoch), series.nearest(XAxis::Epoch, 0.0)), (None, None));
    let drawn = decimated(&series, XAxis::Time, 0.0..=2.0, 100);
    assert!(drawn.len() <= 4 && drawn.contains(&[1.0, 0.0]) && drawn.contains(&[1.0, 29_999.0]), "{drawn:?}");
}

#[test]
fn the_nearest_point_is_found() {
    let series = series([1.0, f64::NAN, 3.0]);
    let at = |x| series.nearest(XAxis::Time, x).expect("points");
    assert_eq!([at(-5.0), at(0.2), at(0.3), at(9.0)].map(|point| point.step), [0, 0, 1, 2]);
    assert!(at(0.5).value.is_nan());
    assert_eq!(series.nearest(XAxis::Time, f64::NAN), None);
    assert_eq!(Series::new().nearest(XAxis::Step, 0.0), None);
}

#[test]
fn a_cut_drops_what_comes_later() {
    let mut cut = series((0..100).map(f64::from));
    cut.cut(100);
    assert_eq!(cut.len(), 100);
    cut.cut(40);
    assert_eq!((cut.len(), cut.max(), cut.last().map(|point| point.step)), (40, Some(39.0), Some(39)));
    let mut grown = series([0.5]);
    grown.append(cut.clone());
    assert_eq!(grown.len(), 41);
    cut.cut(0);
    assert!(cut.is_empty() && cut.min().is_none() && cut.last().is_none());
}

#[test]
fn the_largest_numbers_break_nothing() {
    let mut series = Series::new();
    let values = [f64::MAX, -f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN];
    for index in 0..10_000_u64 {
        let step = u64::MAX - 10_000 + index;
        series.push(Point {
            step,
            epoch: index as f32,
            seconds: index as f64 * 1e34,
            value: values[index as usize % 5],
        });
    }
    for axis in XAxis::ALL {
        let everything = f64::NEG_INFINITY..=f64::INFINITY;
        let drawn = decimated(&series, axis, everything.clone(), 200);
        assert!(!drawn.is_empty() && drawn.len() <= 200, "{}", drawn.len());
        let mut out = Vec::new();
        series.smoothed(axis, everything, 0.9, 200, &mut out);
        assert!(!out.is_empty() && out.iter().all(|[_, y]| !y.is_infinite()));
    }
    assert_eq!(series.points().next().map(|point| point.step), Some(u64::MAX - 10_000));
    // a place that is not finite is none
    series.push(Point { step: 0, epoch: f32::INFINITY, seconds: f64::MAX, value: 0.0 });
    assert_eq!(series.bounds(XAxis::Epoch), Some([0.0, 9_999.0]));
    assert!(series.last().is_some_and(|last| last.seconds.is_nan()));
}

#[test]
fn a_band_holds_its_series() {
    let shifted = |by: f64| series((0..500).map(move |index| noise(index) + by));
    let (a, b, c) = (shifted(0.0), shifted(1.0), series((0..250).map(|index| noise(index) + 5.0)));
    let points = band(&[&a, &b, &c], XAxis::Step, 0.0..=500.0, 0.0, 1_000);
    assert_eq!(points.len(), 500);
    for (index, point) in points.iter().enumerate() {
        let (mean, high) = if index < 250 { (2.0, 5.0) } else { (0.5, 1.0) };
        assert_eq!(point.x, index as f64);
        close(point.mean, noise(index) + mean, 1e-9);
        close(point.low, noise(index), 1e-9);
        close(point.high, noise(index) + high, 1e-9);
    }
    // other places: a line between one's own
    let mut coarse = Series::new();
    for step in [0, 100] {
        coarse.push(Point { step, epoch: 0.0, seconds: 0.0, value: step as f64 });
    }
    let flat = series(vec![0.0; 101]);
    let points = band(&[&coarse, &flat], XAxis::Step, 0.0..=100.0, 0.0, 1_000);
    assert!(points.iter().all(|point| (point.high - point.x).abs() < 1e-9 && point.low == 0.0), "{points:?}");
    assert!(band(&[], XAxis::Step, 0.0..=1.0, 0.0, 10).is_empty());
}

proptest! {
    /// Whatever the points are: not too many, each of them there, the least and the greatest among them.
    #[test]
    fn drawn_points_are_points(
        points in prop::collection::vec((0..5_000_u64, -1e3..1e3), 1..3_000),
        sorted: bool,
        most in 8..500_usize,
        from in -100.0..5_000.0,
        width in 0.0..6_000.0,
    ) {
        let mut points = points;
        if sorted {
            points.sort_by_key(|point| point.0);
        }
        let mut series = Series::new();
        for &(step, value) in &points {
            series.push(Point { step, epoch: f32::NAN, seconds: 0.0, value });
        }
        let range = from..=from + width;
        let drawn = decimated(&series, XAxis::Step, range.clone(), most);
        prop_assert!(drawn.len() <= most + 8, "{} of {most}", drawn.len());
        prop_assert!(drawn.iter().all(|&[x, y]| points.contains(&(x as u64, y))));
        if sorted {
            prop_assert!(drawn.is_sorted_by(|a, b| a[0] <= b[0]));
            let inside = || points.iter().filter(|point| range.contains(&(point.0 as f64))).map(|point| point.1);
            for extreme in [inside().reduce(f64::min), inside().reduce(f64::max)].into_iter().flatten() {
                prop_assert!(drawn.iter().any(|point| point[1] == extreme));
            }
        }
    }
}
