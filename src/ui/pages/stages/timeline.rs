//! The last steps in time: a lane for each thread and device.

use std::collections::BTreeSet;
use std::path::PathBuf;

use egui::{Align2, Color32, FontId, Rect, Role, Sense, Ui, Vec2, WidgetInfo, pos2};

use crate::runs::Recording;
use crate::stage::Stage;
use crate::train::record::{Lane, Span, Timeline};

use crate::ui::palette;
use crate::ui::text::Text;

/// Points.
const LANE: f32 = 24.0;
const NAMES: f32 = 140.0;
const AXIS: f32 = 18.0;
/// Spans narrower than this are drawn together with their neighbours.
const NARROWEST: f32 = 1.0;
/// Milliseconds: the least that is seen, and from where on the axis has seconds.
const SHORTEST: f64 = 0.01;
const LONG: f64 = 10_000.0;

/// Which part of the time is seen.
#[derive(Default)]
pub(super) struct TimelineView {
    /// Whose timeline it is.
    of: PathBuf,
    /// From and to, in milliseconds; everything if nobody has zoomed in.
    seen: Option<[f64; 2]>,
    /// The timeline as it was when somebody stopped it, or zoomed in: what is seen would soon be over.
    held: Option<Timeline>,
    /// Somebody stopped it.
    hold: bool,
}

impl TimelineView {
    /// What was seen of another run is forgotten.
    pub(super) fn follow(&mut self, run: &Recording) {
        if self.of != run.folder {
            *self = Self { of: run.folder.clone(), ..Self::default() };
        }
    }

    pub(super) fn controls(&mut self, ui: &mut Ui, text: Text) {
        let mut hold = self.held.is_some();
        if ui.toggle_value(&mut hold, text.t("hold")).on_hover_text(text.t("Keeps these steps on the screen")).changed()
        {
            self.held = hold.then(Timeline::default);
            self.hold = hold;
            if !hold {
                self.seen = None;
            }
        }
        if ui.button(text.t("Show all")).clicked() {
            self.show_all();
        }
        ui.weak(text.t("drag to move, scroll with Ctrl to zoom"));
    }

    /// Everything, and live if nobody has stopped it.
    fn show_all(&mut self) {
        self.seen = None;
        if !self.hold {
            self.held = None;
        }
    }

    /// Shows this part from now on, of the timeline as it is.
    fn zoom(&mut self, seen: [f64; 2], live: &Timeline) {
        self.seen = Some(seen);
        self.held.get_or_insert_with(|| live.clone());
    }

    pub(super) fn ui(&mut self, ui: &mut Ui, text: Text, live: &Timeline) {
        // the moment of holding is the first frame after it
        if self.held.as_ref().is_some_and(|held| held.lanes.is_empty()) {
            self.held = Some(live.clone());
        }
        let timeline = self.held.as_ref().unwrap_or(live);
        let (Some(all), lanes) = (extent(timeline), timeline.lanes.len()) else { return };
        let size = Vec2::new(ui.available_width(), LANE * lanes as f32 + AXIS);
        let (area, response) = ui.allocate_exact_size(size, Sense::click_and_drag());
        let plot = Rect::from_min_max(pos2(area.left() + NAMES, area.top()), area.max);
        let mut seen = self.seen.unwrap_or(all);
        let scale = f64::from(plot.width()) / (seen[1] - seen[0]).max(SHORTEST);
        if response.dragged() {
            let moved = f64::from(response.drag_delta().x) / scale;
            seen = seen.map(|edge| edge - moved);
            self.zoom(seen, live);
        }
        if let Some(pointer) = response.hover_pos() {
            let zoom = ui.input(|input| f64::from(input.zoom_delta()));
            if zoom != 1.0 {
                let center = seen[0] + f64::from(pointer.x - plot.left()) / scale;
                let zoomed = seen.map(|edge| center + (edge - center) / zoom);
                if zoomed[1] - zoomed[0] > SHORTEST {
                    self.zoom(zoomed, live);
                }
            }
        }
        let timeline = self.held.as_ref().unwrap_or(live);
        let [from, to] = self.seen.unwrap_or(seen);
        response.widget_info(|| WidgetInfo::labeled(Role::Image, true, in_words(text, timeline, all)));
        let place = |ms: f64| plot.left() + ((ms - from) / (to - from)) as f32 * plot.width();
        let painter = ui.painter_at(area);
        let (weak, font) = (ui.visuals().weak_text_color(), FontId::proportional(12.0));
        axis(&painter, plot, [from, to], weak);
        let mut hovered: Option<(&Lane, &Span)> = None;
        for (number, lane) in timeline.lanes.iter().enumerate() {
            let top = area.top() + LANE * number as f32;
            let row = Rect::from_min_size(pos2(plot.left(), top + 2.0), Vec2::new(plot.width(), LANE - 4.0));
            painter.rect_filled(row, 2.0, ui.visuals().faint_bg_color);
            painter.text(
                pos2(area.left(), row.center().y),
                Align2::LEFT_CENTER,
                lane_name(text, &lane.name),
                font.clone(),
                ui.visuals().text_color(),
            );
            let mut drawn = f32::NEG_INFINITY;
            for span in &lane.spans {
                let (left, right) = (place(span.start_ms), place(span.end_ms));
                if right < plot.left() || left > plot.right() || right < drawn + NARROWEST {
                    continue;
                }
                let span_area =
                    Rect::from_x_y_ranges(left.max(plot.left())..=right.max(left + NARROWEST), row.y_range());
                painter.rect_filled(span_area, 1.0, shade(span));
                drawn = right;
                if response.hover_pos().is_some_and(|pointer| span_area.contains(pointer)) {
                    hovered = Some((lane, span));
                }
            }
        }
        for lane in timeline.lanes.iter().filter(|lane| has_gaps(timeline, lane)) {
            ui.weak(text.f("{}: not every step is timed, so that gaps may be work", &[&lane_name(text, &lane.name)]));
        }
        if let Some((lane, span)) = hovered {
            let took = format!("{:.3}", span.end_ms - span.start_ms);
            response.on_hover_text_at_pointer(text.f(
                "{}: {} of step {}, {} ms",
                &[&lane_name(text, &lane.name), &text.t(span.stage.name()), &span.step, &took],
            ));
        }
    }
}

/// Whether steps are missing in a lane that trains: those between others, and those that a loader has made batches for
/// before the last one that is there.
fn has_gaps(timeline: &Timeline, lane: &Lane) -> bool {
    let steps = |lane: &Lane, stages: &[Stage]| -> BTreeSet<u64> {
        lane.spans.iter().filter(|span| stages.contains(&span.stage)).map(|span| span.step).collect()
    };
    let timed = steps(lane, &[Stage::Backward]);
    let (Some(first), Some(last)) = (timed.first().copied(), timed.last().copied()) else { return false };
    let is_training = |lane: &&Lane| lane.name.starts_with("loader ") || lane.name == "batches";
    let loaded = timeline.lanes.iter().filter(is_training).flat_map(|lane| steps(lane, &[Stage::Load, Stage::Batch]));
    let before_last = |step: &u64| *step < last && !timed.contains(step);
    (last - first) as usize >= timed.len() || loaded.into_iter().any(|step| before_last(&step))
}

/// How long each lane worked.
fn in_words(text: Text, timeline: &Timeline, [from, to]: [f64; 2]) -> String {
    let busy = |lane: &Lane| lane.spans.iter().map(|span| span.end_ms - span.start_ms).sum::<f64>();
    let said = |lane: &Lane| format!("{} {:.1} ms", lane_name(text, &lane.name), busy(lane));
    let lanes: Vec<String> = timeline.lanes.iter().map(said).collect();
    text.f("the last steps, {} ms: {}", &[&format!("{:.1}", to - from), &lanes.join(", ")])
}

/// A lane as its run has called it, in the user's language.
fn lane_name(text: Text, name: &str) -> String {
    let numbered = name.rsplit_once(' ').filter(|(_, number)| number.parse::<u32>().is_ok());
    match (name, numbered) {
        (_, Some(("loader", number))) => text.f("loader {}", &[&number]),
        (_, Some(("evaluation loader", number))) => text.f("evaluation loader {}", &[&number]),
        ("batches", _) => text.t("batches").to_owned(),
        ("evaluation batches", _) => text.t("evaluation batches").to_owned(),
        ("upload", _) => text.t("upload").to_owned(),
        ("host", _) => text.t("host").to_owned(),
        // a device's own name
        _ => name.to_owned(),
    }
}

/// Neighbouring steps differ a little, so that one sees where one ends.
fn shade(span: &Span) -> Color32 {
    let color = palette::of_stage(span.stage);
    if span.step.is_multiple_of(2) { color } else { color.gamma_multiply(0.8) }
}

fn extent(timeline: &Timeline) -> Option<[f64; 2]> {
    let spans = || timeline.lanes.iter().flat_map(|lane| &lane.spans);
    let from = spans().map(|span| span.start_ms).reduce(f64::min)?;
    let to = spans().map(|span| span.end_ms).reduce(f64::max)?;
    let is_good = from.is_finite() && to.is_finite();
    is_good.then_some([from, to.max(from + SHORTEST)])
}

/// A time on the axis, whose lines are so far apart.
fn on_axis(at: f64, step: f64, is_long: bool) -> String {
    let (at, step, unit) = if is_long { (at / 1e3, step / 1e3, "s") } else { (at, step, "ms") };
    let digits = if step >= 1.0 { 0 } else { 2 };
    format!("{at:.digits$} {unit}")
}

/// Lines at round numbers of milliseconds, or of seconds, since what is seen begins.
fn axis(painter: &egui::Painter, plot: Rect, [from, to]: [f64; 2], color: Color32) {
    const LINES: f64 = 8.0;
    // what a file says may be anything
    if !(to - from > 0.0 && (to - from).is_finite()) {
        return;
    }
    let rough = (to - from) / LINES;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    for at in (0..=LINES as usize + 1).map(|line| line as f64 * step).take_while(|&at| at <= to - from) {
        let x = plot.left() + (at / (to - from)) as f32 * plot.width();
        painter.vline(x, plot.y_range(), (0.5, color.gamma_multiply(0.4)));
        let text = on_axis(at, step, to - from >= LONG);
        let words = painter.layout_no_wrap(text, FontId::proportional(10.0), color);
        // the last one may have no room at its right
        let left = (x + 2.0).min(plot.right() - words.size().x);
        painter.galley(pos2(left, plot.bottom() - words.size().y), words, color);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Stage;

    #[test]
    fn lanes_are_named_in_the_users_language() {
        use crate::ui::Language;
        let said = ["loader 2", "evaluation loader 1", "batches", "gpu:0", "my loader 3"];
        assert_eq!(said.map(|name| lane_name(Text(Language::English), name)), said);
        let portuguese = ["carregador 2", "carregador de avaliação 1", "lotes", "gpu:0", "my loader 3"];
        assert_eq!(said.map(|name| lane_name(Text(Language::Portuguese), name)), portuguese);
    }

    #[test]
    fn what_was_zoomed_into_stays_and_is_of_one_run() {
        let [one, other] = ["one", "other"].map(|folder| Recording::open(folder.as_ref()));
        let timeline = |name: &str| Timeline { lanes: vec![Lane { name: name.to_owned(), spans: Vec::new() }] };
        let mut view = TimelineView::default();
        view.follow(&one);
        view.zoom([1.0, 2.0], &timeline("first"));
        view.zoom([1.5, 2.0], &timeline("second"));
        view.follow(&one);
        assert_eq!((view.seen, &view.held), (Some([1.5, 2.0]), &Some(timeline("first"))));
        view.show_all();
        assert_eq!((view.seen, &view.held), (None, &None));
        view.zoom([1.0, 2.0], &timeline("third"));
        view.follow(&other);
        assert_eq!((view.seen, &view.held), (None, &None));
    }

    #[test]
    fn steps_that_were_not_timed_are_told_of() {
        let lane = |name: &str, stage, steps: &[u64]| {
            let span = |&step: &u64| Span { stage, start_ms: step as f64, end_ms: step as f64 + 0.5, step };
            Lane { name: name.to_owned(), spans: steps.iter().map(span).collect() }
        };
        let has = |loaded: &[u64], timed: &[u64]| {
            let device = lane("gpu:0", Stage::Backward, timed);
            let timeline = Timeline { lanes: vec![lane("loader 1", Stage::Load, loaded), device.clone()] };
            has_gaps(&timeline, &device)
        };
        assert!(!has(&[5, 6, 7, 8], &[3, 4, 5, 6]), "the loader is ahead");
        assert!(!has(&[5, 6], &[]) && !has(&[], &[3]));
        assert!(has(&[], &[16, 32]) && has(&[30, 31, 32, 33], &[32]));
    }

    #[test]
    fn an_axis_has_seconds_where_it_is_long() {
        let said = [(0.5, 0.5, false), (2000.0, 1000.0, false), (25_000.0, 5000.0, true)];
        assert_eq!(said.map(|(at, step, long)| on_axis(at, step, long)), ["0.50 ms", "2000 ms", "25 s"]);
    }

    #[test]
    fn an_extent_takes_in_all_lanes() {
        let span = |start_ms, end_ms| Span { stage: Stage::Load, start_ms, end_ms, step: 1 };
        let lane = |spans| Lane { name: String::new(), spans };
        let timeline = Timeline { lanes: vec![lane(vec![span(3.0, 4.0)]), lane(vec![span(1.0, 2.0), span(2.0, 9.0)])] };
        assert_eq!(extent(&timeline), Some([1.0, 9.0]));
        assert_eq!(extent(&Timeline::default()), None);
        assert_eq!(extent(&Timeline { lanes: vec![lane(vec![span(f64::NAN, f64::INFINITY)])] }), None);
    }
}
