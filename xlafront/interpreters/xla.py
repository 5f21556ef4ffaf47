"""Running primitives one by one."""

from __future__ import annotations

from xlafront.core import tracing
from xlafront.core.primitive import Primitive
from xlafront.runtime.jaxlib_compat import Client

Backend = Client


def apply_primitive(prim: Primitive, *args, **params):
    """Run a primitive by compiling it, whatever its `def_impl` says.

    >>> apply_primitive(xf.lax.neg_p, 1.0)
    Array(-1., dtype=float32, weak_type=True)
    """
    return tracing.EvalTrace.apply(prim, args, params)
