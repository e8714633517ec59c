"""Matrices as tools publish them quantised, and the numbers that they stand for, in NumPy.

Written after transformers' finegrained_fp8.py (5.24), compressed-tensors 0.20, AutoGPTQ's and AutoAWQ's packing.
`./dev conformance decoders` compares those of compressed-tensors with the package.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
         "uint8": "U8", "int8": "I8", "int32": "I32", "int64": "I64"}  # fmt: skip
Tensors = dict[str, np.ndarray]
# What a matrix [rows, columns] becomes, by the ends of its tensors' names, and the numbers that it stands for.
Pack = Callable[[np.ndarray, np.random.Generator], tuple[Tensors, np.ndarray]]


def save(tensors: Tensors, path: Path) -> None:
    """A safetensors file; safetensors.numpy writes no fp8."""
    header, parts, end = {}, [], 0
    for name, value in tensors.items():
        data = np.ascontiguousarray(value).tobytes()
        header[name] = {"dtype": NAMES[str(value.dtype)], "shape": list(value.shape),
                        "data_offsets": [end, end + len(data)]}  # fmt: skip
        parts.append(data)
        end += len(data)
    words = json.dumps(header).encode()
    path.write_bytes(len(words).to_bytes(8, "little") + words + b"".join(parts))


def blocks(scales: np.ndarray, shape: tuple[int, ...], size: tuple[int, int]) -> np.ndarray:
    """A scale for each block, as one for each number."""
    spread = np.repeat(np.repeat(scales, size[0], 0), size[1], 1)
    return spread[: shape[0], : shape[1]]


def largest(matrix: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    rows, columns = (-(-n // s) for n, s in zip(matrix.shape, size))
    return np.array([[np.abs(matrix[r * size[0] : (r + 1) * size[0], c * size[1] : (c + 1) * size[1]]).max()
                      for c in range(columns)] for r in range(rows)], np.float32)  # fmt: skip


def words(numbers: np.ndarray, bits: int, order: tuple[int, ...] | None = None) -> np.ndarray:
    """Along the last axis, 32 / bits in each int32, the first lowest, or as `order` says for each place."""
    count = 32 // bits
    padded = np.zeros((*numbers.shape[:-1], -(-numbers.shape[-1] // count) * count), np.uint32)
    padded[..., : numbers.shape[-1]] = numbers
    parts = padded.reshape(*numbers.shape[:-1], -1, count)
    places = order or tuple(range(count))
    made = np.zeros(parts.shape[:-1], np.uint32)
    for place, which in enumerate(places):
        made |= parts[..., which] << np.uint32(place * bits)
    return made.view(np.int32)


def fp8(size: tuple[int, int], suffix: str = "weight_scale", kind: Any = ml_dtypes.float8_e4m3fn) -> Pack:
    """size: of blocks; 0: all rows, or all columns."""

    def pack(matrix: np.ndarray, random: np.random.Generator) -> tuple[Tensors, np.ndarray]:
        of = tuple(s or n for s, n in zip(size, matrix.shape))
        scales = largest(matrix, of) / np.float32(448)
        numbers = (matrix / blocks(scales, matrix.shape, of)).astype(kind)
        kept = scales.reshape(()) if size == (0, 0) else scales
        stood_for = numbers.astype(np.float32) * blocks(scales, matrix.shape, of)
        return {"weight": numbers, suffix: kept, "input_scale": np.float32([0.5])}, stood_for

    return pack


def mxfp8(matrix: np.ndarray, random: np.random.Generator) -> tuple[Tensors, np.ndarray]:
    exponents = np.floor(np.log2(largest(matrix, (1, 32)))) - 8
    scales = np.exp2(exponents).astype(np.float32)
    ratio = np.clip(matrix / blocks(scales, matrix.shape, (1, 32)), -448, 448)
    numbers = ratio.astype(ml_dtypes.float8_e4m3fn)
    stood_for = numbers.astype(np.float32) * blocks(scales, matrix.shape, (1, 32))
    return {"weight": numbers, "weight_scale": (exponents + 127).astype(np.uint8)}, stood_for


def fp4(group: int, factor: str = "") -> Pack:
    """Two in a byte. factor: the name of NVFP4's scale of scales; none: MXFP4's powers of two."""

    def pack(matrix: np.ndarray, random: np.random.Generator) -> tuple[Tensors, np.ndarray]:
        most, more = largest(matrix, (1, group)), np.float32(1)
        extra: Tensors = {}
        if factor:
            more = np.float32(0.01 * (1 + random.uniform()))
            kept = (most / 6 / more).astype(ml_dtypes.float8_e4m3fn)
            scales = kept.astype(np.float32) * more
            divided = factor == "weight_global_scale"
            if divided:
                more = np.float32(1) / more
                scales = kept.astype(np.float32) / more
            extra = {factor: np.float32([more]) if divided else np.float32(more).reshape(())}
        else:
            exponents = np.floor(np.log2(most)) - 2
            scales, kept = np.exp2(exponents).astype(np.float32), (exponents + 127).astype(np.uint8)
        ratio = matrix / blocks(scales, matrix.shape, (1, group))
        codes = np.abs(ratio[..., None] - FP4).argmin(-1).astype(np.uint8)
        packed = codes[:, ::2] | codes[:, 1::2] << 4
        name = "weight" if factor == "weight_scale_2" else "weight_packed"
        return {name: packed, "weight_scale": kept} | extra, FP4[codes] * blocks(scales, matrix.shape, (1, group))

    return pack


def int8(matrix: np.ndarray, random: np.random.Generator) -> tuple[Tensors, np.ndarray]:
    scales = (largest(matrix, (1, matrix.shape[1])) / 127).astype(ml_dtypes.bfloat16)
    numbers = np.rint(np.clip(matrix / scales.astype(np.float32), -127, 127)).astype(np.int8)
    return {"weight": numbers, "weight_scale": scales}, numbers.astype(np.float32) * scales.astype(np.float32)


def _whole_numbers(matrix: np.ndarray, bits: int, group: int, random: np.random.Generator, table: np.ndarray) -> Any:
    """Unsigned numbers, zeros and scales [rows, groups], and what they stand for. table: a column's group."""
    groups = -(-matrix.shape[1] // group)
    scales = np.stack([np.abs(matrix[:, table == g]).max(1) for g in range(groups)], 1) / 2 ** (bits - 1)
    scales = scales.astype(np.float16).astype(np.float32)
    zeros = random.integers(2 ** (bits - 1) - 1, 2 ** (bits - 1) + 2, scales.shape)
    numbers = np.clip(np.rint(matrix / scales[:, table]) + zeros[:, table], 0, 2**bits - 1).astype(np.int64)
    return numbers, zeros, scales, ((numbers - zeros[:, table]) * scales[:, table]).astype(np.float32)


def packed(bits: int, group: int, symmetric: bool, ordered: bool = False) -> Pack:
    """compressed-tensors' pack-quantized."""

    def pack(matrix: np.ndarray, random: np.random.Generator) -> tuple[Tensors, np.ndarray]:
        columns = matrix.shape[1]
        of = group or columns
        table = np.arange(columns) // of
        if ordered:
            table = random.permutation(table)
        numbers, zeros, scales, stood_for = _whole_numbers(matrix, bits, of, random, table)
        if symmetric:
            zeros = np.full_like(zeros, 2 ** (bits - 1))
            stood_for = ((numbers - zeros[:, table]) * scales[:, table]).astype(np.float32)
        tensors = {"weight_packed": words(numbers, bits), "weight_scale": scales.astype(np.float16),
                   "weight_shape": np.array(matrix.shape, np.int64)}  # fmt: skip
        if not symmetric:
            tensors["weight_zero_point"] = np.ascontiguousarray(words(zeros.T, bits).T)
        if ordered:
            tensors["weight_g_idx"] = table.astype(np.int32)
        return tensors, stood_for

    return pack


def gptq(bits: int, group: int, less_one: int = 1, ordered: bool = False) -> Pack:
    def pack(matrix: np.ndarray, random: np.random.Generator) -> tuple[Tensors, np.ndarray]:
        of = group or matrix.shape[1]
        table = np.arange(matrix.shape[1]) // of
        if ordered:
            table = random.permutation(table)
        numbers, zeros, scales, stood_for = _whole_numbers(matrix, bits, of, random, table)
        return {"qweight": np.ascontiguousarray(words(numbers, bits).T), "qzeros": words(zeros.T - less_one, bits),
                "scales": np.ascontiguousarray(scales.T).astype(np.float16), "g_idx": table.astype(np.int32),
                "bias": np.zeros(len(matrix), np.float16)}, stood_for  # fmt: skip

    return pack


def awq(matrix: np.ndarray, random: np.random.Generator) -> tuple[Tensors, np.ndarray]:
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    numbers, zeros, scales, stood_for = _whole_numbers(matrix, 4, 32, random, np.arange(matrix.shape[1]) // 32)
    return {"qweight": words(numbers.T, 4, order), "qzeros": words(zeros.T, 4, order),
            "scales": np.ascontiguousarray(scales.T).astype(np.float16)}, stood_for  # fmt: skip


COMPRESSED: dict[str, Any] = {"quant_method": "compressed-tensors"}
BLOCKS = COMPRESSED | {"config_groups": {"group_0": {"weights": {"block_structure": [48, 40]}}}}
METHODS: dict[str, tuple[dict[str, Any], Pack]] = {
    "fp8 blocks": ({"quant_method": "fp8", "weight_block_size": [24, 40]}, fp8((24, 40), "weight_scale_inv")),
    "fp8 of a tensor": ({"quant_method": "fp8"}, fp8((0, 0))),
    "fbgemm_fp8": ({"quant_method": "fbgemm_fp8"}, fp8((1, 0))),
    "float-quantized": (COMPRESSED, fp8((1, 0))),
    "float blocks": (BLOCKS, fp8((48, 40))),
    "fp8 e5m2": (COMPRESSED, fp8((1, 0), kind=ml_dtypes.float8_e5m2)),
    "mxfp8": (COMPRESSED, mxfp8),
    "int-quantized": (COMPRESSED, int8),
    "nvfp4": (COMPRESSED, fp4(16, "weight_global_scale")),
    "mxfp4": (COMPRESSED, fp4(32)),
    "modelopt": ({"quant_method": "modelopt"}, fp4(16, "weight_scale_2")),
    "modelopt fp8": ({"quant_method": "modelopt"}, fp8((0, 0))),
    "w4a16": (COMPRESSED, packed(4, 32, symmetric=True)),
    "w4a16 with zeros": (COMPRESSED, packed(4, 16, symmetric=False)),
    "w8a16": (COMPRESSED, packed(8, 0, symmetric=True)),
    "w2a16 in order": (COMPRESSED, packed(2, 16, symmetric=True, ordered=True)),
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 32}, gptq(4, 32)),
    "gptq in order": ({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True},
                      gptq(4, 32, ordered=True)),
    "gptq of 8 bits": ({"quant_method": "gptq", "bits": 8, "group_size": -1}, gptq(8, 0)),
    "gptq_v2 of 2 bits": ({"quant_method": "gptq", "bits": 2, "group_size": 16, "checkpoint_format": "gptq_v2"},
                          gptq(2, 16, less_one=0)),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}, awq),
}  # fmt: skip
