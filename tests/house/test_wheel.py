"""What a wheel holds: tracked files, and what CMake installs for it. Builds of any Python write beside the sources."""

import re

from house import ROOT, tracked


def test_files_that_git_ignores_are_not_taken_in():
    assert "sdist.include" not in re.sub(r"#.*", "", (ROOT / "pyproject.toml").read_text())


def test_what_cmake_installs_is_of_the_wheels_component():
    text = "".join(path.read_text() for path in tracked("src/*/CMakeLists.txt"))
    rules = re.findall(r"install\((?:TARGETS|FILES|DIRECTORY)[^\n]*\)", text)
    assert len(rules) >= 6 and [rule for rule in rules if "COMPONENT python" not in rule] == []
