"""`opentrn describe FILE.neuron`: what a compiled model's file holds, without NumPy being imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.model.random_key import PORT


def describe_command(path: str, as_json: bool) -> int:
    """opentrn describe FILE.neuron: what the file holds."""
    facts, buckets, _ = _core.load_models(path)
    if "mesh" in facts:
        return _describe_sharded(path, facts, buckets[0][1], as_json)
    rows = [json.loads(loaded.description(dimensions)) for dimensions, loaded in buckets]
    if as_json:
        print(json.dumps({"file": path, "facts": facts, "programs": rows}, indent=1))
        return 0
    _print_facts(path, facts)
    for row in rows:
        print(_core.description_text(json.dumps(row)), end="")
    return 0


def _print_facts(path: str, facts: dict[str, str]) -> None:
    print(f"{path}: {_core.size_text(Path(path).stat().st_size)}, {facts.get('compiler', 'compiler unknown')}")
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
        print(f"  {count} {name} of {_core.size_text(size)} of each device in all")
    print(f"  memory   {_core.size_text(loaded.argument_bytes)} of inputs and cut weights on each device")
    return 0
