//! The pictures of the README: trains the digits for a few epochs without a display, opens every page of the window on
//! no screen, and writes what is seen to `docs/`.
//!
//! `cargo run --release --example screenshots [FOLDER]`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use brasa::train::{Config, Control, Trainer};
use brasa::ui::{Language, Options, Page, SavedSettings, Window};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("docs"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    let runs = tempfile::tempdir()?;
    // three of one kind, and one of another
    for (seed, model) in [(1, "cnn"), (2, "cnn"), (3, "cnn"), (1, "mlp")] {
        let config = Config {
            model: brasa::train::ModelName::new(model)?,
            seed,
            epochs: 8,
            out: runs.path().into(),
            name: Some(format!("{model}-seed-{seed}")),
            ..Config::default()
        };
        let mut trainer = Trainer::new(config)?;
        trainer.add_tensorboard();
        trainer.run(&Control::default(), &mut |_| {})?;
    }
    let mut window =
        Window::new(Options { roots: vec![runs.path().into()], ..Options::default() }, SavedSettings::default());
    window.speak(Language::English);
    let mut seen = Harness::builder()
        .with_size([1280.0, 800.0])
        .wgpu()
        .build_ui_state(|ui, window: &mut Window| window.ui(ui), window);
    for page in Page::ALL {
        seen.state_mut().open_page(page);
        if page == Page::Benchmark {
            seen.step();
            seen.get_by_label("Measure all devices").click();
            while seen.query_by_label("round_trip").is_none() {
                seen.step();
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        // files are read, and drivers asked, on other threads
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            seen.step();
            std::thread::sleep(Duration::from_millis(30));
        }
        let name = format!("{page:?}").to_lowercase();
        seen.render()?.save(folder.join(format!("{name}.png")))?;
        println!("{}", folder.join(format!("{name}.png")).display());
    }
    Ok(())
}
