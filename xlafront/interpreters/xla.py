"""Running primitives one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlafront.core import dtypes, tracing
from xlafront.core.primitive import Primitive
from xlafront.runtime.jaxlib_compat import Client

Backend = Client
# Of which type the values of a class are as operands: a library that has an array class of its own enters it.
pytype_aval_mappings = tracing.abstractors


def apply_primitive(prim: Primitive, *args, **params):
    """Run a primitive by compiling it, whatever its `def_impl` says.

    >>> apply_primitive(xf.lax.neg_p, 1.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return tracing.EvalTrace.apply(prim, args, params)


def _canonicalized(x):
    found = np.asarray(x)
    return found.astype(dtypes.canonicalize_dtype(found.dtype), copy=False)


# The values of a class as NumPy's of a dtype that there is while 64 bits are off. Operands of all classes are made so anyway.
canonicalize_dtype_handlers: dict[type, Callable] = {np.ndarray: _canonicalized, np.generic: _canonicalized}
