//! Colours that tell runs and classes apart, the same in the window and in files.

use crate::data::IGNORED;

/// Okabe and Ito's (2008), which most colour-blind people tell apart, then further ones.
pub(crate) const COLORS: [[u8; 3]; 10] = [
    [0, 114, 178],
    [230, 159, 0],
    [0, 158, 115],
    [213, 94, 0],
    [204, 121, 167],
    [86, 180, 233],
    [160, 130, 20],
    [140, 86, 190],
    [150, 190, 60],
    [190, 60, 60],
];

/// RGB of a class in a mask, again from the start after ten; black where none is known.
pub(crate) fn class_color(class: u8) -> [u8; 3] {
    if class == IGNORED { [0; 3] } else { COLORS[usize::from(class) % COLORS.len()] }
}
