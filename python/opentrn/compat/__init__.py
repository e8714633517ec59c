"""Import names of AWS's packages that existing kernels use."""

from __future__ import annotations


def activate(names: tuple[str, ...] | None = None, force: bool = False) -> dict[str, str]:
    """What opentrn.activate() does."""
    from opentrn.compat import absent, alias

    absent.install()
    return alias.install(names, force)
