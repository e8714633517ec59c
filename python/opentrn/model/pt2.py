"""What is told of a damaged .pt2 file before PyTorch, whose import takes seconds, is asked to run what is in it.

The names of the archive's parts are those of torch's header torch/csrc/export/pt2_archive_constants.h.
"""

from __future__ import annotations

import json
import os
import stat
import zipfile
from pathlib import Path

from opentrn.base.files import shown
from opentrn.errors import InputError

OLDER = "serialized_exported_program.json"  # of torch before 2.8, beside the archive's other parts


def check(path: str | Path) -> None:
    """InputError where the file cannot be what torch.export.save() writes; FileNotFoundError where there is none.

    Every part is read once and compared with its checksum. Whether its program is one, torch says.
    """
    try:
        if stat.S_ISREG(os.stat(path).st_mode):  # a pipe would never answer
            with zipfile.ZipFile(path) as archive:
                fault = _fault(archive)
        else:
            fault = "it is no regular file"
    except FileNotFoundError:
        raise
    except OSError as error:
        fault = error.strerror or str(error)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        fault = str(error)  # all but the first: ways of packing, passwords and sizes that torch never writes
    if fault:
        raise InputError(
            f"{shown(path)} is not an exported program: {fault}",
            label="torch.export", hint="what torch.export.save(program, path) writes",
        )  # fmt: skip


def _fault(archive: zipfile.ZipFile) -> str | None:
    for part in archive.infolist():
        if part.compress_type != zipfile.ZIP_STORED:  # torch stores: what is packed may be larger than any memory
            return f"its {part.filename} is compressed"
    damaged = archive.testzip()
    if damaged is not None:
        return f"the checksum of its {damaged} is another"
    programs = [name for name in archive.namelist() if _is_program(name)]
    if not programs:
        return "the archive has no program (models/model.json)"
    for name in programs:
        try:
            program = json.loads(archive.read(name))
        except (ValueError, RecursionError) as error:
            return f"its {name} is not JSON: {error}"
        if not isinstance(program, dict) or "graph_module" not in program:
            return f"its {name} has no graph_module"
    return None


def _is_program(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    return file == OLDER or (folder.split("/")[-1] == "models" and file.endswith(".json"))
