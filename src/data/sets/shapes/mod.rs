//! Shapes drawn by the program, so that segmentation needs no files.

mod canvas;
mod geometry;

use std::fmt;
use std::str::FromStr;

use crate::data::{Dataset, Description, Goal, Normalization, Sample, Split, Target};
use crate::error::{Error, Result};

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShapesOptions {
    /// Pictures to train on; there are a fifth as many others to test with.
    pub n: usize,
    /// Height and width, in pixels.
    pub size: usize,
    /// Decides what is on the pictures.
    pub seed: u64,
}

impl Default for ShapesOptions {
    /// 2,000 pictures of 128x128 pixels.
    fn default() -> Self {
        Self { n: 2000, size: 128, seed: 0 }
    }
}

impl fmt::Display for ShapesOptions {
    /// What differs from the default, as `:n=40,size=64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Self::default();
        let settings = [
            ("n", self.n as u64, default.n as u64),
            ("size", self.size as u64, default.size as u64),
            ("seed", self.seed, default.seed),
        ];
        let mut separator = ':';
        for (name, value, default) in settings {
            if value != default {
                write!(f, "{separator}{name}={value}")?;
                separator = ',';
            }
        }
        Ok(())
    }
}

impl FromStr for ShapesOptions {
    type Err = Error;

    /// Reads `n=40,size=64,seed=1`, or a part of it.
    fn from_str(text: &str) -> Result<Self> {
        let mut options = Self::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let wrong = |reason: String| Error::Config(format!("data set `shapes:{text}`: {reason}"));
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let parse = |least: u64, most: u64| match value.parse() {
                Ok(value) if (least..=most).contains(&value) => Ok(value),
                _ => Err(wrong(format!("{name} is `{value}`, but must be a whole number in {least}..={most}"))),
            };
            match name {
                "n" => options.n = parse(5, 1 << 30)? as usize,
                "size" => options.size = parse(8, 4096)? as usize,
                "seed" => options.seed = parse(0, u64::MAX)?,
                _ => return Err(wrong(format!("`{name}` is unknown; known are: n, size, seed"))),
            }
        }
        Ok(options)
    }
}

/// Discs, rings, triangles, squares, hexagons and crosses before textured backgrounds, each with a mask of three
/// classes as the trimaps of Oxford-IIIT Pet: what is inside of a shape (0), the background (1), and a border around
/// edges (2) of a thirty-second of the picture, at least 2 pixels.
///
/// A picture depends on the seed, its part and its number alone: the same bytes on any machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Shapes {
    description: Description,
    seed: u64,
    part: u64,
    len: usize,
}

impl Shapes {
    /// Both parts. No picture is in both.
    pub fn split(options: ShapesOptions) -> Split<Self> {
        let ShapesOptions { n, size, seed } = options;
        let classes = ["shape", "background", "border"].map(str::to_owned);
        let description = Description {
            // of 200 pictures, rounded
            normalization: Normalization { mean: vec![127.5], std: vec![64.0] },
            ..Description::new(format!("shapes{options}"), Goal::Segment, classes, [3, size, size])
        };
        let part = |part, len| Self { description: description.clone(), seed, part, len };
        Split::new(part(0, n), part(1, (n / 5).max(1)))
    }
}

impl Dataset for Shapes {
    fn description(&self) -> &Description {
        &self.description
    }

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize, sample: &mut Sample) -> Result<()> {
        assert!(index < self.len, "picture {index} of {}", self.len);
        let size = self.description.shape[1];
        sample.set_picture([3, size, size]);
        sample.set_mask(size * size);
        let Target::Mask(mask) = &mut sample.target else { unreachable!("it was just made a mask") };
        canvas::draw(&[self.seed, self.part, index as u64], size, sample.input.as_bytes_mut(), mask);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Values;

    fn sample(data: &Shapes, index: usize) -> Sample {
        let mut sample = Sample::default();
        data.get(index, &mut sample).expect("it is drawn");
        sample
    }

    #[test]
    fn pictures_depend_on_seed_part_and_number_alone() {
        let options = ShapesOptions { n: 20, size: 48, seed: 3 };
        let (data, again) = (Shapes::split(options), Shapes::split(options));
        let other = Shapes::split(ShapesOptions { seed: 4, ..options });
        assert_eq!((data.train.len(), data.test.len()), (20, 4));
        let mut all: Vec<Sample> = (0..20).map(|index| sample(&data.train, index)).collect();
        assert_eq!(all[7], sample(&again.train, 7));
        all.extend((0..4).map(|index| sample(&data.test, index)));
        all.push(sample(&other.train, 0));
        for (index, one) in all.iter().enumerate() {
            assert!(!all[..index].contains(one), "picture {index} is there twice");
        }
    }

    /// The bytes must not depend on the machine: what they are made of is exact arithmetic alone.
    #[test]
    fn pictures_are_the_same_everywhere() {
        let sample = sample(&Shapes::split(ShapesOptions { n: 5, size: 32, seed: 0 }).train, 0);
        let Target::Mask(mask) = &sample.target else { panic!("it has a mask") };
        let sum = |bytes: &[u8]| bytes.iter().fold(0_u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        assert_eq!((sum(sample.input.as_bytes()), sum(mask)), RECORDED);
    }

    /// Recorded on x86-64.
    const RECORDED: (u64, u64) = (13_906_826_740_716_363_733, 5_576_445_469_394_225_262);

    #[test]
    fn each_class_has_its_share() {
        let data = Shapes::split(ShapesOptions { n: 100, size: 64, seed: 1 }).train;
        let (mut counts, mut sum, mut squares) = ([0_usize; 3], 0.0_f64, 0.0_f64);
        for index in 0..data.len() {
            let sample = sample(&data, index);
            let (Values::U8(pixels), Target::Mask(mask)) = (&sample.input, &sample.target) else { panic!("a picture") };
            mask.iter().for_each(|&class| counts[usize::from(class)] += 1);
            sum += pixels.iter().map(|&pixel| f64::from(pixel)).sum::<f64>();
            squares += pixels.iter().map(|&pixel| f64::from(pixel).powi(2)).sum::<f64>();
        }
        let pixels = (data.len() * 64 * 64) as f64;
        let [shape, background, border] = counts.map(|count| count as f64 / pixels);
        assert!((0.1..0.4).contains(&shape), "{shape}");
        assert!((0.4..0.8).contains(&background), "{background}");
        assert!((0.05..0.3).contains(&border), "{border}");
        let (mean, mean_square) = (sum / pixels / 3.0, squares / pixels / 3.0);
        let std = (mean_square - mean * mean).sqrt();
        assert!((mean - 127.5).abs() < 15.0 && (std - 64.0).abs() < 10.0, "{mean} {std}");
    }
}
