//! Results whose size depends on data: it is known once the values are back on the host.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::reference::unravel;
use crate::ops::{elementwise, ok};
use crate::runtime::readable;

use super::Tensor;

/// The different elements of a tensor.
#[derive(Clone, Debug)]
pub struct Unique {
    /// In ascending order: `[n]`. NaN equals nothing, so each one counts.
    pub values: Tensor,
    /// Which of them each element is, in the tensor's shape, i32.
    pub inverse: Tensor,
    /// How often each occurs: `[n]`, i32.
    pub counts: Tensor,
}

impl Tensor {
    /// The different elements; computes them and waits.
    ///
    /// ```
    /// # use brasa::{Device, Tensor};
    /// let found = Tensor::from_slice(&[3_i32, 1, 3, 3], [4], &Device::cpu())?.unique()?;
    /// assert_eq!(found.values.to_vec::<i32>()?, [1, 3]);
    /// assert_eq!(found.counts.to_vec::<i32>()?, [1, 3]);
    /// # Ok::<(), brasa::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    #[track_caller]
    pub fn unique(&self) -> Result<Unique> {
        // here, as nobody's line is known within the future
        readable(self.node())?;
        pollster::block_on(self.unique_async())
    }

    /// The different elements, without blocking the thread.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    pub async fn unique_async(&self) -> Result<Unique> {
        let count = self.numel();
        let flat = self.reshape([count]);
        let pairs = match count {
            0 => Vec::new(),
            _ => flat.sort_keys().sorted_pairs(count).to_vec_async::<u32>().await?,
        };
        let (keys, places) = pairs.split_at(count);
        let (mut firsts, mut counts, mut inverse) = (Vec::new(), Vec::<i32>::new(), vec![0; count]);
        let is_nan = |key: u32| key == u32::MAX && self.dtype().is_float();
        for (number, (&key, &place)) in keys.iter().zip(places).enumerate() {
            if number == 0 || key != keys[number - 1] || is_nan(key) {
                firsts.push(place);
                counts.push(0);
            }
            *counts.last_mut().expect("one was pushed") += 1;
            inverse[place as usize] = counts.len() as i32 - 1;
        }
        Ok(Unique {
            values: flat.at(&Self::from_vec(firsts, self.device())?),
            inverse: Self::from_slice(&inverse, self.shape().clone(), self.device())?,
            counts: Self::from_vec(counts, self.device())?,
        })
    }

    /// Coordinates of the elements that are not zero, in row-major order: `[n, rank]`, i32; computes them and waits.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    #[track_caller]
    pub fn nonzero(&self) -> Result<Self> {
        readable(self.node())?;
        pollster::block_on(self.nonzero_async())
    }

    /// Coordinates of the elements that are not zero, without blocking the thread.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    pub async fn nonzero_async(&self) -> Result<Self> {
        let elements = self.nonzero_elements().await?;
        let points: Vec<i32> = elements
            .iter()
            .flat_map(|&element| unravel(element as usize, self.shape()))
            .map(|coordinate| coordinate as i32)
            .collect();
        Self::from_slice(&points, [elements.len(), self.rank()], self.device())
    }

    /// The elements where `mask` (bool, broadcast with `self`) is true, in row-major order: `[n]`. Computes the mask
    /// and waits.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    #[track_caller]
    pub fn masked_select(&self, mask: &Self) -> Result<Self> {
        readable(mask.node())?;
        pollster::block_on(self.masked_select_async(mask))
    }

    /// The elements where `mask` (bool, broadcast with `self`) is true, without blocking the thread.
    ///
    /// # Errors
    ///
    /// If the device fails, or in a captured step.
    #[track_caller]
    pub fn masked_select_async(&self, mask: &Self) -> impl Future<Output = Result<Self>> + use<> {
        // here, as nobody's line is known within the future
        assert!(mask.dtype() == DType::Bool, "masked_select: the mask is {}, not bool", mask.dtype());
        let shape = ok(elementwise::broadcast("masked_select", self.shape(), mask.shape()));
        let mask = mask.expand(&shape);
        let all = self.expand(&shape).reshape([shape.numel()]);
        async move {
            let elements = mask.nonzero_elements().await?;
            Ok(all.at(&Self::from_vec(elements, all.device())?))
        }
    }

    /// Numbers of the elements that are not zero.
    async fn nonzero_elements(&self) -> Result<Vec<u32>> {
        let mask = self.to_dtype(DType::Bool).to_vec_async::<bool>().await?;
        Ok((0..).zip(mask).filter(|(_, chosen)| *chosen).map(|(element, _)| element).collect())
    }
}
