"""neuron-explorer: profiles of compiled models in Neuron Explorer's tables.

`capture` predicts a model's timeline and writes it as a trace in Chrome's JSON, which ui.perfetto.dev opens; so does
nrt_profile_stop() of libnrt. AWS's NTFF is not documented, and is refused. `view` writes the trace as Parquet tables of
the published schema (tools/neuron-explorer/profile-schema-reference of the SDK's documents): what a simulated device
knows, under the names of the schema; fields that it does not know are null, and tables that it does not know are not
written. Metadata says is_simulation.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentrn import _core
from opentrn.base.files import new_file
from opentrn.errors import InputError, MissingModule

if TYPE_CHECKING:
    import numpy as np

    from opentrn.model.compiled import CompiledModel

FORMATS = ("parquet", "perfetto", "json", "summary-text", "summary-json")
_EXECUTIONS_MAX = 10_000

# Table -> fields: name, Arrow type, whether the schema requires it, what it is here.
TABLES: dict[str, list[tuple[str, str, bool, str]]] = {
    "Instruction": [
        ("start_ts", "int64", True, "begin of its execution, predicted, in ns"),
        ("end_ts", "int64", True, "end of its execution, predicted, in ns"),
        ("duration_ns", "int64", True, "end_ts less start_ts"),
        ("engine", "string", True, "tensor, vector, scalar, gpsimd or sync"),
        ("timeline_track", "string", False, "name of the row in the Perfetto trace"),
        ("pcore_idx", "int64", False, "physical core of the logical one"),
        ("opcode", "string", True, "OpenTrn's name of the instruction"),
        ("operands", "string", True, "unknown: null"),
        ("id", "int64", True, "number of the row"),
        ("pc", "int64", True, "number of the execution on its engine"),
        ("compiler_pc", "int64", False, "number of the instruction in the program"),
        ("bir_id", "string", True, "unknown: null"),
        ("evt_wait_time_ns", "int64", False, "idle time of the engine before it"),
        ("nki_source_location", "string", False, "file:line of the user's program"),
        ("hlo_name", "string", False, "name of the model's op that it is of"),
        ("raw_flops", "int64", False, "of the Tensor engine"),
    ],
    "DmaPacketAggregated": [
        ("start_ts", "int64", True, "begin of the transfer, predicted, in ns"),
        ("end_ts", "int64", True, "end of the transfer, predicted, in ns"),
        ("duration_ns", "int64", True, "end_ts less start_ts"),
        ("id", "int64", True, "number of the row"),
        ("pcore_idx", "int64", False, "physical core of the logical one"),
        ("block_id", "int32", True, "unknown: null"),
        ("queue_idx", "int64", True, "number of the queue's row in the trace"),
        ("queue_name", "string", True, "name of the queue"),
        ("transfer_bytes", "int64", False, "bytes"),
    ],
    "OpcodeSummary": [
        ("engine", "string", True, "as in Instruction"),
        ("opcode", "string", True, "as in Instruction"),
        ("instruction_count", "int64", True, "rows of Instruction"),
        ("instruction_time_ns", "int64", True, "sum of their durations"),
        ("active_time_ns", "int64", True, "time in which at least one is executed"),
        ("active_time_percent", "float64", True, "of the run"),
    ],
    "Summary": [
        ("total_time", "float64", False, "predicted, in s"),
        ("hardware_flops", "int64", False, "of the Tensor engine"),
        ("tensor_engine_active_time_percent", "float64", False, "of the run"),
        ("vector_engine_active_time_percent", "float64", False, "of the run"),
        ("scalar_engine_active_time_percent", "float64", False, "of the run"),
        ("gpsimd_engine_active_time_percent", "float64", False, "of the run"),
        ("sync_engine_active_time_percent", "float64", False, "of the run"),
        ("dma_active_time_percent", "float64", False, "of the run, any queue"),
    ],
    "Metadata": [
        ("profile_schema_version", "string", True, "of the names of tables and fields"),
        ("ntff_version", "int32", True, "unknown: null, as there is no NTFF"),
        ("num_physical_cores", "int32", True, "of the logical core"),
        ("vnc_enabled", "bool", True, "whether there are two"),
        ("first_hw_timestamp", "int64", True, "0"),
        ("last_hw_timestamp", "int64", True, "end of the run, in ns"),
        ("is_simulation", "bool", False, "true"),
        ("explorer_version", "string", False, "OpenTrn's"),
    ],
    "Warning": [
        ("message", "string", True, "what a reader should know"),
        ("category", "string", True, "of what it is"),
    ],
}  # fmt: skip


def _refuse(message: str, hint: str = "") -> InputError:
    return InputError(message, label="tools.explorer", hint=hint)


@dataclass
class Capture:
    """What capture is asked for beside the profile. `inputs`: NAME, FILE.npy, NAME, ..."""

    inputs: tuple[str, ...] = ()
    executions: int = 1
    save_npy: bool = False
    save_raw: bool = False
    compare: bool = False
    without_profile: bool = False

    @property
    def executes(self) -> bool:
        """A timeline needs no execution, unless loops of the program depend on values."""
        wanted = self.save_npy or self.save_raw or self.compare or self.without_profile
        return bool(self.inputs) or self.executions > 1 or wanted


def _arrays(model: CompiledModel, words: tuple[str, ...]) -> list[np.ndarray]:
    """By port; zeros where no file is named. Raises InputError for names and files that are none."""
    import numpy as np

    if len(words) % 2:
        raise _refuse(f"{words[-1][:80]} has no file", hint="inputs are NAME FILE.npy pairs")
    files = dict(zip(words[::2], words[1::2]))
    arrays = []
    for port in model.inputs:
        if port.name not in files:
            arrays.append(np.zeros(port.shape, port.dtype))
            continue
        file = files.pop(port.name)
        try:
            arrays.append(np.load(file, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise _refuse(f"{file}: {error}", hint="a .npy file, as numpy.save() writes it") from error
    if files:
        names = ", ".join(port.name for port in model.inputs)
        raise _refuse(f"the model has no input {next(iter(files))[:80]!r}", hint=f"its inputs: {names}")
    return arrays


def _execute(model: CompiledModel, asked: Capture, folder: Path) -> list[Path]:
    """Runs as often as asked; the files of outputs. Raises InputError where two executions differ."""
    import numpy as np

    arrays = _arrays(model, asked.inputs)
    first: list[int] = []
    for number in range(asked.executions):
        outputs = model.run(arrays)
        sums = [zlib.crc32(np.ascontiguousarray(each).tobytes()) for each in outputs]
        first = first or sums
        if asked.compare and sums != first:
            raise _refuse(f"execution {number + 1} gives other values than the first", hint="it draws random numbers")
    written = []
    for port, value in zip(model.outputs, outputs):
        for suffix, wanted in ((".npy", asked.save_npy), ("", asked.save_raw)):
            if not wanted:
                continue
            path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', port.name).lstrip('.') or 'output'}{suffix}"
            with new_file(path) as part, part.open("wb") as file:
                np.save(file, value) if suffix else file.write(np.ascontiguousarray(value).tobytes())
            written.append(path)
    return written


def capture(
    model: Path, profile: Path, loop_iterations: int | None = None, asked: Capture | None = None
) -> list[Path]:
    """Writes the predicted timeline of a compiled model, and outputs where they are asked for.

    Raises as loading, executing and timing it do.
    """
    from opentrn.model import compiled

    asked = asked or Capture()
    if not 1 <= asked.executions <= _EXECUTIONS_MAX:
        raise _refuse(f"--num-exec {asked.executions}", hint=f"a number from 1 to {_EXECUTIONS_MAX}")
    loaded = compiled.load(model)
    if not isinstance(loaded, compiled.CompiledModel):
        raise _refuse(
            f"{model} has several programs",
            hint="compile it for one size of its dimensions, and without --mesh",
        )
    written = _execute(loaded, asked, profile.parent) if asked.executes else []
    if asked.without_profile:
        return written
    timing = loaded.time(loop_iterations=loop_iterations)
    with new_file(profile) as part:
        timing.save_perfetto(part)
    return [profile, *written]


def tables_of(profile: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows by table. Raises InputError "tools.explorer" for what is no trace of OpenTrn's, and for a damaged one."""
    from opentrn import __version__

    return json.loads(_core.explorer_tables(profile, __version__))


def schema_rows() -> list[dict[str, Any]]:
    """The table SchemaFields: what this writes."""
    return [
        {"table_name": table, "table_description": f"{table} of OpenTrn's prediction", "field_name": name,
         "field_description": text, "field_type": kind, "field_required": required}
        for table, fields in TABLES.items()
        for name, kind, required, text in fields
    ]  # fmt: skip


def write_parquet(rows: dict[str, list[dict[str, Any]]], folder: Path) -> list[Path]:
    """TABLE.parquet of each table of a device profile, and SchemaFields. Raises as write_tables()."""
    tables = {name: (fields, rows[name]) for name, fields in TABLES.items()}
    return write_tables(tables | {"SchemaFields": (_SCHEMA_FIELDS, schema_rows())}, folder)


_SCHEMA_FIELDS = [
    ("table_name", "string", True, ""), ("table_description", "string", True, ""), ("field_name", "string", True, ""),
    ("field_description", "string", True, ""), ("field_type", "string", True, ""), ("field_required", "bool", True, ""),
]  # fmt: skip
_Tables = dict[str, tuple[list[tuple[str, str, bool, str]], list[dict[str, Any]]]]


def write_tables(tables: _Tables, folder: Path) -> list[Path]:
    """TABLE.parquet of (fields, rows) each.

    Raises MissingModule without pyarrow, InputError for a folder that cannot be.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingModule(
            "Parquet tables need the package pyarrow",
            name="pyarrow",
            label="tools.explorer",
            hint="pip install pyarrow",
        ) from error
    kinds = {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "string": pa.string(),
    }
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, (fields, rows) in tables.items():
            schema = pa.schema([(field, kinds[kind]) for field, kind, _, _ in fields])
            path = folder / f"{name}.parquet"
            with new_file(path) as part:
                pq.write_table(pa.Table.from_pylist(rows, schema=schema), part)
            written.append(path)
    except OSError as error:
        raise _refuse(f"{error.filename or folder}: {error.strerror or error}") from error
    except (OverflowError, pa.ArrowException) as error:  # a number or a text where the schema has none
        raise _refuse(f"the profile is damaged: {error}") from error
    return written


def view(profile: Path, output_format: str, output: Path | None) -> list[Path]:
    """Writes the profile in the format; returns the files. summary-text without an output goes to standard output.

    Raises InputError for a format that there is not, and for what is no profile.
    """
    from opentrn import __version__

    if output_format == "perfetto":
        to = output or profile.with_suffix(".json")
        _core.explorer_tables(profile, __version__)  # raises for what is no profile
        if to.resolve() == profile.resolve():
            return [to]
        with new_file(to) as part:
            part.write_bytes(profile.read_bytes())
        return [to]
    if output_format == "parquet":
        return write_parquet(tables_of(profile), output or Path("output"))
    if output_format == "summary-text":
        text = _core.explorer_summary(profile, __version__)
    elif output_format == "summary-json":
        text = json.dumps(tables_of(profile)["Summary"][0], indent=1) + "\n"
    else:
        text = _core.explorer_tables(profile, __version__) + "\n"
    if output is None:
        print(text, end="")
        return []
    try:
        with new_file(output) as part:
            part.write_text(text)
    except OSError as error:
        raise _refuse(f"{output}: {error.strerror}") from error
    return [output]
