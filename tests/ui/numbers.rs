//! A run whose model predicts numbers.

use std::path::Path;

use brasa::train::{Config, ModelName};
use brasa::ui::{Options, Page};
use egui_kittest::kittest::Queryable as _;

use crate::{Seen, config, trained, wait, window};

/// A short run on a table with prices.
fn recorded(out: &Path) -> Seen {
    let line = |row: usize| format!("{},{},{}\n", row % 13, row % 7, 1_000 + 40 * (row % 13) - 25 * (row % 7));
    let table = out.join("houses.csv");
    std::fs::write(&table, "rooms,age,price\n".to_owned() + &(0..200).map(line).collect::<String>()).expect("writable");
    let dataset = format!("csv:{},target=price", table.display()).parse().expect("a name");
    let model = ModelName::new("mlp").expect("a model");
    trained(Config { dataset, model, epochs: 8, lr: Some(0.01), ..config(out) });
    window(Options { roots: vec![out.into()], ..Options::default() })
}

#[test]
fn pages_show_what_is_predicted_and_by_how_much_it_is_missed() {
    let out = tempfile::tempdir().expect("a folder");
    let mut seen = recorded(out.path());
    let says = |seen: &mut Seen, words: &str| {
        wait(seen, words, |seen| seen.query_all_by_label_contains(words).next().is_some());
    };
    seen.state_mut().open_page(Page::Runs);
    says(&mut seen, "R² 0.");
    seen.state_mut().open_page(Page::Curves);
    says(&mut seen, "r2");
    seen.state_mut().open_page(Page::Predictions);
    for words in ["price", "worst first", "#"] {
        says(&mut seen, words);
    }
    assert!(seen.query_all_by_label("confusion matrix").next().is_none());
    seen.get_by_label("worst first").click();
    seen.run_steps(3);
    seen.get_by_label("predicted against true").click();
    says(&mut seen, "Each dot is a held-out sample");
    seen.get_by_label("errors").click();
    for words in ["40 held-out samples", "mean absolute error", "RMSE"] {
        says(&mut seen, words);
    }
}
