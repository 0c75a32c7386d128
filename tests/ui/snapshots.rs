//! What pages look like: pictures of a recorded run, compared with those in `tests/ui/snapshots/`.
//!
//! The run in `tests/ui/recorded/` was written by `cargo run -- --no-ui --seed 1 --epochs 3 --model mlp --device cpu
//! --log-every 5` and is older than the code that reads it, as runs of users are. After a change that is meant,
//! `UPDATE_SNAPSHOTS=1 cargo test --test ui snapshots` takes the pictures anew; look at them.

use std::path::Path;

use brasa::ui::{Language, Options, Page, SavedSettings, Window};
use egui_kittest::{Harness, SnapshotOptions};

use crate::{common, wait};

const SIZE: [f32; 2] = [1000.0, 680.0];
/// Pixels that may differ by more than the comparison's own tolerance for colours: rasterisers disagree about the edges
/// of lines.
const FAILED_PIXELS: usize = 60;

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "other systems' GPUs draw the edges of lines in other ways")]
fn pages_look_as_they_did() {
    if common::devices().len() < 2 {
        return common::skipped("pictures of the window need a GPU adapter that draws them");
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let options = Options { roots: vec![here.join("recorded")], ..Options::default() };
    let mut window = Window::new(options, SavedSettings::default());
    window.speak(Language::English);
    let mut seen = Harness::builder()
        .with_size(SIZE)
        .with_max_steps(8)
        .wgpu()
        .build_ui_state(|ui, window: &mut Window| window.ui(ui), window);
    wait(&mut seen, "the run is read", |seen| seen.state().points() > 0);
    let snapshots = SnapshotOptions::new().max_failed_pixels(FAILED_PIXELS).output_path(here.join("snapshots"));
    // the others show this machine and this version
    let mut differences = Vec::new();
    for page in [Page::Curves, Page::Stages, Page::Graph, Page::Histograms, Page::Predictions, Page::Runs] {
        seen.state_mut().open_page(page);
        wait(&mut seen, "nothing moves any more", |seen| seen.run_ok().is_some());
        let name = format!("{page:?}").to_lowercase();
        differences.extend(seen.try_snapshot_options(&name, &snapshots).err());
    }
    seen.ctx.set_theme(egui::Theme::Light);
    seen.state_mut().speak(Language::Portuguese);
    seen.state_mut().open_page(Page::Stages);
    wait(&mut seen, "nothing moves any more", |seen| seen.run_ok().is_some());
    differences.extend(seen.try_snapshot_options("light_portuguese", &snapshots).err());
    assert!(differences.is_empty(), "{differences:#?}");
}
