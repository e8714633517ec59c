"""The C++ form of tensors and views records what the plain Python form records, and refuses in the same words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from opentrn.nki_legacy import base

PROGRAMS = Path(__file__).with_name("recorded_programs.py")
SEARCHED = os.pathsep.join(sys.path)


def _programs(plain: str) -> dict[str, list[str]]:
    environment = {**os.environ, base.PLAIN_ENV: plain, "PYTHONHASHSEED": "0", "PYTHONPATH": SEARCHED}
    done = subprocess.run([sys.executable, str(PROGRAMS)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_both_forms_record_the_same_programs():
    fast, plain = _programs("0"), _programs("1")
    assert fast.keys() == plain.keys()
    assert [name for name in fast if fast[name] != plain[name]] == []
    instructions = sum(text.count(" @ ") for texts in fast.values() for text in texts)
    assert instructions > 5000  # the random kernels are not refused as a whole


def test_the_form_is_asked_for_by_name():
    environment = {**os.environ, base.PLAIN_ENV: "perhaps", "PYTHONPATH": SEARCHED}
    command = [sys.executable, "-c", "import opentrn.nki_legacy"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "OPENTRN_NKI01_PLAIN is 'perhaps'\n    try: 1, or unset it" in done.stderr
