"""Writes programs.inc: small programs of our own as jaxlib encodes them, for the importers' tests.

Run where jax 0.10 is installed: `python src/import/testdata/make_programs.py > src/import/testdata/programs.inc`.
Each entry has a name, the StableHLO version, the program as text, and the VHLO bytecode (hex); an entry of
version "hlo" has a serialised HloModuleProto instead.
"""

import textwrap
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir.dialects import stablehlo

X = jnp.ones((2, 3))

PROGRAMS: dict[str, tuple[Callable[..., object], tuple[object, ...]]] = {
    "dot_tanh_sum": (lambda a: jnp.tanh(a @ a.T).sum(0), (X,)),
    "while": (lambda a: lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] * a), (0, a)), (X,)),
    "convolution": (
        lambda a, w: lax.conv_general_dilated(
            a, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (jnp.ones((1, 4, 4, 3)), jnp.ones((3, 3, 3, 2))),
    ),
    "gather": (lambda a: lax.slice(a, (0, 1), (2, 3))[jnp.array([1, 0])], (X,)),
    "scatter": (lambda a: a.at[jnp.array([1])].add(1.0), (X,)),
    "constants": (lambda a: jnp.where(np.array([True, False, True]), a.astype(jnp.bfloat16), 0.5), (X,)),
    "top_k": (lambda a: lax.top_k(a, 2), (X,)),
    "max_pool": (lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (1, 2), (1, 1), "VALID"), (X,)),
}
VERSIONS = ("1.16.0", "1.0.0", "0.14.0")


def entry(name: str, version: str, text: str, data: bytes) -> str:
    """One element of the array, wrapped to 110 columns."""
    hexadecimal = "\n".join(textwrap.wrap(data.hex(), 106))
    return f'{{"{name}", "{version}", R"mlir({text})mlir", R"hex(\n{hexadecimal})hex"}},'


def main() -> None:
    print("// Made by make_programs.py; do not edit.")
    for name, (function, arguments) in PROGRAMS.items():
        lowered = jax.jit(function).lower(*arguments)
        text = lowered.compiler_ir("stablehlo").operation.get_asm()
        for version in VERSIONS:
            try:
                data = stablehlo.serialize_portable_artifact_str(text, version)
            except ValueError:
                continue  # the program needs a newer version
            print(entry(name, version, text, data))
        hlo = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        print(entry(name, "hlo", text, hlo))


if __name__ == "__main__":
    main()
