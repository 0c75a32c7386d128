//! The program as its users meet it: what it prints, where, and with which exit code.

mod auto;
mod bench;
#[path = "../common/mod.rs"]
mod common;
mod doctor;
mod eval;
mod export;
#[cfg(target_os = "linux")]
mod full_disk;
mod infer;
mod infer_onnx;
mod killed;
mod numbers;
mod outside;
mod pets;
mod resume;
#[cfg(target_os = "linux")]
mod shards;
#[cfg(unix)]
mod signals;
mod tune;
mod weights;
mod workflow;

use std::path::Path;
use std::process::{Command, Output};

use brasa::data::{Dataset, Sample, Target, Values};
use image::{Rgb, RgbImage};
use serde_json::Value;
use tempfile::TempDir;

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn of(Output { status, stdout, stderr }: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

fn brasa(arguments: &[&str]) -> Ran {
    brasa_with(arguments, &[])
}

/// Runs the program with these environment variables; what trains does so without a window, which nobody would close
/// where there always is a display.
fn brasa_with(arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    const HEADLESS: [&str; 4] = ["--no-ui", "--json", "--help", "--version"];
    let trains = arguments.first().is_none_or(|first| first.starts_with("--") || *first == "train");
    if trains && !arguments.iter().any(|argument| HEADLESS.contains(argument)) {
        return brasa_as_it_is(&[arguments, &["--no-ui"]].concat(), variables);
    }
    brasa_as_it_is(arguments, variables)
}

/// The same, with a window if there is a display.
fn brasa_as_it_is(arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    Ran::of(command(arguments).envs(variables.iter().copied()).output().expect("the program starts"))
}

/// The program with these arguments, and none of the environment's settings.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brasa"));
    let settings = ["BRASA_DATA_DIR", "BRASA_DEVICE", "BRASA_DEBUG", "BRASA_DUMP", "BRASA_VALIDATE", "BRASA_CHECKED"];
    // nor should a window open on anybody's desktop
    for variable in settings.into_iter().chain(["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"]) {
        command.env_remove(variable);
    }
    command.args(arguments);
    command
}

/// A digit of the program's as a picture, larger, in colour and with 256 levels, and its class.
fn digit(data: &impl Dataset, index: usize) -> (RgbImage, u32) {
    let mut sample = Sample::default();
    data.get(index, &mut sample).expect("a digit");
    let (Values::U8(levels), Target::Class(class)) = (&sample.input, &sample.target) else { panic!("a digit") };
    let at = |x: u32, y: u32| levels[(y / 3 * 8 + x / 3) as usize] * 15;
    (RgbImage::from_fn(24, 24, |x, y| Rgb([at(x, y); 3])), *class)
}

/// Fails with `code`, says all of `words` on standard error, nothing on standard output, and shows no panic.
#[track_caller]
fn refuses(arguments: &[&str], code: i32, words: &[&str]) {
    let ran = brasa(arguments);
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    for word in words {
        assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The devices to try, as `--device` takes them.
fn devices() -> Vec<&'static str> {
    common::devices().iter().map(|device| if device.is_cpu() { "cpu" } else { "gpu" }).collect()
}

/// Flags of a run on the CPU, unless `more` names another device.
fn flags<'a>(out: &'a Path, epochs: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let common = ["--model", "mlp", "--batch-size", "64", "--no-ui", "--epochs", epochs, "--out", text(out)];
    let device: &[&str] = if more.contains(&"--device") { &[] } else { &["--device", "cpu"] };
    [&common[..], device, more].concat()
}

/// Flags of a run of two epochs, which takes a moment.
fn short<'a>(out: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    flags(out, "2", more)
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

#[test]
fn help_explains_settings_and_exit_codes() {
    for arguments in [&["--help"][..], &["train", "--help"]] {
        let ran = brasa(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        for word in ["--batch-size", "--optimizer", "sgd", "resnet20", "[default: digits]", "Exit codes", "130"] {
            assert!(ran.stdout.contains(word), "`{word}` is missing in: {}", ran.stdout);
        }
    }
    let [short, long] = ["-h", "--help"].map(|flag| brasa_as_it_is(&["train", flag], &[]).stdout);
    for heading in ["\nOptions:\n", "\nData:\n", "\nTraining:\n", "\nDevice and precision:\n", "\nRun folder:\n"] {
        assert!(short.contains(heading) && long.contains(heading), "{heading:?} is missing in: {short}\n{long}");
    }
    assert!(long.contains("--momentum") && !short.contains("--momentum"), "{short}");
    assert!(short.lines().count() < 80 && short.lines().all(|line| line.chars().count() <= 100), "{short}");
    for command in ["train", "eval", "bench", "tune", "devices", "doctor", "data"] {
        let help = brasa(&[command, "--help"]).stdout;
        assert!(!help.contains("[`") && !help.contains("`]"), "a link of the source's documentation: {help}");
    }
    assert!(brasa(&["--version"]).stdout.starts_with("brasa "));
}

#[test]
fn wrong_flags_are_refused_with_what_is_known() {
    refuses(&["--epoch", "3"], 2, &["--epoch", "--epochs"]);
    refuses(&["trian"], 2, &["trian"]);
    refuses(&["--model", "vgg"], 2, &["vgg", "mlp", "resnet20"]);
    refuses(&["--dataset", "minst"], 2, &["minst", "digits", "mnist", "folder:PATH"]);
    refuses(&["--dataset", "shapes:size=0"], 2, &["size is `0`"]);
    let headless = |more: &[&'static str]| [&["--no-ui", "--device", "cpu"], more].concat();
    refuses(&headless(&["--model", "unet"]), 2, &["`unet`", "each pixel", "`digits`", "shapes"]);
    let shapes = "shapes:n=20,size=16";
    refuses(&headless(&["--dataset", shapes, "--model", "cnn"]), 2, &["`cnn`", "one for each pixel", "--model unet"]);
    refuses(&headless(&["--dataset", shapes, "--model", "unet", "--augment=mixup"]), 2, &["mixup", "masks"]);
    let odd = "shapes:n=20,size=20";
    refuses(&headless(&["--dataset", odd, "--model", "unet"]), 2, &["20x20", "by 8", "--image-size 16 or 24"]);
    for (model, size) in [("tutorial-cnn", "16"), ("vgg11-bn", "32"), ("convnext-tiny", "32")] {
        refuses(&headless(&["--model", model]), 2, &[model, "[1, 8, 8]", "add --image-size", size]);
    }
    refuses(&headless(&["--checkpoint-activations"]), 2, &["checkpoint-activations", "no blocks"]);
    refuses(&["--optimizer", "lbfgs"], 2, &["lbfgs", "adamw"]);
    refuses(&["--epochs", "many"], 2, &["many", "--epochs"]);
    refuses(&["--epochs", "0"], 2, &["epochs is 0"]);
    refuses(&["--batch-size", "0"], 2, &["batch-size is 0"]);
    refuses(&["--lr=-1"], 2, &["lr is -1"]);
    refuses(&["--weight-decay=-1"], 2, &["weight-decay is -1"]);
    refuses(&["--schedule", "sometimes"], 2, &["sometimes", "cosine"]);
    refuses(&["--schedule", "step:size=0"], 2, &["step:size=0", "at least 1"]);
    refuses(&["--clip-norm", "0"], 2, &["clip-norm is 0"]);
    refuses(&headless(&["--model", "resnet18", "--batch-size", "1"]), 2, &["batch-size", "bn", "no variance"]);
    refuses(&["--name", "a/b"], 2, &["a/b", "one folder"]);
}

#[test]
fn no_test_opens_a_window() {
    let out = folder();
    let flags = ["--model", "mlp", "--epochs", "1", "--device", "cpu", "--out", text(out.path())];
    // a display that is none: whoever wants a window says that it got none
    for command in [&[][..], &["train"]] {
        let ran = brasa_with(&[command, &flags[..]].concat(), &[("DISPLAY", ":no-such-display")]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(!ran.stderr.contains("window"), "{}", ran.stderr);
    }
}

#[test]
fn a_wrong_device_is_refused_with_those_there_are() {
    refuses(&["--device", "abacus"], 2, &["error: unknown device `abacus`", "cpu", "best", "auto"]);
    refuses(&["train", "--device", ""], 2, &["error: unknown device"]);
}

#[test]
fn a_flag_wins_over_the_variable_that_names_a_device() {
    let out = folder();
    let variables = [("BRASA_DEVICE", "abacus")];
    let common = ["--model", "mlp", "--epochs", "1", "--out", text(out.path())];
    let ran = brasa_with(&common, &variables);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("unknown device `abacus`"), "{}", ran.stderr);
    let ran = brasa_with(&[&common[..], &["--device", "best"]].concat(), &variables);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn a_variable_that_is_empty_is_not_there() {
    let out = folder();
    for (number, empty) in ["", " "].into_iter().enumerate() {
        let variables = [("BRASA_DEVICE", empty), ("BRASA_DATA_DIR", "")];
        let name = number.to_string();
        let flags = ["--model", "mlp", "--epochs", "1", "--out", text(out.path()), "--name", &name];
        let ran = brasa_with(&flags, &variables);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let run = out.path().join(name);
        let evaluated = brasa_with(&["eval", text(&run), "--json"], &variables);
        assert_eq!(evaluated.code, Some(0), "{}", evaluated.stderr);
    }
    let [empty, unset] = [&[("BRASA_DATA_DIR", "")][..], &[]].map(|variables| brasa_with(&["data"], variables));
    assert_eq!((empty.code, empty.stdout), (unset.code, unset.stdout), "{}", empty.stderr);
}

#[test]
fn a_variable_that_is_no_number_is_told() {
    let out = folder();
    let ran = brasa_with(&flags(out.path(), "1", &[]), &[("BRASA_DEBUG", "abc")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(
        ran.stderr.matches("BRASA_DEBUG is `abc`, but must be a number from 0 to 3").count(),
        1,
        "{}",
        ran.stderr
    );
}

#[test]
fn negative_numbers_are_values_and_no_flags() {
    for (flag, value, word) in [
        ("--lr", "-1", "lr is -1, but must be a positive number"),
        ("--momentum", "0.99999999999", "momentum is 0.99999999999, but must lie in 0..1"),
        ("--lr", "-1e-3", "lr is -0.001, but must be a positive number"),
        ("--label-smoothing", "-1E-2", "label-smoothing is -0.01"),
        ("--class-weights", "1,-1", "class-weights is 1,-1, but weights must be finite and not negative"),
        ("--momentum", "-0.5", "momentum is -0.5"),
        ("--weight-decay", "-0.001", "weight-decay is -0.001"),
        ("--epochs", "-3", "at least 1"),
        ("--batch-size", "-3", "at least 1"),
        ("--seed", "-1", "-1 is not in 0..=4294967295"),
    ] {
        for command in [&[][..], &["train"]] {
            refuses(
                &[command, &["--no-ui", "--device", "cpu", flag, value]].concat(),
                2,
                &[flag.trim_matches('-'), word],
            );
        }
    }
    refuses(&["tune", "--budget", "-1"], 2, &["--budget", "-1"]);
    refuses(&["--lr", "--epochs", "3"], 2, &["a value is required for '--lr <RATE>'"]);
}

#[test]
fn flags_that_take_a_value_behind_an_equals_sign_say_so() {
    refuses(&["--augment", "cifar"], 2, &["error: --augment takes a value behind an equals sign", "--augment=cifar"]);
    refuses(&["train", "--epochs", "1", "--augment", "flip,crop=4"], 2, &["write --augment=flip,crop=4"]);
    refuses(&["--cache", "true", "--no-ui"], 2, &["write --cache=true"]);
    refuses(&["tune", "--strict", "no"], 2, &["write --strict=no"]);
    refuses(&["--cache", "train"], 2, &["the subcommand 'train' cannot be used with"]);
    for (arguments, usage) in [
        (&["--augment", "cifar"][..], "brasa [OPTIONS]"),
        (&["train", "--augment", "cifar"], "brasa train [OPTIONS]"),
        (&["tune", "--augment", "cifar"], "brasa tune [OPTIONS]"),
    ] {
        refuses(arguments, 2, &["write --augment=cifar", &format!("Usage: {usage}")]);
    }
    // of two commands' flags of one name, that of the command that is given, and only what is wrong is told
    for (arguments, words) in [
        (&["data", "--download", "minst"][..], ["unknown data set `minst`", "NAME"]),
        (&["--dataset", "tests"], ["unknown data set `tests`", "did you mean folder:tests?"]),
        (&["--epochs", "99999999999999999999999"], ["'99999999999999999999999'", "it is too large"]),
        (&["--schedule", "step:every=3"], ["size is missing", "as in step:size=1000"]),
        (&["data", "mnist", "--download", "cifar10"], ["unexpected argument 'cifar10'", "Usage: brasa data"]),
        (&["train", "--bogus", "--augment", "cifar"], ["unexpected argument '--bogus'", "Usage: brasa train"]),
    ] {
        let ran = brasa(arguments);
        assert!(ran.code == Some(2) && !ran.stderr.contains("equals"), "{}", ran.stderr);
        for word in words {
            assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
        }
    }
    let help = brasa(&["--help"]).stdout;
    assert!(help.contains(" flip,crop=4,rotate=15,color=0.2,erase=0.25,mixup=0.2\n"), "a list to be copied: {help}");
    assert!(!help.contains("brasa::"), "a path of the library: {help}");
}

#[test]
fn a_batch_of_more_samples_than_are_held_out_is_evaluated_without_padding() {
    let out = folder();
    let large = ["--batch-size", "1000000", "--model", "mlp", "--epochs", "1", "--device", "cpu"];
    let ran = brasa(&[&large[..], &["--json", "--out", text(out.path())]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let events = json_lines(&ran.stdout);
    // 359 samples of 64 bytes, through layers of 128, 64 and 10
    let bytes = events[1]["inference"]["activation_bytes"].as_u64().expect("a number");
    assert!(bytes < 2 << 20, "{}", events[1]);
    assert_eq!(events.last().expect("events")["test"]["samples"], 359);
}

#[test]
fn a_model_that_does_not_fit_the_data_is_refused() {
    let out = folder();
    let arguments = ["--device", "cpu", "--model", "tutorial-cnn", "--out", text(out.path())];
    refuses(&arguments, 2, &["error: model `tutorial-cnn`", "16"]);
    assert_eq!(std::fs::read_dir(out.path()).expect("readable").count(), 0, "nothing is left behind");
}

#[cfg(target_os = "linux")]
#[test]
fn a_model_that_finds_no_memory_on_the_host_is_an_error() {
    let out = folder();
    for size in ["4000", "16384"] {
        // 4 GiB of addresses stand for a machine of so much memory
        let limited = ["-c", "ulimit -v 4194304; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_brasa")];
        let mut command = Command::new("sh");
        command.args(limited).args(short(out.path(), &["--image-size", size]));
        let output = command.output().expect("the program starts");
        let message = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(1), "{message}");
        for words in ["error: out of memory on ", "first values of 0.weight f32 [128, ", "use a smaller batch or model"]
        {
            assert!(message.contains(words), "`{words}` is missing in: {message}");
        }
    }
    assert_eq!(std::fs::read_dir(out.path()).expect("readable").count(), 0, "nothing is left behind");
}

#[test]
fn a_damaged_config_file_is_named_by_line() {
    let out = folder();
    let file = out.path().join("run.toml");
    let config = |contents: &str| {
        std::fs::write(&file, contents).expect("writable");
        ["--config", text(&file)].map(str::to_owned)
    };
    let refuses_file = |contents: &str, words: &[&str]| {
        let [flag, path] = config(contents);
        refuses(&[&flag, &path], 2, &[&["error: ", "run.toml"], words].concat());
    };
    refuses_file("epochs = 3\nbatch-size = \"big\"\n", &["line 2", "batch-size"]);
    refuses_file("epoch = 3\n", &["line 1", "epoch", "epochs"]);
    refuses_file("epochs = = 3\n", &["line 1"]);
    refuses(&["--config", "there-is-no-such-file.toml"], 1, &["error: there-is-no-such-file.toml"]);
}

#[test]
fn an_output_folder_that_cannot_be_made_is_refused_before_training() {
    let out = folder();
    let file = out.path().join("file");
    std::fs::write(&file, "in the way").expect("writable");
    refuses(&short(&file, &[]), 1, &["error: ", "file"]);
    refuses(&short(&file.join("below"), &[]), 1, &["error: ", "below"]);
}

#[test]
fn a_run_tells_its_events_as_json_and_is_saved() {
    let out = folder();
    let ran = brasa(&short(out.path(), &["--json", "--log-every", "1", "--seed", "1"]));
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let events = json_lines(&ran.stdout);
    let named = |name: &str| events.iter().filter(|event| event["event"] == name).collect::<Vec<_>>();
    assert_eq!(events[0]["event"], "started");
    assert_eq!((&events[0]["train_samples"], &events[0]["test_samples"]), (&Value::from(1438), &Value::from(359)));
    for (key, value) in [("precision", "f32"), ("version", env!("CARGO_PKG_VERSION")), ("backend", "native")] {
        assert_eq!(events[0][key], value);
    }
    let memory = &events[1];
    assert_eq!(memory["event"], "memory");
    let bytes = |kind: &str, field: &str| memory[kind][field].as_u64().expect("a number");
    // 64 * 128, 128 * 64 and 64 * 10 weights, and as many biases as there are columns, each in whole lines of 256 bytes
    assert_eq!(bytes("training", "model_bytes"), 4 * (8192 + 128 + 8192 + 64 + 640 + 64));
    assert_eq!(bytes("inference", "model_bytes"), bytes("training", "model_bytes"));
    assert!(bytes("training", "state_bytes") > 2 * bytes("training", "model_bytes"), "{memory}");
    assert!(bytes("inference", "activation_bytes") < bytes("training", "activation_bytes"), "{memory}");
    assert!(memory["needed_bytes"].as_u64() > Some(0), "{memory}");
    assert_eq!(memory["free_bytes"].is_u64(), cfg!(target_os = "linux"), "{memory}");
    let (steps, per_epoch) = (named("step"), 1438_usize.div_ceil(64));
    assert_eq!(steps.len(), 2 * per_epoch);
    for (number, step) in steps.iter().enumerate() {
        assert_eq!(step["step"], number + 1);
        assert_eq!(step["epoch"], number / per_epoch + 1);
        assert!(step["loss"].as_f64().expect("a number").is_finite());
    }
    assert_eq!((named("epoch").len(), named("evaluated").len()), (2, 2));
    let last = named("evaluated")[1];
    assert!(last["accuracy"].as_f64().expect("a number") > 0.8, "{last}");
    assert_eq!(last["samples"], 359);

    let finished = events.last().expect("events");
    assert_eq!((&finished["event"], &finished["completed"]), (&Value::from("finished"), &Value::from(true)));
    assert_eq!(finished["test"]["correct"], last["correct"]);
    let stages = finished["stages"].as_array().expect("a list");
    let names = ["load", "augment", "batch", "upload", "forward", "loss", "backward", "update", "evaluate", "log"];
    assert_eq!(stages.iter().map(|stage| stage["stage"].as_str().expect("a name")).collect::<Vec<_>>(), names);
    for stage in stages.iter().filter(|stage| stage["stage"] != "augment") {
        assert!(stage["busy_ms"].as_f64().expect("a number") > 0.0, "{stage}");
        assert!(stage["source"].is_string(), "{stage}");
    }

    let run = out.path().join("digits-mlp-1");
    assert_eq!(finished["folder"], text(&run));
    let config = std::fs::read_to_string(run.join("config.toml")).expect("it was saved");
    for setting in ["seed = 1\n", "lr = ", "weight-decay = 0.0\n"] {
        assert!(config.contains(setting), "{config}");
    }
    assert!(config.contains("precision = \"f32\"\n"), "{config}");
    let environment = std::fs::read_to_string(run.join("environment.toml")).expect("it was saved");
    let environment: toml::Table = environment.parse().expect("TOML");
    assert_eq!(environment["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    assert!(environment["driver"].as_str().is_some_and(|driver| driver.starts_with("brasa ")), "{environment}");
    for key in ["build", "target", "adapter", "backend", "precision"] {
        assert!(environment[key].as_str().is_some_and(|value| !value.is_empty()), "{environment}");
    }
    let metrics = json_lines(&std::fs::read_to_string(run.join("metrics.jsonl")).expect("it was saved"));
    assert_eq!(metrics.len(), steps.len() + 4);
    let weights = std::fs::read(run.join("model.safetensors")).expect("it was saved");
    let weights = safetensors::SafeTensors::deserialize(&weights).expect("a whole file");
    assert_eq!(weights.tensor("0.weight").expect("PyTorch's name").shape(), [128, 64]);
}

#[test]
fn a_schedule_moves_the_learning_rate_and_every_optimizer_trains() {
    let out = folder();
    let run = |name: &str, more: &[&str]| {
        let arguments = [&["--name", name], more].concat();
        let ran = brasa(&short(out.path(), &arguments));
        assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
        let lines = metrics(&out.path().join(name));
        lines.into_iter().filter(|line| line["kind"] == "train").collect::<Vec<_>>()
    };
    let number = |line: &Value, key: &str| line[key].as_f64().expect("a number");
    let more = ["--lr=0.001", "--schedule", "cosine:warmup=10", "--clip-norm", "1", "--label-smoothing", "0.1"];
    let lines = run("cosine", &more);
    let rates: Vec<f64> = lines.iter().map(|line| number(line, "lr")).collect();
    assert!(rates[..10].is_sorted() && rates[10..].is_sorted_by(|a, b| a >= b), "{rates:?}");
    assert!(rates[0] < 2e-4 && rates[10] == 0.001 && rates[rates.len() - 1] < 1e-5, "{rates:?}");
    for name in ["nadam", "radam", "adamax", "rmsprop", "adagrad", "adadelta", "lion", "lamb"] {
        let more = ["--optimizer", name];
        let lines = run(name, &more);
        let mean = |lines: &[Value]| lines.iter().map(|line| number(line, "loss")).sum::<f64>() / lines.len() as f64;
        let (first, last) = (mean(&lines[..5]), mean(&lines[lines.len() - 5..]));
        assert!(last < 0.97 * first, "{name}: {first} to {last}");
    }
}

/// What must be equal in two runs of the same seed: everything but times and memory.
fn metrics(run: &Path) -> Vec<Value> {
    let mut lines = json_lines(&std::fs::read_to_string(run.join("metrics.jsonl")).expect("it was saved"));
    for line in &mut lines {
        for field in ["elapsed_s", "memory_bytes"] {
            line.as_object_mut().expect("an object").remove(field).expect("a number");
        }
        line.as_object_mut().expect("an object").remove("samples_per_second");
    }
    lines
}

#[test]
fn the_seed_decides_every_bit() {
    let out = folder();
    let run = |name: &str, more: &[&str]| {
        let ran = brasa(&short(out.path(), &[&["--name", name, "--augment"], more].concat()));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let path = out.path().join(name);
        (metrics(&path), std::fs::read(path.join("model.safetensors")).expect("it was saved"))
    };
    let first = run("first", &["--seed", "7"]);
    assert!(first == run("second", &["--seed", "7", "--workers", "3"]), "the number of workers changed the results");
    assert!(first != run("third", &["--seed", "8"]), "the seed changed nothing");
    let high = run("high", &["--seed", "7", "--matmul-precision", "high"]);
    assert!(first == high, "on the CPU products are as they are");
    let config = std::fs::read_to_string(out.path().join("high/config.toml")).expect("it was saved");
    assert!(config.contains("matmul-precision = \"high\"\n"), "what goes on from it goes on with it: {config}");
    let again = out.path().join("first/config.toml");
    assert!(first == run("fourth", &["--config", text(&again)]), "a run's own settings gave other results");
}

#[test]
fn a_run_is_never_overwritten() {
    let out = folder();
    let arguments = short(out.path(), &["--name", "mine"]);
    let ran = brasa(&arguments);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    refuses(&arguments, 2, &["error: ", "mine", "exists"]);
}

#[test]
fn results_go_to_standard_output_and_messages_to_standard_error() {
    let out = folder();
    let ran = brasa(&short(out.path(), &[]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for word in ["stage", "forward", "test accuracy", "digits-mlp-1"] {
        assert!(ran.stdout.contains(word), "`{word}` is missing in: {}", ran.stdout);
    }
    for word in ["memory: ", " KiB to train (model ", " to evaluate; "] {
        assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
    }
    assert!(ran.stderr.contains("epoch 2/2") && !ran.stderr.contains('\u{1b}'), "plain lines: {}", ran.stderr);
}

#[cfg(all(unix, not(target_os = "macos"), feature = "ui"))]
#[test]
fn without_a_display_it_says_so_and_trains_in_the_terminal() {
    let out = folder();
    let flags = ["--model", "mlp", "--epochs", "1", "--device", "cpu", "--out", text(out.path())];
    let displays: [(&[(&str, &str)], _); 2] = [
        (&[], "there is no display"),
        (&[("DISPLAY", ":987654")], "Failed to open connection to X server (DISPLAY is :987654)"),
    ];
    for (number, (variables, why)) in (1..).zip(displays) {
        let ran = brasa_as_it_is(&flags, variables);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let told = format!("no window can be opened: {why}; training in the terminal instead, as with --no-ui\n");
        assert!(ran.stderr.starts_with(&told), "{}", ran.stderr);
        assert!(out.path().join(format!("digits-mlp-{number}/model.safetensors")).exists());
        let ran = brasa_as_it_is(&["view", text(out.path())], variables);
        assert_eq!(ran.code, Some(1), "there is nothing to fall back on");
        assert_eq!(ran.stderr, format!("error: no window can be opened: {why}\n"));
    }
}

#[cfg(feature = "ui")]
#[test]
fn a_window_is_opened_over_runs_only() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("writable");
    let missing = folder.path().join("missing");
    for (path, found) in [
        (folder.path(), "there is no run in this folder"),
        (&file, "this is a file"),
        (&missing, "there is no such folder"),
    ] {
        // whatever is wrong with a display comes later
        refuses(&["view", text(path)], 2, &[&format!("error: {}: {found}; name the folder of a run", path.display())]);
    }
}

#[test]
fn devices_are_listed() {
    let ran = brasa(&["devices"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("cpu  ") && ran.stdout.contains("driver"), "{}", ran.stdout);
    let ran = brasa(&["devices", "--json"]);
    let devices = json_lines(&ran.stdout);
    let cpu = devices.iter().find(|device| device["selector"] == "cpu").expect("it is always there");
    assert_eq!(cpu["notes"][0]["about"], "type", "{}", ran.stdout);
}

/// What a finished run left behind: its losses step by step, and its test accuracy.
fn curve(run: &Path) -> (Vec<f64>, f64) {
    let lines = metrics(run);
    let of = |kind: &str, field: &str| {
        let lines = lines.iter().filter(|line| line["kind"] == kind);
        lines.map(|line| line[field].as_f64().expect("a number")).collect::<Vec<_>>()
    };
    (of("train", "loss"), *of("test", "accuracy").last().expect("it was evaluated"))
}

#[test]
fn every_device_learns_the_same() {
    let out = folder();
    let mut curves = Vec::new();
    for device in devices() {
        let flags = ["--seed", "1", "--epochs", "1", "--device", device, "--out", text(out.path()), "--name", device];
        let ran = brasa(&[&flags[..], &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let finished = json_lines(&ran.stdout).pop().expect("events");
        for stage in finished["stages"].as_array().expect("a list") {
            let name = stage["stage"].as_str().expect("a name");
            if device == "gpu" && ["forward", "loss", "backward", "update", "evaluate"].contains(&name) {
                // A driver without a clock of its own is timed by fences.
                let source = stage["source"].as_str().expect("it was measured");
                assert!(["timestamp", "fence"].contains(&source), "{stage}");
                assert!(stage["device"].as_str().is_some_and(|place| place.starts_with("gpu:")), "{stage}");
            }
        }
        curves.push(curve(&out.path().join(device)));
    }
    let (losses, accuracy) = &curves[0];
    for (other_losses, other_accuracy) in &curves[1..] {
        for (step, (a, b)) in losses.iter().zip(other_losses).take(20).enumerate() {
            assert!((a - b).abs() <= 1e-4 * a, "step {}: {a} and {b}", step + 1);
        }
        assert!((accuracy - other_accuracy).abs() <= 0.005, "{accuracy} and {other_accuracy}");
    }
}

#[test]
fn a_run_without_settings_reads_handwritten_digits() {
    let out = folder();
    let ran = brasa(&["--seed", "1", "--device", "cpu", "--out", text(out.path())]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (_, accuracy) = curve(&out.path().join("digits-cnn-1"));
    assert!(accuracy >= 0.975, "{}", ran.stdout);
}

#[test]
fn a_run_that_leaves_the_numbers_says_where_and_keeps_what_it_had() {
    for device in devices() {
        let out = folder();
        let ran = brasa(&short(out.path(), &["--lr", "1e30", "--device", device]));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        let weights = out.path().join("digits-mlp-1/model.safetensors");
        let place = ["contract", "src/models/mlp.rs:", "module `"];
        for word in [&place[..], &["error: step 2: ", "not applied", "learning rate", text(&weights)]].concat() {
            assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        let weights = std::fs::read(weights).expect("it was saved");
        let weights = safetensors::SafeTensors::deserialize(&weights).expect("a whole file");
        let values = weights.tensor("0.weight").expect("PyTorch's name").data();
        let finite = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes")).is_finite();
        assert!(values.chunks_exact(4).all(finite), "{device}: the step that failed was applied");
    }
}

#[test]
fn plans_and_kernels_are_shown_and_dumped_on_request() {
    for device in devices() {
        let out = folder();
        let dump = out.path().join("dump");
        let variables = [("BRASA_DEBUG", "2"), ("BRASA_DUMP", text(&dump))];
        let ran = brasa_with(&flags(out.path(), "1", &["--device", device]), &variables);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let timed = ran.stderr.lines().filter(|line| line.contains(" GFLOP/s ") && line.contains(" GB/s "));
        let timed: Vec<&str> = timed.collect();
        for stage in ["forward", "loss", "backward", "update", "evaluate"] {
            assert!(timed.iter().any(|line| line.trim_start().starts_with(stage)), "{stage}: {}", ran.stderr);
        }
        let files: Vec<_> =
            std::fs::read_dir(&dump).expect("it was made").map(|file| file.expect("readable")).collect();
        let mut endings = vec![".plan.txt", ".program.txt", ".explain.txt", ".dot"];
        endings.extend((device == "gpu").then_some(".wgsl"));
        for ending in endings {
            let name = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().ends_with(ending);
            assert!(files.iter().any(name), "no file ends in {ending}");
        }
    }
}

#[test]
fn a_run_can_be_checked_kernel_by_kernel_without_changing_it() {
    for device in devices() {
        let out = folder();
        let run = |name: &str, variables: &[(&str, &str)]| {
            let flags = flags(out.path(), "1", &["--device", device, "--name", name]);
            let ran = brasa_with(&flags, variables);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            metrics(&out.path().join(name))
        };
        let plain = run("plain", &[]);
        for variable in ["BRASA_VALIDATE", "BRASA_CHECKED"] {
            assert!(run(variable, &[(variable, "1")]) == plain, "{device}, {variable}: the results changed");
        }
    }
}

#[test]
fn data_sets_are_listed_with_where_their_files_are() {
    let place = folder();
    let variables = [("BRASA_DATA_DIR", text(place.path()))];
    let ran = brasa_with(&["data"], &variables);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for word in ["oxford-pets", "CC BY-SA 4.0", "missing", "images.tar.gz", "folder:PATH", "shapes", text(place.path())]
    {
        assert!(ran.stdout.contains(word), "`{word}` is missing in: {}", ran.stdout);
    }
    let ran = brasa_with(&["data", "cifar10", "--json"], &variables);
    let told = json_lines(&ran.stdout);
    assert_eq!((told.len(), told[0]["bytes"].as_u64()), (1, Some(170_052_171)));
    assert!(told[0]["missing"][0].as_str().expect("an address").ends_with("/cifar-10-binary.tar.gz"));
    for (name, about) in
        [("digits", "1,797"), ("shapes:n=20", "shapes"), ("csv:my.csv", "a table"), ("folder:a", "tar")]
    {
        let ran = brasa_with(&["data", name, "--json"], &variables);
        let own = json_lines(&ran.stdout).remove(0);
        assert_eq!((ran.code, own["name"].as_str()), (Some(0), Some(name)), "{}", ran.stderr);
        assert!(own["about"].as_str().is_some_and(|told| told.contains(about)), "{own}");
        assert_eq!(own["missing"], Value::Array(Vec::new()), "{own}");
        let keys = |of: &Value| of.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&own), keys(&told[0]));
    }
    assert!(brasa_with(&["data", "digits"], &variables).stdout.contains("not fetched: its files are the program's"));
    std::fs::create_dir_all(place.path().join("cifar10/cifar-10-batches-bin")).expect("writable");
    assert!(brasa_with(&["data", "cifar10"], &variables).stdout.contains("there"));
    refuses(&["data", "minst"], 2, &["minst", "mnist"]);
    refuses(&["data", "--download"], 2, &["NAME"]);
}

#[test]
fn a_data_set_that_is_not_there_is_told_with_what_to_do() {
    let place = folder();
    let out = place.path().join("runs");
    let flags = ["--dataset", "mnist", "--device", "cpu", "--data-dir", text(place.path()), "--out", text(&out)];
    let command = format!("brasa data mnist --download --data-dir {}", text(place.path()));
    refuses(&flags, 1, &[&command, "train-images-idx3-ubyte.gz", text(place.path())]);
    assert!(!out.exists(), "what cannot start leaves nothing behind");
}

/// A server that has something else under every name.
#[test]
fn what_is_fetched_is_checked() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}/files/", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).and_then(|_| {
                let body = vec![7; 9_912_422];
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len())?;
                stream.write_all(&body)
            });
        }
    });
    let place = folder();
    let variables = [("BRASA_DATA_URL_MNIST", address.as_str())];
    let ran = brasa_with(&["data", "mnist", "--download", "--data-dir", text(place.path())], &variables);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    for word in [&format!("{address}train-images-idx3-ubyte.gz"), "SHA-256", "440fcabf73cc", "was not kept"] {
        assert!(ran.stderr.contains(word), "`{word}` is missing in: {}", ran.stderr);
    }
    assert_eq!(std::fs::read_dir(place.path().join("mnist")).expect("made").count(), 0);
}

#[test]
fn a_network_learns_from_a_folder_of_pictures() {
    let place = folder();
    for number in 0..24_u8 {
        let (class, level) = if number % 2 == 0 { ("dark", number) } else { ("light", 255 - number) };
        let path = place.path().join("my pictures").join(class);
        std::fs::create_dir_all(&path).expect("writable");
        image::GrayImage::from_pixel(8, 8, image::Luma([level]))
            .save(path.join(format!("{number}.png")))
            .expect("writable");
    }
    let set = format!("folder:{}", text(&place.path().join("my pictures")));
    let out = place.path().join("runs");
    let set = ["--dataset", &set, "--model", "mlp", "--batch-size", "8", "--epochs", "20"];
    let ran = brasa(&[&set[..], &["--device", "cpu", "--no-ui", "--out", text(&out)]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let (_, accuracy) = curve(&out.join("folder-mypictures-mlp-1"));
    assert!(accuracy >= 1.0, "{}", ran.stdout);
}

#[test]
fn a_table_has_a_network_for_rows() {
    let place = folder();
    let table = place.path().join("rows.csv");
    let rows: String = (0..40).map(|number| format!("{number};{};{}\n", 40 - number, number % 2)).collect();
    std::fs::write(&table, format!("a;b;class\n{rows}")).expect("writable");
    let dataset = format!("csv:{}", text(&table));
    let common = ["--dataset", &dataset, "--epochs", "1", "--device", "cpu", "--no-ui", "--out", text(place.path())];
    let ran = brasa(&common);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(place.path().join("csv-rows-mlp-1").is_dir());
    refuses(&[&common[..], &["--model", "cnn"]].concat(), 2, &["`cnn`", "not [2]", "take --model mlp"]);
    refuses(&[&common[..], &["--model", "unet"]].concat(), 2, &["`unet`", "such as `mlp`"]);
}
