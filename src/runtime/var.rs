//! State: parameters, optimizer moments, running statistics, counters.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::device::{Device, Purpose};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{Memory, Source};
use crate::shape::Shape;
use crate::tensor::Tensor;

use super::cell::VarCell;
use super::traced::leaves;
use super::{substitute, trace};

/// What a variable is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VarKind {
    /// Trained by the optimizer.
    Parameter,
    /// Part of the model's state, not trained: running statistics.
    Buffer,
    /// Everything else: moments, counters, random positions.
    State,
}

/// A named cell of device memory whose value steps read and replace.
///
/// Clones share the cell. Reading gives a snapshot: a tensor that keeps its value when the variable changes.
///
/// ```
/// use brasa::runtime::Var;
/// use brasa::{Device, Tensor};
///
/// let device = Device::cpu();
/// let weight = Var::state("weight", &Tensor::ones([3], &device))?;
/// let before = weight.tensor();
/// weight.assign(&(weight.tensor() * 2.0));
/// assert_eq!(weight.tensor().to_vec::<f32>()?, [2.0; 3]);
/// assert_eq!(before.to_vec::<f32>()?, [1.0; 3]);
/// # Ok::<(), brasa::Error>(())
/// ```
#[derive(Clone)]
pub struct Var(pub(crate) Arc<VarCell>);

impl Var {
    /// A trained parameter with `value`, which is computed now.
    ///
    /// # Errors
    /// If the value cannot be computed or there is no memory.
    #[track_caller]
    pub fn parameter(name: &str, value: &Tensor) -> Result<Self> {
        Self::new(name, VarKind::Parameter, value)
    }

    /// Untrained state of a model, such as running statistics.
    ///
    /// # Errors
    /// If the value cannot be computed or there is no memory.
    #[track_caller]
    pub fn buffer(name: &str, value: &Tensor) -> Result<Self> {
        Self::new(name, VarKind::Buffer, value)
    }

    /// Other state, such as a counter.
    ///
    /// # Errors
    /// If the value cannot be computed or there is no memory.
    #[track_caller]
    pub fn state(name: &str, value: &Tensor) -> Result<Self> {
        Self::new(name, VarKind::State, value)
    }

    /// A variable of any kind.
    ///
    /// # Errors
    /// If the value cannot be computed or there is no memory.
    #[track_caller]
    pub fn new(name: &str, kind: VarKind, value: &Tensor) -> Result<Self> {
        let node = value.node();
        let var = Self::allocate(name, kind, node.shape.clone(), node.dtype, &node.device, node.location)?;
        if !trace::is_tracing() {
            var.set(value)?;
            return Ok(var);
        }
        let leaves = leaves(std::iter::once(node));
        if leaves.iter().any(|leaf| matches!(leaf.source, Some(Source::Input(_)))) {
            let what = format!("a new variable `{name}` with a value made from the step's inputs");
            return Err(Error::Traced { what });
        }
        // making it is not something that the step repeats; the step's own nodes stay without a value, which would be a
        // constant of the step
        trace::suspended(|| {
            for leaf in leaves {
                if let Some(Source::Var(cell)) = &leaf.source {
                    cell.flush()?;
                }
            }
            let known = node.source.is_some() || node.value().is_some();
            let own = if known { node.clone() } else { node.again(node.inputs.clone()) };
            var.0.set(&own)
        })?;
        Ok(var)
    }

    /// A variable of any kind that is zero everywhere. Nothing is computed.
    ///
    /// # Errors
    /// If there is no memory.
    #[track_caller]
    pub fn zeros(name: &str, kind: VarKind, shape: Shape, dtype: DType, device: &Device) -> Result<Self> {
        Self::allocate(name, kind, shape, dtype, device, Location::caller())
    }

    /// New memory is zero.
    #[track_caller]
    fn allocate(
        name: &str,
        kind: VarKind,
        shape: Shape,
        dtype: DType,
        device: &Device,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let shape = shape.in_memory(name);
        let storage = device.alloc(shape.bytes(dtype), Purpose::value(name.to_owned(), dtype, &shape, location))?;
        Ok(Self(VarCell::new(name, kind, shape, dtype, device, Memory::new(storage, 0))))
    }

    /// The value now: a snapshot outside of steps, the value at this point inside of one. To gradients it is the
    /// variable, unless the output depends on a newer value, too ([`Gradients`](crate::autodiff::Gradients)). Within
    /// [`functional_call`](super::functional_call) it is what that was given.
    #[track_caller]
    pub fn tensor(&self) -> Tensor {
        match substitute::value(self.id()) {
            Some(value) => value,
            None => Tensor::from_node(self.0.read()),
        }
    }

    /// Replaces the value: inside of a step when the step runs, outside when it is next read (members of arenas and
    /// arenas themselves at once, because they share memory). What the value was computed from is not kept.
    ///
    /// # Panics
    /// If shape or element type differ.
    #[track_caller]
    pub fn assign(&self, value: &Tensor) {
        self.0.assign(value.node());
    }

    /// Replaces the value now.
    ///
    /// # Errors
    /// If the value cannot be computed, or within a step, which would not repeat it: [`assign`](Self::assign) there.
    ///
    /// # Panics
    /// If shape or element type differ.
    #[track_caller]
    pub fn set(&self, value: &Tensor) -> Result<()> {
        self.0.set(value.node())
    }

    /// Path in its model.
    pub fn name(&self) -> &str {
        &self.0.name
    }
    /// What it is for.
    pub fn kind(&self) -> VarKind {
        self.0.kind
    }
    /// The value's shape.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }
    /// The value's element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }
    /// Where it lives.
    pub fn device(&self) -> &Device {
        &self.0.device
    }
    /// Unique number.
    pub fn id(&self) -> u64 {
        self.0.id
    }
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Var({:?})", self.0)
    }
}
