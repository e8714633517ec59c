"""What is to be done when a module of another package is imported, which may be never."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

Action = Callable[[ModuleType], None]
_ACTIONS: dict[str, Action] = {}


class _Loader(importlib.abc.Loader):
    def __init__(self, plain: Any, action: Action) -> None:
        self.plain = plain
        self.action = action

    def create_module(self, spec: Any) -> ModuleType | None:
        return self.plain.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.plain.exec_module(module)
        self.action(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules as the finders after it do, and acts when they are there."""

    _asked = False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in _ACTIONS or self._asked:
            return None
        self._asked = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asked = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, _ACTIONS[fullname])
        return spec


def when_imported(name: str, action: Action) -> None:
    """Calls action(module) now, or when the module has been imported."""
    if name in sys.modules:
        action(sys.modules[name])
    _ACTIONS[name] = action
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
