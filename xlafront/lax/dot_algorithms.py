"""`DotAlgorithm`, an algorithm of matrix products given by dtypes and numbers of operations; presets are named algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from xlafront.core.typing import DTypeLike


class DotAlgorithm(NamedTuple):
    """An algorithm of matrix products, for `precision`, on platforms that support a choice.

    Args:
        lhs_precision_type, rhs_precision_type: dtypes to which the operands are rounded.
        accumulation_type: dtype of the accumulation.
        lhs_component_count, rhs_component_count: Number of components of the rounded dtype that represent an operand.
        num_primitive_operations: Number of products of these components.
        allow_imprecise_accumulation: If True, some steps may accumulate in fewer bits.

    Example:
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
_RESULTS_OF_F8 = (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
                  ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e4m3b11fnuz)
_STORED = {"BF16": "bfloat16", "F16": "float16", "TF32": "float32", "F32": "float32", "F64": "float64"}


def _type(dtype: DTypeLike) -> str:
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if name.startswith("float8_"):
        return "f8" + name.removeprefix("float8_").upper()
    return _SHORT.get(name, name.replace("float", "f"))


class PresetTypes(NamedTuple):
    """The dtypes of a named algorithm: of operands that it takes unconverted, and of the accumulation; None for any dtypes."""

    operands: tuple[np.dtype, ...] | None
    accumulation: np.dtype | None


def preset_types(name: str) -> PresetTypes:
    """Return the dtypes of the preset of this name. The first of `operands` is the one to which others are converted."""
    if name == "DEFAULT":
        return PresetTypes(None, None)
    kind, _, total, *rest = name.removeprefix("ANY_F8_").split("_")
    accumulation = None if total == "ANY" else np.dtype(_STORED[total])
    if kind == "ANY":
        return PresetTypes(None, accumulation)
    stored = np.dtype(_STORED[kind if not rest else "F32"])  # several products: of components of float32 numbers
    return PresetTypes((stored, np.dtype(np.float32)) if kind == "BF16" and not rest else (stored,), accumulation)


def result_types(name: str, lhs: np.dtype, rhs: np.dtype) -> tuple[np.dtype, ...] | None:
    """Return the dtypes that a product by the preset of this name can have; None for any."""
    operands, accumulation = preset_types(name)
    if accumulation is None:
        return None
    if operands is None:
        return (accumulation, *map(np.dtype, _RESULTS_OF_F8))
    narrow = operands[0]
    return (accumulation, narrow) if lhs == rhs == narrow != accumulation else (accumulation,)


class Preset(NamedTuple):
    """A named algorithm for operands of given dtypes: the dtypes to which the operands are converted, and the dtype of the
    product."""

    algorithm: DotAlgorithm
    lhs: Any
    rhs: Any
    result: Any


def preset(name: str, lhs: DTypeLike, rhs: DTypeLike, result: np.dtype) -> Preset:
    """Return the preset of this name for the dtypes of the operands and of the result."""
    operands = np.dtype(lhs), np.dtype(rhs)
    taken, total = preset_types(name)
    if taken is None:
        if not all(d.name.startswith("float8_") for d in operands):
            raise ValueError(f"dot_general with the precision {name} takes arrays of 8-bit floats, got operands of dtypes "
                             f"{operands[0]} and {operands[1]}. Convert them, or use another precision.")
        exact = name != "ANY_F8_ANY_F8_F32_FAST_ACCUM"
        algorithm = DotAlgorithm(*operands, np.float32, allow_imprecise_accumulation=not exact)
        return Preset(algorithm, operands[0], operands[1], result)
    kind, _, _, *rest = name.split("_")
    count = int(rest[0][1:]) if rest else 1
    x, y = (d if d in taken or d.kind == "c" else taken[0] for d in operands)
    results = result_types(name, x, y)
    product = result if result in results or any(d.kind == "c" for d in operands) else total
    rounded = kind.lower()
    return Preset(DotAlgorithm(rounded, rounded, _type(total), num_primitive_operations=count), x, y, product)


def algorithm_text(algorithm: DotAlgorithm) -> str:
    """Return the StableHLO attribute of an algorithm."""
    lhs, rhs, total = map(_type, algorithm[:3])
    return (f"#stablehlo.dot_algorithm<lhs_precision_type = {lhs}, rhs_precision_type = {rhs}, accumulation_type = {total}, "
            f"lhs_component_count = {algorithm.lhs_component_count}, rhs_component_count = {algorithm.rhs_component_count}, "
            f"num_primitive_operations = {algorithm.num_primitive_operations}, "
            f"allow_imprecise_accumulation = {str(bool(algorithm.allow_imprecise_accumulation)).lower()}>")
