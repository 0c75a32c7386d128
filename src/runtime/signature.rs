//! What a captured step is found by: the shapes and types of its inputs, and what holds around its run.

use crate::dtype::DType;
use crate::graph::Scopes;
use crate::shape::Shape;

/// Shape and type of each input of a step.
pub type Signature = Vec<(Shape, DType)>;

/// What a step was traced for. The same function is another graph within other scopes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub(super) signature: Signature,
    scopes: Scopes,
}

impl Key {
    /// Inputs of this signature, within the scopes that hold on this thread.
    pub(super) fn now(signature: Signature) -> Self {
        Self { signature, scopes: Scopes::current() }
    }
}

/// What changed in `key` against the nearest of `earlier`, in words; those within the same scopes are nearer than others,
/// and of equals the last.
pub(super) fn change<'a>(key: &Key, earlier: impl Iterator<Item = &'a Key>) -> Option<String> {
    let near = |other: &&Key| (other.scopes == key.scopes, likeness(&key.signature, &other.signature));
    let nearest = earlier.max_by_key(near)?;
    key.scopes.difference(&nearest.scopes).or_else(|| difference(&key.signature, &nearest.signature))
}

/// How inputs of `signature` differ from `nearest`, in words.
fn difference(signature: &Signature, nearest: &Signature) -> Option<String> {
    if nearest.len() != signature.len() {
        return Some(format!("there are {} inputs instead of {}", signature.len(), nearest.len()));
    }
    let pairs = signature.iter().zip(nearest).enumerate().filter(|(_, (new, old))| new != old);
    let changes: Vec<String> = pairs
        .map(|(number, ((shape, dtype), (old_shape, old_dtype)))| {
            format!("input {number} is {dtype} {shape} instead of {old_dtype} {old_shape}")
        })
        .collect();
    (!changes.is_empty()).then(|| changes.join(" and "))
}

/// How much two signatures have in common: first the number of inputs, then how many are equal.
fn likeness(a: &Signature, b: &Signature) -> (bool, usize) {
    (a.len() == b.len(), a.iter().zip(b).filter(|(a, b)| a == b).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(inputs: &[(&[usize], DType)]) -> Key {
        Key::now(inputs.iter().map(|&(shape, dtype)| (Shape::from(shape), dtype)).collect())
    }

    #[test]
    fn the_change_is_named_against_the_nearest() {
        let whole = signature(&[(&[64, 3], DType::F32), (&[64], DType::I32)]);
        let halves = signature(&[(&[64, 3], DType::F16), (&[32], DType::I32)]);
        let three = signature(&[(&[64, 3], DType::F32), (&[64], DType::I32), (&[64], DType::F32)]);
        let new = signature(&[(&[64, 3], DType::F32), (&[30], DType::I32)]);
        let change = |earlier: &[&Key]| change(&new, earlier.iter().copied());
        assert_eq!(change(&[]), None);
        assert_eq!(change(&[&new]), None);
        let text = "input 1 is i32 [30] instead of i32 [64]";
        assert_eq!(change(&[&three, &halves, &whole]).as_deref(), Some(text));
        assert_eq!(change(&[&whole, &halves, &three]).as_deref(), Some(text));
        let both = "input 0 is f32 [64, 3] instead of f16 [64, 3] and input 1 is i32 [30] instead of i32 [32]";
        assert_eq!(change(&[&three, &halves]).as_deref(), Some(both));
        assert_eq!(change(&[&three]).as_deref(), Some("there are 2 inputs instead of 3"));
        let last = signature(&[(&[64, 3], DType::F32), (&[32], DType::I32)]);
        let text = "input 1 is i32 [30] instead of i32 [32]";
        assert_eq!(change(&[&whole, &three, &last]).as_deref(), Some(text), "both are as near");
    }
}
