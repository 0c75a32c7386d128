//! Curves as pictures.

use std::path::Path;

use plotters::prelude::*;

use crate::error::{Error, Result};

use super::scale::Scale;

/// The font of all letters, the same in every picture on every machine.
const FONT: &str = "sans-serif";
/// Sides that a picture may have, in pixels.
const SIDES: std::ops::RangeInclusive<u32> = 64..=16_384;
/// How much of the paper is seen through a faint line.
const FAINT: f64 = 0.25;
const LETTERS: u32 = 15;
/// Pixels.
const DASH: i32 = 8;
const DASH_GAP: i32 = 5;

/// Curves with axes and a legend, as SVG or PNG.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// What is above it; nothing if it is empty.
    pub title: &'a str,
    /// What the horizontal axis counts.
    pub x: &'a str,
    /// What the vertical axis counts; nothing beside it if it is empty.
    pub y: &'a str,
    /// Whether the horizontal axis is drawn by its logarithm, without points that have none.
    pub log_x: bool,
    /// Whether the vertical axis is.
    pub log_y: bool,
    /// Whether the legend is at the bottom, out of the way of what grows, instead of at the top.
    pub low_legend: bool,
    /// The curves, the first one at the back.
    pub lines: Vec<ChartLine>,
    /// Width and height in pixels.
    pub size: (u32, u32),
}

/// A curve.
#[derive(Clone, Debug, Default)]
pub struct ChartLine {
    /// What the legend calls it; an empty one is not in the legend.
    pub label: String,
    /// Red, green and blue.
    pub color: [u8; 3],
    /// Its points `[x, y]`; there is a gap where one is not a number.
    pub points: Vec<[f64; 2]>,
    /// What is drawn faintly behind it, such as the values that it smooths.
    pub faint: Option<Vec<[f64; 2]>>,
    /// What is filled faintly behind it, such as the range of values that it is the mean of: `[x, low, high]`.
    pub band: Vec<[f64; 3]>,
    /// Whether it is drawn in dashes.
    pub dashed: bool,
}

impl Chart<'_> {
    /// The picture as an SVG document.
    ///
    /// # Errors
    /// If the size is not one of 64 to 16384 pixels by as many.
    pub fn to_svg(&self) -> Result<String> {
        let mut text = String::new();
        self.check_size()?;
        self.draw(SVGBackend::with_string(&mut text, self.size).into_drawing_area())?;
        Ok(text)
    }

    /// Writes the picture as a PNG file.
    ///
    /// # Errors
    /// If the size is not one of 64 to 16384 pixels by as many, or the file cannot be written.
    pub fn write_png(&self, path: &Path) -> Result<()> {
        self.check_size()?;
        let (width, height) = self.size;
        let mut pixels = vec![0; width as usize * height as usize * 3];
        self.draw(BitMapBackend::with_buffer(&mut pixels, self.size).into_drawing_area())?;
        let mut png = Vec::new();
        let encoder = image::codecs::png::PngEncoder::new(&mut png);
        image::ImageEncoder::write_image(encoder, &pixels, width, height, image::ExtendedColorType::Rgb8)
            .map_err(|error| Error::format(path, error.to_string()))?;
        crate::files::write_whole(path, &png)
    }

    fn check_size(&self) -> Result<()> {
        let (width, height) = self.size;
        if SIDES.contains(&width) && SIDES.contains(&height) {
            return Ok(());
        }
        let (least, most) = (SIDES.start(), SIDES.end());
        Err(Error::Config(format!("a picture has {least} to {most} pixels by as many, not {width}x{height}")))
    }

    fn draw<B: DrawingBackend>(&self, area: DrawingArea<B, plotters::coord::Shift>) -> Result<()> {
        use_font();
        self.try_draw(&area).map_err(|error| Error::format("chart", error.to_string()))
    }

    /// Points are handed to the library as they lie on the picture, logarithms of what they are: so gaps, what has no
    /// logarithm, and the words at the axes are our own.
    fn try_draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, plotters::coord::Shift>,
    ) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let all = || {
            self.lines.iter().flat_map(|line| {
                let edges = line.band.iter().flat_map(|&[x, low, high]| [[x, low], [x, high]]);
                line.faint.iter().flatten().chain(&line.points).copied().chain(edges)
            })
        };
        let drawn =
            |point: &[f64; 2]| Scale::place(self.log_x, point[0]).and(Scale::place(self.log_y, point[1])).is_some();
        let x = Scale::of(self.log_x, all().filter(drawn).map(|point| point[0]), 0.0);
        let y = Scale::of(self.log_y, all().filter(drawn).map(|point| point[1]), 0.05);
        let ink = RGBColor(60, 60, 60);
        let mut builder = ChartBuilder::on(area);
        builder.margin(12).x_label_area_size(42).y_label_area_size(64);
        if !self.title.is_empty() {
            builder.caption(self.title, (FONT, LETTERS + 5).into_font().color(&ink));
        }
        let mut chart = builder.build_cartesian_2d(x.range.clone(), y.range.clone())?;
        let letters = (FONT, LETTERS).into_font().color(&ink);
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .x_labels(x.ticks)
            .y_labels(y.ticks)
            .x_label_formatter(&|place| x.word(*place))
            .y_label_formatter(&|place| y.word(*place))
            .label_style(letters.clone())
            .axis_style(ink.mix(0.6))
            .bold_line_style(ink.mix(0.15))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for line in &self.lines {
            let [red, green, blue] = line.color;
            let color = RGBColor(red, green, blue);
            for band in self.bands(&line.band) {
                chart.draw_series(std::iter::once(Polygon::new(band, color.mix(FAINT).filled())))?;
            }
            for part in line.faint.iter().flat_map(|points| self.parts(points)) {
                chart.draw_series(LineSeries::new(part, color.mix(FAINT).stroke_width(1)))?;
            }
            for part in self.parts(&line.points) {
                // a point between two gaps is a dot
                if let [dot] = part[..] {
                    chart.draw_series(std::iter::once(Circle::new(dot, 2, color.filled())))?;
                }
                let style = color.stroke_width(2);
                if line.dashed {
                    chart.draw_series(DashedLineSeries::new(part, DASH, DASH_GAP, style))?;
                } else {
                    chart.draw_series(LineSeries::new(part, style))?;
                }
            }
            if !line.label.is_empty() {
                let nothing = std::iter::empty::<(f64, f64)>();
                let entry = chart.draw_series(LineSeries::new(nothing, color.stroke_width(2)))?;
                // a dashed line is known by its first two dashes
                let middle = if line.dashed { 8 } else { 10 };
                let stroke = move |(x, y): (i32, i32)| {
                    let part = |from, to| PathElement::new([(x + from, y), (x + to, y)], color.stroke_width(2));
                    EmptyElement::at((0, 0)) + part(0, middle) + part(20 - middle, 20)
                };
                entry.label(&line.label).legend(stroke);
            }
        }
        if self.lines.iter().any(|line| !line.label.is_empty()) {
            let mut legend = chart.configure_series_labels();
            legend
                .position(if self.low_legend {
                    SeriesLabelPosition::LowerRight
                } else {
                    SeriesLabelPosition::UpperRight
                })
                .label_font(letters);
            legend.background_style(WHITE.mix(0.8)).border_style(ink.mix(0.3)).margin(8).draw()?;
        }
        area.present()
    }

    /// Bands in pieces without their gaps, as their outlines lie on the picture.
    fn bands(&self, band: &[[f64; 3]]) -> Vec<Vec<(f64, f64)>> {
        let place = |x: f64, y: f64| Some((Scale::place(self.log_x, x)?, Scale::place(self.log_y, y)?));
        let edges = |&[x, low, high]: &[f64; 3]| Some((place(x, low)?, place(x, high)?));
        let parts = band.split(|point| edges(point).is_none()).filter(|part| part.len() > 1);
        let outline = |part: &[[f64; 3]]| {
            let (low, high): (Vec<_>, Vec<_>) = part.iter().filter_map(edges).unzip();
            low.into_iter().chain(high.into_iter().rev()).collect()
        };
        parts.map(outline).collect()
    }

    /// A curve in pieces, without its gaps, as it lies on the picture.
    fn parts<'a>(&'a self, points: &'a [[f64; 2]]) -> impl Iterator<Item = Vec<(f64, f64)>> + 'a {
        let place = |[x, y]: &[f64; 2]| Some((Scale::place(self.log_x, *x)?, Scale::place(self.log_y, *y)?));
        let parts = points.split(move |point| place(point).is_none());
        parts.filter(|part| !part.is_empty()).map(move |part| part.iter().filter_map(place).collect())
    }
}

/// Makes the font known to the library that draws.
fn use_font() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let font = epaint_default_fonts::UBUNTU_LIGHT;
        if plotters::style::register_font(FONT, FontStyle::Normal, font).is_err() {
            unreachable!("the bundled font is one");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart<'static> {
        let points: Vec<[f64; 2]> = (0..200).map(|step| [f64::from(step), 1.0 / f64::from(step + 1)]).collect();
        let mut gap = points.clone();
        gap[100][1] = f64::NAN;
        let lines = vec![
            ChartLine {
                label: "run <1> & more".into(),
                color: [200, 60, 20],
                points,
                faint: Some(gap.clone()),
                ..Default::default()
            },
            ChartLine { color: [20, 60, 200], points: gap, ..Default::default() },
        ];
        Chart {
            title: "loss/train",
            x: "step",
            y: "",
            log_x: false,
            log_y: true,
            low_legend: false,
            lines,
            size: (640, 400),
        }
    }

    #[test]
    fn an_svg_has_words_and_lines() {
        let svg = chart().to_svg().expect("a picture");
        assert!(
            svg.contains("loss/train") && svg.contains("run &lt;1&gt; &amp; more") && svg.contains("\nstep\n"),
            "{svg}"
        );
        // a faint line in two parts, a line, another one in two parts
        assert!(svg.matches("<polyline").count() >= 5, "{svg}");
        assert!(svg.contains("#C83C14") && svg.contains("0.01"), "{svg}");
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn a_png_has_the_colors_of_its_lines() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("loss.png");
        chart().write_png(&path).expect("writable");
        let picture = image::open(&path).expect("a picture").into_rgb8();
        assert_eq!(picture.dimensions(), (640, 400));
        let count = |color: [u8; 3]| picture.pixels().filter(|pixel| pixel.0 == color).count();
        assert!(count([200, 60, 20]) > 20 && count([20, 60, 200]) > 100, "{}", count([20, 60, 200]));
        // letters are dark, and there are some
        assert!(picture.pixels().filter(|pixel| pixel.0.iter().all(|&part| part < 140)).count() > 200);
    }

    #[test]
    fn dashes_and_bands_are_drawn() {
        let points: Vec<[f64; 2]> = (1..50).map(|step| [f64::from(step), f64::from(step)]).collect();
        let band = points.iter().map(|&[x, y]| [x, y - 0.5, y + 0.5]).collect();
        let strokes = |line: ChartLine| {
            let svg = Chart { lines: vec![line], ..chart() }.to_svg().expect("a picture");
            (svg.matches("<polyline").count(), svg.matches("<polygon").count())
        };
        let line = ChartLine { points, ..Default::default() };
        let plain = strokes(line.clone());
        let dashed = strokes(ChartLine { dashed: true, ..line.clone() });
        assert!(dashed.0 > plain.0 + 10, "{dashed:?}");
        assert_eq!(strokes(ChartLine { band, ..line }).1, plain.1 + 1);
    }

    #[test]
    fn anything_can_be_drawn() {
        let huge = vec![[0.0, f64::MAX], [1.0, -f64::MAX], [f64::INFINITY, 1.0], [f64::NAN, 0.0]];
        for points in [vec![], vec![[0.0, 0.0]], vec![[5.0, f64::NAN]], vec![[-1.0, -1.0], [-2.0, 0.0]], huge] {
            for (log_x, log_y) in [(false, false), (true, true), (false, true)] {
                let band = points.iter().map(|&[x, y]| [x, y, 2.0 * y]).collect();
                let (label, points) = ("a".repeat(500), points.clone());
                let lines = vec![ChartLine { label, points, band, dashed: true, ..Default::default() }];
                let chart =
                    Chart { title: "", x: "seconds", y: "", log_x, log_y, low_legend: false, lines, size: (64, 64) };
                chart.to_svg().expect("a picture");
            }
        }
        let chart = Chart { size: (0, 100), ..chart() };
        assert!(chart.to_svg().is_err());
    }
}
