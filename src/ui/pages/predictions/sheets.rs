//! Pictures and masks of samples as textures.

use std::path::PathBuf;

use egui::{Color32, ColorImage, Context, Rect, TextureHandle, TextureOptions, Ui, pos2};

use crate::runs::Recording;
use crate::train::record::{Predictions, Sheet};

use crate::ui::palette;

/// The class number of pixels that do not count.
const IGNORED: u8 = 255;

/// The sheets of one run, as they were when they were last looked at.
#[derive(Default)]
pub(super) struct Sheets {
    of: Option<(PathBuf, u64)>,
    pictures: Option<Texture>,
    masks: Option<[Texture; 2]>,
}

struct Texture {
    handle: TextureHandle,
    sheet: Sheet,
    size: [f32; 2],
}

impl Sheets {
    /// Reads the files again if there are new ones; what is wrong with them, if something is.
    pub(super) fn follow(&mut self, context: &Context, run: &Recording, said: &Predictions) -> Option<String> {
        let now = Some((run.folder.clone(), said.step));
        if self.of == now {
            return None;
        }
        self.of = now;
        let mut problem = None;
        let mut texture = |sheet: &Sheet, colored: bool| match load(context, run, sheet, colored) {
            Ok(texture) => Some(texture),
            Err(error) => {
                problem = Some(error);
                None
            }
        };
        self.pictures = said.pictures.as_ref().and_then(|sheet| texture(sheet, false));
        self.masks = said.masks.as_ref().and_then(|[of, said]| Some([texture(of, true)?, texture(said, true)?]));
        problem
    }

    /// Draws the picture of this sample; false if there is none.
    pub(super) fn picture(&self, ui: &Ui, place: Rect, number: usize) -> bool {
        self.pictures.as_ref().is_some_and(|texture| {
            texture.draw(ui, place, number, Color32::WHITE);
            true
        })
    }

    /// Draws the mask of this sample, the true one or the model's, over its picture.
    pub(super) fn mask(&self, ui: &Ui, place: Rect, number: usize, which: usize, opacity: f32) {
        if let Some(masks) = &self.masks {
            masks[which].draw(ui, place, number, Color32::WHITE.gamma_multiply(opacity));
        }
    }
}

impl Texture {
    fn draw(&self, ui: &Ui, place: Rect, number: usize, tint: Color32) {
        let Sheet { height, width, columns, .. } = self.sheet;
        let corner = |row: usize, column: usize| {
            pos2((column * width) as f32 / self.size[0], (row * height) as f32 / self.size[1])
        };
        let (row, column) = (number / columns, number % columns);
        let part = Rect::from_min_max(corner(row, column), corner(row + 1, column + 1));
        ui.painter().image(self.handle.id(), place, part, tint);
    }
}

fn load(context: &Context, run: &Recording, sheet: &Sheet, colored: bool) -> Result<Texture, String> {
    let (width, height, rgb) = run.image_sheet(sheet).map_err(|error| error.to_string())?;
    let pixels = rgb
        .as_chunks::<3>()
        .0
        .iter()
        .map(|[r, g, b]| if colored { class_color(*r) } else { Color32::from_rgb(*r, *g, *b) });
    let image = ColorImage::new([width, height], pixels.collect());
    let name = format!("{}/{}", run.folder.display(), sheet.file);
    let handle = context.load_texture(name, image, TextureOptions::NEAREST);
    Ok(Texture { handle, sheet: sheet.clone(), size: [width as f32, height as f32] })
}

/// The colour of a class in masks; what does not count is not seen.
pub(super) fn class_color(class: u8) -> Color32 {
    if class == IGNORED { Color32::TRANSPARENT } else { palette::color(class.into()) }
}
