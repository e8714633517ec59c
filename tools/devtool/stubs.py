"""Type stubs of what is made of C++: `./dev stubs` writes them beside the extensions, a test remakes them.

`_core` is nanobind's: its stub generator reads signatures and texts off the module. `_torch` is pybind11's, as PyTorch
asks: its signatures stand in the texts of its functions. The functions of `nki.isa` come from the instruction table.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from devtool.paths import ROOT

_PACKAGE = ROOT / "python" / "opentrn"
_HEAD = "# Made by ./dev stubs; do not edit.\n"
# Written in Python; what the stub generator cannot know is what they are for.
_ISA_HEAD = '''\
"""nki.isa: the instructions of a NeuronCore, as functions of the current backend."""

from collections.abc import Callable
from typing import Any

from opentrn.errors import NkiValidationError as NkiValidationError
from opentrn.nki._machine import NkiTensor as NkiTensor, VirtualRegister as VirtualRegister
from opentrn.nki._objects import NKIObject as NKIObject
from opentrn.nki.isa import constants as constants
from opentrn.types.isa_enums import (
    dge_mode as dge_mode,
    dma_engine as dma_engine,
    engine as engine,
    gpsimd_engine as gpsimd_engine,
    matmul_perf_mode as matmul_perf_mode,
    nc_version as nc_version,
    oob_mode as oob_mode,
    reduce_cmd as reduce_cmd,
    scalar_engine as scalar_engine,
    tensor_engine as tensor_engine,
    unknown_engine as unknown_engine,
    vector_engine as vector_engine,
)

NkiInstruction: Any
INSTRUCTIONS: list[str]

'''


def core() -> dict[Path, str]:
    """The stubs of _core and its submodules, by their files."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-r", "-m", "opentrn._core", "-O", folder]
        subprocess.run(command, check=True, env={"PYTHONPATH": str(ROOT / "python"), "PATH": ""})
        made = {path.relative_to(folder): path.read_text() for path in Path(folder).rglob("*.pyi")}
    # What is written against Python's C API has no signature to read: properties of tiles, instructions (nki.isa has
    # their signatures).
    for name, pattern in (("tiles", r"\bgetset_descriptor\b"), ("isa", r"(?<=: )[\w.]+(?= = \.\.\.$)")):
        path = next(path for path in made if path.stem == name)
        text = re.sub(pattern, "Any", made[path], flags=re.MULTILINE)
        made[path] = (
            text
            if "import Any" in text
            else text.replace("import opentrn", "from typing import Any\n\nimport opentrn", 1)
        )
    head = next(path for path in made if path.name == "__init__.pyi")
    made[head] = _with_python_members(made[head])
    return {_PACKAGE / name: _HEAD + text for name, text in sorted(made.items())}


def _with_python_members(text: str) -> str:
    """A stub of _core with what opentrn.base.members adds to its classes, which the generator did not see."""
    from opentrn import _core
    from opentrn.kernel import run  # noqa: F401  adds the members
    from opentrn.model import stages  # noqa: F401  as well

    for name, cls in sorted(vars(_core).items()):
        if isinstance(cls, type) and (lines := _python_members(cls)):
            head = re.search(rf"^class {name}\b.*:\n", text, re.MULTILINE)
            if head is None:
                raise AssertionError(f"the stub of _core has no class {name}")
            text = text[: head.end()] + lines + "\n" + text[head.end() :]
    if "import Annotated, overload" not in text:
        raise AssertionError("the stub of _core no longer imports from typing as this function expects")
    text = text.replace("import Annotated, overload", "import Annotated, Any, overload", 1)
    return text.replace("import numpy\n", "import numpy\nimport numpy as np\n", 1)


def _python_members(cls: type) -> str:
    lines = [f"    {name}: {kind}\n" for name, kind in vars(cls).get("__annotations__", {}).items()]
    for name, member in sorted(vars(cls).items()):
        function = member.fget if isinstance(member, property) else member
        if not isinstance(function, FunctionType):
            continue
        decorator = "    @property\n" if isinstance(member, property) else ""
        signature = re.sub(r"^\((\w+): \w+", r"(\1", str(inspect.signature(function)).replace("'", ""))
        # A property of the same name hides the class within the stub's class.
        signature = re.sub(r"\bnc_version$", "opentrn.types.isa_enums.nc_version", signature)
        doc = inspect.getdoc(function)
        body = f'\n        """{textwrap.indent(doc, "        ").strip()}"""\n' if doc else " ...\n"
        lines.append(f"{decorator}    def {name}{signature}:{body}")
    return "\n".join(lines)


def torch_device(module: ModuleType) -> str:
    """The stub of _torch, from the first line of each function's text: `name(arg0: int) -> None`."""
    lines = [
        _HEAD,
        "from collections.abc import Sequence, Set",
        "from typing import SupportsFloat, SupportsIndex, SupportsInt\n",
        "import torch\n",
    ]
    for name, function in sorted(vars(module).items()):
        if name.startswith("_") or not callable(function):
            continue
        signature, _, text = (function.__doc__ or "").partition("\n")
        signature = re.sub(r"\b(?:typing|collections\.abc)\.", "", signature)
        body = f'\n    """{text.strip()}"""' if text.strip() else " ..."
        lines.append(f"def {signature}:{body}")
    return "\n".join(lines) + "\n"


def _default(value: Any) -> str:
    """As a stub spells it: plain values as they are, operators and enumerations as `...`."""
    plain = value is None or isinstance(value, (bool, int, float, str))
    return repr(value) if plain else "..."


def _instruction(name: str, function: Any, text: str) -> str:
    parameters = []
    for parameter, default in zip(function.parameters, function.defaults, strict=True):
        shown = "" if default is ... else f" = {_default(default)}"
        kind = "str | None" if parameter == "name" else "Any"
        parameters.append(f"    {parameter}: {kind}{shown},\n")
    doc = textwrap.indent(text, "    ").strip()
    return f'def {name}(\n{"".join(parameters)}) -> Any:\n    """{doc}"""\n'


def instructions() -> str:
    """The stub of nki.isa: a function for each instruction, with its summary, engines and rules."""
    from opentrn import _core, nki
    from opentrn.kernel import instruction_help

    parts = [_HEAD, _ISA_HEAD]
    for name in _core.instruction_names():
        function = getattr(_core.isa, name)
        parts.append(_instruction(name, function, instruction_help.doc(function)) + "\n")
    for name in (
        "register_alloc", "register_load", "register_move", "register_store",
        "missing_instructions", "get_nc_version", "get_nc_sub_version",
    ):  # fmt: skip
        function = getattr(nki.isa, name)
        signature = str(inspect.signature(function)).replace("'", "")
        parts.append(f'def {name}{signature}:\n    """{inspect.getdoc(function)}"""\n\n')
    return "".join(parts)


def made() -> dict[Path, str]:
    """Every stub by its file; _torch's only where the extension is built."""
    sys.path.insert(0, str(ROOT / "python"))
    stubs = core() | {_PACKAGE / "nki" / "isa" / "__init__.pyi": instructions()}
    if any(_PACKAGE.glob("_torch*.so")):
        import torch  # noqa: F401  the extension needs its libraries

        from opentrn import _torch

        stubs[_PACKAGE / "_torch.pyi"] = torch_device(_torch)
    return stubs


def write() -> int:
    """Writes the stubs."""
    for path, text in made().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(write())
