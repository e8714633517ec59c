"""What PyTorch's own device tests (conformance/torch_suite) found wrong on the device."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")
import opentrn.torch  # noqa: E402, F401


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.float32])
def test_geometric_numbers_of_every_type(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    drawn = torch.empty(20_000, dtype=dtype, device="neuron").geometric_(0.5).cpu()
    for trials in (1, 2, 3):  # five standard deviations, 0.018 at most
        assert abs((drawn == trials).double().mean() - 0.5**trials) < 0.018
    assert drawn.min() == 1


@pytest.mark.parametrize("name", ["cummin", "cummax"])
def test_running_extremes_of_views_and_into_views(name: str) -> None:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).t()[:, ::2]
    extreme = getattr(torch, name)
    wanted = extreme(x, 0)
    held = torch.zeros(12, 3, device="neuron")
    values, places = held[::2, :2], torch.zeros(12, 2, dtype=torch.int64, device="neuron")[::2]
    leaf = x.to("neuron").requires_grad_()
    found = extreme(leaf, 0)
    found.values.sum().backward()
    extreme(leaf.detach(), 0, out=(values, places))
    for each in (found, (values, places)):
        torch.testing.assert_close([part.detach().cpu() for part in each], list(wanted))
    assert held[1::2].count_nonzero() == 0 and held[:, 2].count_nonzero() == 0
    assert leaf.grad.sum() == 12


def test_a_number_is_copied_to_a_place() -> None:
    place, number = torch.tensor(0, device="neuron"), torch.tensor(3.0, device="neuron")
    assert torch.zeros(1, device="neuron").index_copy(0, place, number).cpu().tolist() == [3]


def test_a_complex_number_in_real_ones_is_refused_as_torch_does() -> None:
    x, at = torch.zeros(3, dtype=torch.int16, device="neuron"), torch.tensor([0], device="neuron")
    with pytest.raises(RuntimeError, match="complex Scalar to non-complex"):
        x.index_fill_(0, at, 1j)


def test_attention_lies_in_memory_as_its_operands_do() -> None:
    given = [torch.randn(2, 6, 4, 8, device="neuron").transpose(1, 2).requires_grad_() for _ in range(3)]
    out = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True)
    torch.autograd.backward(out, torch.randn(2, 4, 6, 8, device="neuron"))
    found = [out.stride(), *(torch.ops.opentrn.attention_backward(out, *given, None, out, True, 1.0)[i].stride()
                             for i in range(3))]  # fmt: skip
    assert found == [given[0].stride()] * 4


def test_a_mask_of_bytes_chooses_as_on_the_cpu() -> None:
    x, mask = torch.randn(5, 3), torch.tensor([1, 0, 1, 1, 0], dtype=torch.uint8)
    with pytest.warns(UserWarning, match="torch.uint8"):
        found = x.to("neuron")[mask.to("neuron")]
    torch.testing.assert_close(found.cpu(), x[mask.bool()])


@pytest.mark.parametrize(
    "call",
    [
        lambda place: torch.zeros(5, 5, device=place)[[0, 1], [0, 1, 2]],
        lambda place: torch.zeros(5, 5, device=place).__setitem__(([0, 1], [0, 1, 2]), 0),
        lambda place: torch.rand([], device=place).index_put([], torch.tensor([1.0], device=place), True),
        lambda place: torch.ones(2, 2, device=place).rot90(1, [0, -3]),
    ],
)
def test_wrong_calls_raise_what_the_cpu_raises(call: Any) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011  (whatever the CPU raises)
        call("cpu")
    with pytest.raises(type(expected.value)) as found:
        call("neuron")
    assert type(found.value) is type(expected.value) and str(found.value) == str(expected.value)


def test_a_number_of_the_host_is_no_place_for_a_result() -> None:
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.nonzero(torch.ones(3, device="neuron"), out=torch.empty([], dtype=torch.long))


def test_the_default_type_is_part_of_a_calls_class() -> None:
    x = torch.arange(1, 4, device="neuron")
    assert (x / 2).dtype == torch.float32
    torch.set_default_dtype(torch.float16)
    try:
        assert (x / 2).dtype == torch.float16
    finally:
        torch.set_default_dtype(torch.float32)


def test_tensors_of_one_memory_are_set_to_one_another() -> None:
    x = torch.zeros(3, 4, device="neuron")
    y = torch.empty(0, device="neuron").set_(x)
    assert y.is_set_to(x) and not y.is_set_to(x.t()) and not x.is_set_to(torch.zeros(3, 4, device="neuron"))


def test_new_memory_is_filled_where_results_have_to_be_the_same() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(5, device="neuron").isnan().all()
        assert (torch.empty(5, dtype=torch.int8, device="neuron") == 127).all()
        x = torch.zeros(2, device="neuron").resize_(5)
        assert x[:2].tolist() == [0, 0] and x[2:].isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_elements_that_share_memory_are_filled() -> None:
    x = torch.empty_strided((2, 3), (0, 1), device="neuron")
    assert x.fill_(4).tolist() == [[4, 4, 4]] * 2 and x.zero_().tolist() == [[0, 0, 0]] * 2
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(1)


def test_a_lazy_copy_is_read_without_becoming_one() -> None:
    x = torch.arange(4.0, device="neuron")
    y = torch._lazy_clone(x)
    assert (y + 1).tolist() == [1, 2, 3, 4] and torch._C._is_cow_tensor(y)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.div(x, 2, out=torch.empty(3, dtype=torch.int16, device=x.device)),
        lambda x: torch.exp(x, out=torch.empty(3, dtype=torch.int64, device=x.device)),
        lambda x: torch.zeros(3, 2, device=x.device).__setitem__((slice(None), [1]), x.unsqueeze(-1)),
    ],
)
def test_results_go_into_types_that_take_them(call: Any) -> None:
    x = torch.arange(3)
    with pytest.raises(RuntimeError) as expected:
        call(x)
    with pytest.raises(RuntimeError) as found:
        call(x.to("neuron"))
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_training_writes_running_statistics(dtype: torch.dtype, momentum: float | None) -> None:
    torch.manual_seed(1)
    ours, theirs = torch.nn.BatchNorm2d(3, momentum=momentum).to("neuron"), torch.nn.BatchNorm2d(3, momentum=momentum)
    for _ in range(2):
        x = torch.randn(4, 3, 5, 5).add(2).to(dtype)
        found, wanted = ours(x.to("neuron")), theirs(x)
    close = {"rtol": 1e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(found.cpu(), wanted, **close)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(ours, name).cpu(), getattr(theirs, name), rtol=1e-5, atol=1e-6)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x.to("neuron")).cpu(), theirs(x), **close)
    assert (ours.running_mean.cpu() - theirs.running_mean).abs().max() < 1e-5


def test_instances_write_running_statistics_and_have_gradients() -> None:
    torch.manual_seed(1)
    x = torch.rand(4, 5, 9)
    results = []
    for place in ("cpu", "neuron"):
        norm = torch.nn.InstanceNorm1d(5, affine=True, track_running_stats=True).to(place)
        leaf = x.clone().to(place).detach().requires_grad_()
        (norm(leaf) ** 3).sum().backward()
        results.append([each.cpu() for each in (norm.running_mean, norm.running_var, leaf.grad, norm.weight.grad)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ends", [(0.3, 1.4), (0.9, 1.2), (-7, 9)])
def test_whole_numbers_lie_between_whole_ends(ends: tuple[float, float]) -> None:
    found = torch.linspace(*ends, 9, dtype=torch.int64, device="neuron")
    assert found.tolist() == torch.linspace(*ends, 9, dtype=torch.int64).tolist()


def test_running_statistics_are_written_beside_out() -> None:
    """The schema of native_batch_norm.out says of its results alone that they are written."""
    x = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))
    kept = {}
    for place in ("cpu", "neuron"):
        running = torch.zeros(3, device=place), torch.ones(3, device=place)
        results = torch.empty(4, 3, 5, device=place), torch.empty(3, device=place), torch.empty(3, device=place)
        given = torch.native_batch_norm(x.to(place), None, None, *running, True, 0.1, 1e-5, out=results)
        assert [each.data_ptr() for each in given] == [each.data_ptr() for each in results]
        kept[place] = [each.cpu() for each in (*running, *results)]
    torch.testing.assert_close(kept["neuron"], kept["cpu"])


@pytest.mark.parametrize("counted", [True, False])
def test_the_ops_of_synchronised_batch_norm(counted: bool) -> None:
    """Two halves of a batch, as two ranks have them, give what the whole batch gives; the CPU has no such ops."""
    torch.manual_seed(0)
    x, grad, weight, bias = torch.randn(6, 3, 4), torch.randn(6, 3, 4), torch.rand(3), torch.randn(3)
    wanted_running = torch.zeros(3), torch.ones(3)
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias)]
    wanted = torch.nn.functional.batch_norm(leaves[0], *wanted_running, *leaves[1:], True, 0.1, 1e-5)
    wanted.backward(grad)

    split = [2, 4] if counted else [3, 3]
    halves, grads = x.to("neuron").split(split), grad.to("neuron").split(split)
    weight, bias = weight.to("neuron"), bias.to("neuron")
    running = torch.zeros(3, device="neuron"), torch.ones(3, device="neuron")
    own = [torch.batch_norm_stats(half, 1e-5) for half in halves]
    means, deviations = (torch.stack(each) for each in zip(*own))
    counts = torch.tensor([4.0 * part for part in split], device="neuron")
    how = means, deviations, *running, 0.1, 1e-5
    mean, invstd = (
        torch.batch_norm_gather_stats_with_counts(halves[0], *how, counts) if counted
        else torch.batch_norm_gather_stats(halves[0], *how, 12)
    )  # fmt: skip
    found = torch.cat([torch.batch_norm_elemt(half, weight, bias, mean, invstd, 1e-5) for half in halves])
    sums = [
        torch.batch_norm_backward_reduce(dy, half, mean, invstd, weight, True, True, True)
        for dy, half in zip(grads, halves)
    ]
    of_all = [left + right for left, right in zip(*sums)]
    of_x = torch.cat([
        torch.batch_norm_backward_elemt(dy, half, mean, invstd, weight, *of_all[:2], counts.int())
        for dy, half in zip(grads, halves)
    ])  # fmt: skip
    torch.testing.assert_close([each.cpu() for each in (found, *running)], [wanted.detach(), *wanted_running])
    torch.testing.assert_close([each.cpu() for each in (of_x, *of_all[2:])], [each.grad for each in leaves])


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("hardswish", torch.nn.functional.hardswish),
        ("batch_norm", lambda x: torch.nn.functional.batch_norm(x, None, None, training=True)),
        ("group_norm", lambda x: torch.nn.functional.group_norm(x, 3)),
        ("convolution", lambda x: torch.nn.functional.conv2d(x, torch.ones(4, 3, 3, 3, device=x.device))),
        ("reflection", lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1), "reflect")),
        ("replication", lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1), "replicate")),
        ("replication_3d", lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1, 1, 1), "replicate")),
        ("reflection_3d", lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1, 1, 1), "reflect")),
        ("max_pool3d", lambda x: torch.nn.functional.max_pool3d(x, 2, return_indices=True)[0]),
    ],
)
def test_channels_last_is_kept_where_the_cpu_keeps_it(name: str, call: Any) -> None:
    shape = (2, 3, 4, 6, 6) if name.endswith("3d") else (2, 3, 6, 6)
    form = torch.channels_last_3d if name.endswith("3d") else torch.channels_last
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(memory_format=form)
    found, wanted = call(x.to("neuron")), call(x)
    assert found.stride() == wanted.stride() != torch.empty(wanted.shape).stride()
    torch.testing.assert_close(found.cpu(), wanted)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(2, 3), (), (0,)])
def test_bits_with_a_bool_of_python(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    for form in (
        lambda v: v | True, lambda v: v & False, lambda v: True ^ v, lambda v: v.bitwise_or(True),
        lambda v: v.clone().__iand__(True), lambda v: v.clone().bitwise_xor_(True),
    ):  # fmt: skip
        torch.testing.assert_close(form(x.to("neuron")).cpu(), form(x))


@pytest.mark.parametrize("values", [[], [1, 2, 3], [1, 2, 3, 4, 5], [1.5, 2.5, 3.5, 4.5], [[1, 2, 3, 4, 5]]])
def test_values_that_do_not_fit_a_mask_are_refused_as_on_the_cpu(values: list) -> None:
    """They were taken, the last one again and again."""

    def put(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        x[x > -1] = given
        return x

    x, given = torch.arange(4), torch.tensor(values)
    with pytest.raises(RuntimeError) as wanted:
        put(x, given)
    with pytest.raises(RuntimeError, match=re.escape(str(wanted.value))):
        put(x.to("neuron"), given.to("neuron"))
    if values not in ([], [1.5, 2.5, 3.5, 4.5]):  # types are torch's own to refuse in a graph
        with pytest.raises(RuntimeError, match="shape mismatch"):
            torch.compile(put, backend="neuron")(x, given)


def test_a_masks_places_take_no_more_than_the_source_has() -> None:
    x, mask = torch.zeros(2, 3), torch.tensor([True, False, True])

    def put(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return x.masked_scatter(mask.to(x.device), source)

    for count, fits in ((4, True), (7, True), (3, False)):
        source = torch.arange(float(count))
        for function, place in ((put, "neuron"), (torch.compile(put, backend="neuron"), "cpu")):
            if fits:
                assert torch.equal(function(x.to(place), source.to(place)).cpu(), put(x, source))
            else:
                with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
                    function(x.to(place), source.to(place))


@pytest.mark.parametrize("accumulate", [False, True])
def test_a_tensor_of_the_host_is_refused_among_values(accumulate: bool) -> None:
    """It ended the process: only indices become the device's."""
    x, places = torch.zeros(5, device="neuron"), torch.tensor([0, 1])
    with pytest.raises(RuntimeError, match="at least two devices, neuron:0 and cpu"):
        x.index_put_((places,), torch.ones(2), accumulate=accumulate)
    assert x.index_put((places,), torch.ones(2, device="neuron")).tolist() == [1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [(torch.float64, torch.float32), (torch.int64, torch.int32), (torch.complex128, torch.complex64)],
)
def test_copies_into_another_type_see_negative_and_conjugate_views(wide: torch.dtype, narrow: torch.dtype) -> None:
    """They copied what lies in memory."""

    def copies(place: str) -> list[Any]:
        x = (torch.arange(1, 6) * (1 + 2j)).to(narrow).to(place)
        y = torch.empty(5, dtype=wide, device=place)
        found = [y.copy_(x._neg_view()).tolist()]
        y._neg_view().copy_(x)
        found.append(y.tolist())
        y._neg_view().copy_(x._neg_view())
        found.append(y.tolist())
        if narrow.is_complex:
            found.append(y.copy_(x.conj()).tolist())
            y.conj().copy_(x)
            found += [y.tolist(), x.conj().imag.to(torch.float64).tolist(), x.conj().to(wide).tolist()]
        return found

    assert copies("neuron") == copies("cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("name", ["arange", "linspace", "logspace", "range"])
def test_numbers_in_order_are_written_into_a_view_of_another_shape(name: str, dtype: torch.dtype) -> None:
    """They filled the first elements of its memory."""

    def made(place: str) -> list[Any]:
        x = torch.zeros(2, 3, dtype=dtype, device=place)
        ends = {"arange": (4,), "linspace": (0, 3, 4), "logspace": (0, 3, 4, 2), "range": (0, 3)}[name]
        getattr(torch, name)(*ends, out=x.narrow(1, 1, 2))
        return x.tolist()

    assert made("neuron") == made("cpu")


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.mm(*torch.ones(2, 2, 2, device=d), out=torch.empty(2, 2, device=d).long()),
        lambda d: torch.cat([torch.ones(2, device=d)], out=torch.empty(2, dtype=torch.int32, device=d)),
        lambda d: torch.neg(torch.ones(2, device=d), out=torch.empty(2, dtype=torch.bool, device=d)),
        lambda d: torch.amax(torch.ones(2, device=d), 0, out=torch.empty([], device=d).long()),
        lambda d: torch.complex(*torch.ones(2, 2, device=d), out=torch.empty(2, device=d).long()),
        lambda d: torch.cummax(torch.ones(2, device=d), 0, out=(torch.empty(2, device=d).long(),) * 2),
        lambda d: torch.kthvalue(torch.ones(2, device=d), 1, out=(torch.empty([], device=d).long(),) * 2),
        lambda d: torch.heaviside(*torch.ones(2, 2, device=d), out=torch.empty(2, device=d).long()),
        lambda d: torch.histc(torch.ones(2, device=d), 2, 0, 1, out=torch.empty(2, device=d).long()),
        lambda d: torch.addbmm(*torch.ones(1, 2, 2, device=d), *torch.ones(2, 1, 2, 2, device=d),
                               out=torch.empty(2, 2, device=d).long()),  # fmt: skip
        lambda d: torch.sort(torch.ones(2, device=d), out=(torch.empty(2, device=d).long(),) * 2),
        lambda d: torch.gather(
            torch.ones(2, device=d), 0, torch.zeros(1, device=d).long(), out=torch.empty(1, device=d).int()
        ),
        lambda d: torch.floor(torch.ones(2, dtype=torch.complex64, device=d)),
        lambda d: torch.clamp(torch.ones(2, dtype=torch.complex64, device=d), 0, 1),
        lambda d: torch.rand(2, dtype=torch.int32, device=d),
        lambda d: torch.empty(2, device=d).uniform_(3, 1),
        lambda d: torch.empty(2, device=d).bernoulli_(1.5),
        lambda d: torch.empty(2, device=d).normal_(0, -1),
        lambda d: torch.empty(2, dtype=torch.uint8, device=d).random_(-5, 300),
        lambda d: torch.empty(2, device=d).exponential_(-1),
    ],
)
def test_types_and_limits_that_torch_refuses_are_refused(call: Any) -> None:
    """They were taken: numbers of other types than the results', and draws between limits the wrong way round."""
    with pytest.raises((RuntimeError, TypeError)) as wanted:
        call("cpu")
    with pytest.raises(type(wanted.value), match=re.escape(str(wanted.value)[:40])):
        call("neuron")


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.zeros(3, device=d).masked_scatter_(
            torch.ones(2, 3, dtype=torch.bool, device=d), torch.arange(6.0, device=d)
        ),
        lambda d: (lambda x: x.put_(torch.tensor([2, 1, 0], device=d), x[:3]))(torch.rand(6, device=d)),
    ],
    ids=["a wider mask", "a source in the same memory"],
)
def test_writes_in_place_that_torch_refuses_are_refused(call: Any) -> None:
    """The tensor took the mask's size; the source was read while it was written."""
    with pytest.raises(RuntimeError) as wanted:
        call("cpu")
    with pytest.raises(RuntimeError, match=re.escape(str(wanted.value)[:12])):
        call("neuron")


def test_one_number_has_one_place() -> None:
    number = torch.tensor(3.0, device="neuron")
    assert number.index_select(0, torch.tensor([0], device="neuron")).item() == 3
    with pytest.raises(IndexError, match=r"Index to scalar can have only 1 value, got 2 value\(s\)"):
        number.index_select(0, torch.tensor([0, 0], device="neuron"))


@pytest.mark.parametrize(
    "numbers",
    [
        [-200.0, -150, 0, -5, 100, 50],
        [0.0, -20, -40],
        [float("-inf"), float("-inf"), 1, float("inf"), 2],
        [1.0, float("nan"), 2],
        [complex(-200, 1), complex(-150, 3), complex(0.5, -2), complex(80, 1)],
    ],
    ids=["far apart", "far below", "infinite", "none", "complex"],
)
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_running_log_sums_are_relative_to_what_they_sum(numbers: list[Any], is_compiled: bool) -> None:
    """They were relative to the greatest of all: the first of -200 and 100 came out as -inf."""
    x = torch.tensor(numbers)

    def run(each: Any) -> Any:
        return each.logcumsumexp(0)

    found = torch.compile(run, backend="neuron")(x) if is_compiled else run(x.to("neuron")).cpu()
    wide = torch.complex128 if x.is_complex() else torch.float64
    torch.testing.assert_close(found.to(wide), run(x.to(wide)), rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", ["cummax", "cummin", "max", "sort", "sum"])
def test_any_byte_but_zero_is_true(name: str) -> None:
    m = torch.tensor([[2, 0, 255], [1, 4, 0]], dtype=torch.uint8).view(torch.bool)
    function = getattr(torch, name)
    for wanted, found in (
        (function(m, 1), function(m.to("neuron"), 1)), (function(m.t(), 1), function(m.to("neuron").t(), 1)),
        (function(m[:, ::2], 1), function(m.to("neuron")[:, ::2], 1)),
    ):  # fmt: skip
        pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
        if name in ("max", "sort"):  # of equal elements torch leaves open which
            pairs = list(pairs)[:1]
        for of_cpu, of_device in pairs:
            assert of_device.cpu().tolist() == of_cpu.tolist()


def test_unsigned_numbers_of_64_bits_are_compared_with_numbers() -> None:
    assert (torch.tensor([1, 2], dtype=torch.uint64, device="neuron") == 2).cpu().tolist() == [False, True]


def test_powers_of_a_complex_zero() -> None:
    zero = torch.zeros(5, dtype=torch.complex64, device="neuron")
    found = zero.pow(torch.tensor([0, 1 + 2j, -1, 2j, -1j], dtype=torch.complex64, device="neuron")).cpu()
    assert found[:2].tolist() == [1, 0] and torch.view_as_real(found[2:]).isnan().all()  # as NumPy has them


@pytest.mark.parametrize("dtype", [torch.int16, torch.int64, torch.float32, torch.bool])
@pytest.mark.parametrize("shape", [(), (5,), (3, 17)])
def test_modes_are_a_program(shape: tuple[int, ...], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    x = torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    wanted, found = torch.mode(x, -1, True), torch.mode(x.to("neuron"), -1, True)
    assert found.values.cpu().tolist() == wanted.values.tolist()
    if x.dim():  # which of the places is open
        assert x.gather(-1, found.indices.cpu()).tolist() == wanted.values.tolist()
    held = torch.empty(0, dtype=dtype, device="neuron"), torch.empty(0, dtype=torch.int64, device="neuron")
    torch.mode(x.to("neuron"), -1, True, out=held)
    assert held[0].cpu().tolist() == wanted.values.tolist()


def test_modes_of_numbers_that_are_none_and_their_gradients() -> None:
    x = torch.tensor([1.0, float("nan"), float("nan"), 2.0, 2.0], device="neuron").requires_grad_()
    found = torch.mode(x)
    found.values.backward()
    assert (found.values.item(), found.indices.item()) == (2, 4) and x.grad.cpu().tolist() == [0, 0, 0, 0, 1]


def test_outer_products_of_whole_numbers_take_no_fractions() -> None:
    m, v = torch.ones(2, 3, dtype=torch.int32, device="neuron"), torch.ones(3, dtype=torch.int32, device="neuron")
    with pytest.raises(RuntimeError, match="beta must not be a floating point number"):
        torch.addr(m, m[:, 0], v, beta=0.5)
    assert torch.addr(m, m[:, 0], v, beta=2, alpha=3).cpu().tolist() == [[5] * 3] * 2


def test_ops_without_whole_numbers_refuse_them_as_the_cpu_does() -> None:
    x = torch.ones(3, dtype=torch.int32, device="neuron")
    with pytest.raises(NotImplementedError, match="\"lerp_kernel_scalar\" not implemented for 'Int'"):
        torch.lerp(x, x, 0.5)
    image = torch.ones(1, 1, 4, 4, dtype=torch.int16, device="neuron")
    with pytest.raises(NotImplementedError, match="not implemented for 'Short'"):
        torch.nn.functional.interpolate(image, size=(2, 2), mode="bilinear", antialias=True)
    assert (x + x).cpu().tolist() == [2, 2, 2]


@pytest.mark.parametrize("permuted", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_results_of_views_with_gaps_keep_the_order_of_their_dimensions(permuted: tuple[int, ...]) -> None:
    x = torch.arange(48.0).view(2, 3, 8)[:, :, ::2].permute(permuted)
    y = torch.arange(48.0).to("neuron").view(2, 3, 8)[:, :, ::2].permute(permuted)
    for op in (torch.exp, torch.neg, lambda each: each + each, lambda each: each.cumsum(0), lambda each: each.sum(1)):
        wanted, found = op(x), op(y)
        assert found.stride() == wanted.stride()
        torch.testing.assert_close(found.cpu(), wanted)


@pytest.mark.parametrize(
    ("op", "count", "words"), [(torch.complex, 2, "ComplexFloat"), (torch.isposinf, 1, "non-boolean outputs")]
)
def test_results_of_another_type_than_the_operands_have_that_type(op: Any, count: int, words: str) -> None:
    given = [torch.rand(4, device="neuron")] * count
    with pytest.raises(RuntimeError, match=words):
        op(*given, out=torch.empty(4, device="neuron"))
    of_its_type = torch.empty(4, dtype=op(*given).dtype, device="neuron")
    assert torch.equal(op(*given, out=of_its_type).cpu(), op(*[each.cpu() for each in given]))


@pytest.mark.parametrize("name", ["fmod", "remainder", "pow"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_number_beside_a_tensor_of_16_bits_is_rounded_first(name: str, dtype: torch.dtype) -> None:
    x, op = torch.linspace(0.5, 20, 300).to(dtype), getattr(torch, name)
    calls = [lambda x: op(x, 2.3)] + [lambda x: op(2.3, x / 4)] * (name != "fmod")  # torch has no fmod of a number
    for call in calls:
        wanted = call(x)
        torch.testing.assert_close(call(x.to("neuron")).cpu(), wanted, rtol=0.004 if name == "pow" else 0, atol=0)
        assert name != "pow" or (call(x.to("neuron")).cpu() == wanted).float().mean() > 0.97


def _with_numbers(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wide = torch.full((), 2.3, device=x.device)
    return (
        x * 2.3, 0.3 * x, x / 2.3, x * 301, x + 2.3, 2.3 - x, x - 0.7, x * wide, wide * x, x / wide, x + wide,
        torch.add(x, y, alpha=1.7), torch.sub(x, y, alpha=1.7), torch.rsub(x, y, alpha=0.3),
        torch.add(x, 2.3, alpha=1.7), x.clone().mul_(0.1), x.clone().add_(y, alpha=-0.01),
        *torch._foreach_mul([x, y], 1.1),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_numbers_beside_tensors_of_16_bits_are_pytorchs(dtype: torch.dtype, is_compiled: bool) -> None:
    """In products and quotients they are float32's, in sums those of the type. The CPU takes what is left of whole
    vectors otherwise: there is nothing left of 3,072 elements."""
    torch.manual_seed(0)
    x, y = torch.randn(2, 3072).to(dtype)
    call = torch.compile(_with_numbers, backend="neuron") if is_compiled else _with_numbers
    for made, wanted in zip(call(x.to("neuron"), y.to("neuron")), _with_numbers(x, y), strict=True):
        assert torch.equal(made.cpu(), wanted)


@pytest.mark.parametrize("name", ["nansum", "all", "any"])
def test_results_of_a_type_that_torch_does_not_give_are_refused(name: str) -> None:
    place = torch.empty((), dtype=torch.int64 if name == "nansum" else torch.int8, device="neuron")
    with pytest.raises(RuntimeError, match="not implemented for 'Long'|only supports bool tensor for result"):
        getattr(torch, name)(torch.ones(3, device="neuron"), 0, out=place)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("sizes", [{"scale_factor": 2}, {"scale_factor": 1.5}, {"size": 7}, {"size": 2}])
def test_gradients_of_nearest_interpolation_are_programs(
    mode: str, sizes: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    for shape in ((2, 3, 5), (2, 3, 5, 4), (1, 2, 3, 4, 5)):
        found = []
        for place in ("cpu", "neuron"):
            x = torch.arange(float(torch.Size(shape).numel())).reshape(shape).to(place).requires_grad_()
            out = torch.nn.functional.interpolate(x, mode=mode, **sizes)
            (out * torch.arange(float(out.numel())).reshape(out.shape).to(place)).sum().backward()
            found.append(x.grad.cpu())
        torch.testing.assert_close(*found)
    assert "runs on the host" not in capfd.readouterr().err


@pytest.mark.parametrize("layer", [
    lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1), mode="replicate"),
    lambda x: torch.nn.functional.pixel_unshuffle(x, 2),
    lambda x: torch.nn.functional.channel_shuffle(x, 2),
    lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
])  # fmt: skip
def test_channels_last_stay_last_through_layers_and_their_gradients(layer: Any) -> None:
    found = []
    for place in ("cpu", "neuron"):
        x = torch.arange(288.0).reshape(2, 4, 6, 6).to(place).to(memory_format=torch.channels_last)
        out = layer(x.requires_grad_())
        (given,) = torch.autograd.grad(out, x, torch.ones_like(out))
        found.append((out.stride(), given.stride()))
        assert out.is_contiguous(memory_format=torch.channels_last)
    assert found[0] == found[1]


def test_a_mask_of_bytes_warns_once_and_what_is_traced_does_not_warn(capfd: pytest.CaptureFixture[str]) -> None:
    x, mask = torch.ones(5, 6, device="neuron"), torch.tensor([1, 0, 1, 1, 0], dtype=torch.uint8, device="neuron")
    with pytest.warns(UserWarning, match="torch.uint8") as given:
        assert x[mask].shape == (3, 6)
    assert len(given) == 1
    assert "Warning" not in capfd.readouterr().err


@pytest.mark.parametrize("call", [
    lambda place: torch.nn.functional.relu(torch.ones(3, dtype=torch.bool, device=place)),
    lambda place: torch.var(torch.arange(6, device=place)),
    lambda place: torch.nansum(torch.ones(3, dtype=torch.complex64, device=place)),
    lambda place: torch.normal(1.0, torch.ones(3, dtype=torch.complex64, device=place)),
])  # fmt: skip
def test_types_that_torch_does_not_support_are_refused_in_its_words(call: Any) -> None:
    said = []
    for place in ("cpu", "neuron"):
        with pytest.raises((RuntimeError, TypeError)) as found:
            call(place)
        said.append(str(found.value))
    assert said[0] == said[1]


def test_limits_that_a_float_does_not_hold_are_warned_of_each_time() -> None:
    x = torch.empty(3, dtype=torch.float16, device="neuron")
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^11\), 2\^11\]"):
            x.random_(0, 2**12)
    with pytest.raises(RuntimeError, match="from is out of bounds for"):
        torch.empty(3, dtype=torch.int8, device="neuron").random_(-200, 5)


def test_numbers_without_a_sign_are_compared_and_filled() -> None:
    x = torch.tensor([1, 2, 5], dtype=torch.uint64, device="neuron")
    assert (x == x).cpu().tolist() == [True] * 3 and (x == 5).cpu().tolist() == [False, False, True]
    assert x.fill_(x[1].item()).cpu().tolist() == [2, 2, 2]


@pytest.mark.parametrize("op", [torch.add, torch.eq, torch.exp, torch.clamp_min, torch.maximum])
def test_out_that_is_given_its_size_lies_as_a_result_does(op: Any) -> None:
    for permutation in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        x = torch.randn(2, 3, 4).permute(permutation)
        operands = (x,) if op is torch.exp else (x, x * 2) if op is not torch.clamp_min else (x, x - 1)
        ours = [each.to("neuron").contiguous() for each in operands]
        ours = [torch.empty_strided(x.shape, x.stride(), device="neuron").copy_(each) for each in ours]
        wanted = op(*operands)
        made = op(*ours, out=torch.empty(0, dtype=wanted.dtype, device="neuron"))
        assert made.stride() == op(*ours).stride()
        torch.testing.assert_close(made.cpu(), wanted)


def test_cat_into_one_of_its_operands_is_refused() -> None:
    for shape in ((0,), (4, 6)):
        x, y = torch.zeros(shape, device="neuron"), torch.randn(4, 6, device="neuron")
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            torch.cat((x, y), out=x)


def test_a_histogram_of_what_is_not_finite_needs_limits() -> None:
    for value, said in ((float("inf"), r"range of \[1, inf\]"), (float("nan"), r"range of \[-?nan, -?nan\]")):
        x = torch.tensor([1.0, 2.0, value], device="neuron")
        with pytest.raises(RuntimeError, match=said):
            torch.histc(x)
        assert torch.histc(x, bins=4, max=3).cpu().tolist() == [0, 1, 1, 0]


def test_put_says_that_its_order_is_left_open() -> None:
    x, index = torch.zeros(3, device="neuron"), torch.tensor([1, 1], device="neuron")
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="put_ does not have a deterministic implementation"):
            x.put_(index, torch.ones(2, device="neuron"))
        assert x.put_(index, torch.ones(2, device="neuron"), accumulate=True).cpu().tolist() == [0, 2, 0]
    finally:
        torch.use_deterministic_algorithms(False)


def test_sequences_say_that_they_resize_out() -> None:
    with pytest.warns(UserWarning, match="is 4 .* computed number of elements 5.*will be resized"):
        assert torch.arange(5, out=torch.empty(4, dtype=torch.int64, device="neuron")).cpu().tolist() == [0, 1, 2, 3, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = torch.linspace(0, 1, 3, out=torch.empty(2, device="neuron"))
    assert made.cpu().tolist() == [0, 0.5, 1]


def test_whole_numbers_beyond_32_bits_between_ends_are_the_hosts() -> None:
    ends = -(2**62), 2**62
    made = torch.linspace(*ends, 5, dtype=torch.int64, device="neuron")
    assert torch.equal(made.cpu(), torch.linspace(*ends, 5, dtype=torch.int64))
