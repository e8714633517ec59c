"""Resolver of operator objects to names. Defined in opentrn.types.isa_ops, which imports nothing of this
package."""

from opentrn.types.isa_ops import (  # noqa: F401
    ACTIVATION_FUNCTIONS,
    ALU_OPS,
    ARITHMETIC_OPS,
    BITVEC_OPS,
    UNARY_OPS,
    is_bitvec,
    is_unary,
    op_name,
)
