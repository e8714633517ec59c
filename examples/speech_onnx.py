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
from collections.abc import Callable
from pathlib import Path

import numpy as np
from application import RATE, of_package, onnx_session, recorded

import opentrn

WINDOW, CONTEXT = 512, 64  # samples
SPEECH = "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav"
RECORDINGS = (SPEECH, "/usr/share/sounds/alsa/Front_Center.wav", "/usr/share/sounds/alsa/Noise.wav")
LIMIT = 1e-4  # of a probability: what rounding does over a minute of recurrence

Step = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def model_file() -> Path:
    """The model of 16 kHz in the package."""
    return of_package("silero_vad", "data", "silero_vad_16k_op15.onnx", pip="silero-vad==6.2.3")


def samples(path: Path) -> np.ndarray:
    """float32 from -1 to 1 at 16 kHz, cut to whole windows."""
    values = recorded(path, WINDOW)
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
    session = onnx_session(path)
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
