"""Tests that the device `neuron` computes, keeps and tells what torch's devices do."""

from __future__ import annotations

import copy
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import opentrn.torch  # noqa: E402
from conformance.torch_device import foreach  # noqa: E402
from conformance.torch_device import run as conformance  # noqa: E402
from opentrn.errors import InputError  # noqa: E402

# The list of names that public programs call (docs/pytorch.md).
NAMES = """
is_available device_count current_device set_device synchronize get_device_name get_device_properties
is_bf16_supported get_amp_supported_dtype Stream Event stream current_stream default_stream set_stream device
manual_seed manual_seed_all seed initial_seed get_rng_state set_rng_state get_rng_state_all set_rng_state_all
empty_cache memory_allocated max_memory_allocated memory_reserved memory_stats memory_summary
reset_peak_memory_stats is_initialized init _is_in_bad_fork"""


def test_the_module_has_the_names_that_programs_call() -> None:
    assert [name for name in NAMES.split() if not hasattr(torch.neuron, name)] == []
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.neuron.get_device_name() == "trn2"


def test_training_in_eager_mode_has_the_losses_of_the_cpu() -> None:
    torch.manual_seed(0)
    host = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    )
    device = copy.deepcopy(host).to("neuron")
    x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
    losses: dict[str, list[float]] = {}
    for model in (host, device):
        place = next(model.parameters()).device
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(5):
            loss = torch.nn.functional.cross_entropy(model(x.to(place)), y.to(place))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.setdefault(place.type, []).append(loss.item())
    assert losses["neuron"] == pytest.approx(losses["cpu"], rel=1e-5)


def test_later_steps_compile_nothing_and_keep_nothing() -> None:
    from opentrn.torch.eager import compiler

    parameter = torch.nn.Parameter(torch.randn(4, 4, device="neuron"))
    optimizer = torch.optim.Adam([parameter], lr=1e-3)
    seen = []
    for _ in range(60):
        optimizer.zero_grad()
        (parameter * parameter).sum().backward()
        optimizer.step()
        seen.append((len(compiler.PLANS), torch.neuron.memory_allocated()))
    assert seen[5:] == [seen[5]] * 55


@pytest.mark.parametrize("view", ["t", "slice", "expand", "channels_last"])
def test_views_are_read_and_written_where_they_lie(view: str) -> None:
    of: Any = {
        "t": lambda x: x.permute(2, 0, 1, 3), "slice": lambda x: x[:, 1:, ::2],
        "expand": lambda x: x[:1].expand(4, -1, -1, -1),
        "channels_last": lambda x: x.to(memory_format=torch.channels_last),
    }[view]  # fmt: skip
    x = torch.randn(2, 3, 4, 5)
    host, device = of(x), of(x.to("neuron"))
    assert torch.equal((device * 2 + 1).cpu(), host * 2 + 1)
    assert (device * 2).stride() == (host * 2).stride()
    if view != "expand":
        device.mul_(3)
        assert torch.equal(device.cpu(), host.mul_(3))


def test_printing_a_tensor_runs_nothing_on_the_device(capfd) -> None:
    numbers = torch.randn(5, 7)
    for x in (numbers, numbers.to(torch.bfloat16), torch.arange(5), numbers > 0, numbers[0, 0], torch.randn(40, 40)):
        there = x.to("neuron")
        before = torch.neuron.simulated_time_us()
        plain = "".join(repr(there).split()).replace(",device='neuron:0'", "")
        assert plain == "".join(repr(x).split())
        assert torch.neuron.simulated_time_us() == before
    said = capfd.readouterr().err
    assert "runs on the host" not in said and "64-bit" not in said


def test_memory_is_counted_and_ends() -> None:
    before = torch.neuron.memory_allocated()
    x = torch.empty(1 << 20, device="neuron")
    assert torch.neuron.memory_allocated() - before == 4 << 20
    with pytest.raises(torch.OutOfMemoryError, match=r"neuron:0 is out of memory: 4096 GiB .* of HBM"):
        torch.empty(1 << 40, device="neuron")
    del x
    assert torch.neuron.memory_allocated() == before
    assert torch.neuron.memory_stats()["num_ooms"] >= 1


def test_the_generators_state_is_real_where_tensors_are_fake() -> None:
    """Activation checkpoints of traced programs keep it. It ended the process."""
    script = (
        "import torch, opentrn.torch\n"
        "torch.neuron.manual_seed(3)\n"
        "with torch._subclasses.fake_tensor.FakeTensorMode():\n    state = torch.neuron.get_rng_state()\n"
        "print(type(state).__name__, torch.equal(state, torch.neuron.get_rng_state()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.split() == ["Tensor", "True"], done.stderr[-500:]


def test_random_numbers_come_from_the_devices_generator() -> None:
    torch.neuron.manual_seed(3)
    state = torch.neuron.get_rng_state()
    first, second = torch.randn(2000, device="neuron"), torch.randn(2000, device="neuron")
    torch.neuron.set_rng_state(state)
    assert torch.equal(first, torch.randn(2000, device="neuron"))
    assert not torch.equal(first, second)
    assert abs(first.mean().item()) < 0.1 and abs(first.std().item() - 1) < 0.1


@pytest.mark.parametrize(
    "draw",
    [
        lambda on, generator: torch.randperm(64, generator=generator, device="neuron"),
        lambda on, generator: torch.multinomial(on, 20, generator=generator),
        lambda on, generator: torch.poisson(3 * on, generator=generator),  # on the host
        lambda on, generator: torch.binomial(8 * on, on / 2, generator=generator),  # on the host
    ],
)
def test_a_generator_of_the_device_is_taken_by_every_op_that_draws(draw: Any) -> None:
    generator, on = torch.Generator("neuron"), torch.ones(64, device="neuron")
    first, second = (draw(on, generator.manual_seed(7)).cpu() for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, draw(on, generator).cpu())


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpointed_block_draws_the_same_numbers_again(use_reentrant: bool) -> None:
    dropout, x = torch.nn.Dropout(0.5), torch.ones(64, device="neuron", requires_grad=True)
    y = checkpoint(dropout, x, use_reentrant=use_reentrant)
    torch.rand(8, device="neuron")  # numbers that the program draws between the two runs of the block
    y.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, y)


def test_numbers_that_an_op_overwrites_may_be_anything() -> None:
    # Memory that torch.empty gives holds any 64 bits; the core has 32 of them.
    x = torch.full((3,), 1 << 62).to("neuron")
    assert x.fill_(7).tolist() == [7, 7, 7]
    mask = torch.tensor([True, False, True]).to("neuron")
    for _ in range(20):
        junk = torch.full((1,), 1 << 61)  # of the size of the 0 that `where` makes on the device
        del junk
        assert torch.where(mask, 0, x).tolist() == [0, 7, 0]
    with pytest.raises(InputError, match="does not fit the 32 bits"):
        torch.full((3,), 1 << 62).to("neuron") + 1


def test_conjugate_and_negative_views_are_copied_as_what_they_show() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    on = x.to("neuron")
    assert torch.equal(on.conj().clone().cpu(), x.conj().resolve_conj())
    assert torch.equal(on.conj().imag.clone().cpu(), x.conj().imag.resolve_neg())
    assert torch.equal(on.conj().cpu(), x.conj().resolve_conj())


def test_events_measure_simulated_time() -> None:
    x = torch.randn(256, 256, device="neuron")
    x @ x
    events = [torch.neuron.Event(enable_timing=True) for _ in range(3)]
    events[0].record()
    x @ x
    events[1].record()
    for _ in range(10):
        x @ x
    events[2].record()
    once, ten = events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2])
    assert once > 26e-3, "milliseconds, with the launch"
    assert ten == pytest.approx(10 * once)


def test_files_autocast_and_compiled_graphs_stay_on_the_device(tmp_path: Path) -> None:
    x = torch.randn(3, 4, device="neuron")
    torch.save(x, tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt").device == x.device
    assert torch.load(tmp_path / "x.pt", map_location="cpu").device.type == "cpu"
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert (x @ x.t()).dtype == torch.bfloat16
    compiled = torch.compile(lambda x: torch.tanh(x) + 1, backend="neuron")
    before = torch.neuron.simulated_time_us()
    y = compiled(x)
    assert y.device == x.device and torch.neuron.simulated_time_us() > before
    assert torch.allclose(y, torch.tanh(x) + 1)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda x: x + torch.ones(4), "Expected all tensors to be on the same device"),
        (lambda x: x @ x, "mat1 and mat2 shapes cannot be multiplied"),
        (lambda x: x.to("neuron:9"), "neuron:9 is not a device: there is 1"),
        (lambda x: torch.normal(0, 1, (3,), device="neuron", generator=torch.Generator()), "neuron"),
    ],
)
def test_errors_are_torchs_own(action: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        action(torch.randn(3, 4, device="neuron"))


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.TransformerEncoderLayer])
def test_layers_have_values_and_gradients_of_the_cpu(kind: Any) -> None:
    torch.manual_seed(0)
    host = kind(4, 4) if kind is not torch.nn.TransformerEncoderLayer else kind(4, 2, 8, 0.0)
    device, x = copy.deepcopy(host).to("neuron"), torch.randn(3, 2, 4)
    for model, given in ((host, x), (device, x.to("neuron"))):
        result = model(given)
        (result[0] if isinstance(result, tuple) else result).square().sum().backward()
    for a, b in zip(host.parameters(), device.parameters()):
        assert torch.allclose(a.grad, b.grad.cpu(), rtol=1e-4, atol=1e-4)


def test_a_sleep_takes_time_of_the_current_stream() -> None:
    """Streams that wait for each other take the sum, others the longer."""
    side, events = torch.Stream(), [torch.Event(enable_timing=True) for _ in range(2)]
    events[0].record()
    side.wait_event(events[0])
    with torch.neuron.stream(side):
        torch.neuron._sleep(3_000_000)
    torch.neuron._sleep(2_000_000)
    torch.neuron.current_stream().wait_stream(side)
    torch.neuron._sleep(1_000_000)
    events[1].record()
    assert events[0].elapsed_time(events[1]) == pytest.approx(4.0, rel=1e-3)
    with pytest.raises(opentrn.errors.InputError, match="-1 cycles"):
        torch.neuron._sleep(-1)


@pytest.mark.parametrize("rate", [0.1, torch.tensor(0.1), torch.tensor([0.1])], ids=str)
def test_a_fused_optimizer_reads_a_rate_of_the_host(rate: float | torch.Tensor) -> None:
    """As for CUDA; a tensor of one dimension was refused as one of another device."""
    weights = []
    for device in ("cpu", "neuron"):
        weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).to(device))
        optimizer = torch.optim.Adam([weight], lr=rate, fused=True)
        for _ in range(2):
            optimizer.zero_grad()
            weight.square().sum().backward()
            optimizer.step()
        weights.append(weight.detach().cpu())
    torch.testing.assert_close(*weights)


def test_an_op_without_a_program_is_named_or_refused() -> None:
    script = "import torch, opentrn.torch; print(torch.arange(4, device='neuron').nonzero().shape)"
    run = [sys.executable, "-c", script]
    told = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "aten::nonzero runs on the host" in told.stderr and "[3, 1]" in told.stdout
    strict = subprocess.run(run, capture_output=True, text=True, env={**os.environ, "OPENTRN_STRICT": "1"})
    assert strict.returncode and "NoDeviceForm" in strict.stderr


def test_numbers_of_64_bits_are_told_once_an_op_and_not_once_a_shape() -> None:
    script = "import torch, opentrn.torch\nfor n in (2, 3, 4): torch.ones(n, dtype=torch.int64, device='neuron') * 3"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr
    assert [line for line in told.splitlines() if "aten::mul" in line and "64-bit" in line][1:] == [], told
    assert "aten::mul" in told


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool, torch.complex64])
def test_torch_equal_is_a_program_of_the_core(dtype: torch.dtype) -> None:
    one = torch.arange(-8, 8).reshape(4, 4).to(dtype).to("neuron")
    other = one.clone()
    with opentrn.profile_program() as profile:
        assert torch.equal(one, other)
    assert "1 program runs" in str(profile) or "2 program runs" in str(profile)
    other[3, 3] = 0
    assert not torch.equal(one, other)
    assert not torch.equal(one, one[:2]) and torch.equal(one[:0], other[:0])
    if dtype.is_floating_point:
        other.copy_(one)[0, 0] = math.nan
        assert not torch.equal(other, other)


def test_torch_equal_of_64_bits_is_the_hosts_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    """A core would take the first two for the same."""
    one = torch.tensor([1, 2**40 + 1]).to("neuron")
    assert not torch.equal(one, torch.tensor([1, 1]).to("neuron")) and torch.equal(one, one.clone())
    assert "aten::equal runs on the host" in capfd.readouterr().err
    with pytest.raises(RuntimeError, match="of one type on one device"):
        torch.equal(one, one.cpu())


def test_importing_torch_brings_the_device() -> None:
    """As the entry point torch.backends calls it, in a process that imports nothing else of ours."""
    script = (
        "import torch; from opentrn.autoload import torch_device as load; load(); "
        "print(torch.ones(2).to('neuron').device)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "neuron:0\n", done.stderr


def test_several_cores_threads_and_a_forked_process() -> None:
    script = """
import os, threading, torch, opentrn.torch
a, b = torch.ones(3, device="neuron:0"), torch.ones(3, device="neuron:1", requires_grad=True)
(b * 2).sum().backward()
assert b.grad.device == torch.device("neuron:1")
try:
    a + b
except RuntimeError as error:
    assert "neuron:0 and neuron:1" in str(error)
with torch.neuron.device(1):
    assert torch.empty(1, device="neuron").device.index == 1
assert torch.neuron.current_device() == 0
if (child := os.fork()) == 0:
    ok = torch.equal((a * 3 + torch.arange(3, device="neuron")).cpu(), torch.tensor([3., 4., 5.]))
    os._exit(0 if ok else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    environment = {**os.environ, "NEURON_RT_NUM_CORES": "2"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_threads_share_programs() -> None:
    x, found = torch.randn(16, 16, device="neuron"), []

    def work() -> None:
        found.append(torch.stack([(x @ x + i).sum() for i in range(20)]).cpu())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and all(torch.equal(found[0], each) for each in found)


@pytest.mark.parametrize(
    "name", ["addcdiv", "gather", "nn.functional.layer_norm", "nn.functional.conv2d", "cat", "var"]
)
def test_samples_of_torchs_database(name: str) -> None:
    op = next(op for op in conformance.compiled.ops([name], False))
    row = conformance.run_op(op, torch.float32, 2, False)
    assert row.get("passed") and not row.get("failed"), row["reason"]


@pytest.mark.parametrize("name", ["_foreach_addcdiv", "_foreach_norm", "_foreach_copy", "_foreach_zero"])
def test_samples_of_torchs_database_of_lists(name: str) -> None:
    op = next(op for op in foreach.database() if op.name == name)
    row = foreach.run_foreach(op, torch.float32, 2)
    assert row.get("passed") and not row.get("failed"), row["reason"]


def test_a_wrong_value_fails_the_conformance_run(monkeypatch: pytest.MonkeyPatch) -> None:
    op = next(op for op in conformance.compiled.ops(["add"], False))
    real = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: real(self) + 1)
    assert conformance.run_op(op, torch.float32, 1, False).get("failed")
    assert conformance.run_op(op, torch.complex64, 1, False, "lazy").get("failed")
    lists = next(op for op in foreach.database() if op.name == "_foreach_add")
    assert foreach.run_foreach(lists, torch.float32, 1).get("failed") == 2  # with a new list, and in place


def test_tensors_and_parameters_move_and_stay_the_same_objects() -> None:
    model = torch.nn.Linear(4, 2)
    model(torch.ones(1, 4)).sum().backward()
    weight = model.weight
    kept = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("neuron")
    assert model.weight is weight and weight.grad is not None
    assert weight.device.type == weight.grad.device.type == "neuron"
    before = weight.detach().cpu()
    kept.step()
    assert torch.equal(model.cpu().weight, before - 1)
    lazy = torch.nn.LazyConv1d(3, 2).to("neuron")
    assert lazy(torch.ones(1, 2, 4, device="neuron")).shape == (1, 3, 3)
    values = torch.ones(3)
    values.data = values.to("neuron")
    assert (values + values).cpu().tolist() == [2, 2, 2]


def test_whole_random_numbers_are_drawn_on_the_device() -> None:
    torch.manual_seed(0)
    drawn = torch.randint(2, 8, (4, 200), device="neuron")
    assert sorted(set(drawn.flatten().tolist())) == [2, 3, 4, 5, 6, 7]
    torch.manual_seed(0)
    assert torch.equal(torch.randint(2, 8, (4, 200), device="neuron"), drawn)
    assert set(torch.empty(200, device="neuron").random_(3).tolist()) == {0.0, 1.0, 2.0}
    assert torch.empty(200, dtype=torch.int8, device="neuron").random_(100, None).min() >= 100


def test_memory_may_be_promised_to_a_stream() -> None:
    stream, x = torch.neuron.Stream(), torch.ones(3, device="neuron")
    with torch.neuron.stream(stream):
        y = x + 1
    x.record_stream(stream)
    del x
    assert y.tolist() == [2, 2, 2]


def test_a_storage_stays_on_its_core_when_it_is_resized() -> None:
    x = torch.arange(4.0, device="neuron")
    storage = x.untyped_storage()
    storage.resize_(8)
    assert storage.nbytes() == 8 and x[:2].tolist() == [0, 1]
    storage.resize_(0)
    assert storage.device == x.device
    x.set_(torch.ones(2, device="neuron"))
    assert x.tolist() == [1, 1]


FREED = """
import resource
import torch
import opentrn.torch

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.empty(16 << 20, device="neuron").fill_(1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
kept = faults()
torch.neuron.empty_cache()
print(kept, faults(), (64 << 20) // resource.getpagesize())
"""


def test_freed_memory_is_used_again() -> None:
    """Large blocks, which the C library gives back to the system; empty_cache() does that too.

    In a process of its own: the C library may have room that earlier tests left.
    """
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept, emptied, pages = map(int, done.stdout.split())
    assert kept < pages / 4  # the mask of what is written, a bit for a byte, is made anew: an eighth of them
    assert (
        emptied > pages / 4 or b"[always]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_bytes()
    )
