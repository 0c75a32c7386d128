//! Pictures where the window is drawn.

use egui::{ColorImage, Context, TextureHandle, TextureOptions};

/// The picture as a texture; one that is larger than the device can have gets fewer pixels, or the whole window would
/// be black. Nothing is mixed, as colours may stand for classes.
pub(super) fn texture(context: &Context, name: impl Into<String>, picture: ColorImage) -> TextureHandle {
    let most = context.input(|input| input.max_texture_side);
    context.load_texture(name, within(picture, most), TextureOptions::NEAREST)
}

/// The picture with every so many of its pixels, if a side has more than `most`.
fn within(picture: ColorImage, most: usize) -> ColorImage {
    let [width, height] = picture.size;
    let [columns, rows] = picture.size.map(|side| side.min(most));
    if [columns, rows] == picture.size {
        return picture;
    }
    let mut pixels = Vec::with_capacity(columns * rows);
    for row in 0..rows {
        let line = &picture.pixels[row * height / rows * width..][..width];
        pixels.extend((0..columns).map(|column| line[column * width / columns]));
    }
    ColorImage::new([columns, rows], pixels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::Color32;

    #[test]
    fn a_picture_that_is_too_large_has_fewer_pixels() {
        let pixels = (0..15).map(Color32::from_gray).collect();
        let small = within(ColorImage::new([5, 3], pixels), 2);
        assert_eq!((small.size, small.pixels), ([2, 2], [0, 2, 5, 7].map(Color32::from_gray).to_vec()));
        let context = Context::default();
        let most = context.input(|input| input.max_texture_side);
        let wide = ColorImage::new([most + 1, 1], vec![Color32::RED; most + 1]);
        assert_eq!(texture(&context, "wide", wide).size(), [most, 1]);
    }
}
