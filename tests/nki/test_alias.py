"""Names: opentrn.activate() and the shim packages. Each case runs in its own interpreter."""

import os
import subprocess
import sys
from pathlib import Path

from tests.package import PYTHON


def run_python(code: str, *extra_path: Path) -> str:
    path = os.pathsep.join(map(str, (*extra_path, PYTHON)))
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


NAMES = """
import nki, nki.language as nl, nki.isa as nisa, nki.isa.constants, nki.typing, nki.collectives
import nki.compiler.frontend, nki.tensor, nki.dtype, nki.builtin
import nki_cpu_simulator.nki.language.dtypes, nki_cpu_simulator.nki.isa.constants
from nki_cpu_simulator import nki as simulator_nki
import neuron_dtypes, neuronxcc.nki.typing
from neuronxcc.starfish.support.dtype import static_cast
import opentrn.nki, opentrn.nki.language
assert nki is opentrn.nki is simulator_nki
assert nl is opentrn.nki.language and nl.NkiTensor is opentrn.nki.NkiTensor
assert nki.__spec__.name == "opentrn.nki"
"""


def test_activate_gives_one_module_per_name():
    run_python("import opentrn; opentrn.activate()\n" + NAMES)


def test_shim_packages_give_the_same_modules():
    run_python(NAMES, PYTHON / "shims")


def test_missing_submodules_are_import_errors():
    code = """
import opentrn; opentrn.activate()
try:
    import nki.no_such_module
except ImportError as error:
    print(error.name)
"""
    assert run_python(code) == "nki.no_such_module"


def test_an_installed_package_is_left_alone(tmp_path):
    (tmp_path / "nki").mkdir()
    (tmp_path / "nki" / "__init__.py").write_text("official = True\n")
    code = """
import opentrn
report = opentrn.activate()
import nki, neuron_dtypes
print(nki.official, report["nki"].endswith("__init__.py"), report["neuron_dtypes"])
"""
    assert run_python(code, tmp_path) == "True True opentrn"
    forced = "import opentrn; print(opentrn.activate(force=True)['nki'])\nimport nki; print(nki.__name__)"
    assert run_python(forced, tmp_path) == "opentrn\nopentrn.nki"


def test_unknown_names_are_refused():
    code = """
import opentrn
try:
    opentrn.activate(("neuronx_distributed",))
except ValueError as error:
    print(error)
"""
    assert "no stand-in for 'neuronx_distributed'" in run_python(code)
