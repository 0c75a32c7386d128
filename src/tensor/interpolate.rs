//! Pictures made larger and smaller.

use super::Tensor;

impl Tensor {
    /// `[batch, channels, height, width]`: each pixel becomes `scale[0]` by `scale[1]` pixels.
    #[track_caller]
    #[must_use]
    pub fn upsample_nearest2d(&self, scale: [usize; 2]) -> Self {
        let &[batch, channels, height, width] = self.shape().dims() else {
            panic!("upsample_nearest2d: {} is not [batch, channels, height, width]", self.shape())
        };
        self.reshape([batch, channels, height, 1, width, 1])
            .expand([batch, channels, height, scale[0], width, scale[1]])
            .reshape([batch, channels, height * scale[0], width * scale[1]])
    }
}
