"""Strict mode: refuse what a chosen NKI release documents that it refuses.

OpenTrn runs kernels of every release and is lenient where releases differ. With a strict version it behaves
like that release:

    opentrn run --strict 0.6 kernel.py          # or OPENTRN_STRICT=0.6
    opentrn.run(kernel, x, strict="0.6")
    with opentrn.strict.version("0.5"): kernel(x)

The rules are data (`rules.RULES`, each with its source). A refusal is a StrictRefusal; it names the release,
the rule and the line. The kernel's source and that of every function it reaches is read before it runs
(`source_checks`), and calls are checked while it runs (`call_checks`).

Where an instruction means something else since some release, kernels get the newest meaning; a strict version,
or OPENTRN_NKI_RELEASE without its refusals, gives them the meaning of that release (`uses_ocp_scales`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentrn.errors import InputError, NkiValidationError, SourceLocation
from opentrn.strict.rules import NOT_REPRODUCED, RULES, VERSIONS, Rule, rules_of

STRICT_ENV = "OPENTRN_STRICT"
RELEASE_ENV = "OPENTRN_NKI_RELEASE"

_chosen: list[str] = []


class StrictRefusal(NkiValidationError):
    """The kernel does what the chosen NKI release documents that it refuses."""

    def __init__(self, rule: Rule, version: str, detail: str = "", place: SourceLocation | None = None):
        self.rule = rule
        self.version = version
        message = f"{rule.what}; {detail}" if detail else rule.what
        super().__init__(message, label=f"strict.{rule.label}", hint=rule.instead, location=place)

    def _text(self) -> str:
        """The release and the rule's own name stand for the kind and the label."""
        return f"NKI {self.version} refuses this [{self.rule.label}]: {self.lines()}\n    source: {self.rule.source}"


def checked(name: str) -> str:
    """`name` as one of VERSIONS ("0.6.0" is "0.6"). Raises ValueError for an unknown release."""
    short = ".".join(name.strip().split(".")[:2])
    if short not in VERSIONS:
        raise InputError(
            f"unknown NKI release {name!r}", label="strict.release", hint=f"one of {', '.join(VERSIONS)}"
        )
    return short


def current() -> str | None:
    """The release whose refusals hold now: the innermost `version()`, else OPENTRN_STRICT, else None.

    0 and 1 are no releases: they say to JAX's plugin and PyTorch's backend whether anything may run on the host.
    """
    if _chosen:
        return _chosen[-1]
    given = os.environ.get(STRICT_ENV, "")
    return checked(given) if given not in ("", "0", "1") else None


def release() -> str:
    """The release whose meaning instructions have: the strict one, else OPENTRN_NKI_RELEASE, else the newest."""
    return current() or checked(os.environ.get(RELEASE_ENV) or VERSIONS[-1])


def minor(version: str) -> int:
    """The number after the point, which is all that sets releases apart so far."""
    return int(version.partition(".")[2])


def uses_ocp_scales() -> bool:
    """True where quantize_mx takes the scale of OCP's sample algorithm, 2^(floor(log2 amax) - Emax): until 0.4.

    Since 0.5 it is twice that [release-notes/components/nki.rst of 0.5.0; nki.isa.quantize_mx of 0.6.0].
    """
    return VERSIONS.index(release()) < VERSIONS.index("0.5")


@contextmanager
def version(name: str | None) -> Iterator[None]:
    """Be strict about release `name` inside the block, in every thread; None changes nothing."""
    if name is None:
        yield
        return
    _chosen.append(checked(name))
    try:
        yield
    finally:
        _chosen.pop()


@contextmanager
def guarded(
    func: Callable[..., Any], arguments: dict[str, Any], options: dict[str, Any], legacy: bool
) -> Iterator[None]:
    """A launch of `func` under the current strict release; without one, nothing happens.

    arguments: by name, as the caller gave them. options: of nki.jit. legacy: a kernel of neuronxcc.nki.
    Raises StrictRefusal.
    """
    release = current()
    if release is None:
        yield
        return
    from opentrn.strict import call_checks, launch_checks, source_checks

    launch_checks.check(func, arguments, options, legacy, release)
    functions = source_checks.reachable(func)
    source_checks.check(func, functions, legacy, release)
    with call_checks.installed(functions, legacy, release):
        yield


def check_outputs(value: Any, inputs: list[Any]) -> None:
    """Refuse returned tensors that the current strict release refuses. `inputs` are the kernel's arguments."""
    release = current()
    if release is not None:
        from opentrn.strict import launch_checks

        launch_checks.check_outputs(value, inputs, release)


__all__ = [
    "NOT_REPRODUCED", "RELEASE_ENV", "RULES", "STRICT_ENV", "Rule", "StrictRefusal", "VERSIONS", "check_outputs",
    "checked", "current", "guarded", "minor", "release", "rules_of", "uses_ocp_scales", "version",
]  # fmt: skip
