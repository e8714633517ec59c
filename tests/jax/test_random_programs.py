"""Some random JAX programs and their gradients; `python -m tests.fuzz.fuzz_jax --seconds N` runs on."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = 8


def test_random_programs_have_the_values_of_xla_on_a_cpu() -> None:
    command = [sys.executable, "-m", "tests.fuzz.fuzz_jax", "--cases", str(CASES), "--seed", "11"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{CASES} programs and their gradients alike" in done.stdout


def test_a_difference_is_found_and_named() -> None:
    body = (
        "import sys; sys.argv[1:] = ['--case', '5', '--child']\n"
        "from tests.fuzz import fuzz_jax\n"
        "whole = fuzz_jax.run\n"
        "def run(function, arguments, platform):\n"
        "    found = whole(function, arguments, 'cpu')\n"
        "    return found if platform == 'cpu' else [each + (i == 3) for i, each in enumerate(found)]\n"
        "fuzz_jax.run = run\n"
        "sys.exit(fuzz_jax.main())"
    )
    done = subprocess.run([sys.executable, "-c", body], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "values, result 3: " in done.stdout and "--case 5 --steps" in done.stdout
