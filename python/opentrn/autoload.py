"""What `import torch` calls where OpenTrn is installed (entry point torch.backends): the device comes with torch."""

from __future__ import annotations

import importlib.util


def torch_device() -> None:
    """Imports opentrn.torch where the device was built; costs nothing where it was not."""
    if importlib.util.find_spec("opentrn._torch") is not None:
        import opentrn.torch  # noqa: F401
