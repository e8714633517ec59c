"""`opentrn describe FILE.neuron`: what a compiled model's file holds, without NumPy being imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.base.units import size_text
from opentrn.errors import InputError
from opentrn.model.random_key import PORT


def describe_command(path: str, as_json: bool) -> int:
    """opentrn describe FILE.neuron: what the file holds."""
    facts, buckets, _ = _core.load_models(path)
    if isinstance(buckets[0][1], _core.ShardedModel):
        return _describe_sharded(path, facts, buckets[0][1], as_json)
    rows = []
    for dimensions, loaded in buckets:
        timing = _predicted(loaded)
        placed = timing or loaded.time(loop_iterations=1)  # memory does not depend on it
        rows.append({
            "dimensions": dimensions,
            "neuron_core": loaded.generation,
            "inputs": [list(port) for port in loaded.inputs if port[0] != PORT],
            "outputs": [list(port) for port in loaded.outputs],
            "instructions": loaded.instruction_count, "kernels": loaded.kernel_count, "ops": loaded.op_count,
            "constant_bytes": loaded.constant_bytes, "weight_files": loaded.weight_files,
            "time_us": timing.total_ns / 1e3 if timing else None, "memory": json.loads(placed.json())["memory"],
            "memory_map": [
                dict(zip(("memory", "name", "role", "offset", "bytes"), row)) for row in placed.memory_map()
            ],
        })  # fmt: skip
    if as_json:
        print(json.dumps({"file": path, "facts": facts, "programs": rows}, indent=1))
        return 0
    _print_facts(path, facts)
    for row in rows:
        _describe_program(row)
    return 0


def _print_facts(path: str, facts: dict[str, str]) -> None:
    print(f"{path}: {size_text(Path(path).stat().st_size)}, {facts.get('compiler', 'compiler unknown')}")
    for name in ("source", "target", "mesh", "options"):
        if name in facts:
            print(f"  {name:<8} {facts[name]}")


def _describe_sharded(path: str, facts: dict[str, str], loaded: Any, as_json: bool) -> int:
    """What every device of a model on a mesh holds and runs."""
    kinds = {"input": loaded.inputs, "weight": loaded.weights, "output": loaded.outputs}
    cost = loaded.cost()
    facts = {name: text for name, text in facts.items() if name != "devices"}  # the file's own record
    if as_json:
        print(json.dumps({
            "file": path, "facts": facts, "devices": loaded.devices, "parts": loaded.part_count,
            "instructions": cost["instructions"], "time_us": cost["device_us"],
            **{f"{kind}s": [list(port) for port in ports if port[0] != PORT] for kind, ports in kinds.items()},
            "collectives": [list(row) for row in loaded.collectives], "argument_bytes": loaded.argument_bytes,
        }, indent=1))  # fmt: skip
        return 0
    _print_facts(path, facts)
    time = "unknown time" if cost["device_us"] is None else f"{cost['device_us']:.2f} us"
    print(f"each of {loaded.devices} devices: {loaded.part_count} compiled parts, "
          f"{cost['instructions']:,} instructions, {time}")  # fmt: skip
    for kind, ports in kinds.items():
        for name, element, shape, cuts in ports:
            print(f"  {kind:<8} {name:<18} {element} [{', '.join(map(str, shape))}] cut {cuts}")
    for name, count, size in loaded.collectives:
        print(f"  {count} {name} of {size_text(size)} of each device in all")
    print(f"  memory   {size_text(loaded.argument_bytes)} of inputs and cut weights on each device")
    return 0


def _predicted(loaded: Any) -> Any | None:
    """The program's time; None where its loops depend on values."""
    try:
        return loaded.time()
    except InputError as error:
        if error.label != "timing.trip_count":
            raise
        return None


def _describe_program(row: dict[str, Any]) -> None:
    sizes = ", ".join(f"{name}={size}" for name, size in row["dimensions"].items())
    time = "unknown time" if row["time_us"] is None else f"{row['time_us']:.2f} us"
    print(f"program{' for ' + sizes if sizes else ''}: {row['instructions']:,} instructions, {row['kernels']} kernels "
          f"of {row['ops']} ops, {time}")  # fmt: skip
    for kind in ("inputs", "outputs"):
        for name, element, shape in row[kind]:
            print(f"  {kind[:-1]:<8} {name:<18} {element} [{', '.join(map(str, shape))}]")
    for file, count in row["weight_files"].items():
        print(f"  weights  {size_text(count)} in {file}")
    memory = row["memory"]
    print(f"  memory   SBUF {size_text(memory['sbuf_bytes_per_partition_used'])} of "
          f"{size_text(memory['sbuf_bytes_per_partition_limit'])} a partition, PSUM {memory['psum_banks_used']} of "
          f"{memory['psum_banks_limit']} banks, HBM {size_text(memory['hbm_bytes_used'])}")  # fmt: skip
    for role in ("input", "constant", "intermediate", "output"):
        tensors = [tensor for tensor in row["memory_map"] if tensor["role"] == role]
        if tensors:
            print(f"  HBM      {len(tensors):>5} {role + 's':<14} {size_text(sum(t['bytes'] for t in tensors)):>10}"
                  f"  from offset {min(t['offset'] for t in tensors):#x}")  # fmt: skip
