//! Learning rate schedules: PyTorch's sequences (`reference/record_schedules.py`), their text, and what they refuse.

use std::collections::BTreeMap;

use brasa::optim::{Schedule, Scheduler};

#[derive(serde::Deserialize)]
struct Record {
    metrics: Vec<f64>,
    rates: BTreeMap<String, Vec<f64>>,
}

fn record() -> Record {
    serde_json::from_str(include_str!("../reference/schedules.json")).expect("a record")
}

const BASE: f64 = 0.1;

#[test]
fn every_learning_rate_is_pytorchs() {
    let record = record();
    for (text, rates) in &record.rates {
        let schedule: Schedule = text.parse().expect("a schedule");
        let mut scheduler = Scheduler::new(schedule, &[BASE, 3.0 * BASE]).expect("a schedule with its lengths");
        assert!(rates.len() > 100);
        for (step, (&expected, &metric)) in rates.iter().zip(&record.metrics).enumerate() {
            let got = scheduler.lr();
            assert!((got - expected).abs() <= 1e-12, "{text}: {got} instead of {expected} at step {step}");
            scheduler.step_metric(metric);
        }
    }
}

#[test]
fn a_scheduler_continues_from_its_saved_state() {
    let record = record();
    for text in record.rates.keys() {
        let mut scheduler = Scheduler::new(text.parse().expect("a schedule"), &[BASE]).expect("with its lengths");
        for (step, &metric) in record.metrics.iter().enumerate() {
            if step % 10 == 3 {
                let saved = serde_json::to_string(&scheduler).expect("it serialises");
                scheduler = serde_json::from_str(&saved).expect("it deserialises");
            }
            assert_eq!(scheduler.steps(), step as u64);
            assert!((scheduler.lr() - record.rates[text][step]).abs() <= 1e-12, "{text} at step {step}");
            scheduler.step_metric(metric);
        }
    }
}

#[test]
fn text_is_what_it_was_parsed_from() {
    let open = ["cosine", "onecycle", "polynomial:power=2", "linear", "cosine:warmup=5", "cyclic:max=1,warmup=3"];
    let record = record();
    for text in record.rates.keys().map(String::as_str).chain(open) {
        let schedule: Schedule = text.parse().expect("a schedule");
        assert_eq!(schedule.to_string().parse::<Schedule>().expect("its own text"), schedule, "{text} as {schedule}");
        let json = serde_json::to_string(&schedule).expect("it serialises");
        assert_eq!(serde_json::from_str::<Schedule>(&json).expect("it deserialises"), schedule);
    }
}

#[test]
fn a_warm_up_rises_to_the_base_and_the_rest_takes_what_is_left() {
    let schedule = "cosine:warmup=9".parse::<Schedule>().expect("a schedule").for_run(109);
    let rates: Vec<f64> = (0..=109).map(|step| schedule.lr(1.0, step)).collect();
    let near = |step: usize, expected: f64| assert!((rates[step] - expected).abs() < 1e-12, "{step}: {}", rates[step]);
    near(0, 0.1);
    near(8, 0.9);
    near(9, 1.0);
    near(59, 0.5);
    near(109, 0.0);
}

#[test]
fn groups_keep_their_own_base() {
    let mut scheduler =
        Scheduler::new("exponential:gamma=0.5".parse().expect("a schedule"), &[0.1, 0.4]).expect("fine");
    scheduler.step();
    assert_eq!(scheduler.learning_rates(), [0.05, 0.2]);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    for (text, reason) in [
        ("cosin", "known are constant, linear, step"),
        ("cosine:power=2", "unknown setting `power`; known are steps, min, warmup"),
        ("cosine:min", "`min` is not of the form key=value"),
        ("step", "size is missing"),
        ("step:size=0", "size must be at least 1"),
        ("step:size=many", "size is `many`"),
        ("multistep:at=3/x", "at is `3/x`"),
        ("onecycle:anneal=log", "known are cos, linear"),
        ("exponential:gamma=nan", "NaN is not a value"),
        ("cyclic:max=1e400", "inf is not a value"),
        ("exponential:gamma=-0.5", "-0.5 is not a value"),
        ("linear:start=1,end=-1", "-1 is not a value"),
        ("onecycle:rise=1.5", "rise must be from 0 to 1"),
        ("onecycle:rise=0.6,three-phase=true", "at most 0.5"),
        ("plateau:factor=1", "factor must be"),
        ("cosine-restarts:first=0", "at least 1"),
        ("cosine:steps=0", "at least 1"),
        ("onecycle * step:size=3", "cannot be chained"),
        ("cosine:min=0.1 * step:size=3", "cannot be chained"),
        ("linear then@x cosine", "not a step to start at"),
        ("linear then@9 cosine then@5 cosine", "must rise"),
        ("plateau then@9 cosine", "must stand alone"),
        ("", "unknown name"),
    ] {
        let error = text.parse::<Schedule>().expect_err(text).to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    let open = Scheduler::new("cosine".parse().expect("a schedule"), &[0.1]).expect_err("no length").to_string();
    assert!(open.contains("for_run"), "{open}");
}

#[test]
fn a_run_without_steps_has_learning_rates() {
    for text in ["cosine", "onecycle", "polynomial", "linear", "cosine:warmup=3", "onecycle:rise=0", "onecycle:rise=1"]
    {
        let schedule = text.parse::<Schedule>().expect("a schedule").for_run(0);
        for step in 0..6 {
            assert!(schedule.lr(0.1, step).is_finite(), "{text} at {step}");
        }
    }
}

#[test]
fn a_plateau_goes_on_from_another_base_by_the_same_share() {
    let scheduler = |base: f64| Scheduler::new("plateau:patience=0,factor=0.5".parse().expect("a schedule"), &[base]);
    let mut before = scheduler(0.01).expect("a scheduler");
    (0..3).for_each(|_| before.step_metric(1.0));
    assert_eq!(before.lr(), 0.0025);
    let mut same = scheduler(0.01).expect("a scheduler");
    same.go_on_from(&before);
    assert_eq!(same.lr(), before.lr());
    let mut lower = scheduler(0.001).expect("a scheduler");
    lower.go_on_from(&before);
    assert!((lower.lr() - 0.00025).abs() < 1e-12, "{}", lower.lr());
}

#[test]
fn settings_beyond_all_counting_do_not_hang() {
    for text in ["cosine-restarts:first=4,longer=4611686018427387904", "cyclic:max=1,up=18446744073709551615"] {
        let schedule = text.parse::<Schedule>().expect("a schedule");
        assert!((0..50).all(|step| schedule.lr(0.1, step).is_finite()), "{text}");
    }
}

#[test]
fn a_rate_that_has_come_to_nothing_stays_so() {
    for text in ["linear:start=1,end=0,steps=10 * exponential:gamma=2", "cyclic:max=0.1,up=7,mode=exp_range,gamma=1.5"]
    {
        let schedule: Schedule = text.parse().expect("a schedule");
        assert!((0..5000).all(|step| !schedule.lr(0.1, step).is_nan()), "{text}");
    }
    let falling: Schedule = "linear:start=1,end=0,steps=10 * exponential:gamma=2".parse().expect("a schedule");
    assert_eq!(falling.lr(0.1, 4000), 0.0);
}
