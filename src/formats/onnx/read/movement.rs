//! The same elements under other shapes, in another order, repeated, or joined.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::reference::{coordinates, ravel};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::call::{Call, Outputs, fail, one};
use super::checks::{axes, axis, sizes};
use super::host;
use super::table::{Operator, op};
use super::value::{HOST_ELEMENTS, HostData, HostTensor, Value};

pub(super) const OPERATORS: &[Operator] = &[
    op("Concat", 4, concat),
    op("DepthToSpace", 1, depth_to_space),
    op("Expand", 8, expand),
    op("Flatten", 1, flatten),
    op("Reshape", 5, reshape),
    op("SpaceToDepth", 1, space_to_depth),
    op("Squeeze", 1, squeeze),
    op("Tile", 6, tile),
    op("Transpose", 1, transpose),
    op("Unsqueeze", 1, unsqueeze),
];

/// The same elements under a shape of as many.
fn reshaped(call: &Call<'_>, value: &Value, shape: &[usize]) -> Outputs {
    let shape = call.shape(shape)?;
    if shape.numel() != value.shape().numel() {
        return fail(format!("{} cannot become {shape}", value.shape()));
    }
    match value {
        Value::Tensor(tensor) => one(tensor.reshape(shape)),
        Value::Host(host) => one(HostTensor { shape, ..host.clone() }),
    }
}

fn reshape(call: &Call<'_>) -> Outputs {
    let value = call.value(0)?;
    let wanted = call.ints(1)?;
    let keeps_zeros = call.flag("allowzero")?;
    let own = value.shape();
    let wrong = || fail(format!("{own} has {} elements and cannot become {wanted:?}", own.numel()));
    let mut shape = Vec::with_capacity(wanted.len());
    let mut unknown = None;
    for (place, &size) in wanted.iter().enumerate() {
        shape.push(match size {
            -1 if unknown.is_none() => {
                unknown = Some(place);
                1
            }
            0 if !keeps_zeros => match own.get(place) {
                Some(&size) => size,
                None => return wrong(),
            },
            size => match usize::try_from(size) {
                Ok(size) => size,
                Err(_) => return wrong(),
            },
        });
    }
    if let Some(place) = unknown {
        let known = shape.iter().try_fold(1_usize, |whole, &size| whole.checked_mul(size));
        shape[place] = match known {
            Some(known) if known > 0 && own.numel().is_multiple_of(known) => own.numel() / known,
            _ => return wrong(),
        };
    }
    if Shape::from(shape.as_slice()).numel() != own.numel() {
        return wrong();
    }
    reshaped(call, value, &shape)
}

fn flatten(call: &Call<'_>) -> Outputs {
    let value = call.value(0)?;
    let shape = value.shape();
    let first = match call.int("axis", 1)? {
        number if number == shape.rank() as i64 => shape.rank(),
        number => axis(number, shape.rank(), shape)?,
    };
    let (rows, columns) = shape.split_at(first);
    reshaped(call, value, &[rows.iter().product(), columns.iter().product()])
}

fn squeeze(call: &Call<'_>) -> Outputs {
    let value = call.value(0)?;
    let shape = value.shape();
    let dropped = match call.list_or_input("axes", 13, 1)? {
        Some(numbers) => axes(&numbers, shape.rank(), shape)?,
        None => (0..shape.rank()).filter(|&axis| shape[axis] == 1).collect(),
    };
    if let Some(axis) = dropped.iter().find(|&&axis| shape[axis] != 1) {
        return fail(format!("axis {axis} of {shape} is not of size 1"));
    }
    let kept: Vec<usize> = (0..shape.rank()).filter(|axis| !dropped.contains(axis)).map(|axis| shape[axis]).collect();
    reshaped(call, value, &kept)
}

fn unsqueeze(call: &Call<'_>) -> Outputs {
    let value = call.value(0)?;
    let Some(numbers) = call.list_or_input("axes", 13, 1)? else { return fail("has no axes") };
    let mut shape = value.shape().to_vec();
    for axis in axes(&numbers, shape.len() + numbers.len(), value.shape())? {
        shape.insert(axis, 1);
    }
    reshaped(call, value, &shape)
}

fn transpose(call: &Call<'_>) -> Outputs {
    let value = call.value(0)?;
    let shape = value.shape();
    let order: Vec<usize> = match call.list("perm")? {
        None => (0..shape.rank()).rev().collect(),
        Some(numbers) => numbers.iter().map(|&number| axis(number, shape.rank(), shape)).collect::<Result<_>>()?,
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..shape.rank()) {
        return fail(format!("perm {order:?} is no order of the axes of {shape}"));
    }
    match value {
        Value::Tensor(tensor) => one(tensor.permute(order)),
        Value::Host(host) => {
            let turned: Shape = order.iter().map(|&axis| shape[axis]).collect();
            let places: Vec<usize> = coordinates(&turned)
                .map(|point| {
                    let mut source = vec![0; point.len()];
                    order.iter().zip(&point).for_each(|(&axis, &at)| source[axis] = at);
                    ravel(&source, shape)
                })
                .collect();
            one(HostTensor { shape: turned, data: host.data.pick(&places), dtype: host.dtype })
        }
    }
}

/// Repeated along axes of size 1, so that it broadcasts to a shape, which may itself be smaller.
fn expand(call: &Call<'_>) -> Outputs {
    let value = call.value(0)?;
    let wanted = call.shape(&sizes(&call.ints(1)?, "the sizes")?)?;
    let shape = call.broadcast(&[value.shape(), &wanted])?;
    match value {
        Value::Tensor(tensor) => one(tensor.expand(shape)),
        Value::Host(host) if shape.numel() <= HOST_ELEMENTS => {
            let data = host.data.pick(&host::spread(&host.shape, &shape));
            one(HostTensor { shape, data, dtype: host.dtype })
        }
        Value::Host(host) => one(host.to_tensor(call.device())?.expand(shape)),
    }
}

fn tile(call: &Call<'_>) -> Outputs {
    let counts = sizes(&call.ints(1)?, "the counts")?;
    let value = call.value(0)?;
    let shape = value.shape();
    if counts.len() != shape.rank() {
        return fail(format!("{} counts for {shape}", counts.len()));
    }
    let whole: Vec<usize> = shape.iter().zip(&counts).map(|(&size, &count)| size.saturating_mul(count)).collect();
    let whole = call.shape(&whole)?;
    match value {
        Value::Host(host) if whole.numel() <= HOST_ELEMENTS => {
            let place = |point: Vec<usize>| {
                let own: Vec<usize> = point.iter().zip(shape.iter()).map(|(&at, &size)| at % size.max(1)).collect();
                ravel(&own, shape)
            };
            let data = host.data.pick(&coordinates(&whole).map(place).collect::<Vec<_>>());
            one(HostTensor { shape: whole, data, dtype: host.dtype })
        }
        value => one(call.on_device(value)?.repeat(&counts)),
    }
}

/// The node's axis, and the shape of what lies one after the other along it.
pub(super) fn joined_shape(call: &Call<'_>, shapes: &[&Shape]) -> Result<(usize, Shape)> {
    let Some(number) = call.int_or_none("axis")? else { return fail("has no axis") };
    let first = shapes[0];
    let axis = axis(number, first.rank(), first)?;
    let mut whole = first.to_vec();
    whole[axis] = 0;
    for &shape in shapes {
        let fits = shape.rank() == first.rank()
            && (0..first.rank()).all(|other| other == axis || shape[other] == first[other]);
        if !fits {
            return fail(format!("{first} and {shape} along axis {axis}"));
        }
        whole[axis] = whole[axis].saturating_add(shape[axis]);
    }
    Ok((axis, call.shape(&whole)?))
}

fn concat(call: &Call<'_>) -> Outputs {
    let values = call.values()?;
    let (axis, whole) = joined_shape(call, &values.iter().map(|value| value.shape()).collect::<Vec<_>>())?;
    if let Some(hosts) = call.hosts()
        && whole.rank() == 1
        && whole.numel() <= HOST_ELEMENTS
        && let Some(data) = joined(&hosts)
    {
        return one(HostTensor::new(whole, data, hosts[0].dtype));
    }
    let mut tensors = values.iter().map(|value| call.on_device(value)).collect::<Result<Vec<_>>>()?;
    let dtype = tensors[0].dtype();
    if tensors.iter().any(|tensor| tensor.dtype() != dtype) {
        let mixed = |of: fn(DType) -> bool| tensors.iter().all(|tensor| of(tensor.dtype()));
        let wide = if mixed(DType::is_float) {
            DType::F32
        } else if mixed(|dtype| matches!(dtype, DType::U8 | DType::I32)) {
            DType::I32
        } else {
            let all: Vec<&str> = tensors.iter().map(|tensor| tensor.dtype().name()).collect();
            return fail(format!("{} do not mix", all.join(" and ")));
        };
        tensors = tensors.iter().map(|tensor| tensor.to_dtype(wide)).collect();
    }
    // truth values have no sum, which joins the parts
    let is_bool = tensors[0].dtype() == DType::Bool;
    if is_bool {
        tensors = tensors.iter().map(|tensor| tensor.to_dtype(DType::I32)).collect();
    }
    let whole = Tensor::cat(&tensors.iter().collect::<Vec<_>>(), axis.cast_signed());
    one(if is_bool { whole.to_dtype(DType::Bool) } else { whole })
}

/// Vectors one after another, if they are of one kind.
fn joined(hosts: &[&HostTensor]) -> Option<HostData> {
    Some(match hosts[0].data {
        HostData::Ints(_) => {
            let ints = |host: &&HostTensor| match &host.data {
                HostData::Ints(values) => Some(values.clone()),
                _ => None,
            };
            HostData::Ints(hosts.iter().map(ints).collect::<Option<Vec<_>>>()?.concat())
        }
        HostData::Floats(_) => {
            let floats = |host: &&HostTensor| match &host.data {
                HostData::Floats(values) => Some(values.clone()),
                _ => None,
            };
            HostData::Floats(hosts.iter().map(floats).collect::<Option<Vec<_>>>()?.concat())
        }
        HostData::Bools(_) => {
            let bools = |host: &&HostTensor| match &host.data {
                HostData::Bools(values) => Some(values.clone()),
                _ => None,
            };
            HostData::Bools(hosts.iter().map(bools).collect::<Option<Vec<_>>>()?.concat())
        }
    })
}

/// `[batch, channels, height, width]` and the size of blocks.
fn blocks(call: &Call<'_>) -> Result<(Tensor, [usize; 4], usize)> {
    let x = call.tensor(0)?;
    let Some(block) = call.int_or_none("blocksize")?.and_then(|size| usize::try_from(size).ok()) else {
        return fail("has no size of blocks");
    };
    match *x.shape().dims() {
        [batch, channels, height, width] if (1..1 << 15).contains(&block) => {
            Ok((x, [batch, channels, height, width], block))
        }
        _ => fail(format!("{} in blocks of {block}", x.shape())),
    }
}

fn depth_to_space(call: &Call<'_>) -> Outputs {
    let (x, [batch, channels, height, width], block) = blocks(call)?;
    if !channels.is_multiple_of(block * block) {
        return fail(format!("{} in blocks of {block}", x.shape()));
    }
    let inner = channels / (block * block);
    let turned = match call.text("mode", "DCR")?.as_str() {
        "DCR" => x.reshape([batch, block, block, inner, height, width]).permute([0, 3, 4, 1, 5, 2]),
        "CRD" => x.reshape([batch, inner, block, block, height, width]).permute([0, 1, 4, 2, 5, 3]),
        other => return fail(format!("mode `{other}` is neither DCR nor CRD")),
    };
    one(turned.reshape([batch, inner, height * block, width * block]))
}

fn space_to_depth(call: &Call<'_>) -> Outputs {
    let (x, [batch, channels, height, width], block) = blocks(call)?;
    if !height.is_multiple_of(block) || !width.is_multiple_of(block) {
        return fail(format!("{} in blocks of {block}", x.shape()));
    }
    let (rows, columns) = (height / block, width / block);
    let cut = x.reshape([batch, channels, rows, block, columns, block]);
    let turned = match call.text("mode", "DCR")?.as_str() {
        "DCR" => cut.permute([0, 3, 5, 1, 2, 4]),
        "CRD" => cut.permute([0, 1, 3, 5, 2, 4]),
        other => return fail(format!("mode `{other}` is neither DCR nor CRD")),
    };
    one(turned.reshape([batch, channels * block * block, rows, columns]))
}
