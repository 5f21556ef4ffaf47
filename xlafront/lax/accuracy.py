"""Accuracy of transcendental functions, where the hardware offers a choice."""

from __future__ import annotations

import enum


class AccuracyMode(enum.Enum):
    """Named accuracy of a transcendental function, where the hardware offers a choice."""

    HIGHEST = 1
    DEFAULT = 2


class Tolerance:
    """Maximum error of a transcendental function.

    At least one of the tolerances is set; none is negative.

    Args:
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        ulps: Tolerance in units in the last place.

    Example:
        >>> lax.exp(1.0, accuracy=lax.Tolerance(ulps=2))
        Array(2.7182817, dtype=float32, weak_type=True)
    """

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> None:
        if min(atol, rtol, ulps) < 0:
            raise ValueError(f"the tolerances of a Tolerance must be non-negative, got {atol=}, {rtol=}, {ulps=}.")
        if max(atol, rtol, ulps) == 0:
            raise ValueError("a Tolerance needs at least one of atol, rtol and ulps to be set to a value other than 0.")
        self.atol, self.rtol, self.ulps = atol, rtol, ulps

    def __eq__(self, other: object) -> bool:
        return type(other) is Tolerance and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.atol, self.rtol, self.ulps))

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


def accuracy_text(accuracy: AccuracyMode | Tolerance) -> str:
    """Return the accuracy as an attribute of a StableHLO operation."""
    if isinstance(accuracy, Tolerance):
        return (f"#stablehlo.result_accuracy<atol = {float(accuracy.atol):.17e}, rtol = {float(accuracy.rtol):.17e}, "
                f"ulps = {int(accuracy.ulps)}, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>")
    if isinstance(accuracy, AccuracyMode):
        return f"#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<{accuracy.name}>>"
    raise NotImplementedError(f"accuracy {accuracy!r} is not supported: pass an AccuracyMode or a Tolerance of xlafront.lax.")
