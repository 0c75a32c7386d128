//! Draws one picture and its mask.

use crate::data::permutation::hash;

use super::geometry::Outline;

/// Classes of the mask, as of a trimap.
const INSIDE: u8 = 0;
const BACKGROUND: u8 = 1;
const BORDER: u8 = 2;

/// Half the width of borders, as a part of the picture's side; at least a pixel.
const BORDER_PART: f32 = 1.0 / 64.0;
/// Shapes differ from the background in some channel by at least this, of 255.
const CONTRAST: f32 = 55.0;
/// Noise reaches this far to either side.
const NOISE: f32 = 24.0;

/// Random numbers by a key and how many were drawn.
struct Random {
    key: u64,
    drawn: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.drawn += 1;
        hash(&[self.key, self.drawn])
    }

    /// In `from..to`, of 2^24 values.
    fn uniform(&mut self, from: f32, to: f32) -> f32 {
        from + (to - from) * unit(self.next())
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn color(&mut self) -> [f32; 3] {
        [(); 3].map(|()| self.uniform(25.0, 230.0))
    }

    /// A direction, uniformly.
    fn direction(&mut self) -> [f32; 2] {
        loop {
            let (x, y) = (self.uniform(-1.0, 1.0), self.uniform(-1.0, 1.0));
            let square = x * x + y * y;
            if (0.01..=1.0).contains(&square) {
                let length = square.sqrt();
                return [x / length, y / length];
            }
        }
    }
}

/// In 0..1.
fn unit(bits: u64) -> f32 {
    (bits >> 40) as f32 / (1_u64 << 24) as f32
}

/// Two colours, and where which of them is.
struct Texture {
    colors: [[f32; 3]; 2],
    pattern: Pattern,
    /// Two waves: direction times frequency, in turns per side, and phase.
    waves: [([f32; 2], f32); 2],
}

#[derive(Clone, Copy)]
enum Pattern {
    Stripes,
    Checks,
    Blotches,
}

impl Texture {
    /// Around `color`, which the other colour differs from by at most `spread` in each channel.
    fn new(random: &mut Random, color: [f32; 3], spread: f32) -> Self {
        let other = color.map(|channel| channel + random.uniform(-spread, spread));
        let pattern = [Pattern::Stripes, Pattern::Checks, Pattern::Blotches][random.below(3)];
        let waves = [(); 2].map(|()| {
            let (direction, frequency) = (random.direction(), random.uniform(1.5, 9.0));
            (direction.map(|part| part * frequency), random.uniform(0.0, 1.0))
        });
        Self { colors: [color, other], pattern, waves }
    }

    fn at(&self, [x, y]: [f32; 2]) -> [f32; 3] {
        let [a, b] = self.waves.map(|([kx, ky], phase)| triangle(kx * x + ky * y + phase));
        let part = match self.pattern {
            Pattern::Stripes => a,
            Pattern::Checks => f32::from(u8::from((a > 0.5) != (b > 0.5))),
            Pattern::Blotches => a * b,
        };
        let [from, to] = &self.colors;
        [0, 1, 2].map(|channel| from[channel] + (to[channel] - from[channel]) * part)
    }
}

/// A wave of period 1 between 0 and 1, of straight lines: sines differ between machines.
fn triangle(turns: f32) -> f32 {
    (2.0 * (turns - turns.floor()) - 1.0).abs()
}

struct Shape {
    outline: Outline,
    center: [f32; 2],
    direction: [f32; 2],
    radius: f32,
    texture: Texture,
}

impl Shape {
    /// A shape of another colour than the background.
    fn new(random: &mut Random, background: &Texture) -> Self {
        let differs = |color: &[f32; 3]| {
            background.colors.iter().all(|other| color.iter().zip(other).any(|(a, b)| (a - b).abs() >= CONTRAST))
        };
        let color = loop {
            let color = random.color();
            if differs(&color) {
                break color;
            }
        };
        Self {
            outline: Outline::ALL[random.below(Outline::ALL.len())],
            center: [(); 2].map(|()| random.uniform(0.1, 0.9)),
            direction: random.direction(),
            radius: random.uniform(0.12, 0.28),
            texture: Texture::new(random, color, 25.0),
        }
    }

    fn distance(&self, [x, y]: [f32; 2]) -> f32 {
        let ([cx, cy], [dx, dy]) = (self.center, self.direction);
        let (x, y) = (x - cx, y - cy);
        self.outline.distance([x * dx + y * dy, y * dx - x * dy], self.radius)
    }
}

/// Draws the picture of `key`, `[3, size, size]`, and its mask.
pub(super) fn draw(key: &[u64], size: usize, pixels: &mut [u8], mask: &mut [u8]) {
    let mut random = Random { key: hash(key), drawn: 0 };
    let color = random.color();
    let background = Texture::new(&mut random, color, 70.0);
    let count = 1 + random.below(5);
    // the first lies in front
    let shapes: Vec<Shape> = (0..count).map(|_| Shape::new(&mut random, &background)).collect();
    let (light, strength) = (random.direction(), random.uniform(0.0, 0.35));
    let noise_key = random.next();
    let border = BORDER_PART.max(1.0 / size as f32);

    let (red, rest) = pixels.split_at_mut(size * size);
    let (green, blue) = rest.split_at_mut(size * size);
    for place in 0..size * size {
        let point = [place % size, place / size].map(|position| (position as f32 + 0.5) / size as f32);
        let mut class = BACKGROUND;
        let mut color = None;
        for shape in &shapes {
            let distance = shape.distance(point);
            if class == BACKGROUND && distance <= border {
                class = if distance < -border { INSIDE } else { BORDER };
            }
            if distance <= 0.0 {
                color = Some(shape.texture.at(point));
                break;
            }
        }
        mask[place] = class;
        let color = color.unwrap_or_else(|| background.at(point));
        let brightness = 1.0 + strength * (2.0 * (light[0] * (point[0] - 0.5) + light[1] * (point[1] - 0.5)));
        let noise = hash(&[noise_key, place as u64]);
        for (channel, plane) in [&mut *red, &mut *green, &mut *blue].into_iter().enumerate() {
            let of_channel = ((noise >> (16 * channel)) & 0xffff) as f32 / 65536.0 - 0.5;
            plane[place] = (color[channel] * brightness + 2.0 * NOISE * of_channel).clamp(0.0, 255.0) as u8;
        }
    }
}
