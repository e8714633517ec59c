"""DLPack out of JAX's platform `neuron`.

DLPack names devices by a fixed list of which jaxlib knows the CPU, CUDA and ROCm, and refuses every other platform
(`... cannot be used as a DLPack device`, before the plugin is asked). An array of a simulated NeuronCore is therefore
exported as what the host sees: an array of the CPU, copied from the device. `numpy.from_dlpack(x)`,
`torch.from_dlpack(x)` and `jax.dlpack.from_dlpack(x)` take it so. The other way needs nothing from here:
`jax.dlpack.from_dlpack(a, device=jax.devices("neuron")[0])` copies to the device, and without `device` JAX leaves the
array on the CPU, as it does beside a GPU.
"""

from __future__ import annotations

from typing import Any

from opentrn.errors import InputError

_PLATFORM = "neuron"


class NotOnHost(InputError, BufferError):
    """The array's memory is not what the caller of DLPack asks for."""


def register() -> None:
    """Lets arrays of the platform be exported; those of other platforms are exported as before."""
    from jax._src import array

    array_type = array.ArrayImpl
    export, export_device = array_type.__dlpack__, array_type.__dlpack_device__

    def __dlpack__(self: Any, **request: Any) -> Any:
        if not _is_ours(self):
            return export(self, **request)
        return _on_cpu(self, request.pop("copy", None)).__dlpack__(**request | {"stream": None})

    def __dlpack_device__(self: Any) -> tuple[Any, int]:
        from jax._src.typing import DLDeviceType

        if not _is_ours(self):
            return export_device(self)
        return DLDeviceType.kDLCPU, 0

    array_type.__dlpack__ = __dlpack__
    array_type.__dlpack_device__ = __dlpack_device__


def _is_ours(array: Any) -> bool:
    return array.platform() == _PLATFORM


def _on_cpu(array: Any, copy: bool | None) -> Any:
    """A copy on JAX's CPU; BufferError where the caller wants none, or the array has several parts."""
    import jax

    if copy is False:
        raise NotOnHost(
            "an array on a NeuronCore is not in the host's memory: it is exported as a copy",
            label="jax.dlpack", hint="ask for a copy, with copy=None",
        )
    if len(array.sharding.device_set) > 1:
        raise NotOnHost(
            f"the array lies on {len(array.sharding.device_set)} devices",
            label="jax.dlpack",
            hint="export x.addressable_data(i), or gather it with jax.device_put(x, jax.devices()[0])",
        )
    return jax.device_put(array, jax.devices("cpu")[0])
