//! Types of elements where the file does not tell them: devices have fewer, and narrow integers wrap at their width.

use super::super::proto::{ElementType, NodeProto};

/// The type of a node's output as far as its attributes and the types of its inputs tell it. Floats and truth values,
/// of which nothing depends on it, may be left out.
pub(super) fn of_output(node: &NodeProto, output: usize, inputs: &[Option<ElementType>]) -> Option<ElementType> {
    let input = |number: usize| inputs.get(number).copied().flatten();
    let attribute = |name: &str| node.attribute.iter().find(|attribute| attribute.name == name);
    let told = |name: &str| attribute(name).and_then(|attribute| known(i32::try_from(attribute.i).ok()?));
    let stored = || known(attribute("value")?.t.as_ref()?.data_type);
    let has = |name: &str| attribute(name).is_some();
    match (node.op_type.as_str(), output) {
        ("Cast", 0) => told("to"),
        ("CastLike" | "Where", 0) => input(1),
        ("DequantizeLinear", 0) => told("output_dtype").or_else(|| input(1)),
        ("OneHot", 0) => input(2),
        ("EyeLike", 0) => told("dtype").or_else(|| input(0)),
        ("Constant", 0) if has("value_int") || has("value_ints") => Some(ElementType::Int64),
        ("Constant", 0) if has("value_float") || has("value_floats") => Some(ElementType::Float),
        ("Constant", 0) => stored(),
        ("ConstantOfShape", 0) if !has("value") => Some(ElementType::Float),
        ("ConstantOfShape", 0) => stored(),
        ("ArgMax" | "ArgMin" | "NonMaxSuppression" | "NonZero" | "Shape" | "Size", 0)
        | ("TopK", 1)
        | ("Unique", 1..) => Some(ElementType::Int64),
        ("QuantizeLinear", 0) if node.input.get(2).is_none_or(String::is_empty) => {
            told("output_dtype").or(Some(ElementType::Uint8))
        }
        ("QuantizeLinear", 0) => told("output_dtype").or_else(|| input(2)),
        ("DynamicQuantizeLinear", 0 | 2) => Some(ElementType::Uint8),
        ("QLinearConv" | "QLinearMatMul", 0) => input(7),
        ("QLinearAdd" | "QLinearMul", 0) => input(7).or_else(|| input(0)),
        ("QLinearConcat", 0) => input(1).or_else(|| input(2)),
        ("QGemm", 0) => input(8),
        (
            "QLinearAveragePool"
            | "QLinearGlobalAveragePool"
            | "QLinearLeakyRelu"
            | "QLinearSigmoid"
            | "QLinearSoftmax",
            0,
        ) => input(4).or_else(|| input(0)),
        ("ConvInteger" | "MatMulInteger", 0) => Some(ElementType::Int32),
        ("Split", _) => input(0),
        (
            "Abs" | "Add" | "BitShift" | "BitwiseAnd" | "BitwiseNot" | "BitwiseOr" | "BitwiseXor" | "CenterCropPad"
            | "Clip" | "Compress" | "Concat" | "CumProd" | "CumSum" | "DFT" | "DepthToSpace" | "Det" | "Div"
            | "Dropout" | "Einsum" | "Expand" | "Flatten" | "Gather" | "GatherElements" | "GatherND" | "Gemm"
            | "Identity" | "MatMul" | "Max" | "MaxPool" | "Min" | "Mod" | "Mul" | "Neg" | "PRelu" | "Pad" | "Pow"
            | "Range" | "ReduceL1" | "ReduceMax" | "ReduceMean" | "ReduceMin" | "ReduceProd" | "ReduceSum"
            | "ReduceSumSquare" | "Relu" | "Reshape" | "Resize" | "ReverseSequence" | "STFT" | "Scatter"
            | "ScatterElements" | "ScatterND" | "Sign" | "Slice" | "SpaceToDepth" | "Squeeze" | "Sub" | "Sum" | "Tile"
            | "TopK" | "Transpose" | "Trilu" | "Unique" | "Unsqueeze" | "Upsample",
            0,
        ) => input(0),
        _ => None,
    }
}

/// The type with this number, if it is one.
pub(super) fn known(number: i32) -> Option<ElementType> {
    ElementType::try_from(number).ok().filter(|&element| element != ElementType::Undefined)
}
