//! Every page shows real content.

use brasa::train::Config;
use brasa::ui::{Language, Options, Page};
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use crate::{Seen, config, trained, wait, window};

/// Two recorded runs.
fn recorded() -> (tempfile::TempDir, Seen) {
    let out = tempfile::tempdir().expect("a folder");
    for seed in [1, 2] {
        trained(Config { seed, epochs: 2, ..config(out.path()) });
    }
    let mut seen = window(Options { roots: vec![out.path().into()], ..Options::default() });
    wait(&mut seen, "the runs are there", |seen| seen.query_all_by_label_contains("digits-cnn-2").next().is_some());
    (out, seen)
}

#[test]
fn every_page_is_reached_by_its_tab_and_says_something() {
    let (_out, mut seen) = recorded();
    let contents = [
        ("Start", "Start training"),
        ("Curves", "gradient_norm"),
        ("Stages", "backward"),
        ("Graph", "kernels, "),
        ("Histograms", "weights/"),
        ("Predictions", "after step"),
        ("Devices", "Measure its limits"),
        ("Benchmark", "Measure all devices"),
        ("Runs", "best test score"),
        ("About", "Portuguese for ember"),
    ];
    for (tab, content) in contents {
        let tabs: Vec<_> = seen.get_all_by_label(tab).collect();
        tabs[0].click();
        wait(&mut seen, content, |seen| seen.query_all_by_label_contains(content).next().is_some());
    }
}

#[test]
fn every_page_settles_and_names_its_widgets() {
    let (_out, mut seen) = recorded();
    for page in Page::ALL {
        seen.state_mut().open_page(page);
        wait(&mut seen, "nothing moves any more", |seen| seen.run_ok().is_some());
        // also checks that every widget has a name
        seen.run_ok();
    }
}

#[test]
fn both_languages_fill_every_page() {
    let (_out, mut seen) = recorded();
    seen.state_mut().speak(Language::Portuguese);
    for (page, word) in [(Page::Curves, "Suavização"), (Page::Stages, "Os últimos passos"), (Page::Runs, "melhor")] {
        seen.state_mut().open_page(page);
        wait(&mut seen, word, |seen| seen.query_all_by_label_contains(word).next().is_some());
    }
}

#[test]
fn a_kernel_shows_its_text_in_every_language() {
    let (_out, mut seen) = recorded();
    seen.state_mut().open_page(Page::Graph);
    wait(&mut seen, "the plan is read", |seen| kernel(seen).is_some());
    kernel(&seen).expect("a kernel").click();
    wait(&mut seen, "the kernel's text", |seen| seen.query_all_by_label_contains("memory traffic").next().is_some());
}

/// The button of one kernel of the plan: its label ends with its shape.
fn kernel(seen: &Seen) -> Option<egui_kittest::Node<'_>> {
    let mut buttons = seen.get_all_by_role(egui::accesskit::Role::Button);
    buttons.find(|node| node.accesskit_node().label().is_some_and(|label| label.contains('[')))
}

#[test]
fn the_window_holds_at_640_by_480() {
    let out = tempfile::tempdir().expect("a folder");
    trained(config(out.path()));
    let mut seen = crate::sized(Options { roots: vec![out.path().into()], ..Options::default() }, [640.0, 480.0]);
    seen.run_steps(20);
    for page in Page::ALL {
        seen.state_mut().open_page(page);
        seen.run_steps(4);
        assert!(seen.get_all_by_label("About").next().is_some(), "tabs are in reach");
    }
}
