"""Puts this folder on the path, so that the tests share cases.py and each other's tables."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
