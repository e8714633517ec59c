"""Custom C++ operators of torch_neuronx: built from an author's kernels and shape functions, beside torch's own ops."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
import opentrn.torch  # noqa: E402
from opentrn import custom_op as times  # noqa: E402
from opentrn.errors import InputError, NkiValidationError  # noqa: E402
from opentrn.torch.gpsimd import load, load_library  # noqa: E402

SOURCES = Path(__file__).with_name("custom_operators")
HEAD = "#include <torch/torch.h>\n"


def write(folder: Path, kernels: str, shapes: str) -> tuple[list[Path], list[Path]]:
    (folder / "kernel.cpp").write_text(kernels)
    (folder / "shape.cpp").write_text(shapes)
    return [folder / "kernel.cpp"], [folder / "shape.cpp"]


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    folder = tmp_path_factory.mktemp("ops")
    load("ours", [SOURCES / "kernels.cpp"], [SOURCES / "shapes.cpp"], build_directory=folder)
    assert (folder / "libours.so").exists()
    yield torch.ops.opentrn_ops


@pytest.fixture(scope="module")
def multicore() -> Iterator[object]:
    load("multicore", [SOURCES / "multicore.cpp"], [str(SOURCES / "multicore_shapes.cpp")], multicore=True)
    yield torch.ops.opentrn_multicore


def test_operators_give_the_same_on_the_cpu_in_eager_mode_and_compiled(ops) -> None:
    x, grad = torch.randn(5, 7), torch.randn(5, 7)
    for name, arguments, wanted in (
        ("relu_forward", (x,), x.relu()),
        ("relu_backward", (grad, x.t().contiguous().t()), grad * (x > 0)),
        ("negate", (torch.arange(3000.0),), -torch.arange(3000.0)),
        ("scaled", (x, 0.1, -3, 1.5), x * torch.tensor(0.1) - 4.5),
    ):
        op = getattr(ops, name)
        on_device = [each.to("neuron") if isinstance(each, torch.Tensor) else each for each in arguments]
        torch.testing.assert_close(op(*arguments), wanted)
        eager = op(*on_device)
        assert eager.device.type == "neuron"
        torch.testing.assert_close(eager.cpu(), wanted)
        compiled = torch.compile(lambda *given, op=op: op(*given) * 2, backend="neuron", fullgraph=True)
        torch.testing.assert_close(compiled(*on_device).cpu(), wanted * 2)
        torch.testing.assert_close(compiled(*arguments), wanted * 2)


def test_floats_of_16_bits_are_rounded_as_torch_rounds(ops) -> None:
    bits = torch.arange(1 << 16, dtype=torch.int32)
    near = [(bits << 16).view(torch.float32), bits.to(torch.int16).view(torch.float16).float()]
    every = torch.cat([part + d for part in near for d in (0, 1e-8, 3e-5)] + [part * (1 + 2**-11) for part in near])
    for op, dtype in ((ops.to_half, torch.float16), (ops.to_bfloat16, torch.bfloat16)):
        got, wanted = op(every), every.to(dtype)
        assert got.dtype == dtype
        assert torch.equal(got.isnan(), wanted.isnan())
        kept = ~wanted.isnan()
        assert torch.equal(got[kept].view(torch.int16), wanted[kept].view(torch.int16))


FUNCTIONS: tuple[Callable, ...] = (
    lambda a, b: a.abs(), lambda a, b: a.ceil(), lambda a, b: a.floor(), lambda a, b: a.sin(), lambda a, b: a.cos(),
    lambda a, b: a.tan(), lambda a, b: b.log(), lambda a, b: b.log2(), lambda a, b: b.log10(), lambda a, b: a.exp(),
    lambda a, b: b**1.5, lambda a, b: 2**a, lambda a, b: b**a, lambda a, b: a.clamp(-0.5, 0.75),
    lambda a, b: a + 3 * b, lambda a, b: a - 4, lambda a, b: a / b, lambda a, b: a & b, lambda a, b: a | 12,
    lambda a, b: 12 & b, lambda a, b: ~a, lambda a, b: a - b, lambda a, b: 3 * torch.eye(*a.shape, dtype=a.dtype),
)  # fmt: skip
WHOLE = (17, 18, 19, 20)
FLOATS = (*range(1, 13), 13, 16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int8, torch.uint8])
def test_the_tensor_library_computes_what_torch_computes(ops, dtype) -> None:
    if dtype.is_floating_point:
        a, b = torch.randn(6, 5).to(dtype), (torch.rand(6, 5) + 0.25).to(dtype)
    else:
        a, b = torch.randint(0, 20, (6, 5), dtype=dtype), torch.randint(0, 20, (6, 5), dtype=dtype)
    for which, function in enumerate(FUNCTIONS):
        if which in (WHOLE if dtype.is_floating_point else FLOATS):
            if which != 13:
                with pytest.raises(InputError, match="it takes (whole numbers|floats)"):
                    ops.function(a, b, which)
            continue
        # In float32, rounded once.
        wanted = function(a.float(), b.float()).to(dtype) if dtype.is_floating_point else function(a, b)
        torch.testing.assert_close(ops.function(a, b, which), wanted, msg=lambda text, at=which: f"{at}: {text}")


@pytest.mark.parametrize(
    ("which", "says"),
    [
        (0, r"the kernel returns float32\[3, 4, 5\] and the shape function float32\[6\]"),
        (1, r"a stream is opened on a tensor that another open stream writes"),
        (2, "a stream goes past its tensor's 6 elements"),
        (3, "an accessor of int32 on a tensor of float32"),
        (4, "place 6 of 6"),
        (5, "tcm_malloc.. gives null where its 16 KB are used"),
        (6, "tcm_free.. got memory that tcm_malloc.. did not give"),
        (7, "copies 2 elements from 5 on; the tensor has 6"),
        (8, r"add: sizes \[6\] and \[1\]; there is no broadcasting"),
        (9, "a new tensor needs its dtype"),
    ],
)
def test_what_the_guide_rules_out_is_an_error_on_the_cpu_and_on_the_device(ops, which, says) -> None:
    with pytest.raises(InputError, match=f"opentrn_ops::mistake: .*{says}"):
        ops.mistake(torch.zeros(6), which)
    with pytest.raises(NkiValidationError, match=says):
        ops.mistake(torch.zeros(6, device="neuron"), which)


def test_what_the_guide_allows_is_no_error(ops) -> None:
    x = torch.ones(6)
    for which in (10, 11):
        assert torch.equal(ops.mistake(x, which), torch.zeros(6))
    assert ops.mistake(x, 12).tolist() == [7, 1, 1, 1, 1, 1]
    assert x.tolist() == [1] * 6, "an operand is a value"


def test_an_operator_has_a_derivative_where_its_author_says_it(ops) -> None:
    class Relu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.ops.opentrn_ops.relu_forward(x)

        @staticmethod
        def backward(ctx, grad):
            return torch.ops.opentrn_ops.relu_backward(grad, ctx.saved_tensors[0])

    first, second = torch.nn.Linear(7, 9).to("neuron"), torch.nn.Linear(9, 3).to("neuron")
    x = torch.randn(4, 7).to("neuron")

    def ours(x):
        return second(Relu.apply(first(x))).square().sum()

    parameters = [*first.parameters(), *second.parameters()]
    wanted = torch.autograd.grad(second(first(x).relu()).square().sum(), parameters)
    for function in (ours, torch.compile(ours, backend="neuron", fullgraph=True)):
        for got, want in zip(torch.autograd.grad(function(x), parameters), wanted):
            torch.testing.assert_close(got.cpu(), want.cpu())


def test_its_time_is_what_its_author_says_and_none_without(ops, capfd) -> None:
    y = torch.zeros(3, device="neuron")
    before = torch.neuron.simulated_time_us()
    for _ in range(2):
        ops.to_half(y)  # which no other test calls on the device
    assert torch.neuron.simulated_time_us() == before
    said = capfd.readouterr().err
    assert said.count("how long the custom operator 'opentrn_ops::to_half' takes is not known") == 1
    assert "custom_op.set_time()" in said
    times.set_time("opentrn_ops::relu_forward", ns=50_000)
    x = torch.zeros(128, 3, device="neuron")  # a class of its own: programs keep the time that they are made with
    ops.relu_forward(x)
    before = torch.neuron.simulated_time_us()
    ops.relu_forward(x)
    assert torch.neuron.simulated_time_us() - before >= 50


def test_each_core_runs_a_kernel_with_multicore(multicore) -> None:
    x = torch.arange(64.0)
    for place in ("cpu", "neuron"):
        assert torch.equal(multicore.ids(x.to(place)).cpu(), x + 100 * (torch.arange(64) // 8))
    with pytest.raises(InputError, match="writes its result to get_dst_tensor"):
        multicore.returns(x)
    with pytest.raises(InputError, match="accessors of elements are for one core"):
        multicore.reads(x)


def test_operands_of_other_types_are_refused(ops) -> None:
    with pytest.raises(InputError, match="custom C.. operators have no float64"):
        ops.relu_forward(torch.zeros(2, 2, dtype=torch.float64))
    with pytest.raises(InputError, match="operand of rank 9; Neuron's limit is 8"):
        ops.scaled(torch.zeros([1] * 9), 1.0, 1, 1)


ONE = "torch::Tensor kernel(const torch::Tensor& t) { return t; }"
DEFINES = "torch::Tensor shape(torch::Tensor t) { return t; }\nNEURON_LIBRARY(opentrn_wrong, m) { %s }"
REGISTER = '#include "torchneuron/register.h"\n'


@pytest.mark.parametrize(
    ("kernels", "shapes", "says"),
    [
        (ONE, DEFINES % 'm.def("a", &shape, "kernl");', "compute_srcs have no kernel kernl.*; there is kernel$"),
        ("static " + ONE, DEFINES % 'm.def("a", &shape, "kernel");', "is not static; there is none"),
        ("float kernel(float x) { return x; }", DEFINES % 'm.def("a", &shape, "kernel");', "there is none"),
        (ONE.replace("& t", "& t, double x"), DEFINES % 'm.def("a", &shape, "kernel");', "have different parameters"),
        (ONE, DEFINES % "".join(f'm.def("a{i}", &shape, "kernel");' for i in range(11)), "more than 10 operators"),
        (ONE, "", "no source has NEURON_LIBRARY"),
        (
            ONE,
            DEFINES.replace("Tensor t)", "Tensor t, int x)") % 'm.def("a", &shape, "kernel");',
            "an operator takes torch::Tensor, torch::Scalar, double and int64_t",
        ),
        (ONE + "}", "", r"does not compile:\n(.|\n)*kernel.cpp:2"),
    ],
)  # fmt: skip
def test_sources_that_do_not_fit_together_are_refused(tmp_path: Path, kernels: str, shapes: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load("wrong", *write(tmp_path, HEAD + kernels, HEAD + REGISTER + shapes))


def test_names_and_files_that_cannot_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("")
    for name in ("builtin", "../x", ""):
        with pytest.raises(InputError, match="cannot be named"):
            load(name, [tmp_path / "a.cpp"], [tmp_path / "a.cpp"])
    with pytest.raises(InputError, match="compute_srcs: there is no file"):
        load("x", [tmp_path / "b.cpp"], [tmp_path / "a.cpp"])
    with pytest.raises(InputError, match="shape_srcs has no file"):
        load("x", [tmp_path / "a.cpp"], [])
    with pytest.raises(InputError, match="is not a library of custom operators"):
        load_library(tmp_path / "a.cpp")


def test_a_library_is_loaded_by_another_process_under_awss_names(
    ops, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "c++ -DSTATED=1")
    shapes = DEFINES.replace("wrong", "small") % 'm.def("a", &shape, "kernel");'
    load("small", *write(tmp_path, HEAD + ONE, HEAD + REGISTER + shapes), tmp_path)
    program = (
        "import opentrn; opentrn.activate(); import torch, torch_neuronx\n"
        "from torch_neuronx.xla_impl import custom_op\n"
        "custom_op.load_library('libsmall.so')\n"
        "print(torch.ops.opentrn_small.a(torch.ones(3).to('neuron')).sum().item())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(opentrn.torch.__file__).parents[2])},
    )  # fmt: skip
    assert done.stdout == "3.0\n", done.stderr
