"""What each NKI release documents that it refuses: the data of strict mode.

A rule holds for the releases `first` to `last` (None: up to the newest). Sources are pages of AWS's public
documentation repository, aws-neuron/aws-neuron-sdk at 81ce03ae (SDK 2.32, NKI 0.6.0):
  guide      nki/migration/index.rst, section of the release
  notes      release-notes/components/nki.rst, section of the release
  language   nki/get-started/nki-language-guide.rst
and, for 0.1, nki/api/nki.errors.rst at 1db4d74e (SDK 2.26), named by the documented error.
Rules that OpenTrn enforces in every mode (constraints of the instruction set, for instance a dma_copy that
reads PSUM) are not repeated here: see src/isa/instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSIONS = ("0.1", "0.3", "0.4", "0.5", "0.6")

ISA, LANGUAGE, TENSOR = "nki.isa", "nki.language", "NkiTensor"
TILE_SIZE, COLLECTIVES, NKI = "nki.language.tile_size", "nki.collectives", "nki"


@dataclass(frozen=True)
class Rule:
    """One documented refusal.

    kind: how it is recognised: "name" (module `where` has no `name`), "call" (`name` must not be called),
    "argument" (`name` has no argument `argument`), or the name of a check in src/nki/strict or in `call_checks`.
    """

    label: str
    kind: str
    first: str
    last: str | None
    what: str
    instead: str
    source: str
    where: str = ""
    name: str = ""
    argument: str = ""

    def holds_in(self, version: str) -> bool:
        """True when `version` refuses this."""
        order = VERSIONS.index
        newest = VERSIONS[-1] if self.last is None else self.last
        return order(self.first) <= order(version) <= order(newest)


def _since(first: str, where: str, names: str, source: str) -> list[Rule]:
    """Names that came with release `first`: the releases of the `nki` package before it lack them."""
    last = VERSIONS[VERSIONS.index(first) - 1]
    return [
        Rule(f"{where}.{name}", "name", "0.3", last, f"{where}.{name} came with NKI {first}",
             f"use NKI {first}", source, where, name)
        for name in names.split()
    ]  # fmt: skip


def _removed(first: str, where: str, names: str, instead: str, source: str) -> list[Rule]:
    return [
        Rule(
            f"{where}.{name}",
            "name",
            first,
            None,
            f"{where}.{name} was removed",
            instead,
            source,
            where,
            name,
        )
        for name in names.split()
    ]


def _argument(first: str, last: str | None, function: str, argument: str, instead: str, source: str) -> Rule:
    where, _, name = function.rpartition(".")
    what = f"{function} has no argument {argument}="
    return Rule(
        f"{function}({argument})", "argument", first, last, what, instead, source, where, name, argument
    )


RULES: tuple[Rule, ...] = (
    # -- what 0.2 removed; the documents of 0.3 to 0.6 keep saying so
    *_removed("0.3", LANGUAGE, "arange mgrid", "slices, or NkiTensor.ap", "guide 0.1 to 0.2"),
    *_removed("0.3", LANGUAGE, "par_dim", "put the partition dimension first; use lists of tensors for blocks",
              "guide 0.1 to 0.2, nki_block_dimension_migration_guide"),
    *_removed("0.3", NKI, "baremetal benchmark profile trace simulate_kernel", "nki.jit, nki.simulate",
              "guide 0.1 to 0.2"),
    Rule("mask", "mask", "0.3", None, "the argument mask= was removed", "slices cut with min()",
         "guide 0.1 to 0.2, 'Deprecation of masking'"),
    Rule("nested_jit", "nested_jit", "0.3", None, "a function that nki.jit decorates is called by a kernel",
         "take @nki.jit off the inner function", "guide 0.1 to 0.2, 'Remove nki.jit decorator on sub-kernels'"),
    Rule("dict_keys", "dict_keys", "0.3", None, "dictionaries have string keys only", "use strings as keys",
         "guide 0.1 to 0.2; language, 'NKI Values'"),
    Rule("class_base", "class_base", "0.3", None, "a class used in a kernel inherits from NKIObject alone",
         "derive it from nl.NKIObject", "language, 'Class Support'"),
    Rule("register_condition", "register_condition", "0.3", None,
         "a register is not a condition of `if`: control flow on the device is nl.dynamic_range and `while`",
         "nl.while_loop or nl.fori_loop over 0 or 1 iterations", "language, 'Dynamic Control Flow'; "
         "nki/api/nki/isa, VirtualRegister"),
    Rule("ap.partition_step", "ap_row", "0.3", None,
         "the first step of .ap on a tensor in SBUF or PSUM is the storage's elements per partition",
         "the step of get_pattern()[0]", "language, 'Low-level raw access pattern: ap'", TENSOR, "ap"),
    # -- 0.3
    Rule("jit.platform_target", "jit_option", "0.3", None, "nki.jit(platform_target=) raises an error",
         "set NEURON_PLATFORM_TARGET_OVERRIDE", "guide 0.2 to 0.3", name="platform_target"),
    _argument("0.3", None, "nki.isa.dma_copy", "dst_rmw_op", "nisa.dma_compute", "guide 0.2 to 0.3"),
    _argument("0.3", None, "nki.isa.dma_copy", "unique_indices", "nisa.dma_compute", "guide 0.2 to 0.3"),
    _argument("0.3", None, "nki.isa.sendrecv", "use_gpsimd_dma", "dma_engine=nisa.dma_engine.gpsimd_dma",
              "guide 0.2 to 0.3"),
    _argument("0.3", None, "nki.isa.register_move", "imm", "src=nisa.register_alloc(value)",
              "guide 0.2 to 0.3"),
    _argument("0.3", None, "nki.collectives.collective_permute_implicit_current_processing_rank_id",
              "num_channels", "channel_ids= of collective_permute_implicit", "guide 0.2 to 0.3"),
    Rule("register_move.immediate", "register_immediate", "0.3", None,
         "nki.isa.register_move takes a register, not a number", "src = nisa.register_alloc(value)",
         "guide 0.2 to 0.3", ISA, "register_move"),
    Rule("enum_integer", "enum_integer", "0.3", None, "integers are not enumeration members",
         "the named member, nisa.dge_mode.hwdge for 2", "guide 0.2 to 0.3"),
    Rule("buffer_string", "buffer_string", "0.3", None, "buffer= takes no string", "buffer=nl.sbuf",
         "guide 0.2 to 0.3"),
    Rule("output_buffer", "output_buffer", "0.3", None, "a kernel returns tensors in shared_hbm only",
         "nl.ndarray(..., buffer=nl.shared_hbm)", "guide 0.2 to 0.3"),
    Rule("keyword_only", "keyword_only", "0.3", None, "a kernel's signature has no keyword-only separator *",
         "move parameters with defaults to the end", "guide 0.2 to 0.3"),
    Rule("identity", "identity", "0.3", None, "the operators `is` and `is not`", "== and !=",
         "guide 0.2 to 0.3"),
    Rule("list_argument", "list_argument", "0.3", None, "a list as an argument of a kernel", "pass a tuple",
         "guide 0.2 to 0.3"),
    *[Rule(f"nki.language.{name}()", "call", "0.3", None, f"nl.{name} has no hardware instruction",
           instead, "notes 0.3, 'Known Issues', carried forward since", LANGUAGE, name)
      for name, instead in (("divide", "nl.multiply(x, nl.reciprocal(y))"), ("mod", "nothing on the device"),
                            ("fmod", "nothing on the device"))],
    Rule("power.scalar", "power_scalar", "0.3", None, "nl.power(tile, scalar)", "nl.power(tile, tile)",
         "notes 0.3, 'Known Issues', carried forward since", LANGUAGE, "power"),
    Rule("matmul.transpose_x", "matmul_transpose", "0.3", None, "nl.matmul without transpose_x=True",
         "nl.matmul(x, y, transpose_x=True)", "notes 0.3, 'Known Issues', carried forward since", LANGUAGE,
         "matmul"),
    Rule("random_seed.scalar", "seed_scalar", "0.3", None, "nl.random_seed of a number",
         "a [1, 1] tensor in SBUF", "notes 0.3, 'Known Issues', carried forward since", LANGUAGE, "random_seed"),
    Rule("broadcast", "broadcast", "0.3", None, "operands of different shapes in a binary nki.language function",
         "nisa.tensor_scalar, or operands of one shape", "notes 0.3, 'Known Issues', carried forward since"),
    Rule("store.psum", "store_psum", "0.3", "0.3", "nl.store of a tile in PSUM", "nisa.tensor_copy it to SBUF",
         "notes 0.3, 'Known Issues'", LANGUAGE, "store"),
    Rule("dynamic_range.offset", "loop_variable", "0.3", "0.3",
         "the variable of nl.dynamic_range is not a scalar_offset", "nl.affine_range",
         "notes 0.3, 'Known Issues', 'Control Flow'"),
    Rule("operator", "operator", "0.1", None,
         "an operator that is not in the table of supported math operators",
         "an operator of the table: x / y is x * reciprocal(y)",
         "nki.api.shared, 'Supported Math Operators for NKI ISA' of each release", ISA),
    Rule("tensor_scalar_reduce.reverse0", "reduce_reverse", "0.1", None,
         "tensor_scalar_reduce does not reverse its operands", "tensor_scalar(reverse0=True), then tensor_reduce",
         "nki.isa.tensor_scalar_reduce, reverse0: 'currently not supported yet', of each release", ISA,
         "tensor_scalar_reduce"),
    # -- 0.4
    Rule("unary_operand", "unary_operand", "0.4", None, "an operand beside a unary op0", "operand0=None or 0",
         "nki.isa.tensor_scalar, operand0: 'Must be None or 0 when op0 is a unary operator'", ISA),
    Rule("neuronxcc", "legacy_namespace", "0.4", None, "neuronxcc.nki is a compilation error",
         "the nki package", "guide 0.3 to 0.4"),
    Rule("dma_transpose.rank", "transpose_rank", "0.4", None,
         "dma_transpose needs dst.shape to be the transposed src.shape, rank included",
         "a dst of src's rank", "guide 0.3 to 0.4", ISA, "dma_transpose"),
    *_removed("0.4", ISA, "tensor_copy_dynamic_src tensor_copy_dynamic_dst",
              "nisa.tensor_copy with .ap(scalar_offset=)", "guide 0.3 to 0.4"),
    *_since("0.4", LANGUAGE, "abs_max abs_min prelu bypass", "notes 0.4, 'New Features'"),
    *_since("0.4", ISA, "activate2", "notes 0.4, 'New Features'"),
    *_since("0.4", TILE_SIZE,
            "sbuf_size_bytes sbuf_fmax sbuf_fmax_bytes psum_bank_fmax psum_bank_fmax_bytes",
            "notes 0.4, 'New Features'"),
    _argument("0.3", "0.3", "nki.isa.dma_compute", "oob_mode", "NKI 0.4", "notes 0.4, 'New Features'"),
    Rule("memset.real", "memset_real", "0.3", None, "memset of an integer tensor takes an integer",
         "2 for 2.0", "guide 0.2 to 0.3, 'nisa.memset — strict type matching'", ISA, "memset"),
    Rule("tensor_scalar.square", "unary_op", "0.3", "0.3", "square and relu are not op0 operators of tensor_scalar",
         "NKI 0.4 on trn3, or nisa.activation", "notes 0.4, 'New Features'", ISA, "tensor_scalar"),
    Rule("nc_matmul.e4m3fn", "matmul_e4m3fn", "0.3", "0.3", "nc_matmul takes no float8_e4m3fn",
         "float8_e4m3", "notes 0.4, 'New Features'", ISA, "nc_matmul"),
    # -- 0.5
    Rule("rsqrt.psum", "rsqrt_psum", "0.5", None, "nl.rsqrt takes no PSUM input",
         "nisa.activation(op=nl.rsqrt)", "guide 0.4 to 0.5", LANGUAGE, "rsqrt"),
    *_since("0.5", LANGUAGE, "float8_e8m0fnu", "notes 0.5, 'New Features'"),
    *_since("0.5", TILE_SIZE, "psum_num_banks", "notes 0.5, 'New Features'"),
    *_since("0.5", TENSOR,
            "slice select permute broadcast expand_dim squeeze_dim reshape_dim flatten_dims rearrange "
            "vector_select indirect is_contiguous is_indirect", "notes 0.5, 'New Features'"),
    Rule("collectives.name", "collective_name", "0.3", "0.4", "nki.collectives take no name=", "NKI 0.5",
         "notes 0.5, 'Improvements'", COLLECTIVES),
    # -- 0.6
    *_since("0.6", LANGUAGE, "fori_loop while_loop", "notes 0.6, 'New Features'"),
    *_since("0.6", ISA, "topk", "notes 0.6, 'New Features'"),
    *_since("0.6", COLLECTIVES, "all_gather_v", "notes 0.6, 'New Features'"),
    Rule("tensor_scalar_reduce.reduce_res", "missing_reduce_res", "0.3", "0.5",
         "tensor_scalar_reduce needs reduce_res", "NKI 0.6", "notes 0.6, 'New Features'", ISA,
         "tensor_scalar_reduce"),
    Rule("dma_transpose.hwdge_rows", "hwdge_rows", "0.3", "0.5",
         "dma_transpose with dge_mode.hwdge needs src.shape[0] == 16", "NKI 0.6", "notes 0.6, 'New Features'",
         ISA, "dma_transpose"),
    # -- 0.1: what the dialect documents as errors and OpenTrn's permissive mode lets pass
    Rule("nki_package", "new_namespace", "0.1", "0.1", "NKI 0.1 has no package nki", "neuronxcc.nki",
         "guide 0.1 to 0.2, 'New namespace'"),
    Rule("err_shared_hbm_must_in_kernel_level", "shared_hbm_level", "0.1", "0.1",
         "shared_hbm tensors are made at the top level of the kernel", "move it out of the loop, branch or helper",
         "nki.errors"),
    Rule("err_nested_kernel_with_spmd_grid", "nested_grid", "0.1", "0.1",
         "a kernel called by a kernel has no launch grid", "call it without [grid]", "nki.errors"),
    Rule("err_local_variable_used_out_of_scope", "scope", "0.1", "0.1",
         "a tensor made inside a loop or branch is used outside of it", "make the tensor before the block",
         "nki.errors"),
    Rule("err_tensor_output_not_written_to", "no_output", "0.1", "0.1", "the kernel writes no output",
         "store to an output argument, or return a tensor", "nki.errors"),
    Rule("err_mutable_parameter_not_returned", "mutable_returned", "0.1", "0.1",
         "a parameter annotated nt.mutable_tensor is returned", "return it", "nki.errors"),
    Rule("err_cannot_update_immutable_parameter", "written_parameter", "0.1", "0.1",
         "a kernel that returns its results writes no parameter that is not annotated nt.mutable_tensor",
         "annotate it, or copy it to a tensor in shared_hbm and write that", "nki.errors"),
    Rule("err_hbm_tensor_with_init_value_not_supported", "hbm_value", "0.1", "0.1",
         "a tensor in HBM is made with an initial value", "nl.ndarray, then nl.store", "nki.errors"),
    Rule("err_exceed_max_supported_dimension", "transpose_dimensions", "0.1", "0.1",
         "nl.transpose takes two dimensions", "a two-dimensional tile", "nki.errors"),
    Rule("err_num_partition_mismatch", "partitions", "0.1", "0.1",
         "the operands of tensor_tensor have the same number of partitions", "broadcast_to", "nki.errors"),
    Rule("err_bias_tensor_must_be_specified_in_allocation", "allocated_bias", "0.1", "0.1",
         "activation in a kernel that allocates has a bias", "bias= a tile that the kernel has allocated",
         "nki.errors"),
    Rule("err_tensor_creation_on_scratchpad_with_init_value_not_supported", "allocated_value", "0.1", "0.1",
         "a kernel that allocates makes no tensor with an initial value", "nl.ndarray, then nisa.memset",
         "nki.errors"),
    Rule("err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel", "allocated_transpose", "0.1", "0.1",
         "a kernel that allocates leaves no transpose to the Tensor Engine's identity matrix",
         "nc_matmul with an identity of its own, nc_transpose on the Vector Engine, or matmul(transpose_x=True)",
         "nki.errors"),
)  # fmt: skip


# Documented errors of 0.1 that no mode of OpenTrn raises, and why.
NOT_REPRODUCED: dict[str, str] = {
    "err_annotation_shape_mismatch": "annotations of local variables are not evaluated by Python",
    "err_unexpected_output_dependencies": "iterations of affine_range run in order (of a grid's instances: grid.race)",
    "err_unsupported_expression_in_mask": "masks are concrete, so every expression of loop indices is one",
    "err_while_loop_requires_unconditional_entry": "Python's while is followed as written",
}


def rules_of(version: str, *kinds: str) -> list[Rule]:
    """The rules that hold in `version`, of the given kinds if any are given."""
    return [rule for rule in RULES if rule.holds_in(version) and (not kinds or rule.kind in kinds)]
