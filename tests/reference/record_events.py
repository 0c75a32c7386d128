"""Records event files as PyTorch, TensorFlow 2 (and Keras) and TensorBoard's own writer make them, for `tests/suite/recorded.rs`.

    python3 tests/reference/record_events.py    # writes tests/reference/events/

Recorded with torch 2.15.0 and tensorboard 2.21.0. `torch/` is what `SummaryWriter` writes: scalars in the old form and in the
new one, histograms, pictures, texts and settings, and a run that was resumed with `purge_step`. `tensors/` is what TensorFlow 2
writes: tensors for plugins, which only the first event of a tag names. `expected.json` is what TensorBoard itself reads from
them, its `EventAccumulator`, and what its slider makes of a curve.
"""

import json
import pathlib
import shutil

import numpy as np
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.histogram.metadata import create_summary_metadata as histogram_metadata
from tensorboard.plugins.scalar.metadata import create_summary_metadata as scalar_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_ndarray, make_tensor_proto
from torch.utils.tensorboard import SummaryWriter

HERE = pathlib.Path(__file__).parent / "events"
STEPS = 20
RESUMED = 15


def loss(step):
    return 2.0 / (step + 1) + 0.1 * ((step * 7919) % 13) / 13


def write_torch(folder):
    generator = np.random.default_rng(0)
    with SummaryWriter(folder, filename_suffix=".a") as writer:
        writer.add_text("note", "nothing of this is a number")
        for step in range(STEPS):
            writer.add_scalar("Loss/train", loss(step), step, walltime=1_700_000_000 + step)
            # not after step 15, as `EventAccumulator` keeps tensors that are void
            if step < RESUMED:
                writer.add_scalar("new style", step**2, step, walltime=1_700_000_000 + step, new_style=True)
                writer.add_scalar("double", 1 / 3, step, 1_700_000_000 + step, new_style=True, double_precision=True)
        writer.add_scalar("odd", float("nan"), 0, walltime=1_700_000_000)
        writer.add_scalar("odd", float("inf"), 1, walltime=1_700_000_001)
        writer.add_histogram("weights", generator.normal(size=1000), 3, walltime=1_700_000_003)
        writer.add_histogram("weights", np.array([-1.0, 0.0, 0.0, 2.5]), 9, bins="auto", walltime=1_700_000_009)
        writer.add_image("picture", torch.zeros(3, 4, 4), 0, walltime=1_700_000_000)
    # what the first file says of later steps is void
    with SummaryWriter(folder, purge_step=RESUMED, filename_suffix=".b") as writer:
        for step in range(RESUMED, STEPS + 5):
            writer.add_scalar("Loss/train", 0.5, step, walltime=1_700_000_100 + step)


def write_tensors(folder):
    writer = EventFileWriter(str(folder))

    def add(tag, step, data, metadata):
        value = summary_pb2.Summary.Value(tag=tag, tensor=make_tensor_proto(data), metadata=metadata)
        summary = summary_pb2.Summary(value=[value])
        writer.add_event(event_pb2.Event(wall_time=1_700_000_000 + step, step=step, summary=summary))

    for step in range(5):
        first = step == 0
        scalar = scalar_metadata(display_name="loss", description="") if first else None
        add("epoch_loss", step, np.float32(loss(step)), scalar)
        buckets = np.array([[0.0, 0.5, step], [0.5, 1.0, 2.0], [1.0, 4.0, 0.0]], dtype=np.float64)
        add("kernel", step, buckets, histogram_metadata(display_name="kernel", description="") if first else None)
    writer.close()


def smoothed(values, weight):
    """`classicSmoothing` of TensorBoard's `line_chart_v2/data_drawable.ts`."""
    last, count, result = 0.0, 0, []
    for value in values:
        last = last * weight + (1 - weight) * value
        count += 1
        result.append(last / (1 - weight**count))
    return result


def read(folder):
    account = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
    account.Reload()
    scalars = {tag: [[e.step, e.wall_time, e.value] for e in account.Scalars(tag)] for tag in account.Tags()["scalars"]}
    histograms = {
        tag: [[e.step, sum(e.histogram_value.bucket)] for e in account.Histograms(tag)] for tag in account.Tags()["histograms"]
    }
    for tag in account.Tags()["tensors"]:
        plugin = account.summary_metadata[tag].plugin_data.plugin_name
        arrays = [(e.step, e.wall_time, make_ndarray(e.tensor_proto)) for e in account.Tensors(tag)]
        if plugin == "scalars":
            scalars[tag] = [[step, time, float(array)] for step, time, array in arrays]
        if plugin == "histograms":
            histograms[tag] = [[step, float(array[:, 2].sum())] for step, _, array in arrays]
    for points in scalars.values():
        for point in points:
            point[2] = point[2] if np.isfinite(point[2]) else None
    return {"scalars": scalars, "histograms": histograms}


def main():
    shutil.rmtree(HERE, ignore_errors=True)
    write_torch(HERE / "torch")
    write_tensors(HERE / "tensors")
    expected = {name: read(HERE / name) for name in ("torch", "tensors")}
    curve = [loss(step) for step in range(STEPS)]
    expected["smoothed"] = {str(weight): smoothed(curve, weight) for weight in (0.0, 0.6, 0.99)}
    # the names that writers choose tell of the machine
    for number, path in enumerate(sorted(HERE.glob("*/*tfevents*"))):
        path.rename(path.with_name(f"events.out.tfevents.{1_700_000_000 + number}.recorded"))
    (HERE / "expected.json").write_text(json.dumps(expected) + "\n")
    for path in sorted(HERE.rglob("*")):
        print(path.relative_to(HERE), path.stat().st_size)


if __name__ == "__main__":
    main()
