"""Calls of the functions of NKI 0.1's nki.isa and nki.language, with a value for every keyword: read by
test_legacy_keywords.py, which fails for a keyword without one."""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.nki_legacy import language as nl
from tests.keywords.observed import COUNTS, VALUES, Held, Value


def tiles(x: Any, counts: Any) -> dict[str, Any]:
    """Of 64 columns: a, b float32; h bfloat16; u, i, s small integers. col, res: a value per partition. v: eight. m, t:
    masks of the left half of the columns."""
    rows, columns = nl.mgrid[0:128, 0:64]
    made = {
        "a": nl.load(x), "b": nl.load(x), "h": nl.load(x, dtype=nl.bfloat16), "d": nl.full((128, 64), 3.0, np.float32),
        "i": nl.load(counts), "u": nl.load(counts, dtype=np.uint32), "s": nl.load(counts, dtype=np.uint16),
        "y": nl.load(counts, dtype=np.uint8), "j": nl.full((128, 64), 2, np.int32),
        "col": nl.load(x[:, 7:8]), "res": nl.full((128, 1), 1.0, np.float32), "v": nl.load(x[:, 0:8]),
        "n": nl.full((128, 8), 0, np.uint32), "row": nl.load(counts[0:1, :]),
        "stats": nl.load(x[:, 0:12]),
    }  # fmt: skip
    return made | {"m": columns < 32, "rows": rows, "columns": columns}


# The names of parameters that a call must have, and of those that it may.
GIVEN = {
    "x": "a", "y": "b", "axis": "1", "rate": "0.5", "prob": "0.5", "condition": "u", "shape": "(128, 64)",
    "fill_value": "2.0", "value": "2.0", "dtype": "np.float32", "data": "a", "indices": "u", "w": "b", "n": "64",
    "op": "np.add", "src": "a", "dst": "d", "op0": "np.subtract", "operand0": "2.0", "op1": "np.subtract",
    "operand1": "b", "reduce_op": "np.add", "reduce_res": "res", "data0": "a", "data1": "b", "data2": "d",
    "initial": "1.0", "imm": "0.0", "imm0": "2.0", "vals": "v", "on_true_tile": "a", "on_true": "a", "on_false": "col",
    "on_false_value": "0.0", "bound0": "res", "bound1": "col", "comp_op0": "np.greater", "comp_op1": "np.less",
    "predicate": "u", "stationary": "h", "moving": "h", "segment_ids": "row", "expr": "columns", "index": "s[:, 0:4]",
    "src_buffer": "a", "shuffle_mask": "list(range(31, -1, -1))", "pred": "rows > columns", "a": "a",
    "seed": "i[0:1, 0:1]",
    "constant": "np.ones((128, 64))", "prefix": "'said'", "loop_indices": "0", "program_axes": "0",
}  # fmt: skip
WHOLE = {"x": "i", "y": "j"}
THREE = {"x": "a.reshape((128, 8, 8))", "axis": "2"}
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert")
LANGUAGE_GIVEN: dict[str, dict[str, str]] = {
    **dict.fromkeys(BITS, WHOLE),
    **dict.fromkeys(("max", "mean", "min", "prod", "sum", "var"), THREE),
    "matmul": {"x": "a[0:64, :]", "y": "b[0:64, :]"}, "load_transpose2d": {"src": "source"}, "load": {"src": "source"},
    "store": {"dst": "target", "value": "a"}, "atomic_rmw": {"dst": "target", "value": "a"},
}  # fmt: skip
ISA_GIVEN: dict[str, dict[str, str]] = {
    "activation": {"op": "np.exp"}, "activation_reduce": {"op": "np.exp"}, "bn_aggr": {"data": "stats"},
    "dma_copy": {"src": "a"}, "tensor_reduce": THREE | {"data": "a.reshape((128, 8, 8))"},
    "nc_transpose": {"data": "a"}, "local_gather": {"index": "s[:, 0:4]"}, "select_reduce": {"predicate": "y"},
    "iota": {"dtype": "np.int32"}, "tensor_copy_predicated": {"predicate": "u"},
}  # fmt: skip
KEPT = "nisa.reduce_cmd.reset_reduce"
KEYWORDS: dict[str, Value] = {
    "dtype": "nl.bfloat16", "mask": "m", "keepdims": "True", "buffer": "nl.hbm", "epsilon": "0.5",
    "compute_dtype": "nl.bfloat16", "transpose_x": "True", "name": "'given'", "engine": "nisa.engine.gpsimd",
    "reverse0": "True", "reverse1": "True", "bias": "col", "scale": "0.5", "negate": "True",
}
SUMMED = "reduce_op=np.add, reduce_cmd=" + KEPT
ADDED = "reduce_op=np.add, reduce_res=res"
SKIPS = Held("tests/nki_legacy/test_kernels.py::test_rows_out_of_range_are_skipped_where_asked")
PLACES = Held("tests/nki_legacy/test_kernels.py::test_a_product_lies_where_it_is_placed")
TOLD = Held("tests/nki/test_untimed_arguments.py")
ISA_KEYWORDS: dict[str, dict[str, Value]] = {
    "activation": {"reduce_op": "np.max", "reduce_res": (SUMMED, "res"), "reduce_cmd": (ADDED, KEPT)},
    "dma_copy": {"dst_rmw_op": "np.add", "oob_mode": SKIPS, "dge_mode": "nisa.dge_mode.swdge"},
    "dma_transpose": {"axes": "(0, 1)", "oob_mode": SKIPS, "dge_mode": "nisa.dge_mode.swdge"},
    "local_gather": {"num_elem_per_idx": "2", "num_valid_indices": "48"},
    "nc_match_replace8": {"dst_idx": "n"},
    "nc_matmul": {
        "is_stationary_onezero": TOLD, "is_moving_onezero": TOLD, "is_transpose": "True", "tile_position": PLACES,
        "tile_size": "(64, 64)", "perf_mode": "'double_row'",
    },
    "nc_transpose": {"engine": "nisa.engine.vector"},
    "range_select": {
        "reduce_cmd": ("reduce_res=res", "nisa.reduce_cmd.reduce"), "reduce_res": "res", "range_start": "2",
        "reduce_op": ("reduce_res=res", "np.add"), "on_false_value": "0.0",
    },
    "select_reduce": {
        "reduce_res": "res", "reduce_cmd": ("reduce_res=res", KEPT), "reduce_op": ("reduce_res=res", "np.add"),
        "reverse_pred": "True",
    },
    "tensor_copy_predicated": {"reverse_pred": "True"},
    "tensor_scalar": {
        "op1": ("operand1=3.0", "np.subtract"), "operand1": ("op1=np.subtract", "3.0"),
        "reverse1": ("op1=np.subtract, operand1=3.0", "True"),
    },
    "tensor_scalar_cumulative": {
        "imm1": ("reduce_cmd=nisa.reduce_cmd.load_reduce", "1.0"), "reduce_cmd": "nisa.reduce_cmd.load_reduce",
    },
}  # fmt: skip
LANGUAGE_KEYWORDS: dict[str, dict[str, Value]] = {
    "load": {"mode": Held("tests/nki_legacy/test_public_kernels.py")},
    "num_programs": {"axes": Held("tests/nki_legacy/test_launch.py::test_num_programs_along_axes")},
}
# What makes a tensor, which says its keywords and is not read.
MAKERS = (
    "empty_like", "full", "ndarray", "ones", "rand", "shared_constant", "shared_identity_matrix", "zeros", "zeros_like",
)  # fmt: skip
# Refused whatever is given: programs of a grid run one after the other.
REFUSED = ("all_reduce",)
__all__ = ["COUNTS", "VALUES", "tiles"]
