"""Calls of the functions of nki.isa and nki.language, with a value for every keyword: read by test_nki_keywords.py,
which fails for a keyword without one."""

from __future__ import annotations

from typing import Any

from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from tests.keywords.observed import Call, Held, Value


def tiles(x: Any, counts: Any) -> dict[str, Any]:
    """Of 64 columns: a, b, d, e float32; h bfloat16; u, i, small integers. col, res: a value per partition. Eight
    values per partition: v, w. p, q: PSUM."""
    made = {}

    def loaded(name: str, source: Any, dtype: Any) -> None:
        made[name] = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=made[name], src=source)

    def filled(name: str, shape: tuple[int, ...], dtype: Any, value: Any, buffer: Any = nl.sbuf) -> None:
        made[name] = nl.ndarray(shape, dtype=dtype, buffer=buffer)
        nisa.memset(made[name], value)

    loaded("a", x, nl.float32)
    loaded("i", counts, nl.int32)
    loaded("u", counts, nl.uint32)
    loaded("s", counts, nl.uint16)
    loaded("h", x, nl.bfloat16)
    loaded("col", x[:, 7:8], nl.float32)
    loaded("v", x[:, 0:8], nl.float32)
    loaded("row", counts[0:1, :], nl.int32)
    filled("d", (128, 64), nl.float32, 3.0)
    filled("e", (128, 64), nl.float32, 2.0)
    filled("k", (128, 64), nl.bfloat16, 2.0)
    filled("j", (128, 64), nl.int32, 2)
    filled("n", (128, 8), nl.uint32, 0)
    filled("wide", (128, 65), nl.int32, 0)
    filled("res", (128, 1), nl.float32, 1.0)
    filled("rows", (1, 64), nl.float32, 1.0)
    filled("pairs", (1, 128), nl.int32, 1)
    filled("turned", (64, 128), nl.float32, 1.0)
    filled("p", (64, 64), nl.float32, 1.0, nl.psum)
    filled("made_of_bytes", (64, 64), nl.uint8, 1)
    filled("state", (128, 6), nl.uint32, 5)
    if nisa.get_nc_version() >= nisa.nc_version.gen4:
        made["x4"] = nl.ndarray((128, 16), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        filled("s4", (128, 16), nl.uint8, 127)
        nisa.quantize_mx(dst=made["x4"], src=made["h"], dst_scale=made["s4"])
    return made


TOLD = "tests/nki/test_untimed_arguments.py"
SKIPS = "tests/nki/test_untimed_arguments.py::test_rows_out_of_range_are_skipped_where_asked"
PLACES = "tests/nki/test_array_placement.py"
EXP = "dst=d, op=nl.exp, data=a"
KEPT = "nisa.reduce_cmd.reset_reduce"
SUMMED = "reduce_op=nl.add, reduce_cmd=" + KEPT
ADDED = "nisa.reduce_cmd.reduce"
SELECT = "dst=d, predicate=s, on_true=a, on_false=col"
RANGE = "dst=d, on_true_tile=a, comp_op0=nl.greater, comp_op1=nl.less, bound0=res, bound1=col"
MATMUL = "dst=p, stationary=h, moving=h"
ISA = {
    "activation": Call(EXP, {
        "bias": "col", "scale": "0.5", "reduce_op": "nl.maximum", "reduce_res": (SUMMED, "res"),
        "reduce_cmd": ("reduce_op=nl.add, reduce_res=res", KEPT),
    }),
    "activation_reduce": Call(EXP + ", reduce_op=nl.add", {"reduce_res": "res", "bias": "col", "scale": "0.5"}),
    "activate2": Call("dst=d, op=nl.prelu, data=a, imm0=2.0, imm1=5.0, op0=nl.subtract, op1=nl.bypass", {
        "relu_param": "0.5", "reverse0": "True", "reverse1": "True",
        "reduce_op": ("reduce_res=res, reduce_cmd=" + KEPT, "nl.maximum"), "reduce_res": (SUMMED, "res"),
        "reduce_cmd": ("reduce_op=nl.add, reduce_res=res", KEPT),
    }, "trn3"),
    "affine_select": Call("dst=d, pattern=[[1, 64]], channel_multiplier=-1, on_true_tile=a, on_false_value=0.0", {
        "cmp_op": "nl.greater_equal", "offset": "3",
    }),
    "bn_aggr": Call("dst=d[:, 0:2], data=a[:, 0:12]"),
    "bn_stats": Call("dst=d[:, 0:6], data=a"),
    "core_barrier": Call("data=x, cores=(0, 1)", {"engine": "nisa.engine.vector"}, lnc=2),
    "dma_compute": Call("dst=d, srcs=[a, e], reduce_op=nl.add", {
        "scales": "[1.0, 2.0]",
        "unique_indices": Held("tests/nki/test_untimed_arguments.py::test_indices_that_may_meet_are_refused"),
        "oob_mode": Held(SKIPS),
    }),
    "dma_copy": Call("dst=d, src=a", {
        "priority": "1", "oob_mode": Held(SKIPS), "dge_mode": "nisa.dge_mode.swdge", "engine": "nisa.engine.scalar",
        "unique_indices": Held(TOLD),
    }),
    "dma_transpose": Call("dst=turned, src=a", {
        "axes": "(2, 1, 0)", "priority": "1", "dge_mode": "nisa.dge_mode.swdge", "oob_mode": Held(SKIPS),
    }),
    "dropout": Call("dst=d, data=a, prob=0.5"),
    "exponential": Call("dst=d, src=a", {
        "max_value": "col", "reduce_res": ("reduce_cmd=" + KEPT, "res"), "reduce_cmd": ("reduce_res=res", KEPT),
        "reduce_init": ("reduce_res=res, reduce_cmd=nisa.reduce_cmd.load_reduce", "3.0"),
    }, "trn3"),
    "iota": Call("dst=j, pattern=[[1, 64]]", {"offset": "3", "channel_multiplier": "1"}),
    "local_gather": Call("dst=d, src_buffer=a, index=s[:, 0:4]", {"num_elem_per_idx": "2", "num_valid_indices": "48"}),
    "max8": Call("dst=v, src=a"),
    "memset": Call("value=2.0, dst=d", {"engine": "nisa.engine.vector"}),
    "nc_find_index8": Call("dst=n, data=a, vals=v"),
    "nc_match_replace8": Call("dst=d, data=a, vals=v, imm=0.0", {"dst_idx": "n"}),
    "nc_matmul": Call(MATMUL, {
        "is_stationary_onezero": Held(TOLD), "is_moving_onezero": Held(TOLD), "is_transpose": "True",
        "accumulate": "True", "tile_position": Held(PLACES), "tile_size": "(64, 64)",
        "perf_mode": "nisa.matmul_perf_mode.double_row",
    }),
    "nc_matmul_mx": Call("dst=p[0:16, 0:16], stationary=x4, moving=x4, stationary_scale=s4, moving_scale=s4", {
        "tile_position": ("tile_size=(32, 128)", "(16, 0)"), "tile_size": "(16, 128)", "accumulate": "False",
    }, "trn3"),
    "nc_n_gather": Call("dst=d, data=a, indices=u"),
    "nc_stream_shuffle": Call("dst=d, src=a, shuffle_mask=list(range(31, -1, -1))"),
    "nc_transpose": Call("dst=d[0:32, 0:32], data=a[0:32, 0:32]", {"engine": "nisa.engine.tensor"}),
    "nonzero_with_count": Call("dst=wide, src=i", {"index_offset": "2", "padding_val": "-2"}),
    "quantize_mx": Call("dst=x4, src=k, dst_scale=s4", target="trn3"),
    "rand2": Call("dst=d, min=0.0, max=1.0", target="trn3"),
    "rand_get_state": Call("dst=state", {"engine": "nisa.engine.vector"}),
    "rand_set_state": Call("src_seeds=state", {"engine": "nisa.engine.vector"}),
    "range_select": Call(RANGE, {
        "reduce_cmd": ("reduce_res=res", ADDED), "reduce_res": "res", "reduce_op": ("reduce_res=res", "nl.add"),
        "range_start": "2.0", "on_false_value": "0.0",
    }),
    "reciprocal": Call("dst=d, data=a"),
    "rng": Call("dst=j", {"engine": "nisa.engine.gpsimd"}),
    "scalar_tensor_tensor": Call("dst=d, data=a, op0=nl.subtract, operand0=2.0, op1=nl.subtract, operand1=e", {
        "reverse0": "True", "reverse1": "True", "engine": "nisa.engine.gpsimd",
    }),
    "select_reduce": Call(SELECT, {
        "reduce_res": "res", "reduce_cmd": ("reduce_res=res", KEPT), "reduce_op": ("reduce_res=res", "nl.add"),
        "reverse_pred": "True",
    }),
    "sendrecv": Call(
        "src=a, dst=d, send_to_rank=1 - nl.program_id(0), recv_from_rank=1 - nl.program_id(0), pipe_id=0",
        {"dma_engine": "nisa.dma_engine.gpsimd_dma", "use_gpsimd_dma": "True"}, lnc=2,
    ),
    "sequence_bounds": Call("dst=pairs, segment_ids=row"),
    "set_rng_seed": Call("src_seeds=i[0:1, 0:1]"),
    "tensor_copy": Call("dst=d, src=a", {"engine": "nisa.engine.gpsimd", "dtype": "nl.bfloat16"}),
    "tensor_copy_predicated": Call("dst=d, src=a, predicate=u", {"reverse_pred": "True"}),
    "tensor_partition_reduce": Call("dst=rows, op=nl.add, data=a"),
    "tensor_reduce": Call("dst=res, op=nl.add, data=a, axis=1", {"negate": "True", "keepdims": Held(TOLD)}),
    "tensor_scalar": Call("dst=d, data=a, op0=nl.subtract, operand0=2.0", {
        "reverse0": "True", "op1": ("operand1=3.0", "nl.subtract"), "operand1": ("op1=nl.subtract", "3.0"),
        "reverse1": ("op1=nl.subtract, operand1=3.0", "True"), "engine": "nisa.engine.gpsimd",
    }),
    "tensor_scalar_cumulative": Call("dst=d, src=a, op0=nl.subtract, op1=nl.add, imm0=2.0", {
        "imm1": ("reduce_cmd=nisa.reduce_cmd.load_reduce", "1.0"), "reduce_cmd": "nisa.reduce_cmd.load_reduce",
        "reverse0": "True",
    }),
    "tensor_scalar_reduce": Call("dst=d, data=a, op0=nl.subtract, operand0=2.0, reduce_op=nl.add", {
        "reduce_res": "res", "reverse0": "True", "reduce_cmd": ("reduce_res=res", ADDED),
        "reduce_init": ("reduce_res=res, reduce_cmd=nisa.reduce_cmd.load_reduce", "3.0"),
        "reduce_res_negate": ("reduce_res=res", "True"),
    }),
    "tensor_tensor": Call("dst=d, data1=a, data2=e, op=nl.add", {"engine": "nisa.engine.gpsimd"}),
    "tensor_tensor_scan": Call("dst=d, data0=a, data1=e, initial=1.0, op0=nl.subtract, op1=nl.subtract", {
        "reverse0": "True", "reverse1": "True",
    }),
    "topk": Call("val_dst=k[:, 0:8], idx_dst=n, src=h[:, 0:16], n=256"),
    "register_alloc": Call("", {"x": "3"}),
}  # fmt: skip

# Of nki.language, by the names of parameters that a call must have, and of those that it may.
GIVEN = {
    "x": "a", "y": "e", "axis": "1", "rate": "0.5", "condition": "u", "shape": "(128, 64)", "fill_value": "2.0",
    "dtype": "nl.float32", "data": "a", "indices": "u", "src": "x", "w": "e", "n": "64",
}
WHOLE = dict.fromkeys(("x", "y"), "i") | {"y": "j"}
THREE = {"x": "a.reshape((128, 8, 8))", "axis": "2"}
OTHERS: dict[str, dict[str, str]] = {
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert"), WHOLE),
    **dict.fromkeys(("max", "mean", "min", "prod", "sum", "var", "softmax"), THREE),
    "broadcast_to": {"x": "col"}, "matmul": {"x": "a[0:64, :]", "y": "e[0:64, :]"},
    "load_transpose2d": {"src": "x[0:64, 0:64]"},
}
KEYWORDS: dict[str, Value] = {
    "dtype": "nl.bfloat16", "keepdims": "True", "buffer": "nl.shared_hbm", "epsilon": "0.5", "name": "'given'",
    "compute_dtype": "nl.bfloat16", "transpose_x": "True", "address": "(0, 512)",
}
LOOPS = dict.fromkeys(("stop", "step"), Held("tests/nki/test_control.py::test_ranges_take_a_start_a_stop_and_a_step"))
GRID = Held("tests/nki/test_launch.py::test_programs_along_axes_of_a_grid")
# What is none of the above.
OTHER_KEYWORDS: dict[str, dict[str, Value]] = {
    **dict.fromkeys(("affine_range", "sequential_range", "static_range", "dynamic_range", "fori_loop"), LOOPS),
    "gather_flattened": {"axis": "1"}, "softmax": {"axis": "(1, 2)"}, "num_programs": {"axes": GRID},
    "program_id": {"axis": GRID}, "shared_identity_matrix": {"dst": "made_of_bytes", "dtype": "nl.float32"},
}
# Names of operators, which no kernel calls.
OPERATORS = ("average", "bypass", "prelu")
# What makes a tensor: the text of the program has its keywords, and nothing is read from it.
MAKERS = ("empty_like", "full", "ndarray", "ones", "rand", "zeros", "zeros_like")
NEWER = ("abs_max", "abs_min")  # of NeuronCore-v4
