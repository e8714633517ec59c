"""nki.builtin: Python builtins as a kernel sees them. Kernels run as Python, so they are Python's own."""

from builtins import *  # noqa: F403, UP029
