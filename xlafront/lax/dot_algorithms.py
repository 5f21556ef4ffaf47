"""`DotAlgorithm`: how matrix products are computed, of types and numbers of operations; named ones are presets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class DotAlgorithm(NamedTuple):
    """In which types the hardware multiplies matrices and adds up, as `precision` of products; for platforms that let one say.

    - `lhs_precision_type`, `rhs_precision_type`: what the operands are rounded to.
    - `accumulation_type`: what sums are in.
    - `lhs_component_count`, `rhs_component_count`: into how many such numbers each operand is split.
    - `num_primitive_operations`: how many products of these parts are made.
    - `allow_imprecise_accumulation`: whether sums may be made in fewer bits for some steps.

    >>> lax.DotAlgorithm(np.float32, np.float32, np.float32).num_primitive_operations
    1
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


_SHORT = {"bfloat16": "bf16", "tfloat32": "tf32"}
_STORED = {"BF16": "bfloat16", "F16": "float16", "TF32": "float32", "F32": "float32", "F64": "float64"}


def _type(dtype) -> str:
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if name.startswith("float8_"):
        return "f8" + name.removeprefix("float8_").upper()
    return _SHORT.get(name, name.replace("float", "f"))


class Preset(NamedTuple):
    """What a named algorithm does to operands of certain dtypes: they become others first, and so is their product."""

    algorithm: DotAlgorithm
    lhs: Any
    rhs: Any
    result: Any


def preset(name: str, lhs, rhs, result) -> Preset:
    """The preset of this name for operands and a result of these dtypes."""
    operands = np.dtype(lhs), np.dtype(rhs)
    kind, _, total, *rest = name.split("_")
    if kind == "ANY":
        if not all(d.name.startswith("float8_") for d in operands):
            raise ValueError(f"dot_general with the precision {name} multiplies arrays of 8-bit floats, got operands of dtypes "
                             f"{operands[0]} and {operands[1]}. Convert them, or use another precision.")
        exact = name != "ANY_F8_ANY_F8_F32_FAST_ACCUM"
        algorithm = DotAlgorithm(*operands, np.float32, allow_imprecise_accumulation=not exact)
        return Preset(algorithm, operands[0], operands[1], result)
    narrow, total = np.dtype(_STORED[kind]), np.dtype(_STORED[total])
    count = int(rest[0][1:]) if rest else 1
    if count > 1:  # the parts of such numbers
        narrow = np.dtype(np.float32)
    kept = (narrow, np.dtype(np.float32)) if kind == "BF16" else (narrow,)
    x, y = (d if d in kept or d.kind == "c" else narrow for d in operands)
    results = (total, narrow) if x == y == narrow else (total,)
    given = result if result in results or any(d.kind == "c" for d in operands) else total
    rounded = kind.lower()
    return Preset(DotAlgorithm(rounded, rounded, _type(total), num_primitive_operations=count), x, y, given)


def algorithm_text(algorithm: DotAlgorithm) -> str:
    """The attribute of StableHLO."""
    lhs, rhs, total = map(_type, algorithm[:3])
    return (f"#stablehlo.dot_algorithm<lhs_precision_type = {lhs}, rhs_precision_type = {rhs}, accumulation_type = {total}, "
            f"lhs_component_count = {algorithm.lhs_component_count}, rhs_component_count = {algorithm.rhs_component_count}, "
            f"num_primitive_operations = {algorithm.num_primitive_operations}, "
            f"allow_imprecise_accumulation = {str(bool(algorithm.allow_imprecise_accumulation)).lower()}>")
