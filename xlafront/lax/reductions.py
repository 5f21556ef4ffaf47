"""Reductions, and the indices of extreme elements. The sum is in `shapes`, running reductions are in `cumulative`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import is_symbolic_dim, known
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype, named_sharding, specified
from xlafront.lax.device_put import reshard_p
from xlafront.lax.elementwise import (
    add,
    and_,
    constant_like,
    div,
    eq,
    gt,
    lt,
    mul,
    ne,
    or_,
    rem_,
    size_as,
    to_dtype,
    where,
)
from xlafront.lax.families import add_tangents
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_back, counting, plain_axes, plain_axis, reduce_sum_p, reducer, reshape_to, transpose_p
from xlafront.lax.slicing import pad_p, slice_p
from xlafront.staging.library import lax_function, written_once


def lowest(d):
    if dtypes.is_inexact(d):
        return -np.inf if d.name not in _NO_INFINITY else dtypes.finfo(d).min
    return False if d == dtypes.bool_ else dtypes.iinfo(d).min


def highest(d):
    if dtypes.is_inexact(d):
        return np.inf if d.name not in _NO_INFINITY else dtypes.finfo(d).max
    return True if d == dtypes.bool_ else dtypes.iinfo(d).max


_NO_INFINITY = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float4_e2m1fn",
                "float8_e8m0fnu")


def _ones(d):
    return True if d == dtypes.bool_ else np.array(-1).astype(d)


def _extreme_jvp(name):
    def jvp(primals, tangents, *, axes):
        [x], [t] = primals, tangents
        answer = PRIMITIVES[name].bind(x, axes=axes)
        if type(t) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        # Elements that attain the extreme share its tangent.
        here = to_dtype(eq(x, broadcast_back(answer, np.shape(x), axes)), tracing.aval_of(t).dtype)
        count = reduce_sum_p.bind(here, axes=axes, out_sharding=None)
        return answer, div(reduce_sum_p.bind(mul(t, here), axes=axes, out_sharding=None), count)

    return jvp


def _product_jvp(primals, tangents, *, axes):
    """The product as a balanced tree of multiplications, whose derivative has no division."""
    [x], [t] = primals, tangents
    shape = tuple([n for i, n in enumerate(np.shape(x)) if i not in axes])
    n = math.prod([np.shape(x)[i] for i in axes])
    if type(t) is Zero or n == 0:
        answer = PRIMITIVES["reduce_prod"].bind(x, axes=axes)
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    if is_symbolic_dim(n):
        raise errors.InconclusiveDimensionOperation(
            f"the derivative of a product of '{n}' elements, a number that is not known while tracing: how often they are "
            f"multiplied depends on it. Use lax.scan, or export this dimension with a fixed size.")
    order = (*axes, *[i for i in range(np.ndim(x)) if i not in axes])
    x, t = (reshape_to(transpose_p.bind(v, permutation=order), (n, *shape)) for v in (x, t))
    while n > 1:
        if n % 2:
            x, t = (pad_p.bind(v, constant_like(v, one), padding_config=((0, 1, 0), *((0, 0, 0),) * len(shape)))
                    for v, one in ((x, 1), (t, 0)))
        half = (n + 1) // 2
        (a, b), (ta, tb) = ([slice_p.bind(v, start_indices=(start, *(0,) * len(shape)), limit_indices=(start + half, *shape),
                                          strides=None) for start in (0, half)] for v in (x, t))
        x, t, n = mul(a, b), add_tangents(mul(ta, b), mul(a, tb)), half
    return reshape_to(x, shape), reshape_to(t, shape)


# Of the dtype, what changes nothing.
IDENTITIES = {"reduce_sum": lambda d: 0, "reduce_prod": lambda d: 1, "reduce_max": lowest, "reduce_min": highest,
              "reduce_and": _ones, "reduce_or": lambda d: 0, "reduce_xor": lambda d: 0}
_EVERY = "int float complex bool"
PRIMITIVES = {
    "reduce_sum": reduce_sum_p,
    **{name: reducer(name, operation, IDENTITIES[name], *rest, **rules) for name, operation, rest, rules in (
        ("reduce_prod", "stablehlo.multiply", (_EVERY,), {"jvp": _product_jvp}),
        ("reduce_max", "stablehlo.maximum", (_EVERY, ValueError), {"jvp": _extreme_jvp("reduce_max")}),
        ("reduce_min", "stablehlo.minimum", (_EVERY, ValueError), {"jvp": _extreme_jvp("reduce_min")}),
        ("reduce_and", "stablehlo.and", ("bytes bool",), {}),
        ("reduce_or", "stablehlo.or", ("bytes bool",), {}),
        ("reduce_xor", "stablehlo.xor", ("bytes bool",), {}))},
}


def reduced(name: str, x, axes: tuple[int, ...]):
    """By the reduction of a name, of which only the sum says how its result is split."""
    return PRIMITIVES[name].bind(x, axes=axes, **({"out_sharding": None} if name == "reduce_sum" else {}))


# argmax, argmin: the extreme, then the least index that attains it. NaN counts as the extreme.


def _arg_function(name):
    reducer = "reduce_max" if name == "argmax" else "reduce_min"

    def find(x, *, axes, index_dtype):
        [axis] = axes
        shape = np.shape(x)
        n, may_be_nan = shape[axis], dtypes.is_inexact(tracing.aval_of(x).dtype)
        counts = np.dtype(index_dtype)
        if may_be_nan and not is_symbolic_dim(n) and 2 * n > np.iinfo(counts).max:
            counts = np.dtype(np.uint32 if n < 2**31 else np.uint64)
        length = size_as(n, counts) if is_symbolic_dim(n) else np.asarray(n).astype(counts)[()]
        positions = counting(counts, shape, axis)
        extreme = PRIMITIVES[reducer].bind(x, axes=axes)
        hit = eq(x, broadcast_back(extreme, shape, axes))
        if not may_be_nan:
            return PRIMITIVES["reduce_min"].bind(where(hit, positions, length), axes=axes)
        # A NaN is the extreme, and comes before all that is equal to what the reduction found: on CPUs it loses NaN among many.
        places = where(ne(x, x), positions, where(hit, add(positions, length), size_as(2 * n, counts)))
        return to_dtype(rem_(PRIMITIVES["reduce_min"].bind(places, axes=axes), length), np.dtype(index_dtype))

    return find


_SHORT = 25  # XLA unrolls the loop over fewer elements than this
_IN_CACHE = 2**18  # elements that are cheaper to read twice than one by one


def _of_pairs(aval, axis: int) -> bool:
    """Whether pairs are reduced: along the last dimension, of few elements or of many large integers. Along others, and of
    small integers, which fill vectors, the two reductions of `_arg_function` are faster."""
    if axis != aval.ndim - 1:
        return False
    if known(aval.shape[axis], _SHORT) < _SHORT:
        return True
    return not dtypes.is_inexact(aval.dtype) and aval.dtype.itemsize >= 4 and known(
        math.prod(aval.shape), 0) > _IN_CACHE


def _arg_lower(name):
    """On CPUs some are one reduction of pairs of a value and its place; the others those of `_arg_function`."""
    beats, start = (gt, lowest) if name == "argmax" else (lt, highest)
    find = lower_fun(_arg_function(name))

    def better(v, i, w, j):
        first = or_(or_(beats(v, w), ne(v, v)), and_(eq(v, w), lt(i, j)))  # NaN beats all that follow
        return [where(first, v, w), where(first, i, j)]

    def lower(ctx, x, *, axes, index_dtype):
        [aval], [axis] = ctx.avals_in, axes
        if ctx.platform != "cpu" or not _of_pairs(aval, axis):
            return find(ctx, x, axes=axes, index_dtype=index_dtype)
        scalars = [ShapedArray((), aval.dtype), ShapedArray((), index_dtype)]
        program = tracing.trace_to_closed_jaxpr(better, [*scalars, *scalars])
        typed = [((), scalar.dtype) for scalar in scalars]
        worst, beyond = np.asarray(start(aval.dtype)).astype(aval.dtype), np.asarray(aval.shape[axis]).astype(index_dtype)
        shape = ctx.aval_out.shape
        return ctx.with_region(
            "stablehlo.reduce",
            [x, ctx.iota(axis, ShapedArray(aval.shape, index_dtype)), ctx.constant(worst), ctx.constant(beyond)],
            [*typed, *typed], lambda inner, *pair: inner.inline(program, list(pair)),
            types=[(shape, aval.dtype), (shape, index_dtype)], dimensions=lowering.mlir.i64s(axes))[1]

    return lower


def _arg_reducer(name: str) -> Primitive:
    def abstract(x, *, axes, index_dtype):
        check_dtype(name, "int float bool", x.dtype, ValueError if dtypes.is_extended(x.dtype) else TypeError)
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

    primitive = Primitive(name, abstract=abstract, lower=_arg_lower(name), batch=batch, jvp=jvp,
                          sharding_rule=sharding_rules.reduced)
    return primitive


argmax_p, argmin_p = _arg_reducer("argmax"), _arg_reducer("argmin")


# Public functions


def _summed_up(x, wanted):
    """The array with those of its open sums made that the result is not to have."""
    explicit = tracing.aval_of(x).explicit_sharding
    if explicit is None or explicit.spec.unreduced <= wanted.spec.unreduced:
        return x
    return reshard_p.bind(x, dst_sharding=explicit.update(spec=explicit.spec.update(
        unreduced=explicit.spec.unreduced & wanted.spec.unreduced)))


def _public_reducer(name: str):
    def kernel(operand, axes):
        if name in ("reduce_sum", "reduce_prod"):  # whose primitives take booleans, for NumPy's functions
            check_dtype(name, "int float complex", tracing.aval_of(operand).dtype)
        return reduced(name, operand, axes)

    kernel.__name__ = name
    compiled = lax_function(kernel, static=("axes",))

    def function(operand: ArrayLike, axes: Sequence[int]) -> Array:
        return compiled(operand, plain_axes(axes, np.ndim(operand), name))

    function.__name__ = function.__qualname__ = name
    words, operand, gives = _DOCUMENTED[name]
    function.__doc__ = (f"{words} along some dimensions, which vanish.\n\n- `operand`: an array.\n"
                        f"- `axes`: the dimensions, not negative.\n\n"
                        f">>> lax.{name}(xnp.array({operand}), (1,))\nArray({gives})")
    return function


@lax_function(static=("axes", "out_sharding"), name="reduce_sum")
def _split_sum(operand, axes, out_sharding):
    check_dtype("reduce_sum", "int float complex", tracing.aval_of(operand).dtype)
    return reduce_sum_p.bind(operand, axes=axes, out_sharding=out_sharding)


def _reduce_sum(operand: ArrayLike, axes: Sequence[int], *, out_sharding: ShardingLike = None) -> Array:
    """The sums of elements along some dimensions, which vanish.

    - `operand`: an array.
    - `axes`: the dimensions, not negative.
    - `out_sharding`: how the result is split over explicit mesh axes.

    >>> lax.reduce_sum(xnp.array([[1, 2], [3, 4]]), (1,))
    Array([3, 7], dtype=int32)
    """
    if out_sharding is None:
        return _whole_sum(operand, axes)
    wanted = named_sharding(out_sharding, "reduce_sum")
    return _split_sum(_summed_up(operand, wanted), plain_axes(axes, np.ndim(operand), "reduce_sum"), wanted)


_reduce_sum.__name__ = _reduce_sum.__qualname__ = "reduce_sum"


_NUMBERS, _TRUTHS = "[[1, 2], [3, 4]]", "[[True, False], [True, True]]"
_DOCUMENTED = {
    "reduce_sum": ("The sums of elements", _NUMBERS, "[3, 7], dtype=int32"),
    "reduce_prod": ("The products of elements", _NUMBERS, "[ 2, 12], dtype=int32"),
    "reduce_max": ("The largest elements", _NUMBERS, "[2, 4], dtype=int32"),
    "reduce_min": ("The smallest elements", _NUMBERS, "[1, 3], dtype=int32"),
    "reduce_and": ("Whether all elements are true, or the bits that all integers have,", _TRUTHS, "[False,  True], dtype=bool"),
    "reduce_or": ("Whether any element is true, or the bits that any integer has,", _TRUTHS, "[ True,  True], dtype=bool"),
    "reduce_xor": ("Whether an odd number of elements is true, or the bits that an odd number of integers has,", _TRUTHS,
                   "[ True, False], dtype=bool")}
PUBLIC = {name: _public_reducer(name) for name in PRIMITIVES}
_whole_sum, PUBLIC["reduce_sum"] = PUBLIC["reduce_sum"], _reduce_sum


def _public_arg(primitive):
    def kernel(operand, axis, index_dtype):
        return primitive.bind(operand, axes=(axis,), index_dtype=index_dtype)

    kernel.__name__ = primitive.name
    compiled = lax_function(kernel, static=("axis", "index_dtype"))

    def function(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
        return compiled(operand, plain_axis(axis, np.ndim(operand), primitive.name),
                        dtypes.canonicalize_dtype(specified(index_dtype, primitive.name)))

    function.__name__ = function.__qualname__ = primitive.name
    extreme = {"argmax": "largest", "argmin": "smallest"}[primitive.name]
    function.__doc__ = (
        f"Where the first of the {extreme} elements is along a dimension; a NaN counts as such.\n\n"
        f"- `operand`: an array.\n- `axis`: the dimension, which vanishes; not negative.\n- `index_dtype`: of integers.\n\n"
        f">>> lax.{primitive.name}(xnp.array([2, 7, 1, 7]), 0, 'int32')\n"
        f"Array({1 if extreme == 'largest' else 2}, dtype=int32)")
    return written_once(function)


argmax, argmin = _public_arg(argmax_p), _public_arg(argmin_p)

PUBLIC.update({f"{_name}_p": _primitive for _name, _primitive in PRIMITIVES.items()})
