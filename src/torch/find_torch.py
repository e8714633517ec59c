"""Prints the folder of the torch that this interpreter's environment has, and its version; fails where it has none."""

import importlib.util
import re
import sys
import sysconfig
from pathlib import Path

spec = importlib.util.find_spec("torch")
folders = [Path(each) for each in (spec.submodule_search_locations if spec else None) or []]
folders += [Path(sysconfig.get_path(kind), "torch") for kind in ("platlib", "purelib")]
for folder in folders:
    if (folder / "version.py").is_file() and (folder / "lib").is_dir():
        found = re.search(r"^__version__ = '([^']+)'", (folder / "version.py").read_text(), re.MULTILINE)
        if found:
            print(folder, found[1], sep="\n")
            sys.exit(0)
sys.exit(1)
