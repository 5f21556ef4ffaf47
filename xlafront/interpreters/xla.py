"""Execution of single primitives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlafront.base.jaxlib_compat import Client
from xlafront.core import dtypes, tracing
from xlafront.core.primitive import Primitive

Backend = Client
# The function from an operand to its abstract value, by class. Libraries with array classes of their own add them.
pytype_aval_mappings = tracing.aval_of_type


def apply_primitive(prim: Primitive, *args, **params):
    """Run a primitive as a compiled program, regardless of its `def_impl`.

    Example:
        >>> apply_primitive(xf.lax.neg_p, 1.0)
        Array(-1., dtype=float32, weak_type=True)
    """
    return tracing.EvalTrace.apply(prim, args, params)


def _canonicalize(x):
    array = np.asarray(x)
    return array.astype(dtypes.canonicalize_dtype(array.dtype), copy=False)


# The function from a value to a NumPy array with a canonical dtype, by class. Operands are canonicalized in any case.
canonicalize_dtype_handlers: dict[type, Callable] = {np.ndarray: _canonicalize, np.generic: _canonicalize}
