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


def _type(dtype) -> str:
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    return _SHORT.get(name, name.replace("float", "f"))


def algorithm_text(algorithm: DotAlgorithm) -> str:
    """The attribute of StableHLO."""
    lhs, rhs, total = map(_type, algorithm[:3])
    return (f"#stablehlo.dot_algorithm<lhs_precision_type = {lhs}, rhs_precision_type = {rhs}, accumulation_type = {total}, "
            f"lhs_component_count = {algorithm.lhs_component_count}, rhs_component_count = {algorithm.rhs_component_count}, "
            f"num_primitive_operations = {algorithm.num_primitive_operations}, "
            f"allow_imprecise_accumulation = {str(bool(algorithm.allow_imprecise_accumulation)).lower()}>")
