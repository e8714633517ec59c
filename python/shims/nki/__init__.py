"""The name `nki`, served by OpenTrn."""

__opentrn_shim__ = True

from opentrn._alias import adopt_shim

adopt_shim(__name__)
