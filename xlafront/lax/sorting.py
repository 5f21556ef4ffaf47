"""Sorting. The largest elements alone are in `largest`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.ir import DropVar
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules, sorting_on_cpu
from xlafront.lax.arguments import KINDS, check_dtype
from xlafront.lax.indexing import take_along
from xlafront.lax.shapes import broadcast_batch, canonical_axis, counting, typed
from xlafront.staging.library import lax_function, written_once


def _abstract(*xs, dimension, is_stable, num_keys):
    for x in xs:
        check_dtype("sort", "int float complex bool", x.dtype)
    for x in xs:
        if x.shape != xs[0].shape:
            raise errors.incompatible_shapes("sort", [("", a.shape) for a in xs], "All operands must have one shape.")
    return [typed(x, x.shape) for x in xs]


def _canonical_key(ctx, x, d):
    """Floats are compared by total order: one zero and one NaN make that the usual order with NaN last.
    XLA's compiler for GPUs knows it, written like this, and sorts by its library's kernels."""
    scalar = ((), d)
    zero = ctx.constant(np.zeros((), d))
    nan = ctx.constant(np.asarray(np.nan).astype(d))
    one_zero = ctx.op("stablehlo.select", [ctx.compare("EQ", "FLOAT", x, zero, ()), zero, x], [scalar])
    return ctx.op("stablehlo.select", [ctx.compare("NE", "FLOAT", x, x, ()), nan, one_zero], [scalar])


def _less(ctx, pairs):
    """Lexicographic comparison of the key pairs."""
    result = None
    for x, y, d in reversed(pairs):
        if dtypes.is_complex(d):
            real = dtypes.to_real(d)
            parts = [[ctx.op(f"stablehlo.{part}", [v], [((), real)]) for v in (x, y)] for part in ("real", "imag")]
            inner = [(a, b, real) for a, b in parts]
            if result is not None:
                inner_less = _less(ctx, inner)
                same = [ctx.compare("EQ", "TOTALORDER", _canonical_key(ctx, a, real), _canonical_key(ctx, b, real), ())
                        for a, b in parts]
                inner_same = ctx.op("stablehlo.and", same, [((), np.dtype(bool))])
                result = ctx.op("stablehlo.select", [inner_same, result, inner_less], [((), np.dtype(bool))])
            else:
                result = _less(ctx, inner)
            continue
        if KINDS["float"](d):
            x, y, kind = _canonical_key(ctx, x, d), _canonical_key(ctx, y, d), "TOTALORDER"
        else:
            kind = "UNSIGNED" if d == dtypes.bool_ or dtypes.is_unsigned(d) else "SIGNED"
        less = ctx.compare("LT", kind, x, y, ())
        if result is not None:
            same = ctx.compare("EQ", kind, x, y, ())
            less = ctx.op("stablehlo.select", [same, result, less], [((), np.dtype(bool))])
        result = less
    return result


def _lower(ctx, *operands, dimension, is_stable, num_keys):
    if sorting_on_cpu.applies(ctx.avals_in, dimension, num_keys) and ctx.platform == "cpu":
        return sorting_on_cpu.lower(ctx, *operands, dimension=dimension)
    m = lowering.mlir
    kinds = [a.dtype for a in ctx.avals_in]
    scalars = [((), d) for d in kinds for _ in range(2)]

    def compare(inner, *arguments):
        pairs = [(arguments[2 * i], arguments[2 * i + 1], kinds[i]) for i in range(num_keys)]
        return [_less(inner, pairs)]

    return ctx.with_region("stablehlo.sort", operands, scalars, compare, types=ctx.avals_out,
                           dimension=m.i64(dimension), is_stable=m.boolean(is_stable))


def _jvp(primals, tangents, *, dimension, is_stable, num_keys):
    shape = np.shape(primals[0])
    positions = counting(dtypes.int32, shape, dimension)
    *answers, order = sort_p.bind(*primals, positions, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
    moved = [Zero(tracing.aval_of(a).to_tangent_aval()) if type(t) is Zero else take_along(t, order, dimension)
             for a, t in zip(answers, tangents)]
    return answers, moved


def _batch(axis_size, operands, dims, *, dimension, is_stable, num_keys):
    xs = [broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)]
    results = sort_p.bind(*xs, dimension=dimension + 1, is_stable=is_stable, num_keys=num_keys)
    return results, [0] * len(results)


def _dce(read, eqn):
    """Keys that nobody reads in order (those of `argsort`) are marked: not all lowerings have to move them."""
    unread = [v for v, is_read in zip(eqn.outvars, read) if not is_read and type(v) is not DropVar]
    return eqn.replace(outvars=[DropVar(v.aval) if v in unread else v for v in eqn.outvars]) if unread else eqn


sort_p = Primitive("sort", multiple_results=True, abstract=_abstract, lower=_lower, jvp=_jvp, batch=_batch, dce=_dce,
                   sharding_rule=sharding_rules.along("dimension"))


@written_once
def sort(operand: ArrayLike | Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True,
         num_keys: int = 1) -> Array | tuple[Array, ...]:
    """Elements in ascending order along a dimension; NaN goes last.

    - `operand`: an array, or several of one shape, whose elements move together.
    - `dimension`: along which to sort.
    - `is_stable`: whether equal elements keep their order.
    - `num_keys`: how many of the arrays decide on the order, the first one first.

    >>> lax.sort((xnp.array([3, 1, 2]), xnp.array([0, 1, 2])))
    (Array([1, 2, 3], dtype=int32), Array([1, 2, 0], dtype=int32))
    """
    several = isinstance(operand, (tuple, list))
    operands = tuple(operand) if several else (operand,)
    if not operands:
        raise TypeError("sort needs at least one array.")
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"sort of {len(operands)} array(s) can use 1 to {len(operands)} of them as keys, "
                         f"not {num_keys}.")
    axis = canonical_axis(dimension, np.ndim(operands[0]), "sort")
    results = _sort_kernel(operands, axis, bool(is_stable), int(num_keys))
    return tuple(results) if several else results[0]


@lax_function(static=("dimension", "is_stable", "num_keys"), name="sort")
def _sort_kernel(operands, dimension, is_stable, num_keys):
    return sort_p.bind(*operands, dimension=dimension, is_stable=is_stable, num_keys=num_keys)


def sort_key_val(keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Keys in ascending order along a dimension, and values that move with them.

    - `keys`, `values`: two arrays of one shape.
    - `dimension`: along which to sort.
    - `is_stable`: whether equal keys keep their order.

    >>> lax.sort_key_val(xnp.array([3, 1, 2]), xnp.array([0, 1, 2]))[1]
    Array([1, 2, 0], dtype=int32)
    """
    return sort((keys, values), dimension, is_stable, 1)  # type: ignore[return-value]  # two arrays for two
