"""Modules beside the tests, for importlib's way of importing them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
