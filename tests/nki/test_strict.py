"""Strict mode: every rule refuses its case in the releases it names, and in no other.

The cases are the before-and-after snippets of the sources that the rules cite, made into kernels.
"""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import opentrn
from opentrn import nki, strict
from opentrn.strict import RULES, StrictRefusal, rules_of

X = np.ones((128, 64), np.float32)

# label -> body of a kernel `def kernel(x)` with the tile `t` (x in SBUF) and `p` (a PSUM tile) at hand.
BODIES = {
    "nki.language.arange": "nl.arange(4)",
    "nki.language.mgrid": "nl.mgrid",
    "nki.language.par_dim": "nl.par_dim(4)",
    **{f"nki.{n}": f"nki.{n}" for n in ["baremetal", "benchmark", "profile", "trace", "simulate_kernel"]},
    "mask": "nisa.tensor_copy(t, t, mask=None)",
    "nested_jit": "inner_kernel(t)",
    "dict_keys": "d = {1: t}",
    "register_condition": "r = nisa.register_alloc(1)\nif r:\n    nisa.memset(t, 0.0)",
    "nki.isa.dma_copy(dst_rmw_op)": "nisa.dma_copy(t, x, dst_rmw_op=nl.add)",
    "nki.isa.dma_copy(unique_indices)": "nisa.dma_copy(t, x, unique_indices=True)",
    "nki.isa.sendrecv(use_gpsimd_dma)": "nisa.sendrecv(t, t, 0, 0, 0, use_gpsimd_dma=True)",
    "nki.isa.register_move(imm)": "nisa.register_move(nisa.register_alloc(), imm=42)",
    "nki.collectives.collective_permute_implicit_current_processing_rank_id(num_channels)":
        "ncc.collective_permute_implicit_current_processing_rank_id(0, [[0]], 0, num_channels=1)",
    "register_move.immediate": "nisa.register_move(nisa.register_alloc(), 42)",
    "enum_integer": "nisa.dma_copy(t, x, dge_mode=2)",
    "buffer_string": "nl.ndarray((128, 4), nl.float32, buffer='sbuf')",
    "output_buffer": "out = nl.ndarray((128, 64), nl.float32, buffer=nl.hbm)\nnisa.dma_copy(out, t)",
    "identity": "flag = None\nif flag is None:\n    nisa.memset(t, 0.0)",
    "nki.language.divide()": "nl.divide(t, t)",
    "nki.language.mod()": "nl.mod(t, t)",
    "nki.language.fmod()": "nl.fmod(t, t)",
    "power.scalar": "nl.power(t, 2.0)",
    "matmul.transpose_x": "nl.matmul(t, nl.zeros((64, 64), nl.float32))",
    "random_seed.scalar": "nl.random_seed(42)",
    "broadcast": "nl.add(t, t[:, 0:1])",
    "store.psum": "nl.store(nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm), p)",
    "ap.partition_step": "nisa.tensor_copy(t[:, 0:32], t[:, 32:64].ap([[32, 128], [1, 32]]))",
    "dynamic_range.offset":
        "for i in nl.dynamic_range(2):\n    nisa.dma_copy(t[:, 0:1], x.ap([[64, 128], [1, 1]], scalar_offset=i))",
    "dma_transpose.rank":
        "q = nl.ndarray((64, 1, 128), nl.float32)\nnisa.dma_transpose(q, x, axes=(1, 0))",
    "nki.isa.tensor_copy_dynamic_src": "nisa.tensor_copy_dynamic_src(t, t)",
    "nki.isa.tensor_copy_dynamic_dst": "nisa.tensor_copy_dynamic_dst(t, t)",
    **{f"nki.language.{n}": f"op = nl.{n}"
       for n in ["abs_max", "abs_min", "prelu", "bypass", "float8_e8m0fnu", "fori_loop", "while_loop"]},
    "nki.isa.activate2": "f = nisa.activate2",
    "nki.isa.topk": "f = nisa.topk",
    "nki.collectives.all_gather_v": "f = ncc.all_gather_v",
    **{f"nki.language.tile_size.{n}": f"n = nl.tile_size.{n}"
       for n in ("sbuf_size_bytes", "sbuf_fmax", "sbuf_fmax_bytes", "psum_bank_fmax", "psum_bank_fmax_bytes",
                 "psum_num_banks")},
    "nki.isa.dma_compute(oob_mode)":
        "nisa.dma_compute(t, [x, x], reduce_op=nl.add, oob_mode=nisa.oob_mode.error)",
    "memset.real": "i = nl.ndarray((128, 4), nl.int32)\nnisa.memset(i, 2.0)",
    "tensor_scalar.square": "nisa.tensor_scalar(t, t, nl.square, 0.0)",
    "operator": "nisa.tensor_scalar(t, t, nl.divide, 2.0)",
    "tensor_scalar_reduce.reverse0":
        "nisa.tensor_scalar_reduce(t, t, nl.subtract, 1.0, nl.add, t[:, 0:1], reverse0=True)",
    "unary_operand": "nisa.tensor_scalar(t, t, nl.abs, 2.0)",
    "nc_matmul.e4m3fn":
        "w = nl.zeros((128, 64), nl.float8_e4m3fn)\n"
        "nisa.nc_matmul(nl.ndarray((64, 64), nl.float32, buffer=nl.psum), w, w)",
    "rsqrt.psum": "nl.rsqrt(p)",
    "NkiTensor.slice": "t.slice(1, 0, 2)",
    "NkiTensor.select": "x.select(0, 1)",
    "NkiTensor.permute": "x.permute((1, 0))",
    "NkiTensor.broadcast": "t[:, 0:1].broadcast(1, 4)",
    "NkiTensor.expand_dim": "t.expand_dim(1)",
    "NkiTensor.squeeze_dim": "t.reshape((128, 1, 64)).squeeze_dim(1)",
    "NkiTensor.reshape_dim": "t.reshape_dim(1, (8, 8))",
    "NkiTensor.flatten_dims": "t.reshape((128, 8, 8)).flatten_dims(1, 2)",
    "NkiTensor.rearrange": "t.rearrange(('p', 'f'), ('p', 'f'))",
    "NkiTensor.vector_select": "x.vector_select(0, nl.zeros((4, 1), nl.int32))",
    "NkiTensor.indirect": "t.indirect(nl.zeros((32, 1), nl.uint16))",
    "NkiTensor.is_contiguous": "t.is_contiguous()",
    "NkiTensor.is_indirect": "t.is_indirect()",
    "collectives.name": "ncc.all_reduce([x], [x], [[0]], nl.add, name='step')",
    "tensor_scalar_reduce.reduce_res":
        "nisa.tensor_scalar_reduce(t, t, nl.add, 1.0, nl.add, None, reduce_cmd=nisa.reduce_cmd.reset_reduce)",
    "dma_transpose.hwdge_rows":
        "h = nl.ndarray((8, 128), nl.bfloat16, buffer=nl.shared_hbm)\n"
        "nisa.dma_transpose(nl.ndarray((128, 8), nl.bfloat16), h, axes=(1, 0), dge_mode=nisa.dge_mode.hwdge)",
}  # fmt: skip

HEAD = """
from dataclasses import dataclass
from opentrn import nki
from opentrn.nki import collectives as ncc, isa as nisa, language as nl

@nki.jit
def inner_kernel(t):
    nisa.memset(t, 0.0)

@dataclass
class Plain:
    n: int = 1
"""


def make(tmp_path, source: str, name: str = "kernel"):
    """The function `name` of a file with this source; strict mode reads files."""
    path = tmp_path / "strict_case.py"
    path.write_text(HEAD + source)
    scope = {"__name__": "strict_case", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), scope)  # noqa: S102
    return scope[name]


def body(text: str) -> str:
    returned = "out" if "out =" in text else "result"
    lines = [
        "def kernel(x):",
        "    t = nl.ndarray((128, 64), nl.float32)",
        "    nisa.dma_copy(t, x)",
        "    p = nl.zeros((128, 64), nl.float32, buffer=nl.psum)",
        textwrap.indent(text, "    "),
        "    result = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)",
        "    nisa.dma_copy(result, t)",
        f"    return {returned}",
    ]
    return "\n".join(lines) + "\n"


def outcome(kernel, release: str, *args, **kwargs) -> str | None:
    """The label of the refusal, or None. What the machine itself refuses is not strict mode's."""
    try:
        nki.simulate(kernel, target="trn3", strict=release)(*args, **kwargs)
    except StrictRefusal as refusal:
        assert release in str(refusal) and refusal.rule.source in str(refusal)
        return refusal.rule.label
    except Exception:
        return None
    return None


def rule(label: str):
    (found,) = [r for r in RULES if r.label == label]
    return found


@pytest.mark.parametrize("label", sorted(BODIES))
def test_rule_refuses_in_its_releases_and_no_other(label, tmp_path):
    kernel = make(tmp_path, body(BODIES[label]))
    for release in ("0.3", "0.4", "0.5", "0.6"):
        refused = outcome(kernel, release, X) == label
        assert refused == rule(label).holds_in(release), release


@pytest.mark.parametrize("release", ["0.3", "0.4", "0.5", "0.6"])
def test_what_every_release_accepts_is_accepted(release, tmp_path):
    kernel = make(tmp_path, body("nisa.tensor_scalar(t, t, nl.multiply, 2.0)"))
    assert np.array_equal(nki.simulate(kernel, target="trn2", strict=release)(X), 2 * X)


# What is next to a rule, and is none of its: (release, body).
NEXT_TO_A_RULE = {
    "dma_transpose.hwdge_rows": (
        "0.3",
        "h = nl.ndarray((16, 128), nl.bfloat16, buffer=nl.shared_hbm)\n"
        "nisa.dma_copy(h, nl.zeros((16, 128), nl.bfloat16))\n"
        "nisa.dma_transpose(nl.ndarray((128, 16), nl.bfloat16), h, axes=(1, 0), dge_mode=nisa.dge_mode.hwdge)",
    ),
    "ap.partition_step": ("0.3", "nisa.tensor_copy(t[0:1, 0:32], t[0:1, 32:64].ap([[32, 1], [1, 32]]))"),
}


@pytest.mark.parametrize("label", NEXT_TO_A_RULE)
def test_what_is_next_to_a_rule_is_accepted(label, tmp_path):
    release, text = NEXT_TO_A_RULE[label]
    nki.simulate(make(tmp_path, body(text)), target="trn3", strict=release)(X)


def test_platform_target(tmp_path):
    kernel = make(tmp_path, "@nki.jit(platform_target='trn2')\n" + body(""))
    assert outcome(kernel, "0.3", X) == "jit.platform_target"


def test_keyword_only_separator(tmp_path):
    kernel = make(tmp_path, body("").replace("(x)", "(x, *, flag=True)", 1))
    assert outcome(kernel, "0.6", X) == "keyword_only"


def test_list_argument(tmp_path):
    kernel = make(tmp_path, body("").replace("(x)", "(x, order)", 1))
    assert outcome(kernel, "0.6", X, [0, 1]) == "list_argument"
    assert outcome(kernel, "0.6", X, (0, 1)) is None


def test_class_base(tmp_path):
    kernel = make(tmp_path, body("").replace("(x)", "(x, settings)", 1))
    plain = make(tmp_path, "", "Plain")()
    assert outcome(kernel, "0.4", X, plain) == "class_base"


def test_helpers_are_read_too(tmp_path):
    """A function the kernel calls, found by name, and the line in it."""
    source = "def helper(t):\n    if t is None:\n        return\n    nisa.memset(t, 1.0)\n\n" + body(
        "helper(t)"
    )
    kernel = make(tmp_path, source)
    with pytest.raises(
        StrictRefusal, match=r"\[identity\].*t is None\n    at .*strict_case.py:\d+ in helper"
    ):
        nki.simulate(kernel, strict="0.5")(X)


def test_names_imported_from_the_package_are_followed(tmp_path):
    source = "from opentrn.nki.isa import dma_copy as copy, topk\n" + body("copy(t, x, dge_mode=2)")
    assert outcome(make(tmp_path, source), "0.6", X) == "enum_integer"
    assert (
        outcome(make(tmp_path, source.replace("copy(t, x, dge_mode=2)", "f = topk")), "0.5", X)
        == "nki.isa.topk"
    )


def test_nothing_stays_replaced(tmp_path):
    from opentrn.nki import isa, language

    before = dict(vars(isa)), dict(vars(language)), isa.NkiTensor
    outcome(make(tmp_path, body("nisa.dma_copy(t, x, dge_mode=2)")), "0.6", X)
    assert (dict(vars(isa)), dict(vars(language)), isa.NkiTensor) == before


# -- neuronxcc.nki

LEGACY_HEAD = """
import numpy as np
from opentrn import nki_legacy as nki
from opentrn.nki_legacy import compiler as ncc, isa as nisa, language as nl, typing as nt

@nki.jit
def inner(a):
    nl.store(a, nl.load(a))
"""
ALLOCATED = (
    "t = nl.ndarray((nl.par_dim(128), 64), dtype=np.float32, buffer=ncc.sbuf.mod_alloc(base_addr=0))\n"
)
LEGACY = {
    "err_shared_hbm_must_in_kernel_level":
        "for i in range(1):\n    b = nl.ndarray((128, 64), dtype=np.float32, buffer=nl.shared_hbm)\n"
        "    nl.store(b, nl.load(a))\nreturn b",
    "err_nested_kernel_with_spmd_grid": "inner[1](a)",
    "err_local_variable_used_out_of_scope":
        "for i in range(2):\n    if i < 1:\n        t = nl.load(a)\n    else:\n        t = nl.load(a)\n"
        "    nl.store(a, t)",
    "err_tensor_output_not_written_to": "nl.load(a)",
    "err_mutable_parameter_not_returned":
        "b = nl.ndarray((128, 64), dtype=np.float32, buffer=nl.shared_hbm)\nnl.store(b, nl.load(a))\nreturn b",
    "err_cannot_update_immutable_parameter": "nl.store(a, nl.load(a) + 1)\nreturn a",
    "err_hbm_tensor_with_init_value_not_supported":
        "b = nl.full((128, 64), fill_value=1.0, dtype=np.float32, buffer=nl.shared_hbm)\nreturn b",
    "err_exceed_max_supported_dimension":
        "t = nl.zeros((64, 32, 2), dtype=np.float32, buffer=nl.sbuf)\nnl.store(a, nl.load(a))\nnl.transpose(t)",
    "err_num_partition_mismatch":
        "t = nl.load(a)\nnl.store(a, nisa.tensor_tensor(t, nl.load(a[0:1]), op=nl.add))",
    "err_bias_tensor_must_be_specified_in_allocation":
        ALLOCATED + "t[...] = nl.load(a)\nnl.store(a, nisa.activation(np.exp, data=t))",
    "err_tensor_creation_on_scratchpad_with_init_value_not_supported":
        "t = nl.full((nl.par_dim(128), 64), fill_value=1.0, dtype=np.float32,\n"
        "            buffer=ncc.sbuf.mod_alloc(base_addr=0))\nnl.store(a, t)",
    "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel":
        ALLOCATED + "t[...] = nl.load(a)\nnisa.nc_transpose(t)\nnl.store(a, t)",
}  # fmt: skip


def legacy_refusal(tmp_path, text: str, release: str | None, annotation: str = "") -> StrictRefusal | None:
    path = tmp_path / "legacy_case.py"
    path.write_text(LEGACY_HEAD + f"def kernel(a{annotation}):\n" + textwrap.indent(text, "    ") + "\n")
    scope = {"__name__": "legacy_case", "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), scope)  # noqa: S102
    from opentrn import nki_legacy

    try:
        with strict.version(release):
            nki_legacy.simulate_kernel(scope["kernel"], X.copy())
    except StrictRefusal as refusal:
        return refusal
    return None


def legacy_outcome(tmp_path, text: str, release: str | None, annotation: str = "") -> str | None:
    refusal = legacy_refusal(tmp_path, text, release, annotation)
    return None if refusal is None else refusal.rule.label


@pytest.mark.parametrize("label", sorted(LEGACY))
def test_documented_error_of_0_1(label, tmp_path):
    annotation = ": nt.mutable_tensor" if label == "err_mutable_parameter_not_returned" else ""
    assert legacy_outcome(tmp_path, LEGACY[label], "0.1", annotation) == label
    assert legacy_outcome(tmp_path, LEGACY[label], None, annotation) is None


def test_parameters_that_0_1_lets_a_kernel_write(tmp_path):
    store = "nl.store(a, nl.load(a) + 1)"
    assert legacy_outcome(tmp_path, f"{store}\nreturn a", "0.1", ": nt.mutable_tensor") is None
    assert legacy_outcome(tmp_path, f"{store}\nreturn a", "0.1", ": nt.mutable_tensor[128, 64]") is None
    assert legacy_outcome(tmp_path, store, "0.1") is None  # an output, as before kernels returned results


def test_a_written_parameter_is_refused_with_its_line(tmp_path):
    refusal = legacy_refusal(tmp_path, "t = nl.load(a)\nnl.store(a[0:64], t[0:64])\nreturn a", "0.1")
    line = LEGACY_HEAD.count("\n") + 3
    assert f"writes parameter a\n    at {tmp_path}/legacy_case.py:{line} in kernel\n" in str(refusal)


def test_the_legacy_namespace_ends_with_0_4(tmp_path):
    good = "nl.store(a, nl.load(a))"
    assert [legacy_outcome(tmp_path, good, release) for release in strict.VERSIONS] == [
        None, None, "neuronxcc", "neuronxcc", "neuronxcc",
    ]  # fmt: skip


def test_0_1_has_no_package_nki(tmp_path):
    assert outcome(make(tmp_path, body("")), "0.1", X) == "nki_package"


# -- the table and the ways to choose


def test_every_rule_has_a_case():
    elsewhere = {
        "jit.platform_target", "keyword_only", "list_argument", "class_base", "neuronxcc", "nki_package",
    }  # fmt: skip
    assert {r.label for r in RULES} == set(BODIES) | set(LEGACY) | elsewhere


def test_rules_have_sources_and_order():
    assert all(r.source and r.instead and r.what for r in RULES)
    assert len({r.label for r in RULES}) == len(RULES)
    assert len(rules_of("0.6")) != len(rules_of("0.3"))


def test_choosing_a_release(tmp_path, monkeypatch):
    kernel = make(tmp_path, "@nki.jit\n" + body("nisa.dma_copy(t, x, dge_mode=2)"))
    kernel(X)
    with pytest.raises(StrictRefusal):
        opentrn.run(kernel, X, strict="0.6.0")
    with strict.version("0.4"), pytest.raises(StrictRefusal):
        kernel(X)
    monkeypatch.setenv(strict.STRICT_ENV, "0.5")
    with pytest.raises(StrictRefusal, match="NKI 0.5"):
        kernel(X)
    monkeypatch.setenv(strict.STRICT_ENV, "7")
    with pytest.raises(ValueError, match="unknown NKI release"):
        kernel(X)


def test_command_line(tmp_path):
    path = tmp_path / "case.py"
    path.write_text(
        HEAD.replace("@nki.jit\ndef inner", "def inner")
        + "@nki.jit\n"
        + body("nl.fori_loop(0, 1, lambda i: None)")
    )

    def run(*options):
        command = [sys.executable, "-m", "opentrn", "run", str(path), "-i", "x=128x64", "--no-time", *options]
        return subprocess.run(command, capture_output=True, text=True)

    assert run("--strict", "0.6").returncode == 0
    refused = run("--strict", "0.5")
    assert refused.returncode == 1 and "case.py" in refused.stderr and "fori_loop" in refused.stderr
    assert run("--strict", "9").returncode == 2
