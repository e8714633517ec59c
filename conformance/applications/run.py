#!/usr/bin/env python3
"""The applications of docs/applications.md on real data from packages: quality on the device beside the CPU's.

    ./dev conformance applications [--only NAME]... [--target trn2] [--environment FOLDER]

Makes an environment of its own in build/applications (or FOLDER): the packages of packages.txt, those of data.txt
without their dependencies (data and models alone are read), and Debian's packages of recordings, credits, images and
messages, unpacked without being installed. Runs each example there, which ends with an error where the device is
further from the CPU than rounding. Ends with "N passed, N failed".
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))
from conformance import environments  # noqa: E402

LIMIT_S = 3600
DEBIAN = (
    "r-cran-caret", "pocketsphinx-testdata", "alsa-utils", "dataset-fashion-mnist", "libgtk-3-common",
    "libgtk2.0-common",
)  # fmt: skip
SPEECH = "usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav"


def programs(debian: Path) -> dict[str, list[str]]:
    """Each application's file and arguments; `debian`: where Debian's packages are unpacked."""
    credits = debian / "usr/lib/R/site-library/caret/data/GermanCredit.RData"
    sounds = debian / "usr/share/sounds/alsa"
    pocketsphinx = debian / "usr/share/pocketsphinx/test/data"
    clothes = debian / "usr/share/datasets/fashion-mnist"
    recordings = [debian / SPEECH, sounds / "Front_Center.wav", sounds / "Noise.wav"]
    return {
        "recommendation": ["recommend_torch.py"],
        "credit": ["credit_torch.py", "--file", str(credits)],
        "tumours": ["credit_torch.py", "--data", "breast"],
        "speech": ["speech_onnx.py", *map(str, recordings)],
        "speaker": ["speaker_torch.py", "--pocketsphinx", str(pocketsphinx), "--alsa", str(sounds)],
        "text": ["bert_finetune_torch.py"],
        "pretraining": ["pretrain_torch.py"],
        "lora": ["lora_torch.py"],
        "chat": ["chat.py", "What is the capital of France?", "Tell me a little about it."],
        "vision": ["vision_torch.py", "--folder", str(clothes)],
        "faces": ["faces_torch.py"],
        "ocr": ["ocr_onnx.py"],
        "transliteration": ["transliterate_onnx.py"],
        "translation": ["translate_torch.py", "--folder", str(debian / "usr/share/locale")],
        "files": ["files_onnx.py"],
        "diffusion": ["diffusion_torch.py"],
        "custom-operator": ["custom_op_torch.py"],
    }


def environment(folder: Path) -> Path:
    """The interpreter of an environment that has the packages, and Debian's in `debian`; made where it is not there."""
    return environments.environment(
        folder,
        ["-c", ROOT / "tools" / "requirements.txt", "-r", HERE / "packages.txt"],
        ["--no-deps", "-r", HERE / "data.txt"],
        also=" ".join(DEBIAN),
        then=lambda python: environments.unpack_debian(folder / "debian", *DEBIAN),
    )


def run(python: Path, words: list[str], target: str) -> tuple[bool, str]:
    stated = {
        **os.environ,
        "NEURON_PLATFORM_TARGET_OVERRIDE": target,
        "OPENTRN_STRICT": "1",
        "OMP_NUM_THREADS": "1",
    }
    try:
        done = subprocess.run(
            [python, ROOT / "examples" / words[0], *words[1:]], env=stated, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return False, str(late.stdout or "")[-3000:] + f"\nnot done after {LIMIT_S} s"
    return done.returncode == 0, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(programs(Path()))
    parser.add_argument("--only", action="append", choices=names, help="this alone; may be repeated")
    parser.add_argument("--target", default="trn2", help="default: %(default)s")
    parser.add_argument("--environment", type=Path, default=ROOT / "build" / "applications", metavar="FOLDER")
    options = parser.parse_args()
    folder = options.environment.resolve()
    python = environment(folder)
    passed = failed = 0
    for name in options.only or names:
        began = time.monotonic()
        good, text = run(python, programs(folder / "debian")[name], options.target)
        passed, failed = passed + good, failed + (not good)
        print(f"{'passed' if good else 'FAILED'} {name} ({time.monotonic() - began:.0f} s)", flush=True)
        print("".join(f"    {line}\n" for line in text.splitlines()), end="", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
