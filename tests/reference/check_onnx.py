"""Runs ONNX models that brasa wrote in onnxruntime, and compares what they say with what brasa computes.

    BRASA_SAVE_ONNX=FOLDER cargo test --test suite exported
    python tests/reference/check_onnx.py FOLDER

FOLDER holds `NAME.onnx` and `NAME.safetensors` with the inputs and outputs by their names. Needs onnx, onnxruntime, safetensors.
"""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors.numpy import load_file

options = onnxruntime.SessionOptions()
options.log_severity_level = 4
options.intra_op_num_threads = 1
checked, failed = 0, 0


def check(path):
    """What is wrong with a model, or None."""
    io = load_file(path.with_suffix(".safetensors"))
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = {}
    for info in session.get_inputs():
        value = io[info.name]
        given[info.name] = value.astype(np.int64) if value.dtype == np.uint32 else value
    names = [info.name for info in session.get_outputs()]
    for name, got in zip(names, session.run(names, given)):
        want = io[name]
        if got.shape != want.shape:
            return f"{name} is {got.shape} instead of {want.shape}"
        relative, absolute = (2e-3, 2e-3) if want.dtype == np.float16 else (1e-4, 1e-5)
        got, want = got.astype(np.float64), want.astype(np.float64)
        if not np.allclose(got, want, relative, absolute, equal_nan=True):
            return f"{name} differs by up to {np.nanmax(abs(got - want))}"
    return None


for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
    try:
        problem = check(path)
    except Exception as error:  # whatever a program says about a file of ours
        problem = str(error)
    checked += 1
    if problem:
        failed += 1
        print(f"{path.name}: {problem}")
print(f"{checked - failed} of {checked} models agree")
sys.exit(failed > 0 or checked == 0)
