"""Libraries built from source where the distribution has none or an older one (Ubuntu 22.04).

The archives are Debian 12's own upstream tarballs, pinned by SHA-256, built into .deps/.
"""

from __future__ import annotations

from pathlib import Path


def prefix_path() -> Path | None:
    """A CMAKE_PREFIX_PATH with the libraries built from source; None where the system's serve."""
    return None
