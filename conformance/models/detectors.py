#!/usr/bin/env python3
"""Models whose shapes depend on data, as PyTorch's exporters write them, against ONNX Runtime.

    python -m conformance.models.detectors [--seeds N] [--only NAME] [--target trn2]

Detectors of torchvision (SSD, RetinaNet, FCOS, Faster R-CNN) with small backbones and seeded weights, boolean masks,
torch.nonzero and nms alone, from both exporters where they take the model (torch.export refuses the detectors). Each
runs on the reference evaluator and, compiled, on a simulated NeuronCore, for several seeded inputs: shapes and types
must be ONNX Runtime's, floats equal within 1e-4 of the largest. The last line counts models: `N passed, N failed`.

Needs torch, torchvision, onnx, onnxscript and onnxruntime. Where torchvision's own library does not load beside this
torch, its ops get schemas and kernels in Python here: exporters need no more.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

TOLERANCE = 1e-4  # of the largest magnitude: sums of a few thousand fp32 products in another order
_KEPT: list[Any] = []  # libraries of ops, as long as the process
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward(Tensor a) -> Tensor", "roi_pool(Tensor a) -> Tensor", "_roi_pool_backward(Tensor a) -> Tensor",
    "ps_roi_align(Tensor a) -> Tensor", "_ps_roi_align_backward(Tensor a) -> Tensor",
    "ps_roi_pool(Tensor a) -> Tensor", "_ps_roi_pool_backward(Tensor a) -> Tensor",
    "deform_conv2d(Tensor a) -> Tensor", "_deform_conv2d_backward(Tensor a) -> Tensor",
)  # fmt: skip


def _nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    gone = torch.zeros(len(scores), dtype=torch.bool)
    kept = []
    for i in torch.argsort(scores, descending=True, stable=True).tolist():
        if gone[i]:
            continue
        kept.append(i)
        low, high = torch.maximum(boxes[:, :2], boxes[i, :2]), torch.minimum(boxes[:, 2:], boxes[i, 2:])
        both = (high - low).clamp(min=0).prod(1)
        gone |= both / (area + area[i] - both) > threshold
    return torch.tensor(kept, dtype=torch.int64)


def _roi_align(*arguments: Any) -> torch.Tensor:
    from torchvision.ops import roi_align  # noqa: F401  (loads the module that the next line names)

    with torch.compiler.set_stance("force_eager"):
        function = sys.modules["torchvision.ops.roi_align"]._roi_align
        return getattr(function, "__wrapped__", function)(*arguments)


def _assert_has_ops() -> None:  # TorchScript reads its source
    return


def torchvision() -> Any:
    """The package; its ops in Python where its library does not load."""
    if (spec := importlib.util.find_spec("torchvision")) is None or spec.origin is None:
        raise SystemExit("detectors: torchvision is not installed; pip install torchvision")
    try:
        for library in Path(spec.origin).parent.glob("_C*.so"):
            torch.ops.load_library(str(library))
        missing = not hasattr(torch.ops.torchvision, "nms")
    except OSError:
        missing = True
    if missing:
        library = torch.library.Library("torchvision", "DEF")
        _KEPT.append(library)
        for schema in SCHEMAS:
            library.define(schema)
        library.impl("nms", _nms, "CPU")
        library.impl("roi_align", _roi_align, "CPU")
    import torchvision as package

    if missing:
        sys.modules["torchvision.ops.boxes"]._assert_has_ops = _assert_has_ops
        sys.modules["torchvision.ops.roi_align"]._assert_has_ops = _assert_has_ops
        sys.modules["torchvision.ops.roi_align"]._has_ops = lambda: True  # called in Python only
    return package


class Backbone(torch.nn.Module):
    """Three convolutions; `levels` of them, each half the size of the one before."""

    def __init__(self, levels: int, channels: int = 32) -> None:
        super().__init__()
        convolution = torch.nn.Conv2d
        self.body = torch.nn.Sequential(
            convolution(3, 8, 3, 2, 1), torch.nn.ReLU(), convolution(8, channels, 3, 2, 1), torch.nn.ReLU(),
            convolution(channels, channels, 3, 2, 1),
        )  # fmt: skip
        self.levels = levels
        self.out_channels: Any = channels if levels == 1 else [channels] * levels

    def forward(self, x: torch.Tensor) -> Any:
        """Feature maps by name, or the only one."""
        maps = {"0": self.body(x)}
        for level in range(1, self.levels):
            maps[str(level)] = torch.nn.functional.max_pool2d(maps[str(level - 1)], 2)
        return maps if self.levels > 1 else maps["0"]


class Detections(torch.nn.Module):
    """A detector's boxes, scores and labels of one image."""

    def __init__(self, detector: torch.nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """image: [3, 64, 64]."""
        found = self.detector([image])
        found = (found[1] if isinstance(found, tuple) else found)[0]
        return found["boxes"], found["scores"], found["labels"]


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> Any:
        """What the function gives."""
        return self.function(*arguments)


def _spread(model: torch.nn.Module) -> torch.nn.Module:
    """With wider weights: torchvision's give scores that are equal but for rounding, which decides their order."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.kaiming_normal_(parameter)
    return model


def models() -> Iterator[tuple[str, torch.nn.Module, Callable[[torch.Generator], tuple[torch.Tensor, ...]]]]:
    """(name, model, inputs from a generator)."""
    vision = torchvision()
    detection, ops = vision.models.detection, vision.ops
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.ssd import SSD, DefaultBoxGenerator

    def image(random: torch.Generator) -> tuple[torch.Tensor, ...]:
        return (torch.rand(3, 64, 64, generator=random),)

    def boxes(random: torch.Generator) -> tuple[torch.Tensor, ...]:
        corners = torch.rand(20, 4, generator=random) * 10
        corners[:, 2:] += corners[:, :2]
        return corners, torch.rand(20, generator=random), torch.randint(0, 3, (20,), generator=random)

    def rows(random: torch.Generator) -> tuple[torch.Tensor, ...]:
        shift = 4 * torch.randint(-1, 2, (1,), generator=random)  # none, some, all
        return (torch.randn(6, 8, generator=random) + shift,)

    wide = AnchorGenerator(((16, 32),), ((0.5, 1.0, 2.0),))
    sizes: dict[str, Any] = {"min_size": 64, "max_size": 64}
    few = {"topk_candidates": 60, "detections_per_img": 10}
    pool = ops.MultiScaleRoIAlign(["0"], 4, 2)
    detectors = {
        "ssd": lambda: SSD(Backbone(2), DefaultBoxGenerator([[2], [2, 3]]), (64, 64), 3, score_thresh=0.3, **few),
        "retinanet": lambda: detection.RetinaNet(
            Backbone(1), 3, anchor_generator=wide, score_thresh=0.0099, **sizes, **few
        ),
        "fcos": lambda: detection.FCOS(
            Backbone(1), 3, anchor_generator=AnchorGenerator(((8,),), ((1.0,),)), score_thresh=0.05, **sizes, **few
        ),
        "faster_rcnn": lambda: detection.FasterRCNN(
            Backbone(1), 3, rpn_anchor_generator=wide, rpn_pre_nms_top_n_test=60, rpn_post_nms_top_n_test=20,
            box_detections_per_img=10, box_score_thresh=0.2, box_roi_pool=pool, **sizes,
        ),
    }  # fmt: skip
    for name, build in detectors.items():
        torch.manual_seed(1)
        yield name, _spread(Detections(build().eval())), image
    yield "mask", Call(lambda x: x[x > 1.0] * 3), rows
    yield "nonzero_rows", Call(lambda x: torch.relu(x[torch.nonzero(x.sum(1) > 0)[:, 0]])), rows
    yield "masked_select", Call(lambda x: torch.masked_select(x, x < 0).cumsum(0)), rows
    yield "nms", Call(lambda b, s, _: b[ops.nms(b, s, 0.4)]), boxes
    yield "batched_nms", Call(lambda b, s, c: b[ops.batched_nms(b, s, c, 0.4)[:5]]), boxes


def exported(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], path: Path, dynamo: bool) -> str:
    """Writes the model; why the exporter refused it, or ""."""
    how: dict[str, Any] = (
        {"dynamo": True, "verbose": False} if dynamo else {"dynamo": False, "opset_version": 17}
    )
    try:
        with torch.no_grad():
            torch.onnx.export(model, inputs, str(path), **how)
    except Exception as error:
        return str(error).partition("\n")[0][:100]
    return ""


def differences(path: Path, inputs: list[tuple[torch.Tensor, ...]], target: str) -> tuple[str, str]:
    """(what differs, or "", and what ran)."""
    import onnxruntime

    import opentrn
    from opentrn import graph
    from opentrn.model import stages

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    model = opentrn.compile(path, target=target, strict=True)
    ran = set()
    for number, tensors in enumerate(inputs):
        arrays = [tensor.numpy() for tensor in tensors][: len(names)]
        want = session.run(None, dict(zip(names, arrays, strict=True)))
        results = {"device": model(*arrays)}
        if isinstance(model, stages.StagedModel):
            ran.add(f"{want[0].shape[0]} in {len(model.path)} stages")
            results["evaluator"], _ = stages.run(
                model.first, arrays, lambda stage, values: graph.Module(stage.raw.module).evaluate(*values)
            )
        for who, got in results.items():
            for k, (a, b) in enumerate(zip(want, got, strict=True)):
                if (a.shape, a.dtype) != (b.shape, b.dtype):
                    return (
                        f"input {number}, {who}: result {k} {b.dtype}{b.shape}, wanted {a.dtype}{a.shape}",
                        "",
                    )
                if not np.allclose(a, b, rtol=0, atol=TOLERANCE * max(1.0, np.abs(a).max(initial=0))):
                    return f"input {number}, {who}: result {k} is off by {np.abs(a - b).max()}", ""
    return "", "rows: " + ", ".join(sorted(ran))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="only models whose name contains this")
    parser.add_argument("--target", default="trn2")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, model, draw in models():
            if options.only not in name:
                continue
            inputs = [draw(torch.Generator().manual_seed(seed)) for seed in range(options.seeds)]
            for dynamo in (False, True):
                label = f"{name} ({'torch.export' if dynamo else 'TorchScript'})"
                path = Path(folder) / f"{name}_{dynamo}.onnx"
                if why := exported(model, inputs[0], path, dynamo):
                    print(f"{label}: not exported: {why}")
                    continue
                begin = time.perf_counter()
                try:
                    wrong, ran = differences(path, inputs, options.target)
                except Exception as error:
                    wrong, ran = f"{type(error).__name__}: {error}", ""
                passed, failed = passed + (not wrong), failed + bool(wrong)
                print(f"{label}: {wrong or 'same'}; {ran}; {time.perf_counter() - begin:.1f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
