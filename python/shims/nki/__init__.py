"""The name `nki`, served by OpenTrn."""

__opentrn_shim__ = True

from opentrn.compat.alias import adopt_shim

adopt_shim(__name__)
