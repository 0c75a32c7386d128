//! One sample: what the model sees, and what it should say.

use crate::dtype::DType;

/// Numbers of a sample or of a batch, row-major.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// Bytes, as of pictures: a fourth of the traffic of floats. They become floats on the device.
    U8(Vec<u8>),
    /// Floats, as of tables.
    F32(Vec<f32>),
}

impl Values {
    /// Their type on the device.
    pub fn dtype(&self) -> DType {
        match self {
            Self::U8(_) => DType::U8,
            Self::F32(_) => DType::F32,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As they are uploaded.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::U8(values) => values,
            Self::F32(values) => bytemuck::cast_slice(values),
        }
    }

    /// The bytes; they become bytes, and empty, if they were floats.
    pub fn as_bytes_mut(&mut self) -> &mut Vec<u8> {
        if !matches!(self, Self::U8(_)) {
            *self = Self::U8(Vec::new());
        }
        match self {
            Self::U8(values) => values,
            Self::F32(_) => unreachable!("they were just made bytes"),
        }
    }
}

/// What a model should say about a sample.
#[derive(Clone, PartialEq, Debug)]
pub enum Target {
    /// The number of its class.
    Class(u32),
    /// The number of each pixel's class, `[height, width]`; [`IGNORED`] where it is not known.
    Mask(Vec<u8>),
    /// The numbers, in their own units.
    Numbers(Vec<f32>),
}

/// The class of pixels that count neither in a loss nor in a metric.
pub const IGNORED: u8 = 255;

/// A picture or a row of a table, with its target. Reused from sample to sample, so that its memory is, too.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Shape of the input: `[channels, height, width]` of a picture, `[features]` of a row.
    pub shape: Vec<usize>,
    /// The input.
    pub input: Values,
    /// What should be said about it.
    pub target: Target,
}

impl Default for Sample {
    /// An empty one, to be filled by [`Dataset::get`](super::Dataset::get).
    fn default() -> Self {
        Self { shape: Vec::new(), input: Values::U8(Vec::new()), target: Target::Class(0) }
    }
}

impl Sample {
    /// Makes it a picture `[channels, height, width]`, and lends its pixels, all of them 0, to be filled.
    pub fn set_picture(&mut self, shape: [usize; 3]) -> &mut [u8] {
        self.shape.clear();
        self.shape.extend(shape);
        let pixels = self.input.as_bytes_mut();
        pixels.clear();
        pixels.resize(shape.iter().product(), 0);
        pixels
    }

    /// Makes its target a mask, and lends the classes of its `pixels` pixels, all of them 0, to be filled.
    pub fn set_mask(&mut self, pixels: usize) -> &mut [u8] {
        if !matches!(self.target, Target::Mask(_)) {
            self.target = Target::Mask(Vec::new());
        }
        let Target::Mask(mask) = &mut self.target else { unreachable!("it was just made a mask") };
        mask.clear();
        mask.resize(pixels, 0);
        mask
    }

    /// Makes its target these numbers.
    pub fn set_numbers(&mut self, numbers: &[f32]) {
        match &mut self.target {
            Target::Numbers(own) => {
                own.clear();
                own.extend_from_slice(numbers);
            }
            other => *other = Target::Numbers(numbers.to_vec()),
        }
    }
}
