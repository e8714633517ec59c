"""What the backend cannot do is an exception in the user's Python, with the line and what to try."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the backend is torch's")

import opentrn.torch  # noqa: E402, F401


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def type_of_a_result(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float8_e8m0fnu)  # line


def type_of_an_argument(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.float32) + 1  # line


def one_value_too_large(x: torch.Tensor) -> torch.Tensor:
    rows = x[:, None].expand(1 << 18, 1 << 18)
    return rows.sort(0).values.sum()  # line


def too_much_at_once(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    large = x[:, None] + x[None, :]  # line
    soft = large.softmax(0)  # line
    return soft.sum(1), soft.softmax(1) @ x


def somewhere_else(x: torch.Tensor) -> torch.Tensor:
    return x + 1  # line


def made_somewhere_else(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).to("meta")  # line


def gradient_by_mask(x: torch.Tensor) -> torch.Tensor:
    whole = torch.zeros(4)
    whole[torch.arange(4) % 2 == 0] = x
    return whole.sum()  # line


CASES: list[tuple[Callable[..., Any], torch.Tensor, str]] = [
    (type_of_a_result, torch.ones(4), "of which a device has no form"),
    (type_of_an_argument, torch.ones(4).to(torch.float8_e8m0fnu), "of which a device has no form"),
    (somewhere_else, torch.ones(4, device="meta"), "is on meta"),
    (made_somewhere_else, torch.ones(4), "gives a tensor on meta"),
    (gradient_by_mask, torch.ones(2, requires_grad=True), "nonzero.default cannot be traced"),
    (one_value_too_large, torch.ones(1 << 18), "12.0 GiB of HBM"),
    (too_much_at_once, torch.ones(1 << 17), "needs 128.0 GiB of memory at once"),
]


@pytest.mark.parametrize("function, x, why", CASES, ids=lambda each: getattr(each, "__name__", ""))
def test_the_error_has_the_line_and_a_remedy(function: Callable[..., Any], x: torch.Tensor, why: str) -> None:
    lines, first = inspect.getsourcelines(function)
    marked = [first + number for number, text in enumerate(lines) if text.endswith("# line\n")]
    with pytest.raises(Exception, match=why) as error:
        torch.compile(function, backend="neuron")(x)
    assert any(f" at {__file__}:{line}" in str(error.value) for line in marked)
    assert "try: " in str(error.value)


def test_what_dynamo_leaves_to_torch_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENTRN_STRICT", "0")
    value = torch.ones(2, requires_grad=True)
    torch.compile(gradient_by_mask, backend="neuron")(value).backward()
    assert value.grad.tolist() == [1, 1]
    assert "runs on the host: aten.nonzero.default cannot be traced" in capfd.readouterr().err
    empty = torch.compile(somewhere_else, backend="neuron")(torch.ones(4, device="meta"))
    assert empty.device.type == "meta" and "is on meta" in capfd.readouterr().err


def test_numbers_and_shapes() -> None:
    double = torch.compile(lambda x: x * 2, backend="neuron")
    with pytest.raises(ValueError, match="does not fit the 32 bits") as error:
        double(torch.tensor([2**40]))
    assert "try: " in str(error.value)
    assert double(torch.tensor([2**20])).tolist() == [2**21]
    with pytest.raises(Exception, match="must have same reduction dim") as error:
        torch.compile(lambda a, b: a @ b, backend="neuron")(torch.ones(3, 4), torch.ones(3, 4))
    assert __file__ in str(error.value)


@pytest.mark.parametrize(
    "name, value, takes",
    [
        ("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9", "'trn9' is not a target"),
        ("NEURON_RT_VISIBLE_CORES", "3-1", "core numbers and ranges, such as 0-3 or 1,5"),
        ("NEURON_RT_NUM_CORES", "many", "a number from 1 to "),
        ("NEURON_LOGICAL_NC_CONFIG", "3", "a number from 1 to 2"),
        ("NEURON_CC_FLAGS", "--auto-cats=all", "'--auto-cats=all', which is not an option of neuronx-cc"),
        ("NEURON_RT_STOCHASTIC_ROUNDING_EN", "yes", "a number from 0 to 1"),
        ("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "-1", "a number from 0 to "),
        ("OPENTRN_STRICT", "true", "a number from 0 to 1"),
        ("OPENTRN_CHECK", "all", "a number from 0 to 1"),
    ],
)
def test_a_variable_with_a_wrong_value_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, takes: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Exception, match=name) as error:
        torch.compile(lambda x: x + 1, backend="neuron")(torch.ones(2))
    assert value in str(error.value) and takes in str(error.value)
    assert "try: " in str(error.value)


def test_a_second_import_says_again_what_is_wrong_with_the_environment() -> None:
    """It said "duplicate name: neuron" before, as the first import had got half of the way."""
    program = "\n".join(2 * ["try: import opentrn.torch", "except ValueError as error: print(error)"])
    environment = os.environ | {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn9"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("'trn9' is not a target")) == (0, 2), done.stderr


def test_an_op_in_an_installed_package_names_the_users_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "counting_library.py").write_text("import torch\ndef count(x):\n    return torch.linalg.eigvals(x)\n")
    monkeypatch.syspath_prepend(str(folder))
    library = importlib.import_module("counting_library")

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any) -> Any:
            return function(*arguments)

        return wrapper

    @decorated
    def counted(x: torch.Tensor) -> torch.Tensor:
        return library.count(x * 2)  # line

    monkeypatch.setenv("OPENTRN_STRICT", "0")
    torch.compile(counted, backend="neuron")(torch.eye(4))
    told = capfd.readouterr().err
    lines, first = inspect.getsourcelines(test_an_op_in_an_installed_package_names_the_users_line_too)
    line = first + next(number for number, text in enumerate(lines) if text.endswith("# line\n"))
    assert f"at {folder / 'counting_library.py'}:3\n" in told and f"called from {__file__}:{line}: " in told
    assert "aten.linalg_eig.default of counted" in told


def test_inductor_says_which_backend_has_code_for_the_device() -> None:
    with pytest.raises(RuntimeError, match=r'(?s)Inductor, .* no code for the device neuron.*backend="neuron"'):
        torch.compile(torch.nn.Linear(3, 2).to("neuron"))(torch.ones(1, 3, device="neuron"))
