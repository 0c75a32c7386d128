//! Shapes as signed distances, in exact arithmetic: sums, products and square roots, which are the same on every
//! machine.

/// Unit normals of the edges of regular polygons: cosine and sine of multiples of a full turn over the number of edges.
const TRIANGLE: [[f32; 2]; 3] = [[1.0, 0.0], [-0.5, 0.866_025_4], [-0.5, -0.866_025_4]];
const SQUARE: [[f32; 2]; 4] = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]];
const HEXAGON: [[f32; 2]; 6] =
    [[1.0, 0.0], [0.5, 0.866_025_4], [-0.5, 0.866_025_4], [-1.0, 0.0], [-0.5, -0.866_025_4], [0.5, -0.866_025_4]];

/// The outlines there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outline {
    Disc,
    Ring,
    Triangle,
    Square,
    Hexagon,
    Cross,
}

impl Outline {
    pub(super) const ALL: [Self; 6] =
        [Self::Disc, Self::Ring, Self::Triangle, Self::Square, Self::Hexagon, Self::Cross];

    /// How far `point`, seen from the centre, lies outside of a shape of this radius; inside, the distance to its edge
    /// below 0. At corners of polygons and crosses it is the distance to the nearer edge's line, so that borders have
    /// corners, too.
    pub(super) fn distance(self, [x, y]: [f32; 2], radius: f32) -> f32 {
        let from_centre = || (x * x + y * y).sqrt();
        let polygon = |normals: &[[f32; 2]], apothem: f32| {
            normals.iter().map(|[nx, ny]| x * nx + y * ny).fold(f32::NEG_INFINITY, f32::max) - apothem
        };
        match self {
            Self::Disc => from_centre() - radius,
            Self::Ring => (from_centre() - 0.72 * radius).abs() - 0.28 * radius,
            Self::Triangle => polygon(&TRIANGLE, 0.6 * radius),
            Self::Square => polygon(&SQUARE, 0.8 * radius),
            Self::Hexagon => polygon(&HEXAGON, 0.9 * radius),
            Self::Cross => {
                let (x, y) = (x.abs(), y.abs());
                let arm = 0.36 * radius;
                (x - radius).max(y - arm).min((x - arm).max(y - radius))
            }
        }
    }
}
