"""Exported programs with functional collectives: one rank's program, run by every device of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the programs are torch's")
import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as funcol  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

import opentrn  # noqa: E402
from opentrn.cli.commands import main  # noqa: E402
from opentrn.errors import InputError, NotModelled  # noqa: E402


@pytest.fixture
def ranks() -> Iterator[Callable[[int], Any]]:
    """Makes a default group of as many ranks, of which this process is the first and the others are not there."""

    def make(count: int) -> Any:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=count)
        return dist.group.WORLD

    yield make
    if dist.is_initialized():
        dist.destroy_process_group()


def exported(function: Callable[..., Any], *given: torch.Tensor) -> Any:
    module = torch.nn.Module()
    module.forward = function
    return torch.export.export(module, given)


def cut(whole: np.ndarray, count: int, axis: int = 0) -> list[np.ndarray]:
    return np.split(whole, count, axis)


# What each of four ranks has afterwards, of what all have: NumPy's words for each collective.
CASES: dict[str, tuple[Callable[..., torch.Tensor], Callable[[list[np.ndarray]], list[np.ndarray]]]] = {
    "sum": (lambda x, g: funcol.all_reduce(x, "sum", g), lambda all: [sum(all)] * 4),
    "avg": (lambda x, g: funcol.all_reduce(x, "avg", g), lambda all: [sum(all) / 4] * 4),
    "max": (lambda x, g: funcol.all_reduce(x, "max", g), lambda all: [np.maximum.reduce(all)] * 4),
    "gather": (lambda x, g: funcol.all_gather_tensor(x, 0, g), lambda all: [np.concatenate(all)] * 4),
    "gather 1": (lambda x, g: funcol.all_gather_tensor(x, 1, g), lambda all: [np.concatenate(all, 1)] * 4),
    "scatter": (lambda x, g: funcol.reduce_scatter_tensor(x, "sum", 0, g), lambda all: cut(sum(all), 4)),
    "scatter avg": (lambda x, g: funcol.reduce_scatter_tensor(x, "avg", 0, g), lambda all: cut(sum(all) / 4, 4)),
    "exchange": (lambda x, g: funcol.all_to_all_single(x, None, None, g),
                 lambda all: [np.concatenate([cut(each, 4)[rank] for each in all]) for rank in range(4)]),
    "broadcast": (lambda x, g: funcol.broadcast(x, 2, g), lambda all: [all[2]] * 4),
    "coalesced": (lambda x, g: sum(funcol.all_reduce_coalesced([x, 2 * x], "sum", g)),
                  lambda all: [3 * sum(all)] * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_collective_gives_every_rank_its_result(name: str, ranks: Callable[[int], Any]) -> None:
    ours, wanted = CASES[name]
    group = ranks(4)
    program = exported(lambda x: ours(x * 2, group) + 1, torch.zeros(8, 3))
    model = opentrn.compile(program, mesh="r=4", shardings=["x=r", "output0=r"])
    assert model.ports[0].shape == (32, 3)
    x = np.random.default_rng(0).integers(-8, 8, (32, 3)).astype(np.float32)
    np.testing.assert_array_equal(model(x)[0], np.concatenate(wanted(cut(x * 2, 4))) + 1)
    assert model.time().collectives_us > 0


def test_a_saved_layer_of_two_ranks_is_that_of_one(ranks: Callable[[int], Any], tmp_path: Any, capsys: Any) -> None:
    group = ranks(2)
    generator = torch.Generator().manual_seed(0)
    x, up, down = (torch.randn(shape, generator=generator) for shape in ((4, 8), (8, 6), (6, 8)))

    def rank(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:  # Megatron's cuts
        return funcol.all_reduce(torch.tanh(x @ up) @ down, "sum", group)

    path = tmp_path / "layer.pt2"
    torch.export.save(exported(rank, x, up[:, :3], down[:3]), path)
    dist.destroy_process_group()  # a file is read where nobody knows its groups
    for name, tensor in (("x", x), ("up", up), ("down", down)):
        np.save(tmp_path / f"{name}.npy", tensor.numpy())
    words = [f"--input={name}={tmp_path}/{name}.npy" for name in ("x", "up", "down")]
    cuts = ["--shard", "up=-,tp", "--shard", "down=tp"]
    assert main(["run", str(path), "--mesh", "tp=2", *cuts, *words, "--save-outputs", str(tmp_path / "out")]) == 0
    assert "all_reduce" in capsys.readouterr().out
    saved = np.load(tmp_path / "out" / "layer.0.npy")
    np.testing.assert_allclose(saved, (torch.tanh(x @ up) @ down).numpy(), rtol=1e-5, atol=1e-5)


def test_groups_are_along_axes_of_the_mesh(ranks: Callable[[int], Any]) -> None:
    ranks(4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    program = exported(
        lambda x: (funcol.all_reduce(x, "sum", mesh["dp"].get_group()),
                   funcol.all_reduce(x, "sum", mesh["tp"].get_group())), torch.zeros(2, 2),
    )  # fmt: skip
    model = opentrn.compile(program, mesh="dp=2,tp=2", shardings=["x=dp,tp", "output0=-,tp", "output1=dp"])
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    rows, columns = model(x)
    np.testing.assert_array_equal(rows, x[:2] + x[2:])
    np.testing.assert_array_equal(columns, x[:, :2] + x[:, 2:])


def test_results_that_are_not_the_same_everywhere_have_to_be_stated(
    ranks: Callable[[int], Any], tmp_path: Path
) -> None:
    group = ranks(2)
    program = exported(lambda x: funcol.all_reduce(x, "sum", group) - x, torch.zeros(2, 2))
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    model = opentrn.compile(program, mesh="r=2", shardings="x=r")
    for each in (model, opentrn.load(model.save(tmp_path / "m.neuron"))):
        with pytest.raises(InputError, match="output0 is taken to be the same") as caught:
            each(x)
        assert caught.value.label == "spmd.result"
    np.testing.assert_array_equal(opentrn.compile(program, mesh="r=2")(x[:2])[0], x[:2])
    both = opentrn.compile(program, mesh="r=2", shardings=["x=r", "output0=r"])(x)[0]
    np.testing.assert_array_equal(both, np.concatenate([x[2:], x[:2]]))


class Weights(torch.nn.Module):
    def __init__(self, group: Any) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return funcol.all_reduce(self.layer(x), "sum", self.group)


def test_what_no_mesh_can_run_is_refused_by_name(ranks: Callable[[int], Any]) -> None:
    group = ranks(4)
    x = torch.zeros(8, 4)
    program = torch.export.export(Weights(group), (x,))
    one_pair = dist.new_group([0, 3])
    odd = exported(lambda x: funcol.all_reduce(x, "sum", one_pair), x)
    uneven = exported(lambda x: funcol.all_to_all_single(x, [8, 0, 0, 0], [2, 2, 2, 2], group), x)
    mean = exported(lambda x: funcol.all_reduce(x.to(torch.int32), "avg", group), x)
    for given, options, label, says in (
        (program, {}, "torch.collective", "all_reduce.default is a collective between ranks"),
        (program, {"mesh": "r=2"}, "torch.group", "has 4 ranks, up to rank 3; the mesh r=2 has 2 devices"),
        (program, {"mesh": "r=4", "shardings": "layer.weight=r"}, "spmd.one_device", "its weights are that device's"),
        (program, {"mesh": "r=4", "shardings": "auto"}, "spmd.one_device", "nothing to choose"),
        (odd, {"mesh": "r=2,s=2"}, "spmd.group", r"ranks \[0, 3\] are no group of the mesh r=2,s=2"),
        (uneven, {"mesh": "r=4"}, "torch.no_emitter", r"sends \[2, 2, 2, 2\] rows and receives \[8, 0, 0, 0\]"),
        (mean, {"mesh": "r=4"}, "torch.no_emitter", "takes the mean of torch.int32"),
    ):
        with pytest.raises((InputError, NotModelled), match=says) as caught:
            opentrn.compile(given, **options)
        assert caught.value.label == label
    group_of_another = torch.export.export(Weights(one_pair), (x,))
    dist.destroy_process_group()
    with pytest.raises(InputError, match="this process has no such group"):
        opentrn.compile(group_of_another, mesh="r=4")
