"""Where the package lies that this run tests, for PYTHONPATH of the processes that tests start.

That is `python` of the checkout, or links to it beside a sanitizer's build (`./dev sanitize`): a process that
took the checkout's would run another build, unseen by the sanitizer.
"""

from __future__ import annotations

from pathlib import Path

import opentrn

PYTHON = Path(opentrn.__file__).parents[1]
