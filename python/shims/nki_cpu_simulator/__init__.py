"""The name `nki_cpu_simulator`, served by OpenTrn."""

__opentrn_shim__ = True

from opentrn.compat.alias import adopt_shim

adopt_shim(__name__)
