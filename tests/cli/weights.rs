//! Runs that begin with weights from a file.

use super::{brasa, flags, folder, refuses, text};

#[test]
fn what_is_loaded_is_told_and_a_head_of_the_same_size_can_begin_anew() {
    let out = folder();
    let first = brasa(&flags(out.path(), "1", &["--name", "first"]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let weights = out.path().join("first/model.safetensors");
    let tuned = |name: &str, more: &[&str]| {
        let ran = brasa(&flags(out.path(), "1", &[&["--name", name, "--weights", text(&weights)], more].concat()));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stderr
    };
    let whole = tuned("whole", &[]);
    assert!(whole.contains("6 variables loaded from") && !whole.contains("first values"), "{whole}");
    let headless = tuned("headless", &["--skip-weights", "4.*"]);
    for words in ["4 variables loaded from", "2 keep their first values: 4.weight, 4.bias"] {
        assert!(headless.contains(words), "`{words}` is missing in: {headless}");
    }
    // a checkpoint's, without its optimizer's state
    let saved = std::fs::read_dir(out.path().join("first/checkpoints")).expect("a folder");
    let checkpoint = saved.map(|entry| entry.expect("a file").path()).max().expect("a checkpoint");
    let begun = flags(out.path(), "1", &["--name", "begun", "--weights", text(&checkpoint), "--skip-weights", "4.*"]);
    let begun = brasa(&begun).stderr;
    assert!(begun.contains("4 variables loaded from") && begun.contains("2 keep their first values"), "{begun}");
    let [of_run, of_checkpoint] = [&weights, &checkpoint].map(|weights| {
        let judged = brasa(&["eval", text(&out.path().join("first")), "--weights", text(weights), "--json"]);
        assert_eq!(judged.code, Some(0), "{}", judged.stderr);
        judged.stdout
    });
    assert_eq!(of_run, of_checkpoint);
    let bodiless = tuned("bodiless", &["--skip-weights", "0.*", "--skip-weights", "2.*"]);
    assert!(bodiless.contains("2 variables loaded from"), "{bodiless}");
}

/// `DataParallel`'s and its like.
#[test]
fn names_behind_a_prefix_are_found_and_the_rest_of_the_file_is_told() {
    let out = folder();
    let first = brasa(&flags(out.path(), "1", &["--name", "first"]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let bytes = std::fs::read(out.path().join("first/model.safetensors")).expect("it was saved");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("a whole file");
    let tensors = file.tensors();
    let mut renamed: Vec<_> = tensors.iter().map(|(name, view)| (format!("module.{name}"), view.clone())).collect();
    renamed.push(("module.more".to_owned(), tensors[0].1.clone()));
    let path = out.path().join("wrapped.safetensors");
    std::fs::write(&path, safetensors::serialize(renamed, None).expect("it fits")).expect("writable");
    let ran = brasa(&flags(out.path(), "1", &["--name", "second", "--weights", text(&path)]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for words in
        ["6 variables loaded from", "whose names begin with `module.`", "1 in the file stand for nothing here: more"]
    {
        assert!(ran.stderr.contains(words), "`{words}` is missing in: {}", ran.stderr);
    }
}

#[test]
fn weights_of_which_nothing_fits_are_refused() {
    let out = folder();
    let first = brasa(&flags(out.path(), "1", &["--name", "first"]));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let weights = out.path().join("first/model.safetensors");
    let given = ["--no-ui", "--device", "cpu", "--out", text(out.path()), "--weights", text(&weights)];
    let refuses_with = |more: &[&str], code, words: &[&str]| refuses(&[&given[..], more].concat(), code, words);
    let words = ["first/model.safetensors", "nothing in it fits", "0.weight", "conv1.weight"];
    refuses_with(&["--model", "resnet20"], 1, &words);
    let skipping = |pattern| ["--model", "mlp", "--skip-weights", pattern];
    refuses_with(&skipping("*"), 1, &["nothing in it fits", "left out"]);
    refuses_with(&skipping("fc.*"), 2, &["no variable", "`fc.*`"]);
    refuses(&["--skip-weights", "4.*"], 2, &["skip-weights", "give weights"]);
    assert_eq!(std::fs::read_dir(out.path()).expect("readable").count(), 1, "no other run was begun");
}
