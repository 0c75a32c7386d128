"""Records ONNX models with what they compute, for `tests/suite/onnx` and `tests/malformed`.

    python tests/reference/record_onnx.py

writes `onnx_cases.safetensors` beside this file: `NAME/model` is a model's bytes, `NAME/in/0` and so on its inputs, `NAME/out/0` and so
on what ONNX Runtime computes of them, or ONNX's reference where ONNX Runtime lacks the operator. Recorded with torch 2.15.0, onnx
1.23.2 and onnxruntime 1.32.0 on a CPU.
"""

import io
import pathlib
import warnings

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import save_file
from torch import nn

warnings.filterwarnings("ignore")
torch.manual_seed(3)
onnxruntime.set_default_logger_severity(4)
RANDOM = np.random.default_rng(11)
tensors = {}
counts = {"onnxruntime": 0, "reference": 0}


def rand(*shape, low=-2.0, high=2.0):
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def ints(*values, dtype=np.int64):
    return np.array(values, dtype)


def outputs_of(data, names, inputs):
    feeds = dict(zip(names, inputs))
    try:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        result = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds)
        counts["onnxruntime"] += 1
    except Exception:
        result = ReferenceEvaluator(onnx.load_from_string(data)).run(None, feeds)
        counts["reference"] += 1
    return [np.array(value, order="C") for value in result]


def add(name, data, names, inputs):
    assert f"{name}/model" not in tensors, name
    tensors[f"{name}/model"] = np.frombuffer(data, np.uint8)
    for number, value in enumerate(inputs):
        # safetensors would write all of a view
        tensors[f"{name}/in/{number}"] = np.array(value, order="C")
    for number, value in enumerate(outputs_of(data, names, inputs)):
        tensors[f"{name}/out/{number}"] = value


def model(nodes, inputs, constants, outputs, opset, domain="", element=TensorProto.FLOAT):
    """`inputs` and `constants` are dictionaries of arrays, `outputs` names; `element` is their type where ONNX cannot tell."""
    info = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for key, value in inputs.items()
    ]
    out = [onnx.ValueInfoProto(name=key) for key in outputs]
    kept = [numpy_helper.from_array(value, key) for key, value in constants.items()]
    graph = helper.make_graph(nodes, "case", info, out, kept)
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    made = helper.make_model(graph, opset_imports=imports, ir_version=10)
    try:
        made = onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=True)
    except Exception:
        pass
    for value, known in zip(made.graph.output, list(made.graph.output)):
        if not value.HasField("type"):
            value.type.tensor_type.elem_type = element
    return made.SerializeToString()


def op(name, kind, inputs, constants=(), outputs=1, opset=21, domain="", element=TensorProto.FLOAT, version=None, **attributes):
    """A model of one node; `constants` are the numbers of inputs that lie in the file, `None` is left out."""
    given = {f"x{number}": value for number, value in enumerate(inputs) if value is not None}
    fixed = {key: value for key, value in given.items() if int(key[1:]) in constants}
    free = {key: value for key, value in given.items() if key not in fixed}
    names = [f"x{number}" if value is not None else "" for number, value in enumerate(inputs)]
    out = [f"y{number}" for number in range(outputs)] if isinstance(outputs, int) else outputs
    if version is not None:
        attributes["opset"] = version
    node = helper.make_node(kind, names, out, name=f"the_{kind}", domain=domain, **attributes)
    data = model([node], free, fixed, [key for key in out if key], opset, domain, element)
    add(name, data, list(free), list(free.values()))


def elementwise():
    x, positive, unit = rand(3, 5), rand(3, 5, low=0.1, high=3.0), rand(3, 5, low=-0.9, high=0.9)
    for kind in "Abs Atan Asinh Ceil Cos Cosh Elu Erf Exp Floor Identity LeakyRelu Neg Relu Round Selu Sigmoid Sign Sin Sinh".split():
        op(kind, kind, [x])
    for kind in "Softplus Softsign Tan Tanh HardSigmoid HardSwish Celu ThresholdedRelu Mish Gelu Shrink".split():
        op(kind, kind, [x])
    for kind in "Log Reciprocal Sqrt".split():
        op(kind, kind, [positive])
    for kind in "Acos Asin Atanh".split():
        op(kind, kind, [unit])
    op("Acosh", "Acosh", [positive + 1])
    op("gelu_tanh", "Gelu", [x], approximate="tanh")
    op("Swish", "Swish", [x], opset=24, alpha=1.5)
    y = rand(4, 3, 1)
    for kind in "Add Sub Mul Div".split():
        op(kind, kind, [x, y])
        op(f"{kind}_int", kind, [ints(7, -8, 9), ints(2, 3, -4)])
    op("Pow", "Pow", [positive, y])
    op("pow_constant", "Pow", [x, np.float32(3)], constants=[1])
    op("pow_int", "Pow", [ints(2, -3, 4), ints(3, 2, 1)])
    for kind in "Equal Greater GreaterOrEqual Less LessOrEqual".split():
        op(kind, kind, [np.round(x), np.round(y)])
    for kind in "Max Min Sum Mean".split():
        op(kind, kind, [x, y, rand(1)])
    op("Mod", "Mod", [ints(-4, 7, 5, 4, -7, 8), ints(2, -3, 8, -2, 3, 5)])
    op("fmod", "Mod", [x, positive], fmod=1)
    bools = x > 0, y > 0
    for kind in "And Or Xor".split():
        op(kind, kind, list(bools))
    op("Not", "Not", [bools[0]])
    op("Where", "Where", [bools[0], x, y])
    op("IsNaN", "IsNaN", [np.array([1, np.nan, np.inf], np.float32)])
    op("IsInf", "IsInf", [np.array([1, -np.inf, np.inf], np.float32)], detect_negative=0)
    op("Clip", "Clip", [x, np.float32(-0.5), np.float32(1)], constants=[1, 2])
    op("clip_6", "Clip", [x], opset=6 + 1, min=-0.5, max=1.0)
    op("PRelu", "PRelu", [x, rand(5)], constants=[1])
    op("cast_int", "Cast", [x], to=TensorProto.INT64)
    op("cast_half", "Cast", [x], to=TensorProto.FLOAT16)
    op("cast_uint8", "Cast", [positive * 20], to=TensorProto.UINT8)
    op("BitShift", "BitShift", [np.array([16, 4, 1], np.uint8), np.array([1, 2, 3], np.uint8)], direction="LEFT")
    op("BitwiseAnd", "BitwiseAnd", [ints(12, 10, dtype=np.int32), ints(6, 3, dtype=np.int32)])
    op("half", "Mul", [x.astype(np.float16), y.astype(np.float16)])
    for axis, opset in [(-1, 21), (1, 11), (0, 13)]:
        for kind in "Softmax LogSoftmax Hardmax".split():
            op(f"{kind}_{axis}_{opset}", kind, [rand(2, 3, 4)], opset=opset, axis=axis)
    for kind in "Gelu FastGelu QuickGelu".split():
        op(f"microsoft_{kind}", kind, [x], domain="com.microsoft")
    op("microsoft_BiasGelu", "BiasGelu", [x, rand(5)], constants=[1], domain="com.microsoft")


def movement():
    x = rand(2, 3, 4)
    op("Reshape", "Reshape", [x, ints(0, -1)], constants=[1])
    op("Flatten", "Flatten", [x], axis=2)
    op("Transpose", "Transpose", [x], perm=[2, 0, 1])
    op("Expand", "Expand", [rand(3, 1), ints(2, 1, 4)], constants=[1])
    op("Tile", "Tile", [x, ints(1, 2, 2)], constants=[1])
    op("Squeeze", "Squeeze", [rand(1, 3, 1), ints(0)], constants=[1])
    op("squeeze_11", "Squeeze", [rand(1, 3, 1)], opset=11, axes=[-1])
    op("Unsqueeze", "Unsqueeze", [x, ints(0, -1)], constants=[1])
    op("Concat", "Concat", [x, rand(2, 1, 4)], axis=-2)
    op("concat_bool", "Concat", [x > 0, rand(2, 1, 4) > 0], axis=1)
    op("Split", "Split", [rand(7, 2)], outputs=3, num_outputs=3)
    op("split_sizes", "Split", [rand(2, 6), ints(2, 0, 4)], constants=[1], outputs=3, axis=1)
    op("Slice", "Slice", [x, ints(-1, 1), ints(-99, 2**63 - 1), ints(2, 1), ints(-2, 1)], constants=[1, 2, 3, 4])
    op("slice_9", "Slice", [x], opset=9, starts=[1, 0], ends=[1000, -1], axes=[1, 2])
    for mode in "constant reflect edge wrap".split():
        op(f"pad_{mode}", "Pad", [rand(2, 4), ints(0, 2, 1, 3)], constants=[1], mode=mode)
    op("pad_value", "Pad", [rand(2, 4), ints(1, -1), np.float32(7), ints(1)], constants=[1, 2, 3])
    op("DepthToSpace", "DepthToSpace", [rand(1, 8, 2, 3)], blocksize=2, mode="CRD")
    op("SpaceToDepth", "SpaceToDepth", [rand(1, 2, 4, 6)], blocksize=2)
    op("Trilu", "Trilu", [rand(2, 3, 4), ints(1).reshape(())], constants=[1], upper=0)
    op("EyeLike", "EyeLike", [rand(3, 4)], k=1)
    op("Shape", "Shape", [x], start=1)
    op("Size", "Size", [x])
    op("Range", "Range", [np.float32(1), np.float32(3), np.float32(0.5)], constants=[0, 1, 2])
    op("ConstantOfShape", "ConstantOfShape", [ints(2, 3)], constants=[0], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [2.5]))


def index():
    x = rand(4, 3)
    op("Gather", "Gather", [x, ints(1, -1, 0)], constants=[1], axis=1)
    op("gather_data", "Gather", [x, np.array([[1, -1], [0, 2]])])
    op("gather_scalar", "Gather", [x, ints(-2).reshape(())], constants=[1])
    op("GatherElements", "GatherElements", [x, np.array([[0, -1, 1], [3, 2, 0]])])
    op("GatherND", "GatherND", [rand(2, 3, 4), np.array([[[1], [2]], [[0], [-1]]])], batch_dims=1)
    op("ScatterElements", "ScatterElements", [x, np.array([[1, 0, 2], [0, 2, 1]]), rand(2, 3)])
    op("scatter_add", "ScatterElements", [x, np.array([[1, 0, 1]]), rand(1, 3)], axis=0, reduction="add")
    op("scatter_max", "ScatterElements", [x, np.array([[1, 0, 1], [1, 0, 1]]), rand(2, 3)], axis=0, reduction="max")
    op("ScatterND", "ScatterND", [x, np.array([[2], [0]]), rand(2, 3)])
    op("scatter_nd_mul", "ScatterND", [x, np.array([[2, 1], [0, 0]]), rand(2)], reduction="mul")
    op("OneHot", "OneHot", [ints(0, 2, -1), ints(4), np.array([0, 3], np.float32)], constants=[1, 2], axis=0)
    op("CumSum", "CumSum", [x, ints(0).reshape(())], constants=[1], reverse=1, exclusive=1)
    op("TopK", "TopK", [rand(3, 6), ints(2)], constants=[1], outputs=2)
    op("topk_smallest", "TopK", [rand(5, 2), ints(3)], constants=[1], outputs=2, axis=0, largest=0)
    op("ArgMax", "ArgMax", [x], axis=1, keepdims=0)
    op("argmin_last", "ArgMin", [np.round(x)], axis=0, select_last_index=1)
    op("NonZero", "NonZero", [np.round(x)])
    op("ReverseSequence", "ReverseSequence", [rand(4, 2, 3), ints(3, 1)], constants=[1])


def reduce():
    x = rand(2, 3, 4, low=0.2)
    for kind in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split():
        op(f"Reduce{kind}", f"Reduce{kind}", [x, ints(-1, 0)], constants=[1], keepdims=0)
        op(f"Reduce{kind}_all", f"Reduce{kind}", [x], opset=11)
    op("reduce_noop", "ReduceSum", [x], noop_with_empty_axes=1)


def contract():
    op("MatMul", "MatMul", [rand(2, 1, 3, 4), rand(5, 4, 2)])
    op("matmul_vector", "MatMul", [rand(3, 4), rand(4)], constants=[1])
    op("Gemm", "Gemm", [rand(3, 4), rand(5, 4), rand(5)], constants=[1, 2], transB=1)
    op("gemm_all", "Gemm", [rand(4, 3), rand(4, 5), rand(3, 1)], transA=1, alpha=0.5, beta=2.0)
    op("Det", "Det", [np.array([[[0, 2, -1.5], [1, 0.5, 3], [-2, 1, 1]], [[1, 2, 3], [0, -1, 0.25], [2, 0, 1]]], np.float32)])
    op("Einsum", "Einsum", [rand(2, 3, 4), rand(2, 4, 5)], equation="bij,bjk->bki")
    op("microsoft_FusedMatMul", "FusedMatMul", [rand(2, 3, 4), rand(2, 5, 4)], domain="com.microsoft", transB=1, alpha=0.5)
    w = rand(4, 3, 3, 2)
    op("Conv", "Conv", [rand(2, 3, 5, 6), w, rand(4)], constants=[1, 2], pads=[1, 0, 2, 1], strides=[2, 1])
    op("conv_groups", "Conv", [rand(1, 4, 6), rand(6, 2, 3)], constants=[1], group=2, dilations=[2], pads=[1, 1])
    op("conv_same", "Conv", [rand(1, 3, 5, 6), w], constants=[1], auto_pad="SAME_UPPER", strides=[2, 2])
    op("conv_same_lower", "Conv", [rand(1, 3, 5, 6), w], constants=[1], auto_pad="SAME_LOWER")
    op("conv_3d", "Conv", [rand(1, 2, 4, 3, 4), rand(3, 2, 2, 2, 2)], constants=[1])
    w = rand(3, 2, 3, 3)
    op("ConvTranspose", "ConvTranspose", [rand(1, 3, 3, 4), w, rand(2)], constants=[1, 2], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
    op("conv_transpose_uneven", "ConvTranspose", [rand(1, 3, 3, 4), w], constants=[1], strides=[2, 3], pads=[0, 1, 2, 0], dilations=[2, 1])
    op("conv_transpose_shape", "ConvTranspose", [rand(1, 3, 3, 4), w], constants=[1], strides=[3, 2], output_shape=[8, 8])
    op("conv_transpose_groups", "ConvTranspose", [rand(1, 4, 5), rand(4, 3, 3)], constants=[1], group=2)


def spectral():
    real, pairs = rand(2, 6, 1), rand(2, 6, 2)
    op("DFT", "DFT", [real], onesided=1)
    op("dft_whole", "DFT", [real])
    op("dft_longer", "DFT", [pairs, ints(8).reshape(())], constants=[1], opset=17, axis=1)
    op("dft_complex_half", "DFT", [pairs], opset=17, onesided=1)
    op("dft_inverse", "DFT", [pairs], opset=20, inverse=1)
    op("dft_back", "DFT", [rand(2, 4, 2)], opset=20, inverse=1, onesided=1)
    op("dft_axis", "DFT", [rand(4, 5, 3, 2), ints(4).reshape(()), ints(0).reshape(())], constants=[1, 2], opset=20)
    op("STFT", "STFT", [rand(2, 20, 1), ints(3).reshape(()), rand(8)], constants=[1])
    op("stft_no_window", "STFT", [rand(1, 15, 1), ints(5).reshape(()), None, ints(6).reshape(())], constants=[1, 3])
    op("stft_complex", "STFT", [rand(1, 12, 2), ints(4).reshape(()), rand(5)], constants=[1], onesided=0)
    for name in "Hann Hamming Blackman".split():
        op(f"{name}Window", f"{name}Window", [ints(9).reshape(())], constants=[0])
        op(f"{name}Window_symmetric", f"{name}Window", [ints(9).reshape(())], constants=[0], periodic=0)
    scalars = [np.array(number, np.float32) for number in (0.0, 4000.0)]
    op("MelWeightMatrix", "MelWeightMatrix", [*(ints(n).reshape(()) for n in (8, 64, 8000)), *scalars], constants=[0, 1, 2, 3, 4])


def pool():
    x = rand(1, 2, 7, 6)
    for mode, more in {"floor": {}, "ceil": {"ceil_mode": 1}}.items():
        op(f"max_pool_{mode}", "MaxPool", [x], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1], **more)
        op(f"average_pool_{mode}", "AveragePool", [x], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1], **more)
        op(f"average_pool_padding_{mode}", "AveragePool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1, **more)
    op("max_pool_indices", "MaxPool", [x], outputs=2, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1])
    op("max_pool_dilated", "MaxPool", [x], kernel_shape=[2, 2], dilations=[2, 3])
    op("max_pool_same", "MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    op("average_pool_1d", "AveragePool", [rand(1, 2, 9)], kernel_shape=[3])
    op("average_pool_dilated", "AveragePool", [x], kernel_shape=[2, 2], dilations=[2, 2])
    op("LpPool", "LpPool", [x], kernel_shape=[2, 2], p=3)
    op("GlobalAveragePool", "GlobalAveragePool", [x])
    op("GlobalMaxPool", "GlobalMaxPool", [x])


def norm():
    x, weight, bias = rand(2, 4, 3, 2), rand(4), rand(4)
    constants = [1, 2, 3, 4]
    op("BatchNormalization", "BatchNormalization", [x, weight, bias, rand(4), rand(4, low=0.5)], constants=constants, epsilon=1e-3)
    op("InstanceNormalization", "InstanceNormalization", [x, weight, bias], constants=constants)
    op("GroupNormalization", "GroupNormalization", [x, weight, bias], constants=constants, num_groups=2)
    op("LayerNormalization", "LayerNormalization", [x, rand(3, 2), rand(3, 2)], constants=constants, axis=2, outputs=1)
    op("RMSNormalization", "RMSNormalization", [x, rand(2)], constants=constants, opset=23)
    op("LRN", "LRN", [rand(1, 6, 2, 2)], size=3, alpha=0.2, beta=0.5, bias=1.5)
    op("LpNormalization", "LpNormalization", [x], axis=1, p=1)
    op("MeanVarianceNormalization", "MeanVarianceNormalization", [x])
    op("microsoft_SkipLayerNormalization", "SkipLayerNormalization", [rand(2, 3, 4), rand(2, 3, 4), weight, bias], constants=constants, domain="com.microsoft")


def resize():
    x = rand(1, 2, 4, 5)
    for transformation in "half_pixel pytorch_half_pixel align_corners asymmetric".split():
        for mode in "nearest linear cubic".split():
            op(f"resize_{mode}_{transformation}", "Resize", [x, None, None, ints(1, 2, 7, 3)], constants=[3], mode=mode, coordinate_transformation_mode=transformation)
    for rounding in "floor ceil round_prefer_ceil".split():
        op(f"resize_{rounding}", "Resize", [x, None, np.array([1, 1, 2.5, 0.6], np.float32)], constants=[2], nearest_mode=rounding)
    op("resize_twice", "Resize", [x, None, np.array([1, 1, 2, 2], np.float32)], constants=[2], nearest_mode="floor", coordinate_transformation_mode="asymmetric")
    op("resize_antialias", "Resize", [rand(1, 1, 9, 8), None, None, ints(1, 1, 3, 5)], constants=[3], mode="linear", antialias=1)
    op("resize_exclude", "Resize", [x, None, None, ints(1, 2, 3, 9)], constants=[3], mode="cubic", exclude_outside=1)
    op("resize_10", "Resize", [x, np.array([1, 1, 2, 3], np.float32)], constants=[1], opset=10, mode="linear")
    op("Upsample", "Upsample", [x, np.array([1, 1, 2, 3], np.float32)], constants=[1], opset=9)
    for mode in "linear nearest".split():
        for outside in "zeros border reflection".split():
            op(f"grid_sample_{mode}_{outside}", "GridSample", [x, rand(1, 3, 4, 2, low=-1.3, high=1.3)], mode=mode, padding_mode=outside)


def recurrent():
    x = rand(5, 2, 3)
    for kind, gates in {"RNN": 1, "GRU": 3, "LSTM": 4}.items():
        for direction, count in {"forward": 1, "reverse": 1, "bidirectional": 2}.items():
            inputs = [x, rand(count, gates * 4, 3), rand(count, gates * 4, 4), rand(count, gates * 8)]
            op(f"{kind}_{direction}", kind, inputs, constants=[1, 2, 3], outputs=2, hidden_size=4, direction=direction)
    inputs = [x, rand(1, 16, 3), rand(1, 16, 4), rand(1, 32), ints(5, 3, dtype=np.int32), rand(1, 2, 4), rand(1, 2, 4), rand(1, 12)]
    op("lstm_all", "LSTM", inputs, constants=[1, 2, 3, 7], outputs=3, hidden_size=4)
    op("gru_linear", "GRU", [x, rand(1, 12, 3), rand(1, 12, 4), rand(1, 24)], constants=[1, 2, 3], outputs=2, hidden_size=4, linear_before_reset=1)
    op("rnn_relu", "RNN", [x, rand(1, 4, 3), rand(1, 4, 4)], constants=[1, 2], outputs=["", "y"], hidden_size=4, activations=["Relu"])


def quantized():
    x = rand(3, 4)
    op("QuantizeLinear", "QuantizeLinear", [x, np.float32(0.05), np.uint8(128)], constants=[1, 2])
    op("quantize_axis", "QuantizeLinear", [x, rand(4, low=0.01, high=0.1), np.zeros(4, np.int8)], constants=[1, 2], axis=1)
    op("DequantizeLinear", "DequantizeLinear", [RANDOM.integers(-128, 127, (3, 4)).astype(np.int8), rand(3, low=0.1), np.array([1, 2, 3], np.int8)], constants=[1, 2], axis=0)
    op("DynamicQuantizeLinear", "DynamicQuantizeLinear", [x], outputs=3)
    a, b = RANDOM.integers(0, 255, (3, 4)).astype(np.uint8), RANDOM.integers(0, 255, (4, 2)).astype(np.uint8)
    op("MatMulInteger", "MatMulInteger", [a, b, np.uint8(12), np.uint8(100)], constants=[1, 2, 3])
    scale = np.float32(0.02)
    op("QLinearMatMul", "QLinearMatMul", [a, scale, np.uint8(100), b, scale, np.uint8(120), np.float32(0.5), np.uint8(110)], constants=range(1, 8))
    a, w = RANDOM.integers(0, 255, (1, 2, 5, 5)).astype(np.uint8), RANDOM.integers(0, 255, (3, 2, 3, 3)).astype(np.uint8)
    # sums of two products stay within 16 bits, in which ONNX Runtime computes them on some processors
    narrow = RANDOM.integers(-60, 60, (3, 2, 3, 3)).astype(np.int8)
    op("ConvInteger", "ConvInteger", [a, w, np.uint8(128)], constants=[1, 2], pads=[1, 1, 1, 1])
    op("QLinearConv", "QLinearConv", [a, scale, np.uint8(128), narrow, rand(3, low=0.01, high=0.02), np.zeros(3, np.int8), np.float32(0.7), np.uint8(110), ints(5, -6, 700, dtype=np.int32)], constants=range(1, 9))


def attention():
    q, k, v = rand(2, 4, 3, 8), rand(2, 2, 5, 8), rand(2, 2, 5, 6)
    op("Attention", "Attention", [q, k, v], opset=23)
    op("attention_mask", "Attention", [q, k, v, rand(3, 5)], opset=23, softcap=1.5)
    op("attention_bool", "Attention", [q, k, v, RANDOM.random((2, 1, 3, 5)) > 0.3], opset=23, scale=0.3)
    op("attention_flat", "Attention", [rand(2, 4, 8), rand(2, 4, 8), rand(2, 4, 8)], opset=23, q_num_heads=2, kv_num_heads=2, is_causal=1)
    op("attention_past", "Attention", [q, rand(2, 4, 3, 8), rand(2, 4, 3, 6), None, rand(2, 4, 2, 8), rand(2, 4, 2, 6)], opset=23, outputs=3)
    op("RotaryEmbedding", "RotaryEmbedding", [q, rand(2, 3, 4), rand(2, 3, 4)], opset=23)
    op("rotary_interleaved", "RotaryEmbedding", [rand(2, 3, 16), rand(9, 2), rand(9, 2), np.array([[0, 3, 5], [1, 2, 8]])], constants=[1, 2], opset=23, interleaved=1, rotary_embedding_dim=4, num_heads=2)


def graphs():
    """Several nodes: shapes computed from shapes, branches, nodes in the wrong order."""
    x = rand(2, 3, 4)
    node = helper.make_node
    fixed = {"one": ints(1), "minus": ints(-1), "two": ints(2), "zero": ints(0)}
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["batch"], axis=0),
        node("Slice", ["shape", "one", "two"], ["middle"]),
        node("Mul", ["middle", "two"], ["double"]),
        node("Concat", ["batch", "double", "minus"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["y"]),
    ]
    add("shapes", model(nodes, {"x": x}, fixed, ["y"], 21), ["x"], [x])
    branch = lambda kind: helper.make_graph([node(kind, ["x"], ["out"])], kind, [], [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)])
    nodes = [
        node("Size", ["x"], ["size"]),
        node("Greater", ["size", "two"], ["large"]),
        node("If", ["large"], ["y"], then_branch=branch("Exp"), else_branch=branch("Neg")),
    ]
    add("branch", model(nodes, {"x": x}, {"two": ints(2).reshape(())}, ["y"], 21), ["x"], [x])


def exported(name, module, inputs, **options):
    module.eval()
    for fast in (False, True):
        buffer = io.BytesIO()
        try:
            if fast:
                program = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
                data = program.model_proto.SerializeToString()
            else:
                torch.onnx.export(module, inputs, buffer, dynamo=False, opset_version=17, **options)
                data = buffer.getvalue()
        except Exception as error:
            print(f"{name}, dynamo={fast}: {type(error).__name__} {str(error)[:200]}")
            continue
        stripped = onnx.load_from_string(data)
        for node in stripped.graph.node:
            node.doc_string = ""
            del node.metadata_props[:]
        for value in stripped.graph.value_info:
            del value.metadata_props[:]
        del stripped.graph.value_info[:]
        data = stripped.SerializeToString()
        names = [value.name for value in stripped.graph.input]
        add(f"{'dynamo' if fast else 'torch'}_{name}", data, names, [value.numpy() for value in inputs])


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=2), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 5)
        for bn in (self.bn1, self.bn2):
            bn.running_mean.uniform_(-0.5, 0.5)
            bn.running_var.uniform_(0.5, 1.5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.silu(self.bn2(self.conv2(x)) + F.avg_pool2d(x, 2))
        return F.log_softmax(self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1)), 1)


class Block(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.token = nn.Embedding(11, width)
        self.place = nn.Parameter(torch.randn(8, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.heads = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), heads

    def forward(self, token):
        batch, length = token.shape
        x = self.token(token) + self.place[:length]
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True), nn.GRU(10, 3, batch_first=True)

    def forward(self, x):
        return self.gru(self.lstm(x)[0])[0][:, -1]


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.middle, self.up1 = nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.join, self.last = nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(8, 2, 1)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x):
        first = F.leaky_relu(self.down1(x))
        second = self.norm(F.relu(self.down2(first)))
        x = self.up1(F.instance_norm(self.middle(second)))
        x = F.relu(self.join(torch.cat([x, second], 1)))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(torch.cat([F.interpolate(F.interpolate(x, scale_factor=2), size=x.shape[2:], mode="bicubic"), first], 1))


def modules():
    dynamic = {"input_names": ["input"], "output_names": ["output"], "dynamic_axes": {"input": {0: "batch"}, "output": {0: "batch"}}}
    exported("cnn", Cnn(), (torch.randn(2, 3, 8, 8),), **dynamic)
    exported("block", Block(), (torch.randint(0, 11, (2, 6)),), input_names=["token"], dynamic_axes={"token": {0: "batch", 1: "length"}})
    exported("recurrent", Recurrent(), (torch.randn(2, 4, 4),), **dynamic)
    exported("unet", Unet(), (torch.randn(1, 1, 8, 8),), **dynamic)


def found_by_review():
    """What was wrong once."""
    half = np.array([[600, 400, -900, 200], [0, 0, 0, 0]], np.float16)
    ones = np.ones(4, np.float16)
    op("layer_norm_half", "LayerNormalization", [half, ones], constants=[1])
    op("rms_norm_half", "SimplifiedLayerNormalization", [half, ones], constants=[1], epsilon=1e-5)
    op("pow_large_int", "Pow", [ints(4099, -3), ints(2)], constants=[1])
    op("pow_int_by_root", "Pow", [ints(15, 8), np.float32(0.5)], constants=[1])
    for mode, widths in (("wrap", (4, 1)), ("wrap", (1, 7)), ("reflect", (10, 1))):
        op(f"pad_{mode}_far_{widths[0]}", "Pad", [rand(3), ints(*widths)], constants=[1], mode=mode)
    op("max_pool_bytes", "MaxPool", [ints(*range(16), dtype=np.uint8).reshape(1, 1, 4, 4)], kernel_shape=[2, 2])
    weights = [rand(3, 2, 3), rand(1, 12, 3), rand(1, 12, 3)]
    op("lstm_alpha", "LSTM", weights, constants=[1, 2], outputs=1, hidden_size=3, activations=["Sigmoid", "LeakyRelu", "Tanh"], activation_alpha=[0.5])


class Scaled(nn.Module):
    """Sizes that a factor does not give exactly."""

    def forward(self, x):
        a = F.interpolate(x, scale_factor=0.6, mode="bilinear", align_corners=True)
        b = F.interpolate(x, scale_factor=1.7, mode="bicubic", align_corners=True)
        return a, b


def detection():
    boxes = np.array([[0, 0, 4, 4], [0.2, 0, 4, 4.1], [5, 5, 1, 1], [6, 6, 9, 9], [6, 6.5, 9, 9], [0, 0, 0, 0]], np.float32)
    boxes = np.stack([boxes, boxes[::-1]])
    scores = rand(2, 3, 6, low=0, high=1)
    limits = [ints(2), np.array([0.4], np.float32), np.array([0.2], np.float32)]
    op("NonMaxSuppression", "NonMaxSuppression", [boxes, scores, *limits], constants=[2, 3, 4])
    op("nms_unlimited", "NonMaxSuppression", [np.abs(boxes), scores, ints(99), np.array(0.3, np.float32)], constants=[2, 3], center_point_box=1)
    op("nms_none", "NonMaxSuppression", [boxes, scores])
    x, of = rand(2, 3, 7, 5), ints(1, 0, 1)
    regions = np.array([[0, 0, 9, 13], [3.5, 2, 4, 2.5], [-4, -3, 30, 40]], np.float32)
    for name, more in {"ratio": {"sampling_ratio": 2}, "adaptive": {}, "whole": {"coordinate_transformation_mode": "output_half_pixel"}}.items():
        op(f"roi_align_{name}", "RoiAlign", [x, regions, of], output_height=3, output_width=2, spatial_scale=0.5, **more)
    op("roi_align_10", "RoiAlign", [x, regions, of], opset=10, output_height=2, output_width=2, sampling_ratio=1)
    op("roi_align_max", "RoiAlign", [x, regions, of], output_height=3, output_width=2, spatial_scale=0.5, sampling_ratio=2, mode="max")
    op("roi_align_max_adaptive", "RoiAlign", [x, regions, of], output_height=2, output_width=2, mode="max")
    columns = rand(2, 12, 20)
    op("Col2Im", "Col2Im", [columns, ints(5, 6), ints(2, 2)], constants=[1, 2])
    op("col2im_padded", "Col2Im", [rand(1, 6, 12), ints(5, 4), ints(2, 3)], constants=[1, 2], pads=[1, 0, 0, 2], strides=[2, 1], dilations=[1, 1])
    x = ints(3, 1, 1, 2, 3, 3).reshape(2, 3)
    op("Unique", "Unique", [x], outputs=4)
    op("unique_unsorted", "Unique", [np.array([2, -0.0, 0, 7, 2], np.float32)], outputs=4, sorted=0)
    op("unique_axis", "Unique", [np.array([[1, 0, 1, 0], [2, 5, 2, 1]], np.float32)], outputs=4, axis=1)


def losses():
    scores, labels = rand(4, 3), ints(2, 0, 1, 2)
    weights = rand(3, low=0.1)
    for reduction in "mean sum none".split():
        op(f"sce_{reduction}", "SoftmaxCrossEntropyLoss", [scores, labels, weights], constants=[2], outputs=2, reduction=reduction)
        op(f"nll_{reduction}", "NegativeLogLikelihoodLoss", [scores, labels, weights], constants=[2], reduction=reduction)
    pictures, pixels = rand(2, 3, 2, 2), ints(0, -1, 2, 1, 1, 2, -1, 0).reshape(2, 2, 2)
    op("sce_pixels", "SoftmaxCrossEntropyLoss", [pictures, pixels], ignore_index=-1)
    x, weight = rand(1, 2, 4, 4), rand(3, 2, 3, 3)
    for activation, numbers in (("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 1.0])):
        more = {"activation_params": numbers} if numbers else {}
        op(f"fused_conv_{activation}", "FusedConv", [x, weight, rand(3), rand(1, 3, 2, 2)], constants=[1, 2], domain="com.microsoft", activation=activation, **more)
    exported("scaled", Scaled(), (torch.randn(1, 2, 7, 5),), input_names=["input"])
    op("nll_pixels", "NegativeLogLikelihoodLoss", [pictures, pixels], ignore_index=-1)


def requantized():
    """ONNX Runtime's operators on quantised values. Steps that are no halves of each other keep results away from ties."""
    a, b = RANDOM.integers(0, 255, (2, 3, 4)).astype(np.uint8), RANDOM.integers(0, 255, (3, 1)).astype(np.uint8)
    step, other = np.float32(0.0213), np.float32(0.0371)
    near, far = np.uint8(120), np.uint8(101)
    signed = lambda value: value.astype(np.int16).__sub__(128).astype(np.int8)
    def contrib(name, kind, inputs, constants=None, like=np.uint8, **more):
        scalars = [number for number, value in enumerate(inputs) if value is not None and value.ndim == 0]
        element = helper.np_dtype_to_tensor_dtype(np.dtype(like))
        op(name, kind, inputs, constants=constants or scalars, domain="com.microsoft", element=element, **more)
    contrib("QLinearAdd", "QLinearAdd", [a, step, near, b, other, far, np.float32(0.0457), np.uint8(90)])
    contrib("QLinearMul", "QLinearMul", [a, step, near, b, other, far, np.float32(0.0291), np.uint8(133)])
    contrib("qlinear_add_signed", "QLinearAdd", [signed(a), step, np.int8(-5), signed(a[:1]), other, np.int8(9), np.float32(0.0457), np.int8(3)], like=np.int8)
    for kind in ("QLinearSigmoid", "QLinearLeakyRelu"):
        contrib(kind, kind, [a, step, near, np.float32(0.0117), np.uint8(17)], **({"alpha": 0.2} if "Leaky" in kind else {}))
    contrib("QLinearSoftmax", "QLinearSoftmax", [a, step, near, np.float32(1 / 256), np.uint8(0)], axis=-1, version=13)
    pictures = RANDOM.integers(0, 255, (1, 3, 5, 6)).astype(np.uint8)
    pool = [pictures, step, near, np.float32(0.0187), np.uint8(115)]
    contrib("QLinearGlobalAveragePool", "QLinearGlobalAveragePool", pool)
    contrib("qlinear_global_pool_last", "QLinearGlobalAveragePool", pool, channels_last=1)
    contrib("QLinearAveragePool", "QLinearAveragePool", pool, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0])
    contrib("qlinear_pool_last", "QLinearAveragePool", pool, kernel_shape=[2, 2], channels_last=1)
    contrib("QLinearConcat", "QLinearConcat", [np.float32(0.0457), np.uint8(90), a, step, near, a[:1], other, far], axis=0)
    x, w = RANDOM.integers(0, 255, (3, 4)).astype(np.uint8), RANDOM.integers(-60, 60, (5, 4)).astype(np.int8)
    bias = ints(500, -300, 0, 77, -1000, dtype=np.int32)
    gemm = [x, step, near, w, rand(5, low=0.01, high=0.02), np.zeros(5, np.int8), bias]
    contrib("QGemm", "QGemm", [*gemm, np.float32(0.0457), np.uint8(90)], constants=range(1, 9), transB=1)
    contrib("q_gemm_float", "QGemm", [x, step, near, w.T.copy(), other, np.int8(2)], constants=range(1, 6), alpha=0.5, like=np.float32)
    contrib("MatMulIntegerToFloat", "MatMulIntegerToFloat", [x, w.T.copy(), step, rand(5, low=0.01, high=0.02), near, np.zeros(5, np.int8), rand(5)], constants=range(1, 7), like=np.float32)
    contrib("DynamicQuantizeMatMul", "DynamicQuantizeMatMul", [rand(3, 4), w.T.copy(), other, np.int8(3), rand(5)], constants=range(1, 5), like=np.float32)


for part in (elementwise, movement, index, reduce, contract, pool, norm, resize, recurrent, quantized, attention, graphs, modules, found_by_review, detection, losses, requantized, spectral):
    part()
path = pathlib.Path(__file__).with_name("onnx_cases.safetensors")
save_file(tensors, path)
print(f"{path}: {path.stat().st_size} bytes, {sum(counts.values())} cases, {counts}")
