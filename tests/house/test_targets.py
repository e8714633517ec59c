"""Python names targets where the C++ core may be missing: they agree with src/arch/tables/instance.toml."""

import json
import re
import sys
from pathlib import Path

from opentrn import _core
from opentrn.cli import help as cli_help
from opentrn.model.comparison import TARGETS
from opentrn.nki.language import _tile_size
from opentrn.types.isa_enums import LNC_MAX, PLATFORM_TARGETS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).resolve().parents[2] / "src/arch/tables/instance.toml"
CORES = {core["name"]: core for core in json.loads(_core.machines())["neuron_cores"]}


def aliases(documented=False):
    """{name: generation} of the table of targets; only those that a document names, on demand."""
    rows = tomllib.loads(TABLE.read_text())["target"]
    if documented:
        rows = {n: row for n, row in rows.items() if not (isinstance(row, dict) and row.get("confidence") == "assumed")}
    values = {name: row["value"] if isinstance(row, dict) else row for name, row in rows.items()}
    return {name: int(value[1:]) for name, value in values.items() if re.fullmatch(r"v\d", str(value))}


def test_the_targets_of_kernels_are_the_tables():
    known = aliases()
    assert {name: version.value for name, version in PLATFORM_TARGETS.items()} == {
        name: known[name] for name in PLATFORM_TARGETS
    }


def test_completion_offers_every_family_and_instance():
    families = {name for name in aliases(documented=True) if not re.fullmatch(r"(gen|v)\d", name)}
    instances = {row["name"] for row in json.loads(_core.machines())["instances"]}
    assert set(cli_help.machine_names()) == families | instances
    assert all(_core.target_generation(name) for name in families | instances)


def test_every_neuron_core_is_compared_by_one_target():
    assert {target.core for target in TARGETS.values()} == set(CORES)
    assert all(f"NeuronCore-v{aliases()[name]}" == target.core for name, target in TARGETS.items())


def test_sizes_and_logical_cores_are_the_tables():
    for version, bytes_of_partition in _tile_size._SBUF_PARTITION_BYTES.items():
        core = CORES[f"NeuronCore-v{version.value}"]
        assert core["sbuf_bytes_per_partition"] == bytes_of_partition
        assert (LNC_MAX[version] > 1) == core["can.logical_cores"]
    assert set(_tile_size._SBUF_PARTITION_BYTES) == set(LNC_MAX)
