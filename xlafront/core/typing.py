"""Types in the signatures of functions.

`Aval` and the types after it describe values in jaxprs and the rules of primitives. They exist for type checkers only: import
them under `TYPE_CHECKING`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl, NamedSharding
from xlafront.base.specs import PartitionSpec
from xlafront.core.tracing import Tracer

if TYPE_CHECKING:  # for type checkers, the one class that arrays and tracers are instances of
    from xlafront.numpy.array_methods import Array as Array
else:
    Array: TypeAlias = ArrayImpl | Tracer
ArrayLike: TypeAlias = Array | Tracer | np.ndarray | np.generic | bool | int | float | complex
DTypeLike: TypeAlias = np.dtype | type | str | Any
Axes: TypeAlias = int | Sequence[int] | None
ShardingLike: TypeAlias = NamedSharding | PartitionSpec | None

if TYPE_CHECKING:
    from typing import Protocol

    from xlafront.core.avals import AbstractValue
    from xlafront.core.jaxpr import Literal, Var
    from xlafront.core.refs import RefTangent
    from xlafront.core.zeros import Zero

    Aval: TypeAlias = AbstractValue  # the type of a value in a jaxpr
    Atom: TypeAlias = Var | Literal  # an operand of an equation
    Tangent: TypeAlias = Array | Tracer | np.ndarray | Zero | RefTangent  # a tangent or a cotangent
    Marks: TypeAlias = Sequence[bool]  # one for each operand or result
    Dims: TypeAlias = Sequence[int | None]  # batch dimensions, None for values that are no batches
    Params: TypeAlias = dict[str, Any]  # the parameters of an equation

    class JvpRule(Protocol):
        """Returns the results of an operation and their tangents."""

        def __call__(self, primals: Sequence[Any], tangents: Sequence[Any], /, *args: Any, **params: Any
                     ) -> tuple[Any, Any]: ...

    class TransposeRule(Protocol):
        """Returns the cotangents of the operands in which an operation is linear."""

        def __call__(self, cotangents: Any, /, *operands: Any, **params: Any) -> Sequence[Any]: ...

    class BatchRule(Protocol):
        """Applies an operation to batches; returns the results and their batch dimensions."""

        def __call__(self, axis_size: int, operands: Sequence[Any], dims: Dims, /, *args: Any, **params: Any
                     ) -> tuple[Any, Any]: ...

    class LoweringRule(Protocol):
        """Writes an operation as StableHLO; returns the values of its results."""

        def __call__(self, ctx: Any, /, *operands: Any, **params: Any) -> Any: ...
