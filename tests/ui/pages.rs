//! Every page shows real content.

use brasa::train::Config;
use brasa::ui::{Options, Page};
use egui::accesskit::Role;
use egui::{Key, Modifiers};
use egui_kittest::kittest::{NodeT as _, Queryable as _};

use crate::{Seen, config, fill, trained, wait, window};

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
        ("Runs", "best loss"),
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
        assert_eq!(seen.unnamed_widgets(), [""; 0], "{page:?}");
        // a sign such as … is not a name
        let names = seen.get_all_by_role(Role::Button).filter_map(|button| button.accesskit_node().label());
        let signs: Vec<String> = names.filter(|name| !name.chars().any(char::is_alphabetic)).collect();
        assert!(signs.is_empty(), "{page:?}: {signs:?}");
    }
}

#[test]
fn charts_that_few_look_at_are_folded_and_open_by_a_click() {
    let (_out, mut seen) = recorded();
    seen.state_mut().open_page(Page::Curves);
    let says = |seen: &Seen, words: &str| seen.query_all_by_label_contains(words).next().is_some();
    wait(&mut seen, "a heading", |seen| says(seen, "stages ("));
    assert!(says(&seen, "epoch/loss") && !says(&seen, "stages/forward"));
    seen.get_by_label_contains("stages (").click_accesskit();
    wait(&mut seen, "its charts", |seen| says(seen, "stages/forward"));
    seen.get_by_label_contains("epoch (").click_accesskit();
    wait(&mut seen, "they are folded", |seen| !says(seen, "epoch/loss"));
}

#[test]
fn what_is_painted_is_said() {
    let (_out, mut seen) = recorded();
    let says = |seen: &mut Seen, words: &str| {
        wait(seen, words, |seen| {
            let pictures = seen.query_all_by_role(Role::Image);
            pictures.filter_map(|node| node.accesskit_node().label()).any(|label| label.contains(words))
        });
    };
    seen.state_mut().open_page(Page::Stages);
    says(&mut seen, "backward: ");
    says(&mut seen, "the last steps, ");
    seen.state_mut().open_page(Page::Predictions);
    says(&mut seen, ", taken for ");
    seen.get_by_label("confusion matrix").click();
    says(&mut seen, "confusion matrix: ");
}

#[test]
fn both_languages_fill_every_page() {
    let (_out, mut seen) = recorded();
    seen.get_by_label("language").click();
    for (page, word) in [
        (Page::Start, "Iniciar treinamento"),
        (Page::Curves, "Suavização"),
        // what to try
        (Page::Stages, "experimente"),
        (Page::Graph, "cores por"),
        (Page::Histograms, "ativações"),
        (Page::Predictions, "amostras de teste"),
        (Page::Devices, "memória livre"),
        (Page::Benchmark, "Medir todos"),
        (Page::Runs, "melhor"),
        (Page::About, "Licença"),
    ] {
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
    // each has something that none of the others has
    let marks = ["@compute", "kernel void", "[numthreads(", "OpEntryPoint"];
    for (dialect, mark) in ["WGSL", "MSL (Metal)", "HLSL (DX12)", "SPIR-V (Vulkan)"].iter().zip(marks) {
        // nothing moves before it is clicked
        seen.run_steps(5);
        seen.get_by_role_and_label(Role::ComboBox, "text in").click();
        seen.run_steps(5);
        seen.get_by_role_and_label(Role::Button, dialect).click();
        wait(&mut seen, dialect, |seen| code(seen).contains(mark));
        assert_eq!(marks.iter().filter(|mark| code(&seen).contains(**mark)).count(), 1, "{dialect}");
    }
}

#[test]
fn mistakes_stay_within_their_column() {
    let mut seen = window(Options::default());
    seen.state_mut().open_page(Page::Start);
    seen.run_steps(3);
    let place = |seen: &Seen, field| seen.get_by_role_and_label(Role::TextInput, field).rect();
    let before = ["epochs", "data-dir", "device"].map(|field| place(&seen, field).x_range());
    fill(&mut seen, "epochs", "abc");
    fill(&mut seen, "image-size", "x");
    fill(&mut seen, "schedule", "never and not on any day that anybody has heard of in all of these years");
    assert_eq!(["epochs", "data-dir", "device"].map(|field| place(&seen, field).x_range()), before);
    let (first, second) = (place(&seen, "epochs"), place(&seen, "device"));
    let said: Vec<_> = seen.query_all_by_label("a whole number").map(|node| node.rect()).collect();
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|said| said.right() < second.left()), "{said:?}");
    assert!(said.iter().any(|said| said.top() >= first.bottom() && said.left() >= first.left() - 1.0), "{said:?}");
}

/// The text of the kernel that is shown.
fn code(seen: &Seen) -> String {
    let mut texts = seen.query_all_by_role(Role::MultilineTextInput);
    texts.find_map(|node| node.accesskit_node().value()).unwrap_or_default()
}

#[test]
fn light_and_dark_are_changed_by_a_click() {
    let mut seen = window(Options::default());
    seen.run_steps(2);
    assert!(seen.ctx.global_style().visuals.dark_mode);
    seen.get_by_label("light").click();
    seen.run_steps(2);
    assert!(!seen.ctx.global_style().visuals.dark_mode);
    seen.get_by_label("dark").click();
    seen.run_steps(2);
    assert!(seen.ctx.global_style().visuals.dark_mode);
}

#[test]
fn keys_open_pages_and_leave_zooming_alone() {
    let mut seen = window(Options::default());
    let mut press = |modifiers, key| {
        seen.key_press_modifiers(modifiers, key);
        seen.run_steps(2);
        (seen.state().page(), seen.ctx.zoom_factor())
    };
    assert_eq!(press(Modifiers::COMMAND, Key::Num9).0, Page::Runs);
    assert_eq!(press(Modifiers::NONE, Key::F1).0, Page::About);
    assert!(press(Modifiers::COMMAND, Key::Plus).1 > 1.0);
    assert_eq!(press(Modifiers::COMMAND, Key::Num0), (Page::About, 1.0));
    assert_eq!(press(Modifiers::COMMAND, Key::Num2).0, Page::Curves);
}

#[test]
fn a_folder_is_opened_by_its_path_and_told() {
    let out = tempfile::tempdir().expect("a folder");
    trained(config(out.path()));
    let mut seen = window(Options::default());
    seen.run_steps(2);
    seen.get_by_label("further runs").click();
    seen.run_steps(2);
    fill(&mut seen, "path of a folder of runs", "/nowhere/at/all");
    seen.get_by_label("Open").click();
    wait(&mut seen, "a mistake is said", |seen| seen.query_by_label("nothing is there").is_some());
    fill(&mut seen, "path of a folder of runs", &out.path().display().to_string());
    seen.get_by_label("Open").click();
    wait(&mut seen, "it is told", |seen| seen.query_all_by_label_contains("1 runs in ").next().is_some());
    wait(&mut seen, "it is listed", |seen| seen.query_all_by_label_contains("digits-cnn-1").next().is_some());
}

/// The button of one kernel of the plan: its label ends with its shape.
fn kernel(seen: &Seen) -> Option<egui_kittest::Node<'_>> {
    let mut buttons = seen.get_all_by_role(Role::Button);
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
