"""How far gradients of an exported step with stages are from those of one device, and of a step without stages.

    python -m tests.jax.plan_gradients FOLDER/train.py

Prints JSON: the largest gradient, and the largest differences beside the largest gradient of the same weight.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np

START = "PLAN = json.loads(r\"\"\""


def step_of(text: str, plan: dict) -> SimpleNamespace:
    """The program of another plan."""
    before, rest = text.split(START, 1)
    behind = rest.split("\"\"\"", 1)[1]
    names = {"__name__": "exported"}
    exec(compile(f"{before}{START}{json.dumps(plan)}\"\"\"{behind}", "train.py", "exec"), names)
    return SimpleNamespace(**names)


def gradients(text: str, plan: dict, *, whole: bool = False) -> dict:
    """Of one step: what the first moments are made of."""
    program, layout = step_of(text, plan), plan["layout"]
    axes = {**layout, "dp": layout["dp"] // layout["ep"]}
    kept = ("dp", "tp", "ep") if plan["model"]["experts"] else ("dp", "tp")
    sizes = {name: axes[name] for name in ("pp", "dp", "ep", "cp", "tp") if name in kept or axes[name] > 1}
    shape = [1 if whole else size for size in sizes.values()]
    devices = np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape)
    step, states, data = program.step_on(program.Mesh(devices, tuple(sizes))).jitted()
    sequences = layout["micro_batch"] * layout["dp"]
    shape = (plan["global_batch"] // sequences, sequences)
    tokens = program.given_tokens(np.random.default_rng(1), shape)
    state, _ = step(program.initial(states), jax.device_put(tokens, data))
    return jax.tree.map(np.asarray, state["moment"])


def by_stages(text: str, plan: dict, of: dict) -> dict:
    """As a step with stages has them: a block of each as one weight."""
    return {**of, "layers": step_of(text, plan).arranged(of["layers"])}


def of_absent_blocks(plan: dict, of: dict) -> dict:
    """The largest gradients of a second block that no stage but the first has, and of the first's."""
    stages = [np.split(w, plan["layout"]["pp"]) for w in jax.tree.leaves(of["layers"][1])]
    return {
        "absent": max(float(np.abs(part).max()) for each in stages for part in each[1:]),
        "present": min(float(np.abs(each[0]).max()) for each in stages),
    }


def difference(a: dict, b: dict) -> float:
    """Of weights that have a gradient: a bias of keys has none but what is rounded, as all weights of a query move."""
    a, b = (jax.tree.leaves(each) for each in (a, b))
    least = 1e-3 * max(float(np.abs(y).max()) for y in b)
    return max(float(np.abs(x - y).max() / max(least, np.abs(y).max())) for x, y in zip(a, b, strict=True))


def main() -> None:
    text = Path(sys.argv[1]).read_text()
    plan = json.loads(text.split(START, 1)[1].split("\"\"\"", 1)[0])
    found = gradients(text, plan)
    if "--absent" in sys.argv:
        print(json.dumps(of_absent_blocks(plan, found)))
        return
    alone = {"pp": 1, "vpp": 1, "blocks": [plan["model"]["layers"]]}
    one_stage = {**plan, "layout": {**plan["layout"], **alone}}
    made = {
        "largest": max(float(np.abs(x).max()) for x in jax.tree.leaves(found)),
        "whole": difference(found, gradients(text, plan, whole=True)),
        "one_stage": 0,
    }
    if plan["layout"]["pp"] > 1:
        made["one_stage"] = difference(found, by_stages(text, plan, gradients(text, one_stage)))
    print(json.dumps(made))


if __name__ == "__main__":
    main()
