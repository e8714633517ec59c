"""The commands that take whole models: compile and coverage, and run, profile and disasm of a model."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from opentrn.cli_progress import Progress
from opentrn.cli_streams import is_read_by_machines, prints_aside, require_writable
from opentrn.units import size_text

WEIGHT_DTYPES = ("none", "int8", "fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2", "mxfp8", "mxfp4")
SUFFIXES = (".mlir", ".mlirbc", ".stablehlo", ".onnx", ".pb", ".pt2", ".neuron")


def is_model(name: str) -> bool:
    """True for a model's source and for what `opentrn compile` writes."""
    from opentrn import _core

    return Path(name).suffix in SUFFIXES or _core.is_model_file(name)


def load(options: argparse.Namespace, name: str) -> Any:
    """The model that `name` means, compiled for the target unless it is already."""
    from opentrn import _core, model
    from opentrn.model import tell_host_ops

    if Path(name).suffix == ".neuron" or _core.is_model_file(name):
        loaded = model.load(name)
        tell_host_ops(_programs(loaded)[0][1])
        return loaded
    return model.compile(
        name,
        target=options.target,
        dimensions=dimensions_of(options),
        cache=not options.no_cache,
        enable_stochastic_rounding=getattr(options, "enable_stochastic_rounding", False),
        strict=getattr(options, "strict", None) not in (None, False),
        **compilation_of(options),
    )


def begin_loading(progress: Progress, name: str) -> None:
    """Before load()."""
    progress.begin("loading the model" if Path(name).suffix == ".neuron" else "compiling the model")


def compilation_of(options: argparse.Namespace) -> dict[str, Any]:
    """What add_compilation() asks for, but for dimensions: arguments of model.compile()."""
    names = ("optlevel", "auto_cast", "auto_cast_type", "weight_dtype", "weight_sparsity", "prune_weights")
    return {name: getattr(options, name) for name in names}


def load_one(options: argparse.Namespace, name: str) -> Any:
    """As load(), one program: of several that for the sizes of --dim, else the largest."""
    from opentrn.buckets import BucketedModel

    model = load(options, name)
    if not isinstance(model, BucketedModel):
        return model
    sizes = dimensions_of(options)
    wanted = {key: given[0] for key, given in sizes.items() if len(given) == 1}
    return model.pick(wanted)[1] if wanted else model.buckets[-1][1]


def dimensions_of(options: argparse.Namespace) -> dict[str, list[int]]:
    """Sizes given as --dim NAME=SIZE[,SIZE]."""
    from opentrn.kernel_file import UsageError

    sizes = {}
    for text in options.dim:
        name, _, given = text.partition("=")
        if not name or not given or not all(size.isdecimal() for size in given.split(",")):
            raise UsageError(f"--dim {text}: write NAME=SIZE or NAME=SIZE,SIZE: batch=1,8")
        sizes[name] = [int(size) for size in given.split(",")]
    return sizes


def one_size_of(options: argparse.Namespace) -> dict[str, int]:
    """As dimensions_of(), for commands that work on one program."""
    from opentrn.kernel_file import UsageError

    sizes = dimensions_of(options)
    for name, given in sizes.items():
        if len(given) > 1:
            raise UsageError(f"--dim {name}: one size for this command")
    return {name: given[0] for name, given in sizes.items()}


def inputs_of(model: Any, given: list[str], sizes: dict[str, int] | None = None) -> list[np.ndarray]:
    """One array per input: those given as "name=value" or "number=value", others seeded normal numbers.

    sizes: of the open dimensions of a BucketedModel, for inputs that are not given; those that are go before, the
    largest program's sizes come last.
    """
    from opentrn.kernel_file import UsageError, given_inputs, read_value

    values: dict[int, Any] = {}
    ports = _ports(model, {})
    names = {port.name: number for number, port in enumerate(ports)}

    def is_input(key: str) -> bool:
        return key in names or (key.isdecimal() and int(key) < len(ports))

    form = f"NAME=FILE.npy; the model's inputs: {', '.join(names) or 'none'}"
    for key, value in given_inputs(given, is_input, form):
        number = names[key] if key in names else int(key)
        if number in values:
            raise UsageError(f"--input {key}={value}: input {number} is given twice")
        values[number] = read_value(value, f"input {key}")
    if sizes is not None:
        sizes = dict(sizes)
        for row in model.dimensions:
            for number, axis in row.inputs:
                if number in values and np.ndim(values[number]) > axis:
                    sizes[row.name] = np.shape(values[number])[axis]
        ports = _ports(model, sizes)
    random = np.random.default_rng(0)
    return [values[i] if i in values else _random(port, random) for i, port in enumerate(ports)]


def _ports(model: Any, sizes: dict[str, int]) -> list[Any]:
    """The inputs; of a model with several programs the largest one's, with `sizes` in place of its own."""
    from dataclasses import replace

    from opentrn.buckets import BucketedModel

    if not isinstance(model, BucketedModel):
        return model.inputs
    ports = list(model.buckets[-1][1].inputs)
    for row in model.dimensions:
        for number, axis in row.inputs:
            shape = list(ports[number].shape)
            shape[axis] = sizes.get(row.name, shape[axis])
            ports[number] = replace(ports[number], shape=tuple(shape))
    return ports


def _random(port: Any, random: np.random.Generator) -> np.ndarray:
    if port.dtype.kind in "biu":
        return random.integers(0, 2, port.shape).astype(port.dtype)
    return random.standard_normal(port.shape).astype(port.dtype)


def compile_command(options: argparse.Namespace) -> int:
    """opentrn compile: what the program holds, how long it takes, and the file."""
    from opentrn._run import predicted_text

    require_writable(options, "output", "report")
    with Progress(options) as progress:
        begin_loading(progress, options.model)
        begin = time.perf_counter()
        model = load(options, options.model)
        seconds = time.perf_counter() - begin
        output = Path(options.output or Path(options.model).with_suffix(".neuron").name)
        progress.begin(f"writing {output}")
        model.save(output, weights=options.weights)
        programs, cached = _programs(model), model.cached
        staged = _staged(model)
        model = staged or programs[-1][1]
        progress.begin("timing")
        timing = _predicted(model, options.settings, options.loop_iterations)
    if timing is None and options.report:
        model.time(options.settings)  # raises: a report is what was asked for
    saved = _save_report(timing, options.report) if timing and options.report else []
    facts = {
        "model": options.model,
        "target": options.target,
        "compile_s": round(seconds, 3),
        "instructions": model.instruction_count,
        "constant_bytes": model.constant_bytes,
        "cache": cached,
        "optlevel": options.optlevel,
        "auto_cast": options.auto_cast,
        "auto_cast_type": options.auto_cast_type if options.auto_cast != "none" else None,
        "weight_dtype": options.weight_dtype if options.weight_dtype != "none" else None,
        "weight_sparsity": options.weight_sparsity if options.weight_sparsity != "none" else None,
        "passes": model.passes,
        "host_ops": dataclasses.asdict(model.host_ops),
        "inputs": [[port.name, port.element, list(port.shape)] for port in model.inputs],
        "outputs": [[port.name, port.element, list(port.shape)] for port in model.outputs],
        "time_us": timing.time_us if timing else None,
        "bound_by": timing.bound_by if timing else None,
        "file": str(output),
        "file_bytes": output.stat().st_size,
        "report": saved,
    }
    if staged:
        facts["stages"] = [
            {"stage": stage.number, "sizes": stage.sizes, "instructions": program.instruction_count,
             "asks": [dataclasses.asdict(ask) for ask in stage.asks], "nodes_left": stage.raw.nodes_left}
            for stage, program in staged.programs
        ]  # fmt: skip
    elif len(programs) > 1:
        times = [_predicted(part, options.settings, options.loop_iterations) for _, part in programs]
        facts["programs"] = [
            {"dimensions": sizes, "instructions": part.instruction_count, "time_us": time and time.time_us}
            for (sizes, part), time in zip(programs, times, strict=True)
        ]
    if timing and options.report == "-":
        facts["profile"] = timing.profile()
    if options.json:
        print(json.dumps(facts, indent=1))
        return 0
    how = "taken from the cache" if cached == "hit" else "compiled"
    print(f"{how}: {options.model} for {options.target} in {seconds:.2f} s, "
          f"{facts['instructions']:,} instructions, {size_text(model.constant_bytes)} of constants")  # fmt: skip
    if options.auto_cast != "none":
        print(f"auto-cast {options.auto_cast} to {options.auto_cast_type}: {model.passes['casts']} casts")
    if options.weight_dtype != "none":
        print(f"weights in {options.weight_dtype}: {_weights_text(model.passes)}")
    if options.weight_sparsity != "none":
        print(f"weights of {options.weight_sparsity}: {_weights_text(model.passes)}")
    for kind in ("inputs", "outputs"):
        for name, element, shape in facts[kind]:
            print(f"  {kind[:-1]:<6} {name:<10} {element} [{_shape_text(shape)}]")
    if staged:
        print(staged.text())
    if timing:
        print(predicted_text(timing))
    elif staged:
        print("predicted: unknown, as it depends on the sizes of a run (opentrn run says it for them)")
    else:
        print(
            "predicted: unknown, as loops run as often as values say (--loop-iterations N; a run counts them)"
        )
    for row in facts.get("programs", []):
        sizes = ", ".join(f"{name}={size}" for name, size in row["dimensions"].items())
        print(f"  program for {sizes}: {row['instructions']:,} instructions, {_time_text(row['time_us'])}")
    print(f"wrote {output} ({size_text(facts['file_bytes'])})")
    for path in saved:
        print(f"report: {path}")
    if timing and options.report == "-":
        print(timing.model_text(), end="")
        print(model.host_ops.text())
    return 0


def _shape_text(shape: list[int]) -> str:
    """Sizes; `?` for one that data decide."""
    return ", ".join("?" if size < 0 else str(size) for size in shape)


def _staged(model: Any) -> Any | None:
    """The model if it runs in stages."""
    from opentrn.stages import StagedModel

    return model if isinstance(model, StagedModel) else None


def _time_text(time_us: float | None) -> str:
    return "unknown time" if time_us is None else f"{time_us:.2f} us"


def _predicted(model: Any, settings: Any = (), loop_iterations: int | None = None) -> Any | None:
    """The model's time; None where loops depend on values and nobody said how often they run."""
    try:
        return model.time(settings, loop_iterations=loop_iterations)
    except ValueError as error:
        if "timing.trip_count" not in str(error) and "timing.data_shape" not in str(error):
            raise
        return None


def _weights_text(passes: dict[str, int]) -> str:
    """How many constant operands of products are kept narrower or sparse, and why others are not."""
    text = (
        f"{passes['weights_quantised']} constants of products, "
        f"{size_text(passes['weights_bytes_before'])} -> {size_text(passes['weights_bytes_after'])}"
    )
    reasons = {
        "small": "too small", "shared": "read by other ops too", "not_finite": "not finite",
        "unfit": "of a shape or type that the instruction does not take", "not_sparse": "not sparse",
    }  # fmt: skip
    counts = {why: passes[f"weights_left_{key}"] for key, why in reasons.items()}
    left = [f"{count} {why}" for why, count in counts.items() if count]
    return text + (f"; left: {', '.join(left)}" if left else "")


def _programs(model: Any) -> list[tuple[dict[str, int], Any]]:
    from opentrn.buckets import BucketedModel

    if staged := _staged(model):
        return [(stage.sizes, program) for stage, program in staged.programs]
    return model.buckets if isinstance(model, BucketedModel) else [({}, model)]


def _save_report(timing: Any, target: str) -> list[str]:
    """The report as a page or as JSON, by the file's suffix; "-" is printed by the caller."""
    from opentrn.kernel_file import UsageError
    from opentrn.report import html

    if target == "-":
        return []
    path = Path(target)
    if path.suffix == ".html":
        html.save(timing, path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(timing.profile(), indent=1) + "\n", encoding="utf-8")
    else:
        raise UsageError(f"--report {target}: write FILE.html, FILE.json or no file")
    return [target]


def coverage_command(options: argparse.Namespace) -> int:
    """opentrn coverage: exit status 4 when an op has no device kernel, so that scripts can tell."""
    from opentrn import model
    from opentrn.cli import NOT_MODELLED

    rows, notes = model.coverage_and_notes(options.model, dimensions=one_size_of(options))
    rows.sort(key=lambda row: (-row.unsupported, -row.emulated, -row.flops, -row.count, row.op))
    unsupported, total = sum(row.unsupported for row in rows), sum(row.count for row in rows)
    flops = sum(row.flops for row in rows)
    if options.json:
        ops = [
            vars(row)
            | {"supported": row.supported, "flops_percent": 100 * row.flops / flops if flops else 0.0}
            for row in rows
        ]
        print(json.dumps({"ops": ops, "unsupported": unsupported, "count": total, "flops": flops, "notes": notes},
                         indent=1))  # fmt: skip
        return NOT_MODELLED if unsupported else 0
    print(f"{'op':<34} {'count':>6} {'flop':>7} {'supported':>9} {'emulated':>8} {'refused':>7}")
    for row in rows:
        share = f"{100 * row.flops / flops:.1f} %" if row.flops else ""
        print(f"{row.op:<34} {row.count:>6} {share:>7} {row.supported or '-':>9} {row.emulated or '-':>8} "
              f"{row.unsupported or '-':>7}")  # fmt: skip
        if row.unsupported or row.emulated:
            text = f"    {row.place}: {row.example}" if row.place else f"    {row.example}"
            print(text if len(text) <= 79 else text[:76] + "...")
    refused_flops = sum(row.flops * row.unsupported / row.count for row in rows)
    without = (
        f"; those without: {100 * refused_flops / flops:.1f} % of the flops" if unsupported and flops else ""
    )
    print(f"{total - unsupported} of {total} ops have a device kernel{without}")
    if any(row.emulated for row in rows):
        print("emulated: done as other ops, or 64-bit types in 32 bits")
    for note in notes:
        print(note)
    return NOT_MODELLED if unsupported else 0


def _execute(loaded: Any, options: argparse.Namespace) -> tuple[list[np.ndarray], Any]:
    """The values, and the program that made them."""
    from opentrn.buckets import BucketedModel
    from opentrn.kernel_file import UsageError

    if not isinstance(loaded, BucketedModel):
        if options.pad:
            raise UsageError(f"--pad {options.pad[0]}: this model has one program, for one size")
        return [] if options.no_execute else loaded(*inputs_of(loaded, options.input)), loaded
    sizes = {name: given[0] for name, given in dimensions_of(options).items() if len(given) == 1}
    arrays = inputs_of(loaded, options.input, sizes)
    sizes = loaded.sizes_of(arrays)
    bucket, model = loaded.pick(sizes)
    if bucket != sizes:
        shown = [", ".join(f"{name}={size}" for name, size in row.items()) for row in (sizes, bucket)]
        print(f"{shown[0]} runs in the program for {shown[1]}, padded", file=sys.stderr)
    return [] if options.no_execute else loaded(*arrays, allow_padding=options.pad), model


def run_command(options: argparse.Namespace) -> int:
    """opentrn run MODEL."""
    from opentrn._run import predicted_text
    from opentrn.cli import _output_facts, _output_text, print_assumptions

    with Progress(options) as progress:
        begin_loading(progress, options.kernel)
        loaded = load(options, options.kernel)
        _set_rounding(loaded, options)
        _set_seed(loaded, options)
        progress.begin("computing")
        with prints_aside(is_read_by_machines(options)):
            outputs, model = _execute(loaded, options)
        if staged := _staged(loaded):
            _tell_stages(staged)
        progress.begin("timing")
        timing = (
            None if options.no_time else model.time(options.settings, loop_iterations=options.loop_iterations)
        )
    facts = [_output_facts(value) for value in outputs]
    saved = _save(outputs, options) if options.save_outputs else []
    if options.json:
        print(json.dumps({
            "model": options.kernel, "target": model.target, "outputs": facts, "saved": saved,
            "instructions": model.instruction_count, "time_us": timing.time_us if timing else None,
            "profiles": [timing.profile()] if timing else [],
            "sizes": model.path[-1].sizes if _staged(model) else {},
        }, indent=1))  # fmt: skip
        return 0
    if not options.input and not options.no_execute and model.inputs:
        print("inputs: seeded random numbers (--input NAME=FILE.npy for yours)", file=sys.stderr)
    for number, row in enumerate(facts):
        print(f"output {number}: {_output_text(row)}")
    for path in saved:
        print(f"saved {path}")
    if timing:
        print(predicted_text(timing, model.target))
        print_assumptions(timing)
    return 0


def profile_stages(model: Any, options: argparse.Namespace) -> int:
    """opentrn profile of a model in stages: of each program, for the sizes that seeded random inputs give."""
    from opentrn.report import html

    with Progress(options) as progress:
        progress.begin("computing")
        with prints_aside(is_read_by_machines(options)):
            model(*inputs_of(model, []))
        progress.begin("timing")
        whole = model.time(options.settings, loop_iterations=options.loop_iterations)
    print("inputs: seeded random numbers, which decide the sizes", file=sys.stderr)
    _tell_stages(model)
    if options.json == "-":
        print(json.dumps(whole.profile(), indent=1))
    else:
        print(whole.text(options.lines), end="")
        print(whole.model_text(options.lines, options.depth), end="")
    for stage, timing in whole.parts:
        if options.html:
            page = Path(options.html)
            print(
                f"page: {html.save(timing, page.with_stem(f'{page.stem}.{stage.number}'))}", file=sys.stderr
            )
        if options.perfetto:
            trace = Path(options.perfetto)
            trace = trace.with_stem(f"{trace.stem}.{stage.number}")
            timing.save_perfetto(str(trace))
            print(f"Perfetto trace: {trace}", file=sys.stderr)
    if options.json and options.json != "-":
        Path(options.json).write_text(json.dumps(whole.profile(), indent=1) + "\n", encoding="utf-8")
        print(f"JSON: {options.json}", file=sys.stderr)
    return 0


def _tell_stages(model: Any) -> None:
    """On stderr which programs ran, for which sizes."""
    for stage in model.path:
        sizes = f" for {stage.sizes_text()}" if stage.sizes else ""
        larger = model.padded.get(stage.key)
        room = f", in the program for {larger.sizes_text()}, padded" if larger else ""
        print(f"stage {stage.number} of {len(model.path)}{sizes}{room}", file=sys.stderr)


def _set_rounding(loaded: Any, options: argparse.Namespace) -> None:
    """Stochastic where the command or NEURON_RT_STOCHASTIC_ROUNDING_EN says so; else as the file says."""
    from opentrn import environment
    from opentrn.kernel_file import UsageError

    try:
        stated = environment.read()
    except ValueError as error:
        raise UsageError(str(error)) from None
    refused = os.environ.get("NEURON_RT_STOCHASTIC_ROUNDING_EN") == "0"
    for model in [staged] if (staged := _staged(loaded)) else [part for _, part in _programs(loaded)]:
        if refused:
            model.round_stochastically(None)
        elif (
            stated.rounds_stochastically or options.enable_stochastic_rounding or model.rounds_stochastically
        ):
            model.round_stochastically(stated.rounding_seed)


def _set_seed(loaded: Any, options: argparse.Namespace) -> None:
    from opentrn.kernel_file import UsageError

    try:
        loaded.seed(options.seed or 0)
    except ValueError as error:
        raise UsageError(f"--seed: {error}") from None


def _save(outputs: list[np.ndarray], options: argparse.Namespace) -> list[str]:
    folder = Path(options.save_outputs)
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    for number, value in enumerate(outputs):
        path = folder / f"{Path(options.kernel).stem}.{number}.npy"
        np.save(path, value)
        saved.append(str(path))
    return saved


def diff_command(options: argparse.Namespace) -> int:
    """opentrn diff MODEL: exit status 70 when an op's error is a bug of ours."""
    from opentrn import diff, model
    from opentrn.cli import INTERNAL

    how = {"target": options.target, "dimensions": one_size_of(options), **compilation_of(options)}
    compiled = model.compile(options.model, **how)
    report = diff.diff(options.model, *inputs_of(compiled, options.input), **how)
    if options.json:
        print(json.dumps(report.json(), indent=1))
    else:
        print(report.text(rows_max=options.lines), end="")
    return 0 if report.is_clean else INTERNAL


def describe_command(path: str, as_json: bool) -> int:
    """opentrn describe FILE.neuron: what the file holds."""
    from opentrn import _core, model

    facts, buckets, _ = _core.load_models(path)
    rows = []
    for dimensions, loaded in buckets:
        compiled = model.CompiledModel(loaded, facts.get("target", ""), facts)
        timing = _predicted(compiled)
        placed = timing or compiled.time(loop_iterations=1)  # memory does not depend on it
        rows.append({
            "dimensions": dimensions,
            "neuron_core": loaded.generation,
            "inputs": [[port.name, port.element, list(port.shape)] for port in compiled.inputs],
            "outputs": [[port.name, port.element, list(port.shape)] for port in compiled.outputs],
            "instructions": loaded.instruction_count, "kernels": loaded.kernel_count, "ops": loaded.op_count,
            "constant_bytes": loaded.constant_bytes, "weight_files": loaded.weight_files,
            "time_us": timing.time_us if timing else None, "memory": placed.profile()["memory"],
            "memory_map": [
                dict(zip(("memory", "name", "role", "offset", "bytes"), row)) for row in placed.memory_map()
            ],
        })  # fmt: skip
    if as_json:
        print(json.dumps({"file": path, "facts": facts, "programs": rows}, indent=1))
        return 0
    print(f"{path}: {size_text(Path(path).stat().st_size)}, {facts.get('compiler', 'compiler unknown')}")
    for name in ("source", "target", "options"):
        if name in facts:
            print(f"  {name:<8} {facts[name]}")
    for row in rows:
        _describe_program(row)
    return 0


def _describe_program(row: dict[str, Any]) -> None:
    sizes = ", ".join(f"{name}={size}" for name, size in row["dimensions"].items())
    print(f"program{' for ' + sizes if sizes else ''}: {row['instructions']:,} instructions, {row['kernels']} kernels "
          f"of {row['ops']} ops, {_time_text(row['time_us'])}")  # fmt: skip
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


def cache_command(options: argparse.Namespace) -> int:
    """opentrn cache ls | clear."""
    from opentrn import cache

    if options.action == "clear":
        count, freed = cache.clear(options.older_than)
        print(f"removed {count} compiled models ({size_text(freed)}) from {cache.folder()}")
        return 0
    rows = []
    for entry in cache.entries():
        try:
            facts = entry.facts
        except ValueError as error:
            facts = {"damaged": str(error).partition("\n")[0]}
        rows.append({"key": entry.key, "bytes": entry.bytes, "used": entry.used, **facts})
    if options.json:
        print(json.dumps({"folder": str(cache.folder()), "entries": rows}, indent=1))
        return 0
    print(f"{len(rows)} compiled models in {cache.folder()}")
    for row in rows:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["used"]))
        what = row.get("damaged") or f"{Path(row.get('source', '?')).name} for {row.get('target', '?')}"
        print(f"  {row['key'][:12]}  {size_text(row['bytes']):>10}  {used}  {what}")
    return 0


def add_dimensions(parser: argparse.ArgumentParser) -> None:
    """--dim, for every command that may compile a model."""
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE[,SIZE]",
                        help="size of a symbolic dimension of an ONNX model; several: a program each")  # fmt: skip
    parser.add_argument("--custom-ops", action="append", default=[], type=_operator_library, metavar="LIBRARY",
                        help="shared library with custom operators that the model calls")  # fmt: skip


def _operator_library(path: str) -> str:
    """Loads the library: what it exports is known from then on."""
    from opentrn import custom_op

    try:
        custom_op.load_library(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).partition("\n")[0]) from None
    return path


def loop_iterations(text: str) -> int:
    """The number of --loop-iterations."""
    from opentrn._run import require_iterations

    try:
        count = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    try:
        require_iterations(count)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return count


def add_compilation(parser: argparse.ArgumentParser) -> None:
    """How a model is compiled, for every command that may do so: neuronx-cc's names."""
    add_dimensions(parser)
    parser.add_argument("-O", "--optlevel", type=int, default=2, choices=[1, 2, 3],
                        help="1: ops as they stand; 2 (default): simplified, folded and fused; 3: also the fastest "
                             "of a dozen lowerings")  # fmt: skip
    parser.add_argument("--auto-cast", default="none", choices=["none", "matmult", "all"],
                        help="which fp32 operations are computed in --auto-cast-type (default none)")  # fmt: skip
    parser.add_argument("--auto-cast-type", default="bf16", choices=["bf16", "fp16", "tf32", "fp8_e4m3"],
                        help="default bf16")  # fmt: skip
    parser.add_argument("--weight-dtype", default="none", choices=WEIGHT_DTYPES,
                        help="keep constant operands of products narrower (default none)")  # fmt: skip
    parser.add_argument("--weight-sparsity", default="none", metavar="M:N",
                        help="sparse products where of N weights at most M are not zero: 4:16 ... 1:2")  # fmt: skip
    parser.add_argument("--prune-weights", action="store_true",
                        help="make weights obey --weight-sparsity: the smallest become zero")  # fmt: skip


def add_running(parser: argparse.ArgumentParser) -> None:
    """What `opentrn run` takes for models alone."""
    parser.add_argument("--pad", action="append", default=[], metavar="NAME",
                        help="a dimension that may be padded because the model masks it")  # fmt: skip


def add_seed(parser: argparse.ArgumentParser) -> None:
    """--seed, for the command that computes values."""
    parser.add_argument("--seed", type=int, metavar="N",
                        help="of a model that draws random numbers without a seed of its own, or of a kernel's "
                        "stochastic rounding (default 0)")  # fmt: skip


def refuse_model_options(options: argparse.Namespace) -> None:
    """UsageError for options that say how a model is compiled or run, given for what is no model.

    --no-cache is none of them: what is no model is never taken from the cache. Kernels round stochastically too.
    """
    of_models = argparse.ArgumentParser(add_help=False)
    for add in (add_compilation, add_running):
        add(of_models)
    refuse_options(options, of_models, "of models, and this is none")


def refuse_options(options: argparse.Namespace, parser: argparse.ArgumentParser, why: str) -> None:
    """UsageError that names the options of `parser` with another value than their default."""
    from opentrn.kernel_file import UsageError

    defaults = vars(parser.parse_args([]))
    given = [name for name, default in defaults.items() if getattr(options, name, default) != default]
    if given:
        names = ", ".join("--" + name.replace("_", "-") for name in given)
        raise UsageError(f"{names}: {why}\n    try: leave {'it' if len(given) == 1 else 'them'} out")


def add_stochastic_rounding(parser: argparse.ArgumentParser) -> None:
    """--enable-stochastic-rounding, for the commands that make a file or run it."""
    parser.add_argument("--enable-stochastic-rounding", action="store_true",
                        help="engines round to narrower floats stochastically")  # fmt: skip


def add_overrides(parser: argparse.ArgumentParser, what: str) -> None:
    """--set and --tables, in order, as opentrn.run(overrides=) takes them."""
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE",
                        help=f"what-if: {what}")  # fmt: skip
    parser.add_argument("--tables", action="append", type="@{}".format, dest="settings", metavar="FILE",
                        help="what-if: change the table values that a TOML file says")  # fmt: skip


def add_no_cache(parser: argparse.ArgumentParser) -> None:
    """--no-cache, for every command that keeps what it compiles."""
    parser.add_argument("--no-cache", action="store_true",
                        help="compile even if the cache has the model, and do not keep it there")  # fmt: skip


def add_commands(commands: Any) -> None:
    """`compile` and `coverage` on the parser of the program."""
    compile_parser = commands.add_parser(
        "compile",
        help="compile a model to a .neuron file",
        description="Compile a whole model for one NeuronCore.",
    )
    compile_parser.add_argument("model", help="StableHLO (.mlir, .mlirbc), HLO (.pb) or ONNX (.onnx)")
    add_compilation(compile_parser)
    add_stochastic_rounding(compile_parser)
    add_no_cache(compile_parser)
    compile_parser.add_argument("--target", default="trn2", help="trn1, inf2, trn2 or trn3 (default trn2)")
    compile_parser.add_argument(
        "-o", "--output", metavar="FILE", help="default: the model's name with .neuron"
    )
    add_overrides(compile_parser, "change a table value for the predicted time")
    compile_parser.add_argument("--weights", choices=["copy", "reference"], default="copy",
                                help="reference: the file names an ONNX model's weights, holds no copy")  # fmt: skip
    compile_parser.add_argument("--report", nargs="?", const="-", metavar="FILE",
                                help="time by layer, memory and price: printed, or FILE.html or FILE.json")  # fmt: skip
    compile_parser.add_argument("--strict", action="store_true",
                                help="refuse what no device kernel takes, which else the host does")  # fmt: skip
    compile_parser.add_argument("--loop-iterations", type=loop_iterations, metavar="N",
                                help="of loops whose bounds depend on values, for the predicted time")  # fmt: skip
    compile_parser.add_argument("--json", action="store_true", help="print everything as JSON")
    compile_parser.set_defaults(command=compile_command)
    coverage_parser = commands.add_parser(
        "coverage", help="which ops of a model have a device kernel",
        description="Say which ops of a model have a device kernel, without compiling it. "
        "Exit status 4 when one has none.",
    )  # fmt: skip
    coverage_parser.add_argument("model", help="StableHLO (.mlir, .mlirbc), HLO (.pb) or ONNX (.onnx)")
    add_dimensions(coverage_parser)
    coverage_parser.add_argument("--json", action="store_true", help="print everything as JSON")
    coverage_parser.set_defaults(command=coverage_command)
    diff_parser = commands.add_parser(
        "diff", help="compare every op of a model with float64",
        description="Run a model with every op's value kept, and compare each with float64: rounding, or a bug? "
        "Exit status 70 when an op's error is a bug.",
    )  # fmt: skip
    diff_parser.add_argument("model", help="StableHLO (.mlir, .mlirbc), HLO (.pb) or ONNX (.onnx)")
    add_compilation(diff_parser)
    diff_parser.add_argument("--target", default="trn2", help="trn1, inf2, trn2 or trn3 (default trn2)")
    diff_parser.add_argument("--input", "-i", action="append", default=[], metavar="NAME=VALUE",
                             help="an input: file.npy; others are seeded random numbers")  # fmt: skip
    diff_parser.add_argument("--lines", type=int, default=12, metavar="N", help="ops to show (default 12)")
    diff_parser.add_argument("--json", action="store_true", help="print everything as JSON")
    diff_parser.set_defaults(command=diff_command)
    cache_parser = commands.add_parser(
        "cache", help="list or clear the compiled models that are kept",
        description="What `compile`, `run` and `profile` keep of compiled models. The folder is $OPENTRN_CACHE, else "
        "$NEURON_COMPILE_CACHE_URL, else ~/.cache/opentrn.",
    )  # fmt: skip
    cache_parser.add_argument("action", choices=["ls", "clear"])
    cache_parser.add_argument("--older-than", type=float, default=0.0, metavar="DAYS",
                              help="clear only what nobody has used for so many days")  # fmt: skip
    cache_parser.add_argument("--json", action="store_true", help="print everything as JSON")
    cache_parser.set_defaults(command=cache_command)
