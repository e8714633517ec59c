"""The one face of a compiled model, whether it has one program, one for each size, or several stages.

A model of one program is the plain case, and what stands here says of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentrn import _core
    from opentrn.model.compiled import CompiledModel, Port

__all__ = ["Model"]


class Model(ABC):
    """What compile() and load() give. Its programs are CompiledModels, of which each is a Model of its own."""

    inputs: list[Port]
    # Programs behind the first are compiled for what the data say (opentrn.model.stages).
    is_staged = False

    @property
    @abstractmethod
    def programs(self) -> list[tuple[dict[str, int], CompiledModel]]:
        """What is compiled, each with the sizes that it is for; the largest last."""

    @property
    def dimensions(self) -> list[_core.OpenDimension]:
        """The dimensions that have several sizes, each of them with a program."""
        return []

    def program_for(self, sizes: Mapping[str, int]) -> Model:
        """What runs an inference of these sizes; without sizes, of the largest. The model itself if it has one."""
        return self

    def inputs_for(self, sizes: Mapping[str, int]) -> list[Port]:
        """The inputs with these sizes of the open dimensions; the largest program's for those that are not named."""
        return self.inputs

    @property
    @abstractmethod
    def control_inputs(self) -> list[int]:
        """Numbers of the inputs that decide what is computed."""

    @abstractmethod
    def seed(self, seed: int) -> None:
        """Numbers that the model draws begin with this seed."""
