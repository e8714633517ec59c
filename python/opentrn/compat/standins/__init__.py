"""Open stand-ins for closed Python packages that published NKI kernels and their tests import.

Reached under the official names through `opentrn.activate()` or the distribution in python/shims.
"""
