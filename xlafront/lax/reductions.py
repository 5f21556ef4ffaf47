"""Reductions, cumulative operations, and the indices of extreme elements."""

from __future__ import annotations

import math

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray, entry_of, with_entry
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE, constant_like, div, eq, mul, to_dtype, where
from xlafront.lax.families import check_dtype, elementwise
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import (
    broadcast_in_dim_p,
    canonical_axes,
    canonical_axis,
    concatenate_p,
    named_sharding,
    pad_p,
    reshape_to,
    rev_p,
    slice_p,
    structural,
    typed,
)
from xlafront.staging.jit import library


def _lowest(d):
    if dtypes.is_inexact(d):
        return -np.inf if d.name not in _NO_INFINITY else dtypes.finfo(d).min
    return False if d == dtypes.bool_ else dtypes.iinfo(d).min


def _highest(d):
    if dtypes.is_inexact(d):
        return np.inf if d.name not in _NO_INFINITY else dtypes.finfo(d).max
    return True if d == dtypes.bool_ else dtypes.iinfo(d).max


_NO_INFINITY = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float4_e2m1fn",
                "float8_e8m0fnu")


def _ones(d):
    return True if d == dtypes.bool_ else np.array(-1).astype(d)


# name -> (operation, identity element, dtypes)
REDUCERS = {
    "reduce_sum": ("stablehlo.add", lambda d: 0, "int float complex bool"),
    "reduce_prod": ("stablehlo.multiply", lambda d: 1, "int float complex bool"),
    "reduce_max": ("stablehlo.maximum", _lowest, "int float complex bool"),
    "reduce_min": ("stablehlo.minimum", _highest, "int float complex bool"),
    "reduce_and": ("stablehlo.and", _ones, "int bool"),
    "reduce_or": ("stablehlo.or", lambda d: 0, "int bool"),
    "reduce_xor": ("stablehlo.xor", lambda d: 0, "int bool"),
}


def broadcast_back(y, shape, axes):
    """The result of a reduction over `axes` at the shape it was reduced from."""
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    return broadcast_in_dim_p.bind(y, shape=tuple(shape), broadcast_dimensions=kept, sharding=None)


def _sum_jvp(primals, tangents, **params):
    [x], [t] = primals, tangents
    answer = PRIMITIVES["reduce_sum"].bind(x, **params)
    if type(t) is Zero:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    return answer, PRIMITIVES["reduce_sum"].bind(t, **params)


def _sum_transpose(ct, x, *, axes, out_sharding):
    return [Zero(x.aval) if type(ct) is Zero else broadcast_back(ct, x.aval.shape, axes)]


def _extreme_jvp(name):
    def jvp(primals, tangents, *, axes, out_sharding):
        [x], [t] = primals, tangents
        answer = PRIMITIVES[name].bind(x, axes=axes, out_sharding=out_sharding)
        if type(t) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        # Elements that attain the extreme share its tangent.
        here = to_dtype(eq(x, broadcast_back(answer, np.shape(x), axes)), tracing.aval_of(t).dtype)
        count = reduce_sum_p.bind(here, axes=axes, out_sharding=None)
        return answer, div(reduce_sum_p.bind(mul(t, here), axes=axes, out_sharding=None), count)

    return jvp


def _product_by_halves(x, axes):
    """The product as a balanced tree of multiplications, whose derivative has no division."""
    kept = [i for i in range(np.ndim(x)) if i not in axes]
    from xlafront.lax.shapes import transpose_p

    x = transpose_p.bind(x, permutation=(*axes, *kept))
    shape = np.shape(x)[len(axes):]
    n = math.prod(np.shape(x)[:len(axes)])
    x = reshape_to(x, (n, *shape))
    if n == 0:
        return broadcast_in_dim_p.bind(constant_like(x, 1), shape=shape, broadcast_dimensions=(), sharding=None)
    while n > 1:
        if n % 2:
            x = pad_p.bind(x, constant_like(x, 1), padding_config=((0, 1, 0), *((0, 0, 0),) * len(shape)))
            n += 1
        half = n // 2
        zeros, rest = (0,) * len(shape), tuple(shape)
        x = mul(slice_p.bind(x, start_indices=(0, *zeros), limit_indices=(half, *rest), strides=None),
                slice_p.bind(x, start_indices=(half, *zeros), limit_indices=(n, *rest), strides=None))
        n = half
    return reshape_to(x, shape)


def _jvp_of(function, primals, tangents):
    """The derivative of an operation that is written as a function of others."""
    from xlafront.transforms.ad.jvp import jvp_flat

    [answer], [tangent] = jvp_flat(lambda x: [function(x)], primals, tangents)
    return answer, tangent


def _product_jvp(primals, tangents, *, axes, out_sharding):
    return _jvp_of(lambda x: _product_by_halves(x, axes), primals, tangents)


def _reducer(name: str) -> Primitive:
    operation, identity, accepts = REDUCERS[name]

    def abstract(x, *, axes, out_sharding=None):
        check_dtype(name, accepts, x.dtype)
        return typed(x, [n for i, n in enumerate(x.shape) if i not in axes])

    def lower(ctx, x, *, axes, out_sharding=None):
        d = ctx.avals_in[0].dtype
        actual = "stablehlo.or" if d == dtypes.bool_ and name == "reduce_sum" else operation
        init = ctx.constant(np.asarray(identity(d)).astype(d))
        scalar = ((), d)
        return ctx.with_region(
            "stablehlo.reduce", [x, init], [scalar, scalar], lambda inner, a, b: [inner.op(actual, [a, b], [scalar])],
            types=[ctx.aval_out], dimensions=lowering.mlir.i64s(axes))[0]

    def batch(axis_size, operands, dims, *, axes, out_sharding=None):
        [x], [d] = operands, dims
        moved = tuple(a + (a >= d) for a in axes)
        out = d - sum(a < d for a in moved)
        return primitive.bind(x, axes=moved, out_sharding=with_entry(out_sharding, out, entry_of(tracing.aval_of(x), d))), out

    primitive = Primitive(name, abstract=abstract, lower=lower, batch=batch, shown_as=name.removeprefix("reduce_"))
    return primitive


PRIMITIVES = {name: _reducer(name) for name in REDUCERS}
reduce_sum_p = PRIMITIVES["reduce_sum"]
reduce_sum_p.jvp, reduce_sum_p.transpose = _sum_jvp, _sum_transpose
PRIMITIVES["reduce_max"].jvp = _extreme_jvp("reduce_max")
PRIMITIVES["reduce_min"].jvp = _extreme_jvp("reduce_min")
PRIMITIVES["reduce_prod"].jvp = _product_jvp


# argmax, argmin: the extreme, then the least index that attains it. NaN counts as the extreme.


def _arg_function(name):
    reducer = "reduce_max" if name == "argmax" else "reduce_min"

    def find(x, *, axes, index_dtype):
        [axis] = axes
        shape = np.shape(x)
        d = tracing.aval_of(x).dtype
        from xlafront.lax.shapes import iota_p

        positions = iota_p.bind(dtype=index_dtype, shape=shape, dimension=axis, sharding=None)
        extreme = PRIMITIVES[reducer].bind(x, axes=axes, out_sharding=None)
        hit = eq(x, broadcast_back(extreme, shape, axes))
        beyond = np.asarray(shape[axis]).astype(index_dtype)[()]
        first = PRIMITIVES["reduce_min"].bind(where(hit, positions, beyond), axes=axes, out_sharding=None)
        if not dtypes.is_inexact(d):
            return first
        nan = ELEMENTWISE["ne"].bind(x, x)
        first_nan = PRIMITIVES["reduce_min"].bind(where(nan, positions, beyond), axes=axes, out_sharding=None)
        return where(ELEMENTWISE["lt"].bind(first_nan, beyond), first_nan, first)

    return find


def _arg_reducer(name: str) -> Primitive:
    def abstract(x, *, axes, index_dtype):
        check_dtype(name, "int float bool", x.dtype)
        [axis] = axes
        if not dtypes.is_integer(np.dtype(index_dtype)):
            raise TypeError(f"{name} returns integers, not {index_dtype}.")
        if x.shape[axis] < 1:
            raise ValueError(f"{name} of an empty dimension: axis {axis} of shape {x.shape}.")
        return ShapedArray(tuple(n for i, n in enumerate(x.shape) if i != axis), np.dtype(index_dtype))

    def batch(axis_size, operands, dims, *, axes, index_dtype):
        [x], [d], [a] = operands, dims, axes
        moved = a + (a >= d)
        return primitive.bind(x, axes=(moved,), index_dtype=index_dtype), d - (moved < d)

    def jvp(primals, tangents, **params):
        answer = primitive.bind(*primals, **params)
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())

    primitive = Primitive(name, abstract=abstract, lower=lower_fun(_arg_function(name)), batch=batch, jvp=jvp)
    return primitive


argmax_p, argmin_p = _arg_reducer("argmax"), _arg_reducer("argmin")


# Cumulative operations


def scan_along(combine, xs: list, axis: int, reverse: bool = False) -> list:
    """Prefix combinations along an axis in logarithmically many steps; `combine` maps two lists to one."""
    if reverse:
        xs = [rev_p.bind(x, dimensions=(axis,)) for x in xs]

    def part(x, start, limit, stride=1):
        shape = np.shape(x)
        if start == 0 and limit == shape[axis] and stride == 1:
            return x
        starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis], limits[axis], steps[axis] = start, limit, stride
        return slice_p.bind(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=tuple(steps))

    def prefixes(elements):
        n = np.shape(elements[0])[axis]
        if n < 2:
            return elements
        pairs = combine([part(e, 0, n - n % 2, 2) for e in elements], [part(e, 1, n, 2) for e in elements])
        odd = prefixes(pairs)
        left = [part(o, 0, np.shape(o)[axis] - (n % 2 == 0)) for o in odd]
        even = combine(left, [part(e, 2, n, 2) for e in elements]) if n > 2 else None
        firsts = [part(e, 0, 1) for e in elements]
        evens = firsts if even is None else [
            concatenate_p.bind(f, e, dimension=axis) for f, e in zip(firsts, even)]
        return [_interleave(a, b, axis) for a, b in zip(evens, odd)]

    results = prefixes(xs)
    return [rev_p.bind(x, dimensions=(axis,)) for x in results] if reverse else results


def _interleave(a, b, axis):
    n, m = np.shape(a)[axis], np.shape(b)[axis]
    zero = np.zeros((), tracing.aval_of(a).dtype)

    def config(low, high):
        return tuple((low, high, 1) if i == axis else (0, 0, 0) for i in range(np.ndim(a)))

    first_half = pad_p.bind(a, zero, padding_config=config(0, 1 if n == m else 0))
    second_half = pad_p.bind(b, zero, padding_config=config(1, 0 if n == m else 1))
    return ELEMENTWISE["or" if tracing.aval_of(a).dtype == dtypes.bool_ else "add"].bind(first_half, second_half)


_CUMULATIVE = {"cumsum": ("add", "reduce_sum"), "cumprod": ("mul", "reduce_prod"), "cummax": ("max", "reduce_max"),
               "cummin": ("min", "reduce_min")}


def _log_add(x, y):
    from xlafront.lax.elementwise import abs_, add, exp_, ge, log1p_, max_, neg, real_, sub

    if tracing.aval_of(x).dtype.kind == "c":  # the term with the larger real part in front
        first = ge(real_(x), real_(y))
        big, small = where(first, x, y), where(first, y, x)
        gap = sub(small, big)
        return add(big, log1p_(exp_(where(eq(small, big), constant_like(x, 0), gap))))
    top = max_(x, y)
    gap = abs_(sub(x, y))
    same = eq(x, y)
    infinite = ELEMENTWISE["is_finite"].bind(top)
    smooth = add(top, log1p_(exp_(neg(where(same, constant_like(x, 0), gap)))))
    return where(infinite, smooth, top)


def _log_add_share(g, z, x):
    """The derivative in an operand is its share of the sum, `exp(x - z)`; of two infinite operands, 1."""
    from xlafront.lax.elementwise import exp_, mul, sub

    if tracing.aval_of(x).dtype.kind == "c":
        return mul(g, exp_(sub(x, z)))
    top = constant_like(x, np.inf)
    x, z = (where(eq(v, top), constant_like(v, 0), v) for v in (x, z))
    return mul(g, exp_(sub(x, z)))


def _lower_log_add(ctx, x, y):
    full = [aval.update(shape=ctx.aval_out.shape) for aval in ctx.avals_in]  # scalars come spread
    return lower_fun(_log_add)(ctx.replace(avals_in=full), x, y)


log_add_p = elementwise("logaddexp", _lower_log_add, "float complex", derivatives=(
    lambda g, z, x, y: _log_add_share(g, z, x), lambda g, z, x, y: _log_add_share(g, z, y)))


def _cumulative(name: str) -> Primitive:
    def combine(a, b):
        if name == "cumlogsumexp":
            return [log_add_p.bind(a[0], b[0])]
        return [ELEMENTWISE[_CUMULATIVE[name][0]].bind(a[0], b[0])]

    def compute(x, *, axis, reverse):
        return scan_along(combine, [x], axis, reverse)[0]

    def abstract(x, *, axis, reverse):
        check_dtype(name, "float complex" if name == "cumlogsumexp" else "int float complex", x.dtype)
        return typed(x, x.shape)

    def batch(axis_size, operands, dims, *, axis, reverse):
        [x], [d] = operands, dims
        return primitive.bind(x, axis=axis + (axis >= d), reverse=reverse), d

    def jvp(primals, tangents, **params):
        return _jvp_of(lambda x: compute(x, **params), primals, tangents)

    primitive = Primitive(name, abstract=abstract, lower=lower_fun(compute), batch=batch, jvp=jvp)
    return primitive


CUMULATIVE = {name: _cumulative(name) for name in (*_CUMULATIVE, "cumlogsumexp")}
cumsum_p = CUMULATIVE["cumsum"] = structural(
    "cumsum", CUMULATIVE["cumsum"].abstract, CUMULATIVE["cumsum"].lowerings[None],
    lambda ct, aval, *, axis, reverse: cumsum_p.bind(ct, axis=axis, reverse=not reverse),
    lambda axis_size, operands, dims, *, axis, reverse: (
        cumsum_p.bind(operands[0], axis=axis + (axis >= dims[0]), reverse=reverse), dims[0]))


# Public functions


def _public_reducer(name: str):
    primitive = PRIMITIVES[name]

    def kernel(operand, axes, out_sharding=None):
        return primitive.bind(operand, axes=axes, out_sharding=out_sharding)

    kernel.__name__ = name
    compiled = library(kernel, static=("axes", "out_sharding"))

    def function(operand, axes, *, out_sharding=None):
        found = canonical_axes(tuple(axes), np.ndim(operand), name)
        if out_sharding is None:
            return compiled(operand, found)
        return compiled(operand, found, named_sharding(out_sharding, name))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Reduce some axes of an array by {name.removeprefix('reduce_')}."
    return function


PUBLIC = {name: _public_reducer(name) for name in REDUCERS}


def _public_cumulative(name: str):
    primitive = CUMULATIVE[name]

    def kernel(operand, axis, reverse):
        return primitive.bind(operand, axis=axis, reverse=reverse)

    kernel.__name__ = name
    compiled = library(kernel, static=("axis", "reverse"))

    def function(operand, axis: int = 0, reverse: bool = False):
        return compiled(operand, canonical_axis(axis, np.ndim(operand), name), bool(reverse))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Cumulative {name.removeprefix('cum')} along an axis, from its end when `reverse`."
    return function


PUBLIC.update({name: _public_cumulative(name) for name in CUMULATIVE})


def _public_arg(primitive):
    def kernel(operand, axis, index_dtype):
        return primitive.bind(operand, axes=(axis,), index_dtype=index_dtype)

    kernel.__name__ = primitive.name
    compiled = library(kernel, static=("axis", "index_dtype"))

    def function(operand, axis: int, index_dtype):
        return compiled(operand, canonical_axis(axis, np.ndim(operand), primitive.name),
                        dtypes.canonicalize_dtype(index_dtype))

    function.__name__ = function.__qualname__ = primitive.name
    function.__doc__ = f"Index of the first {primitive.name.removeprefix('arg')}imum along an axis; a NaN counts as it."
    return function


argmax, argmin = _public_arg(argmax_p), _public_arg(argmin_p)

PUBLIC.update({f"{_name}_p": _primitive for _name, _primitive in PRIMITIVES.items()})
PUBLIC.update({f"{_name}_p": _primitive for _name, _primitive in CUMULATIVE.items()})
