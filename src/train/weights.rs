//! A model's weights as a safetensors file.

use safetensors::Dtype;
use safetensors::tensor::TensorView;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::nn::{self, Module};

/// The weights of `model`, under PyTorch's names, as the contents of a safetensors file.
pub(super) fn to_safetensors(model: &dyn Module) -> Result<Vec<u8>> {
    let state = nn::state(model);
    // Read first: the views below borrow the bytes.
    let mut values = Vec::with_capacity(state.len());
    for (name, tensor) in &state {
        let bytes = pollster::block_on(tensor.to_bytes())?;
        values.push((name, dtype(tensor.dtype()), tensor.shape().to_vec(), bytes));
    }
    let mut views = Vec::with_capacity(values.len());
    for (name, dtype, shape, bytes) in &values {
        let view = TensorView::new(*dtype, shape.clone(), bytes).expect("bytes are those of the shape and type");
        views.push((name, view));
    }
    safetensors::serialize(views, None).map_err(|error| Error::format("model.safetensors", error.to_string()))
}

const fn dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
    }
}
