"""Models whose matrices the package compressed-tensors has quantised, in the formats that it writes.

Runs in the reference's environment (reference.py), without OpenTrn.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from safetensors.torch import save_file

# By the name of a case: the format, and arguments of its weights.
FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    "fp8-tensor": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "tensor"}),
    "fp8-channel": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}),
    "fp8-group": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 16}),
    "mxfp8": ("mxfp8-quantized", {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32,
                                  "scale_dtype": torch.uint8}),
    "int8-channel": ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}),
    "int8-zeros": ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": False}),
    "w4-group": ("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}),
    "w4-zeros": ("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 16,
                                    "symmetric": False}),
    "w8-channel": ("pack-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}),
    "w2-group": ("pack-quantized", {"num_bits": 2, "type": "int", "strategy": "group", "group_size": 16}),
    "nvfp4": ("nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16,
                                       "scale_dtype": torch.float8_e4m3fn}),
    "mxfp4": ("mxfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32,
                                       "scale_dtype": torch.uint8}),
}  # fmt: skip


def _extremes(weight: torch.Tensor, args: QuantizationArgs) -> tuple[torch.Tensor, torch.Tensor]:
    """The least and the largest number of each part that has a scale."""
    if args.strategy == "tensor":
        return weight.min().reshape(1), weight.max().reshape(1)
    parts = weight if args.strategy == "channel" else weight.unflatten(1, (-1, args.group_size))
    low, high = parts.amin(-1), parts.amax(-1)
    return (low[:, None], high[:, None]) if args.strategy == "channel" else (low, high)


def _compressed(
    weight: torch.Tensor, kind: str, args: QuantizationArgs
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    low, high = _extremes(weight, args)
    state = {"weight": weight}
    if args.strategy == "tensor_group":
        state["weight_global_scale"] = generate_gparam(weight.min(), weight.max()).reshape(1)
    scale, zero = calculate_qparams(low, high, args, state.get("weight_global_scale"))
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    state |= {"weight_scale": scale} | ({} if args.symmetric else {"weight_zero_point": zero})
    compressor = BaseCompressor.get_value_from_registry(kind)
    parts = compressor.compress(dict(state), scheme)
    if args.strategy == "tensor_group":  # whose decompress() computes in bf16
        numbers = unpack_fp4_from_uint8(parts["weight_packed"], *weight.shape, dtype=torch.float32)
        scale = parts["weight_scale"].float()
        return parts, dequantize(numbers, scale, args=args, global_scale=parts["weight_global_scale"])
    return parts, compressor.decompress(dict(parts), scheme)["weight"].float()


def quantise(model: Any, name: str, folder: Path) -> None:
    """Write the model as a folder in a format of FORMATS, and give it the numbers that this stands for."""
    kind, settings = FORMATS[name]
    args = QuantizationArgs(**{"symmetric": True} | settings)
    model.save_pretrained(folder)
    tensors: dict[str, torch.Tensor] = {}
    for key, value in model.state_dict().items():
        if "proj.weight" not in key:
            tensors[key] = value.clone()
            continue
        parts, numbers = _compressed(value.clone(), kind, args)
        tensors |= {f"{key.removesuffix('weight')}{end}": part.contiguous() for end, part in parts.items()}
        value.copy_(numbers)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    groups = {"group_0": {"targets": ["Linear"], "weights": args.model_dump(mode="json")}}
    config["quantization_config"] = {"quant_method": "compressed-tensors", "format": kind, "config_groups": groups}
    (folder / "config.json").write_text(json.dumps(config))
