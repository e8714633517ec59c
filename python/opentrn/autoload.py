"""What `import torch` calls where OpenTrn is installed (entry point torch.backends): the device comes with torch."""

from __future__ import annotations

import importlib.util
import os


def torch_device() -> None:
    """Imports opentrn.torch where the device was built; costs nothing where it was not.

    OPENTRN_ACTIVATE=1 makes the names of AWS's packages importable too, as opentrn.activate() does: for programs that
    look for torch_neuronx, in every process that they start.
    """
    if importlib.util.find_spec("opentrn._torch") is not None:
        import opentrn.torch  # noqa: F401

        if os.environ.get("OPENTRN_ACTIVATE") == "1":
            from opentrn.compat import activate

            activate()
