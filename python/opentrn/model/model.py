"""The one face of a compiled model, whether it has one program, one for each size, or several stages.

A model of one program is the plain case, and what stands here says of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentrn.errors import InputError
from opentrn.model.random_key import PORT, RandomKeys

if TYPE_CHECKING:
    from opentrn import _core
    from opentrn.model.compiled import CompiledModel, Port

__all__ = ["Model"]


class Model(ABC):
    """What compile() and load() give. Its programs are CompiledModels, of which each is a Model of its own.

    ports: what a run takes, the key of random numbers among them where the model draws any; inputs: the others.
    """

    inputs: list[Port]
    ports: list[Port]
    random_keys: RandomKeys
    # Programs behind the first are compiled for what the data say (opentrn.model.stages).
    is_staged = False
    # It runs on the devices of a mesh (opentrn.model.sharded).
    is_sharded = False

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

    def seed(self, seed: int) -> None:
        """Of the random numbers drawn from now on; 0 before the first call of this.

        The same seed and number of the run since give the same numbers. InputError beyond 32 bits.
        """
        self.random_keys = RandomKeys(seed)

    def with_random_key(self, arrays: Sequence[Any]) -> list[Any]:
        """One array per port, of its shape: the inputs, and the next run's key of random numbers.

        InputError for a wrong number of arrays.
        """
        if len(arrays) != len(self.inputs):
            raise InputError(
                f"the model takes {len(self.inputs)} inputs, {len(arrays)} were given", label="model.inputs"
            )
        given = iter(arrays)
        return [self.random_keys.next() if port.name == PORT else next(given) for port in self.ports]
