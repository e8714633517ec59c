"""Voice activity: silero-vad hears where in a recording somebody speaks, window after window of 32 ms.

    python examples/speech_onnx.py                    # a sentence, a word and noise; beside ONNX Runtime
    python examples/speech_onnx.py recording.wav      # yours: mono, 16 bit, 16 kHz or a multiple of it

The model lies in the package silero-vad, of which nothing else is used: pip install --no-deps silero-vad==6.2.3
Recordings: apt-get install pocketsphinx-testdata alsa-utils. The package onnxruntime gives the values to compare with.

Every window goes through the model with the last samples of the one before and the state that it left, as the
package itself does on a CPU. Prints the share of windows with speech (a probability of at least 0.5), how far the
device is from ONNX Runtime, and the predicted time of a window.
"""

from __future__ import annotations

import argparse
import importlib.util
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np

import opentrn

RATE, WINDOW, CONTEXT = 16_000, 512, 64  # Hz; samples
SPEECH = "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav"
RECORDINGS = (SPEECH, "/usr/share/sounds/alsa/Front_Center.wav", "/usr/share/sounds/alsa/Noise.wav")
LIMIT = 1e-4  # of a probability: what rounding does over a minute of recurrence

Step = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def model_file() -> Path:
    """The model of 16 kHz in the package, which is found and not imported."""
    package = importlib.util.find_spec("silero_vad")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("the model lies in the package silero-vad: pip install --no-deps silero-vad==6.2.3")
    return Path(package.submodule_search_locations[0], "data", "silero_vad_16k_op15.onnx")


def samples(path: Path) -> np.ndarray:
    """float32 from -1 to 1 at 16 kHz, cut to whole windows; higher rates are averaged down."""
    if not path.exists():
        raise SystemExit(
            f"{path} is not there: apt-get install pocketsphinx-testdata alsa-utils, or name a recording"
        )
    try:
        with wave.open(str(path)) as file:
            shape = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise SystemExit(f"{path} is no WAV file of plain samples: {error}") from None
    if shape[:2] != (1, 2) or shape[2] % RATE:
        raise SystemExit(
            f"{path} has {shape[0]} channels of {8 * shape[1]} bits at {shape[2]} Hz: mono, 16 bit, and 16 kHz or a"
            " multiple of it are read"
        )
    values = np.frombuffer(data, "<i2").astype(np.float32) / 32768
    ratio = shape[2] // RATE
    values = values[: len(values) // ratio * ratio].reshape(-1, ratio).mean(1)
    if len(values) < WINDOW:
        raise SystemExit(f"{path} is shorter than a window of {WINDOW} samples at {RATE} Hz")
    return values[: len(values) // WINDOW * WINDOW]


def probabilities(step: Step, audio: np.ndarray) -> np.ndarray:
    """Of speech, for every window."""
    state, before = np.zeros((2, 1, 128), np.float32), np.zeros(CONTEXT, np.float32)
    found = []
    for window in audio.reshape(-1, WINDOW):
        given = np.concatenate([before, window])[None]
        probability, state = step(given, state)
        before = window[-CONTEXT:]
        found.append(probability.item())
    return np.array(found)


def reference(path: Path) -> Step:
    """The model in ONNX Runtime."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise SystemExit(
            "the values to compare with come from the package onnxruntime: pip install it"
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options)
    rate = np.array(RATE, np.int64)
    return lambda given, state: tuple(session.run(None, {"input": given, "state": state, "sr": rate}))


def draw(file: Path, name: str, audio: np.ndarray, device: np.ndarray) -> None:
    """A recording, and the probability of speech in each window."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 2.4), layout="constrained")
    axes.plot(np.arange(len(audio)) / RATE, audio / np.abs(audio).max() / 2 + 0.5, linewidth=0.3, color="silver")
    axes.step(np.arange(len(device)) * WINDOW / RATE, device, where="post", color="tab:blue")
    axes.axhline(0.5, linestyle=":", color="gray")
    axes.set_xlabel(f"seconds of {name}")
    axes.set_ylabel("probability of speech")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recordings", nargs="*", type=Path, default=[Path(each) for each in RECORDINGS])
    parser.add_argument("--target", help="default: of NEURON_PLATFORM_TARGET_OVERRIDE, else trn2")
    parser.add_argument("--picture", type=Path, help="draw the first recording (needs matplotlib)")
    o = parser.parse_args()
    path = model_file()
    audio = {each: samples(each) for each in o.recordings}
    on_cpu = reference(path)
    model = opentrn.compile(path, target=o.target, dimensions={"batch": 1, "sequence": CONTEXT + WINDOW})

    def on_device(given: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        probability, after = model(given, state, np.array(RATE, np.int64))
        return probability, after

    worst = 0.0
    for name, values in audio.items():
        device, cpu = probabilities(on_device, values), probabilities(on_cpu, values)
        apart = np.abs(device - cpu).max()
        worst = max(worst, apart)
        if o.picture and name == o.recordings[0]:
            draw(o.picture, name.name, values, device)
        print(
            f"{name.name}: {len(values) / RATE:.1f} s, speech in {(device >= 0.5).mean():.1%} of {len(device)} windows,"
            f" {(cpu >= 0.5).mean():.1%} by ONNX Runtime; probabilities at most {apart:.1e} apart",
            flush=True,
        )
    time_us = model.time().time_us
    print(
        f"a window of 32 ms takes {time_us:.0f} us on {model.target}, predicted: {32_000 / time_us:.0f} times real time"
    )
    if worst > LIMIT:
        raise SystemExit(f"further from ONNX Runtime than rounding explains: {worst:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
