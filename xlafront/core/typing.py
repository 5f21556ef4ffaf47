"""What signatures say of the values that functions take and return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from xlafront.core.tracing import Tracer
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.specs import PartitionSpec

Array: TypeAlias = ArrayImpl | Tracer
ArrayLike: TypeAlias = Array | np.ndarray | np.generic | bool | int | float | complex
DTypeLike: TypeAlias = np.dtype | type | str | Any
Axes: TypeAlias = int | Sequence[int] | None
ShardingLike: TypeAlias = NamedSharding | PartitionSpec | None
