"""What a rank of tests/torch/test_process_group.py does with PyTorch's parallel layers; each against one CPU."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import opentrn.torch  # noqa: F401
from opentrn.torch import usage

CASES: dict[str, Callable[[DeviceMesh], None]] = {}


def case(function: Callable[[DeviceMesh], None]) -> Callable[[DeviceMesh], None]:
    CASES[function.__name__] = function
    return function


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def whole_batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(8, 8, generator=generator), torch.randn(8, 4, generator=generator)


def train(net: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int = 4) -> list[torch.Tensor]:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def close(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    torch.testing.assert_close([each.cpu() for each in found], wanted, rtol=2e-4, atol=2e-5)


@case
def fsdp2(mesh: DeviceMesh) -> None:
    x, y = whole_batch()
    net = model()  # fully_shard() moves it
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    rank, size = dist.get_rank(), dist.get_world_size()
    losses = train(net, x[rank::size].to("neuron"), y[rank::size].to("neuron"))
    for loss in losses:
        dist.all_reduce(loss, dist.ReduceOp.AVG)
    close(losses, train(model(), x, y))
    assert all(isinstance(each, DTensor) for each in net.parameters())


@case
def tensor_parallel(mesh: DeviceMesh) -> None:
    x, y = whole_batch()
    net = parallelize_module(model().to("neuron"), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    close(train(net, x.to("neuron"), y.to("neuron")), train(model(), x, y))


@case
def dtensor(mesh: DeviceMesh) -> None:
    x, _ = whole_batch()
    rows = distribute_tensor(x.to("neuron"), mesh, [Shard(0)])
    weight = distribute_tensor(x.t().contiguous().to("neuron"), mesh, [Replicate()])
    product = rows @ weight
    close([product.full_tensor(), rows.sum(0).full_tensor(), rows.redistribute(mesh, [Shard(1)]).full_tensor()],
          [x @ x.t(), x.sum(0), x])  # fmt: skip


@case
def functional(mesh: DeviceMesh) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        summed = funcol.all_reduce(torch.tanh(x), "sum", mesh.get_group())
        return funcol.all_gather_tensor(summed[:2] * 2, 0, mesh.get_group()) + 1

    rank, size = dist.get_rank(), dist.get_world_size()
    x, _ = whole_batch()
    wanted = sum(torch.tanh(x * (i + 1)) for i in range(size))[:2].repeat(size, 1) * 2 + 1
    given = (x * (rank + 1)).to("neuron")
    close([step(given), torch.compile(step, backend="neuron", fullgraph=True)(given)], [wanted, wanted])


def attend(given: list[torch.Tensor], **how: Any) -> list[torch.Tensor]:
    """Attention of the last three of `given`, and the gradients of them; the first is the result's gradient."""
    gradient, *leaves = given
    leaves = [each.detach().requires_grad_() for each in leaves]
    out = nn.functional.scaled_dot_product_attention(*leaves, **how)
    out.backward(gradient)
    return [out.detach(), *(each.grad for each in leaves)]


@case
def attention(mesh: DeviceMesh) -> None:
    generator = torch.Generator().manual_seed(2)
    given = [torch.randn(2, 4, 6, 8, generator=generator) for _ in range(4)]
    bias = torch.randn(1, 4, 6, 6, generator=generator)
    wanted, biased = attend(given, is_causal=True), attend(given, attn_mask=bias, scale=0.5)
    for placement in (Shard(0), Shard(1), Shard(2), Replicate()):
        parts = [distribute_tensor(each.to("neuron"), mesh, [placement]) for each in given]
        mask = distribute_tensor(bias.to("neuron"), mesh, [placement if placement == Shard(1) else Replicate()])
        with CommDebugMode() as heard:
            causal = attend(parts, is_causal=True)
            masked = attend(parts, attn_mask=mask, scale=0.5)
        if placement != Shard(2):  # a cut sequence is gathered; all else is of a rank's own
            assert heard.get_total_counts() == 0, heard.get_comm_counts()
            assert [each.placements for each in causal] == [(placement,)] * 4
        close([each.full_tensor() for each in causal], wanted)
        close([each.full_tensor() for each in masked], biased)
    turned = [distribute_tensor(each.transpose(1, 2).contiguous().to("neuron"), mesh, [Shard(2)]).transpose(1, 2)
              for each in given]  # fmt: skip
    rows = attend(turned, is_causal=True)[0].transpose(1, 2).reshape(2, 6, -1)  # a view, as of one device
    close([rows.full_tensor()], [wanted[0].transpose(1, 2).reshape(2, 6, -1)])


@case
def grouped_attention(mesh: DeviceMesh) -> None:
    """Four heads of queries over two groups of keys: cut by batch or heads nothing is sent."""
    generator = torch.Generator().manual_seed(2)
    given = [torch.randn(2, heads, 6, 8, generator=generator) for heads in (4, 4, 2, 2)]
    wanted = attend(given, is_causal=True, enable_gqa=True)
    for placement in (Shard(0), Shard(1), Replicate()):
        parts = [distribute_tensor(each.to("neuron"), mesh, [placement]) for each in given]
        with CommDebugMode() as heard:
            found = attend(parts, is_causal=True, enable_gqa=True)
        assert heard.get_total_counts() == 0, heard.get_comm_counts()
        close([each.full_tensor() for each in found], wanted)
    shared = [torch.randn(2, heads, 6, 8, generator=generator) for heads in (6, 6, 3, 3)]  # no whole groups on a rank
    parts = [distribute_tensor(each.to("neuron"), mesh, [Shard(1)]) for each in shared]
    found = attend(parts, is_causal=True, enable_gqa=True)
    close([each.full_tensor() for each in found], attend(shared, is_causal=True, enable_gqa=True))


@case
def attention_of_context_parallel(mesh: DeviceMesh) -> None:
    """torch's context_parallel(): each rank has rows of the sequence, and gave those of all ranks until now."""
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import context_parallel_unshard
    from torch.distributed.tensor.experimental._context_parallel import _attention

    generator = torch.Generator().manual_seed(6)
    given = [torch.randn(2, 2, 16, 8, generator=generator) for _ in range(4)]
    for is_causal in (True, False):
        wanted = attend(given, is_causal=is_causal)
        for is_balanced in (True, False):
            _attention._cp_options.enable_load_balance = is_balanced
            parts = [each.to("neuron") for each in given]
            with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 4, no_restore_buffers=set(parts)):
                found = attend(parts, is_causal=is_causal)
                assert {each.shape[2] for each in found} == {16 // mesh.size()}
                whole = context_parallel_unshard(mesh, found, [2] * 4)
            close(whole, wanted)
    _attention._cp_options.enable_load_balance = True


@case
def compiled_attention(mesh: DeviceMesh) -> None:
    generator = torch.Generator().manual_seed(2)
    given = [torch.randn(2, 4, 6, 8, generator=generator) for _ in range(4)]

    def causal(*qkv: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(*qkv, is_causal=True)

    run = torch.compile(causal, backend="neuron", fullgraph=True)
    parts = [distribute_tensor(each.to("neuron"), mesh, [Shard(1)]) for each in given]
    leaves = [each.detach().requires_grad_() for each in parts[1:]]
    out = run(*leaves)
    out.backward(parts[0])
    close([each.full_tensor() for each in (out.detach(), *(each.grad for each in leaves))],
          attend(given, is_causal=True))  # fmt: skip


def compiled(
    step: Callable[..., torch.Tensor], *given: torch.Tensor
) -> tuple[torch.Tensor, float, list[usage.Program]]:
    """What a compiled graph gives under OPENTRN_STRICT=1, simulated us of its second run, and its parts."""
    before, errors = set(usage._ALIVE), io.StringIO()
    os.environ["OPENTRN_STRICT"] = "1"
    with contextlib.redirect_stderr(errors):
        run = torch.compile(step, backend="neuron", fullgraph=True)
        run(*given)
        dist.barrier()
        torch.neuron.synchronize()
        began = torch.neuron.simulated_time_us()
        found = run(*given)
        took = torch.neuron.simulated_time_us() - began
    del os.environ["OPENTRN_STRICT"]
    assert "host" not in errors.getvalue(), errors.getvalue()
    return found, took, sorted((set(usage._ALIVE) - before), key=lambda program: program.name)


def parts_us(parts: list[usage.Program]) -> float:
    return sum(map(usage.on_stream_ns, parts)) / 1e3


@case
def collectives_in_a_graph(mesh: DeviceMesh) -> None:
    group, size = mesh.get_group(), dist.get_world_size()

    def in_turn(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(funcol.all_reduce(x * 2, "sum", group)) @ x

    def beside(x: torch.Tensor) -> torch.Tensor:
        return funcol.all_reduce(x * 2, "sum", group) + torch.tanh(x) @ x

    x = torch.randn(384, 384, generator=torch.Generator().manual_seed(0))
    found, turns_us, parts = compiled(in_turn, x.to("neuron"))
    close([found], [torch.tanh(x * 2 * size) @ x])
    assert [part.starts for part in parts] == [True, False], parts
    reduce_us = turns_us - parts_us(parts)
    assert reduce_us > 5, (turns_us, parts_us(parts))
    found, beside_us, parts = compiled(beside, x.to("neuron"))
    close([found], [x * 2 * size + torch.tanh(x) @ x])
    assert beside_us < parts_us(parts) + reduce_us - 1, (beside_us, parts_us(parts), reduce_us)


@case
def streams_of_two_groups_share_links(mesh: DeviceMesh) -> None:
    """Both reductions are under way at once on the same cores: each is slower than alone, and one group's are not."""
    one, other = mesh.get_group(), dist.new_group(list(range(dist.get_world_size())))
    x = torch.randn(1024, 1024, generator=torch.Generator().manual_seed(0))

    def reduced(*groups: Any) -> Callable[[torch.Tensor], torch.Tensor]:
        def step(x: torch.Tensor) -> torch.Tensor:
            return torch.stack([funcol.all_reduce(x + place, "sum", group) for place, group in enumerate(groups)])

        return step

    took = {}
    for name, groups in {"alone": [one], "in one": [one, one], "in two": [one, other]}.items():
        torch._dynamo.reset()
        found, took[name], parts = compiled(reduced(*groups), x.to("neuron"))
        close([found], [torch.stack([(x + i) * dist.get_world_size() for i in range(len(groups))])])
        took[name] -= parts_us(parts)
    # The second is 25 us behind the first, which one group has under way for 47 us.
    assert 1.2 * took["alone"] < took["in two"] <= took["in one"] + 1, took


@case
def gathers_of_weights_one_layer_early(mesh: DeviceMesh) -> None:
    """Each layer gathers its weight where it reads it; AWS's variable puts the gathers beside the layer before."""
    group, rank, size = mesh.get_group(), dist.get_rank(), dist.get_world_size()

    def step(x: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
        for part in parts:
            x = torch.tanh(x @ funcol.all_gather_tensor(part, 0, group))
        return x

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(512, 512, generator=generator)
    whole = [torch.randn(512, 512, generator=generator) / 23 for _ in range(5)]
    given = [x.to("neuron"), *(each.chunk(size)[rank].contiguous().to("neuron") for each in whole)]
    wanted = x
    for each in whole:
        wanted = torch.tanh(wanted @ each)
    took = {}
    for early in ("", "0", "1", "2"):
        if early:
            os.environ.update(NEURON_FSDP="1", NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT=early)
        torch._dynamo.reset()
        found, took[early], _ = compiled(step, *given)
        close([found], [wanted])
    for name in ("NEURON_FSDP", "NEURON_FSDP_NUM_LAYER_EARLY_AG_SHIFT"):
        del os.environ[name]
    assert abs(took["0"] - took[""]) < 0.1, took  # where the program asks for them
    assert took["1"] < took["0"] - 5, took
    assert took["2"] <= took["1"] + 1, took


@case
def compiled_tensor_parallel(mesh: DeviceMesh) -> None:
    x, y = whole_batch()
    net = parallelize_module(model().to("neuron"), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    close(train(torch.compile(net, backend="neuron"), x.to("neuron"), y.to("neuron"), 2), train(model(), x, y, 2))


@case
def compiled_ddp(_mesh: DeviceMesh) -> None:
    x, y = whole_batch()
    rank, size = dist.get_rank(), dist.get_world_size()
    net = nn.parallel.DistributedDataParallel(torch.compile(copy.deepcopy(model()).to("neuron"), backend="neuron"))
    losses = train(net, x[rank::size].to("neuron"), y[rank::size].to("neuron"), 2)
    for loss in losses:
        dist.all_reduce(loss, dist.ReduceOp.AVG)
    close(losses, train(model(), x, y, 2))


@case
def synchronised_batch_norm(_mesh: DeviceMesh) -> None:
    """Statistics of all ranks' values, running ones too, as one CPU with the whole batch has them."""
    net = nn.Sequential(nn.Conv1d(2, 3, 1, bias=False), nn.BatchNorm1d(3), nn.ReLU())  # a bias has no gradient
    torch.manual_seed(0)
    nn.init.normal_(net[0].weight)
    alone = copy.deepcopy(net)
    x, y = torch.randn(8, 2, 4), torch.randn(8, 3, 4)
    rank, size = dist.get_rank(), dist.get_world_size()
    net = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(net).to("neuron"))
    losses = train(net, x[rank::size].to("neuron"), y[rank::size].to("neuron"), 3)
    for loss in losses:
        dist.all_reduce(loss, dist.ReduceOp.AVG)
    close(losses, train(alone, x, y, 3))
    close([each.detach() for each in net.module.buffers()], list(alone.buffers()))


@case
def batch_norm_keeps_channels_last(_mesh: DeviceMesh) -> None:
    net = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm(3).to("neuron"))
    for form, shape in ((torch.channels_last, (2, 3, 4, 4)), (torch.channels_last_3d, (2, 3, 2, 4, 4))):
        x = torch.randn(shape).to("neuron").to(memory_format=form).requires_grad_()
        out = net(x)
        out.sum().backward()
        assert out.is_contiguous(memory_format=form) and x.grad is not None
        assert x.grad.is_contiguous(memory_format=form)


@case
def profiled_collectives(_mesh: DeviceMesh) -> None:
    """As of PyTorch's own groups: an event from each call to its end, with shapes, and the record of its sizes."""
    x, size = torch.ones(2, 3, device="neuron"), dist.get_world_size()
    with torch.profiler.profile(record_shapes=True) as profile:
        dist.all_reduce(x)
        work = dist.all_reduce(x, async_op=True)
        dist.all_gather_into_tensor(torch.empty(2 * size, 3, device="neuron"), x)
        work.wait()
    events = [each for each in profile.events() if each.name == "neuron:all_reduce"]
    assert [each.is_async for each in events] == [True, True], events
    assert [each.input_shapes for each in events] == [[[2, 3]], [[2, 3]]]
    assert [each.name for each in profile.events() if "gather" in each.name].count("neuron:_all_gather_base") == 1
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        rows = json.loads(Path(file.name).read_text())["traceEvents"]
    records = [row["args"] for row in rows if row.get("name") == "record_param_comms"]
    found = [(row["Collective name"], row.get("In msg nelems"), row.get("Group size")) for row in records]
    assert found.count(("allreduce", 6, size)) == 2 and ("_allgather_base", 6, size) in found, found


def main() -> None:
    dist.init_process_group("neuron")  # by its name: DDP of torch 2.13 asks for the default's
    mesh = init_device_mesh("neuron", (int(os.environ["WORLD_SIZE"]),))
    for name, function in CASES.items():
        if name not in (sys.argv[1:] or CASES):
            continue
        function(mesh)
        print(f"{name}: right on rank {dist.get_rank()}\n", end="", flush=True)  # one write: ranks share the pipe
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
