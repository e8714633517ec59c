"""Small models of transformers' architectures on the device `neuron` beside the CPU: `models.py MODE NAME...`.

Run by run.py in the environment that has transformers. For each name, a model type of transformers' configurations,
writes one line of JSON: {"name", "state", "why", "host"}. state: "passed", "failed", "undecided", where the CPU's own
float32 is further from float64 than the device may be, or "not built", where no small configuration, or no call of it,
could be made on the CPU. host: ops that ran on the host.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import transformers
from torch.utils import _pytree as pytree
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

import opentrn.torch  # noqa: F401
from conformance.common import distance, worst

MODES = ("eager", "compile", "gradient")
TOLERANCE = {"eager": 1e-4, "compile": 1e-4, "gradient": 2e-3}  # of the largest magnitude of a result
OF_ILL_CONDITIONED = 2e-2  # from float64, where the CPU itself is beyond the tolerance from it
PARAMETERS_MAX = 30_000_000
TOKENS, VOCABULARY = 12, 99

# What a field of a configuration is at most: depth first, which every variant of a configuration has.
DEPTH = {
    **dict.fromkeys((
        "num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "depth",
        "num_encoder_layers", "num_decoder_layers",
    ), 2),
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 128),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    "vocab_size": VOCABULARY, "image_size": 32,
}  # fmt: skip
WIDTH = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "embed_dim", "decoder_hidden_size",
                     "encoder_hidden_size", "lru_width"), 32),
    **dict.fromkeys(("intermediate_size", "n_inner", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim",
                     "hidden_dim", "mlp_dim", "ffn_hidden_size", "d_inner", "max_source_positions",
                     "max_target_positions"), 64),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
                     "decoder_attention_heads", "time_step_rank"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "q_lora_rank", "kv_lora_rank",
                     "num_mel_bins", "projection_dim"), 16),
    **dict.fromkeys(("head_dim", "d_kv", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "state_size",
                     "attention_head_dim", "num_queries", "patch_size"), 8),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok", "type_vocab_size", "num_blocks"), 2),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
}  # fmt: skip


class NotBuilt(Exception):
    pass


def shrink(config: Any, fields: dict[str, int], depth: int = 0) -> Any:
    """The configuration itself, and those inside of it, with what `fields` names as small as that."""
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig) and depth < 3:
            shrink(value, fields, depth + 1)
        elif name.endswith("_token_id") and isinstance(value, int) and value >= VOCABULARY:
            setattr(config, name, 5 if name.startswith(("image", "audio", "video")) else 1)
        elif name in fields and isinstance(value, int) and not isinstance(value, bool) and value > fields[name]:
            setattr(config, name, fields[name])
        elif name == "layer_types" and isinstance(value, (list, tuple)) and len(value) > 2:
            setattr(config, name, [value[0], value[-1]])
        elif fields is not DEPTH and isinstance(value, (list, tuple)):
            shorten(config, name, value)
    return config


def shorten(config: Any, name: str, value: list[Any] | tuple[Any, ...]) -> None:
    """Stages of convolutional and hierarchical models."""
    if name in ("hidden_sizes", "embed_dims", "encoder_hidden_sizes", "neck_hidden_sizes"):
        setattr(config, name, type(value)(16 * (i + 1) for i in range(len(value))))
    elif name in ("depths", "layer_depths", "num_blocks"):
        setattr(config, name, type(value)(1 for _ in value))


def arguments(model: Any, config: Any, variant: int) -> dict[str, Any]:
    """What the model is called with; variants: as its main input says, with pictures too, with what it requires."""
    generator = torch.Generator().manual_seed(3)
    names = inspect.signature(model.forward).parameters
    text = config.get_text_config()
    most = max(min(getattr(text, "vocab_size", None) or VOCABULARY, VOCABULARY), 9)
    given: dict[str, Any] = {}
    for name, length in (("input_ids", TOKENS), ("decoder_input_ids", TOKENS // 2)):
        if name in names:
            given[name] = torch.randint(7, most, (2, length), generator=generator)
    main = getattr(model, "main_input_name", "input_ids")
    vision = getattr(config, "vision_config", config)
    if main == "pixel_values" or (variant > 0 and hasattr(config, "vision_config")):
        size = getattr(vision, "image_size", 32)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        channels = getattr(vision, "num_channels", 3)
        given["pixel_values"] = torch.randn(2, channels, height, width, generator=generator)
    if main == "input_values":
        given[main] = torch.randn(2, 1600, generator=generator)
    if main == "input_features":
        bins, frames = getattr(config, "num_mel_bins", 16), 2 * getattr(config, "max_source_positions", 64)
        given[main] = torch.randn(2, bins, frames, generator=generator)
    if "use_cache" in names and variant > 0:
        given["use_cache"] = False
    if variant == 2:
        given |= required(names, given, config, generator)
    return given


def required(names: Any, given: dict[str, Any], config: Any, generator: torch.Generator) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for each in names.values():
        if each.default is not each.empty or each.name in given or each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            continue
        if "mask" in each.name:
            made[each.name] = torch.ones(2, TOKENS, dtype=torch.long)
        elif "bbox" in each.name:
            made[each.name] = torch.randint(0, 90, (2, TOKENS, 4), generator=generator).sort(-1).values
        else:
            made[each.name] = torch.randn(2, TOKENS, getattr(config, "hidden_size", 32), generator=generator)
    return made


def built(name: str) -> tuple[Any, dict[str, Any]]:
    """A model with random weights and a call of it that the CPU computes. Raises NotBuilt."""
    models = MODEL_MAPPING_NAMES[name]
    kind = getattr(transformers, models if isinstance(models, str) else models[0])
    why = ""
    for variant in range(6):
        try:
            config = shrink(CONFIG_MAPPING[name](), DEPTH if variant >= 3 else {**DEPTH, **WIDTH})
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in kind(config).parameters())
            if count > PARAMETERS_MAX:
                why = f"{count} parameters"
                continue
            torch.manual_seed(0)
            model = kind(config).eval()
            for parameter in model.parameters():  # weights that begin as zeros hide what they multiply
                if not parameter.any():
                    torch.nn.init.normal_(parameter, std=0.02)
            given = arguments(model, config, variant % 3)
            with torch.no_grad():
                model(**given)
            return model, given
        except Exception as error:  # whatever transformers makes of a configuration that it did not expect
            why = f"{type(error).__name__}: {error}"
    raise NotBuilt(why)


def tensors(value: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a result, by where they are in it."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key in value:
            yield from tensors(value[key], f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from tensors(each, f"{path}[{i}]")


def gradients(model: Any, given: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Of a sum of all results, each element with a weight of its own."""
    total = torch.zeros(())
    for _, tensor in tensors(model(**given)):
        if tensor.is_floating_point() and tensor.requires_grad:
            weight = torch.linspace(-1, 1, tensor.numel()).reshape(tensor.shape)
            total = total.to(tensor.device) + (tensor.float() * weight.to(tensor.device)).sum()
    total.backward()
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


def computed(mode: str, model: Any, given: dict[str, Any], device: str) -> dict[str, torch.Tensor]:
    model = copy.deepcopy(model)
    if device == "neuron" and mode == "compile":
        model = torch.compile(model, backend="neuron")
    else:
        model = model.to(device)
        given = {key: each.to(device) if isinstance(each, torch.Tensor) else each for key, each in given.items()}
    if mode == "gradient":
        return dict(gradients(model, given))
    with torch.no_grad():
        return dict(tensors(model(**given)))


def apart(expected: dict[str, torch.Tensor], found: dict[str, torch.Tensor], tolerance: float) -> str:
    """What differs; empty: nothing."""
    if list(expected) != list(found):
        return f"results {sorted(found)}, expected {sorted(expected)}"
    pairs = {name: (plain(tensor), plain(found[name])) for name, tensor in expected.items()}
    off = {name: distance(a, b) for name, (a, b) in pairs.items()}
    # A result that is zero but for rounding, as the gradient of a bias of keys, is compared with the largest result.
    floor = 1e-3 * max((magnitude(a) for a, _ in pairs.values()), default=0.0)
    for name, (a, _) in pairs.items():
        off[name] *= min(1.0, magnitude(a) / floor) if floor else 1.0
    if worst([*off.values(), 0.0]) <= tolerance:
        return ""
    name = max(off, key=lambda name: off[name])
    return f"{name} differs by {off[name]:.1e} of its largest magnitude"


def widened(model: Any) -> Any:
    """The model in float64: what comes to a layer in float32, from tables that the model makes itself, as well."""
    model = copy.deepcopy(model).double()

    def widen(_: Any, given: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return pytree.tree_map_only(torch.Tensor, wide, given), pytree.tree_map_only(torch.Tensor, wide, keywords)

    for module in model.modules():
        module.register_forward_pre_hook(widen, with_kwargs=True)
    return model


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.dtype == torch.float32 else tensor


def compared(mode: str, model: Any, given: dict[str, Any]) -> tuple[str, str]:
    """(state, what differs from the CPU). What the CPU itself computes inexactly is compared with float64."""
    expected, found = (computed(mode, model, given, place) for place in ("cpu", "neuron"))
    if not (why := apart(expected, found, TOLERANCE[mode])):
        return "passed", ""
    try:
        exact = computed(mode, widened(model), pytree.tree_map_only(torch.Tensor, wide, given), "cpu")
    except RuntimeError:  # of models that make float32 inside of a layer
        return "failed", why
    if not apart(exact, expected, TOLERANCE[mode]):
        off = apart(exact, found, TOLERANCE[mode]) and why
        return ("failed" if off else "passed"), off
    if not (off := apart(exact, found, OF_ILL_CONDITIONED)):
        return "passed", ""
    # Near ties, of scores as of signs, fall as rounding has them: nothing can be said of such results.
    told = [name for name in exact if not apart({name: exact[name]}, {name: expected[name]}, OF_ILL_CONDITIONED)]
    wrong = apart(*({name: each[name] for name in told} for each in (exact, found)), OF_ILL_CONDITIONED)
    return ("failed", wrong) if wrong else ("undecided", f"{off}, and on the CPU as well")


def plain(tensor: torch.Tensor) -> np.ndarray:
    value = tensor.detach().cpu()
    return np.asarray(value.float().numpy() if value.is_floating_point() else value.numpy())


def magnitude(array: np.ndarray) -> float:
    """The largest of its finite floats; 0 of whole numbers, which are equal or not."""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array[:0]
    return float(np.abs(finite).max(initial=0.0))


@contextmanager
def stderr_of(process: list[str]) -> Iterator[None]:
    """Collects what this process writes to its standard error meanwhile."""
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            process.append(file.read().decode(errors="replace"))


def judged(mode: str, name: str) -> dict[str, Any]:
    said: list[str] = []
    row: dict[str, Any] = {"name": name, "why": ""}
    with stderr_of(said):
        try:
            model, given = built(name)
            row["state"], row["why"] = compared(mode, model, given)
        except NotBuilt as error:
            row |= {"state": "not built", "why": str(error).split("\n")[0]}
        except Exception as error:  # the device's, or what transformers does on it
            row |= {"state": "failed", "why": f"{type(error).__name__}: {error}"}
    row["host"] = sorted(set(re.findall(r"opentrn: (\S+) runs on the host", "".join(said))))
    torch.compiler.reset()
    return row


def main(mode: str, names: list[str]) -> None:
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what models print is no result
    if not names:
        print(*sorted(name for name in MODEL_MAPPING_NAMES if name in CONFIG_MAPPING), file=results)
    for name in names:
        print(json.dumps(judged(mode, name)), file=results, flush=True)
    results.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
