"""What a lower layer asks of an upper one, which hands it in: nobody imports a layer above its own.

`opentrn/__init__.py` stands above all layers and is imported before any of them. It provides every hook, as a function
that imports the upper layer when it is asked. It is imported by every command, so it imports nothing that costs time,
as `typing` does.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_providers: dict[str, Callable[[], Any]] = {}


def provide(name: str, provider: Callable[[], Any]) -> None:
    """`provider` is called at every ask(name)."""
    _providers[name] = provider


def ask(name: str) -> Any:
    """What is provided under `name`; what the import of an upper layer raises goes on to the caller."""
    return _providers[name]()
