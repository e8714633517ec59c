"""What the options of `run`, `profile` and `disasm` do to kernels and to saved programs; see option_cases.py."""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
from pathlib import Path

import numpy as np
from option_cases import Entry, Form, does, fails, held, refused

from opentrn.cli import commands as cli

KERNELS = '''
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import neuronxcc.nki as legacy
import neuronxcc.nki.language as old

INPUTS = {
    "scale": {"x": "128x64:float32:randn(1)"},
    "counted": {"x": "128x64:float32:ones", "n": "1x1:int32:ones"},
    "hole": {"x": "128x64:float32:ones"},
    "parts": {"x": "512x64:float32:randn(1)"},
    "halves": {"x": "128x64:float32:ones"},
    "total": {"x": "128x64:float32:ones"},
    "asserts": {"x": "128x64:float32:ones"},
    "rounds": {"x": "128x512:float32:randn(1)"},
}


@nki.jit
def scale(x, by=2.0):
    """Loads, two instructions and a store for each quarter, so that a compiler has something to order."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        tile = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, 16 * i:16 * i + 16])
        other = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=other, op=nl.exp, data=tile)
        nisa.tensor_scalar(dst=other, data=other, op0=nl.multiply, operand0=by)
        nisa.dma_copy(dst=out[:, 16 * i:16 * i + 16], src=other)
    return out


@nki.jit
def counted(x, n):
    """A device loop of n rounds."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=count, src=n)
    register = nisa.register_alloc()
    nisa.register_load(register, count)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for i in nl.dynamic_range(register):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def hole(x):
    """Reads half a tile that nothing wrote."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:32], src=x[:, 0:32])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def halves(x):
    """Each core writes its part."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    count, mine = max(nl.num_programs(), 1), nl.program_id(0)
    size = 64 // count
    tile = nl.ndarray((128, size), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, nl.ds(mine * size, size)])
    nisa.dma_copy(dst=out[:, nl.ds(mine * size, size)], src=tile)
    return out


@nki.jit
def total(x):
    """The sum over all ranks."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    part = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    whole = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=part, src=tile)
    ncc.all_reduce(srcs=[part], dsts=[whole], replica_group=ncc.ReplicaGroup([[0, 1]]), op=nl.add)
    nisa.dma_copy(dst=out, src=whole)
    return out


@nki.jit
def asserts(x):
    assert x.shape[0] == 7, "seven rows please"


@nki.jit
def rounds(x):
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    short = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_copy(dst=short, src=tile)
    nisa.dma_copy(dst=out, src=short)
    return out


@legacy.jit
def parts(x):
    """An instance of the launch grid adds its number to its rows."""
    out = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
    i = old.program_id(0)
    tile = old.load(x[i * 128:(i + 1) * 128, :])
    old.store(out[i * 128:(i + 1) * 128, :], old.add(tile, 1.0))
    return out


@legacy.jit
def many(x):
    """Many short loads, whose descriptors the device makes, or the host before the launch."""
    out = old.ndarray(x.shape, dtype=x.dtype, buffer=old.shared_hbm)
    for i in range(32):
        tile = old.load(x[:, i * 16:(i + 1) * 16])
        old.store(out[:, i * 16:(i + 1) * 16], old.multiply(tile, 2.0))
    return out


@nki.jit
def asks(x):
    """Python looks at a value of the device."""
    tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(tile, 3)
    register = nisa.register_alloc(tile)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.dynamic_range(2):
        if int(register) > 2:
            nisa.dma_copy(dst=out, src=x)
    return out


@legacy.jit
def lost(x):
    """Returns nothing."""
    old.load(x)


INPUTS["asks"] = INPUTS["lost"] = {"x": "128x64:float32:ones"}
INPUTS["many"] = {"x": "128x512:float32:randn(1)"}
'''

TABLES = "[timing.v3.constant]\nhbm_sustained_gb_s = 30\n"


@functools.cache
def _programs() -> dict[str, bytes]:
    """Saved programs of two kernels."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "k.py").write_text(KERNELS)
        for kernel, file in (("scale", "saved.otrn"), ("halves", "other.otrn")):
            words = ["run", f"{folder}/k.py:{kernel}", "--no-execute", "--save-program", str(folder / file)]
            with contextlib.redirect_stdout(io.StringIO()):
                assert cli.main(words) == 0
        return {path.name: path.read_bytes() for path in folder.glob("*.otrn")}


def write_files(folder: Path) -> None:
    """What the command lines below name."""
    (folder / "k.py").write_text(KERNELS)
    np.save(folder / "tall.npy", np.array([[7]], np.int32))
    for name, program in _programs().items():
        (folder / name).write_bytes(program)
    (folder / "tables.toml").write_text(TABLES)


_OF_MODELS: dict[str, Entry] = {
    "--dim": refused("--dim batch=1"), "--optlevel": refused("-O 1"), "--auto-cast": refused("--auto-cast all"),
    "--auto-cast-type": refused("--auto-cast-type fp16"), "--weight-dtype": refused("--weight-dtype int8"),
    "--weight-sparsity": refused("--weight-sparsity 4:16"), "--prune-weights": refused("--prune-weights"),
    "--mesh": refused("--mesh tp=2"), "--shard": refused("--shard x=tp"), "--shardings": refused("--shardings s.txt"),
    "--custom-ops": held("tests/compiler/test_custom_operators.py::test_the_commands_take_a_library"),
}  # fmt: skip
_EMBEDDED = held("tests/compiler/test_hostile_files.py::test_the_page_of_a_command_takes_files_by_an_option")
_SHARED: dict[str, Entry] = {
    "--deadline": does("--deadline 0.000001"),
    "--target": does("--target trn1"),
    "--lnc": does("--lnc 2"),
    "--progress": does("--progress"),
    "--grid": refused("--grid 2"),
    **_OF_MODELS,
}
_SCHEDULING: dict[str, Entry] = {
    "--set": does("--set timing.v3.constant.hbm_sustained_gb_s=30"),
    "--tables": does("--tables tables.toml"),
    "--compiler": does("--compiler neuronx-cc"),
}
_EXECUTING: dict[str, Entry] = {
    "--input": does("-i x=128x64:float32:randn(2)"), "--no-execute": does("--no-execute"),
}  # fmt: skip

FORMS = [
    Form(
        "run",
        "k.py:scale",
        {
            **_SHARED,
            **_SCHEDULING,
            **_EXECUTING,
            "--json": does("--json"),
            "--save-outputs": does("--save-outputs made"),
            "--save-program": does("--save-program p.otrn"),
            "--scheduled": does("--scheduled", "--save-program p.txt"),
            "--pad": refused("--pad batch"),
            "--seed": refused("--seed 3"),
            "--no-time": does("--no-time"),
        },
    ),
    Form("run", "k.py:counted -i n=tall.npy", {"--loop-limit": does("--loop-limit 3")}),
    Form("run", "k.py:counted --no-execute", {"--loop-iterations": does("--loop-iterations 9")}),
    Form("run", "k.py:asks", {"--eager": does("--eager")}),
    Form("run", "k.py:asserts", {"--traceback": does("--traceback")}),
    Form("run", "k.py:hole", {"--uninitialised": does("--uninitialised fill")}),
    Form("run", "k.py:total", {"--ranks": does("--ranks 2")}),
    Form("run", "k.py:parts", {"--grid": does("--grid 4")}),
    Form("run", "k.py:many", {"--disable-dge": does("--disable-dge")}),
    Form("run", "k.py:lost", {"--strict": does("--strict 0.1")}),
    Form(
        "run",
        "k.py:rounds",
        {
            "--enable-stochastic-rounding": does("--enable-stochastic-rounding"),
            "--seed": does("--seed 3", "--enable-stochastic-rounding"),
        },
    ),
    Form(
        "profile",
        "k.py:scale",
        {
            **_SHARED,
            **_SCHEDULING,
            "--html": does("--html page.html"),
            "--embed-source": _EMBEDDED,
            "--perfetto": does("--perfetto trace.json"),
            "--json": does("--json p.json"),
            "--lines": does("--lines 1"),
            "--depth": refused("--depth 1"),
        },
    ),
    Form("profile", "k.py:scale", {"--embed-source": refused("--embed-source tables.toml")}),
    Form(
        "profile",
        "k.py:counted",
        {
            "--input": does("-i n=tall.npy"),
            "--loop-limit": does("--loop-limit 3", "-i n=tall.npy"),
            "--loop-iterations": does("--loop-iterations 9", "--no-execute"),
        },
    ),
    Form("profile", "k.py:asks", {"--eager": does("--eager")}),
    Form("profile", "k.py:asserts", {"--traceback": does("--traceback")}),
    Form(
        "profile", "k.py:hole", {"--no-execute": does("--no-execute"), "--uninitialised": does("--uninitialised fill")}
    ),
    Form("profile", "k.py:total", {"--ranks": does("--ranks 2")}),
    Form("profile", "k.py:parts", {"--grid": does("--grid 4")}),
    Form("profile", "k.py:many", {"--disable-dge": does("--disable-dge")}),
    Form("profile", "k.py:lost", {"--strict": does("--strict 0.1")}),
    Form(
        "profile",
        "saved.otrn",
        {
            "--target": does("--target trn1"),
            **_SCHEDULING,
            **_OF_MODELS,
            "--input": refused("-i x=3"),
            "--strict": refused("--strict 0.6"),
            "--loop-limit": refused("--loop-limit 3"),
            "--enable-stochastic-rounding": refused("--enable-stochastic-rounding"),
            "--grid": refused("--grid 2"),
            "--ranks": refused("--ranks 2"),
            "--eager": refused("--eager"),
            "--uninitialised": refused("--uninitialised fill"),
            "--depth": refused("--depth 2"),
        },
    ),
    Form(
        "disasm",
        "k.py:scale",
        {
            "--deadline": does("--deadline 0.000001"),
            "--lnc": does("--lnc 2"),
            "--progress": does("--progress"),
            "--grid": refused("--grid 2"),
            **_OF_MODELS,
            "--input": does("-i x=128x64:bfloat16:ones"),
            "--scheduled": does("--scheduled"),
            "--set": refused("--set timing.v3.constant.hbm_sustained_gb_s=30"),
            "--tables": refused("--tables tables.toml"),
            "--compiler": refused("--compiler neuronx-cc"),
            "--disable-dge": refused("--disable-dge"),
            "--loop-iterations": refused("--loop-iterations 9"),
            "--eager": refused("--eager"),
            "--uninitialised": refused("--uninitialised fill"),
            "--loop-limit": refused("--loop-limit 9"),
            "--enable-stochastic-rounding": refused("--enable-stochastic-rounding"),
            # It says what disasm does anyhow.
            "--no-execute": held("tests/cli/test_options.py::test_disasm_computes_no_values"),
        },
    ),
    Form(
        "disasm",
        "k.py:scale --scheduled",
        {
            "--target": does("--target trn1"),
            "--compiler": does("--compiler neuronx-cc"),
            "--set": fails("--set timing.v3.constant.nothing=3"),
            "--tables": fails("--tables k.py"),
        },
    ),
    Form("disasm", "k.py:asserts", {"--traceback": does("--traceback")}),
    Form("disasm", "k.py:total", {"--ranks": does("--ranks 2")}),
    Form("disasm", "k.py:parts", {"--grid": does("--grid 4")}),
    Form("disasm", "k.py:lost", {"--strict": does("--strict 0.1")}),
    Form("disasm", "k.py:many --scheduled", {"--disable-dge": does("--disable-dge")}),
    Form("disasm", "k.py:counted --scheduled", {"--loop-iterations": does("--loop-iterations 9")}),
    Form(
        "disasm",
        "saved.otrn",
        {
            **_OF_MODELS,
            "--target": refused("--target trn1"),
            "--lnc": refused("--lnc 2"),
            "--scheduled": refused("--scheduled"),
            "--set": refused("--set timing.v3.constant.hbm_sustained_gb_s=30"),
            "--tables": refused("--tables tables.toml"),
            "--compiler": refused("--compiler nki"),
            "--disable-dge": refused("--disable-dge"),
            "--loop-iterations": refused("--loop-iterations 3"),
            "--input": refused("-i x=3"),
            "--strict": refused("--strict 0.6"),
            "--grid": refused("--grid 2"),
            "--ranks": refused("--ranks 2"),
            "--eager": refused("--eager"),
            "--loop-limit": refused("--loop-limit 3"),
        },
    ),
]
