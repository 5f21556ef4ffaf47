"""Reductions, and the indices of extreme elements.

The sum is in `shapes`, cumulative reductions are in `cumulative`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.base.specs import UnreducedKind
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import reshard_p, to_dtype, transpose_p
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.sharding_types import Sums
from xlafront.core.tangents import add_tangents
from xlafront.core.typing import Array, ArrayLike, DTypeLike, ShardingLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype, named_sharding, specified
from xlafront.lax.elementwise import add, and_, constant_like, div, eq, gt, lt, mul, ne, or_, rem_, size_scalar, where
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import (
    broadcast_back,
    counting,
    plain_axes,
    plain_axis,
    reduce_sum_p,
    reduced_mesh_axes,
    reducer,
    reshape_to,
)
from xlafront.lax.slicing import pad_p, slice_p
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic_dim, known

if TYPE_CHECKING:
    from xlafront.base.jaxlib_compat import NamedSharding
    from xlafront.core.typing import Dims
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def lowest(d: np.dtype) -> Any:
    if dtypes.is_inexact(d):
        return -np.inf if d.name not in _NO_INFINITY else dtypes.finfo(d).min
    return False if d == dtypes.bool_ else dtypes.iinfo(d).min


def highest(d: np.dtype) -> Any:
    if dtypes.is_inexact(d):
        return np.inf if d.name not in _NO_INFINITY else dtypes.finfo(d).max
    return True if d == dtypes.bool_ else dtypes.iinfo(d).max


_NO_INFINITY = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float4_e2m1fn",
                "float8_e8m0fnu")


def _ones(d: np.dtype) -> Any:
    return True if d == dtypes.bool_ else np.array(-1).astype(d)


def _extreme_rules(name: str, kind: UnreducedKind) -> dict[str, Any]:
    return {"jvp": _extreme_jvp(name), "sums": Sums("first", kinds=(kind,)), "summed_axes": reduced_mesh_axes}


def _extreme_jvp(name: str) -> Callable:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axes: tuple[int, ...],
            out_sharding: NamedSharding | None = None) -> tuple[Any, Any]:
        [x], [t] = primals, tangents
        answer = PRIMITIVES[name].bind(x, axes=axes, out_sharding=out_sharding)
        if type(t) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        # Elements that are equal to the extreme share its tangent. They are compared in the sharding of the operand.
        extreme = answer if out_sharding is None else reduced(name, x, axes)
        mask = to_dtype(eq(x, broadcast_back(extreme, np.shape(x), axes)), tracing.aval_of(t).dtype)
        count = reduce_sum_p.bind(mask, axes=axes, out_sharding=None)
        tangent = div(reduce_sum_p.bind(mul(t, mask), axes=axes, out_sharding=None), count)
        return answer, tangent if out_sharding is None else reshard_p.bind(tangent, dst_sharding=out_sharding)

    return jvp


def _product_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Compute the product as a balanced tree of multiplications, whose derivative needs no division."""
    [x], [t] = primals, tangents
    shape = tuple([n for i, n in enumerate(np.shape(x)) if i not in axes])
    n = math.prod([np.shape(x)[i] for i in axes])
    if type(t) is Zero or n == 0:
        answer = PRIMITIVES["reduce_prod"].bind(x, axes=axes)
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    if is_symbolic_dim(n):
        raise errors.InconclusiveDimensionOperation(
            f"the derivative of a product of '{n}' elements needs the number of elements, which is not known while tracing. "
            f"Use lax.scan, or export this dimension with a fixed size.")
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


# name: function that returns the identity element for a dtype
IDENTITIES = {"reduce_sum": lambda d: 0, "reduce_prod": lambda d: 1, "reduce_max": lowest, "reduce_min": highest,
              "reduce_and": _ones, "reduce_or": lambda d: 0, "reduce_xor": lambda d: 0}
_ALL_KINDS = "int float complex bool"
SHARDED = ("reduce_sum", "reduce_max", "reduce_min")  # those with the parameter `out_sharding`
PRIMITIVES = {
    "reduce_sum": reduce_sum_p,
    **{name: reducer(name, operation, IDENTITIES[name], *rest, **rules) for name, operation, rest, rules in (
        ("reduce_prod", "stablehlo.multiply", (_ALL_KINDS,), {"jvp": _product_jvp}),
        ("reduce_max", "stablehlo.maximum", (_ALL_KINDS, ValueError), _extreme_rules("reduce_max", UnreducedKind.max)),
        ("reduce_min", "stablehlo.minimum", (_ALL_KINDS, ValueError), _extreme_rules("reduce_min", UnreducedKind.min)),
        ("reduce_and", "stablehlo.and", ("bytes bool",), {}),
        ("reduce_or", "stablehlo.or", ("bytes bool",), {}),
        ("reduce_xor", "stablehlo.xor", ("bytes bool",), {}))},
}


def reduced(name: str, x: Array, axes: tuple[int, ...]) -> Array:
    """Bind the reduction `name`, without an `out_sharding` if it takes one."""
    return PRIMITIVES[name].bind(x, axes=axes, **({"out_sharding": None} if name in SHARDED else {}))


# argmax, argmin: find the extreme, then the least index where it occurs. NaN counts as the extreme.


def _arg_function(name: str) -> Callable:
    reducer = "reduce_max" if name == "argmax" else "reduce_min"

    def find(x: Array, *, axes: tuple[int, ...], index_dtype: DTypeLike) -> Array:
        [axis] = axes
        shape = np.shape(x)
        n, may_be_nan = shape[axis], dtypes.is_inexact(tracing.aval_of(x).dtype)
        count_dtype = np.dtype(index_dtype)
        if may_be_nan and not is_symbolic_dim(n) and 2 * n > np.iinfo(count_dtype).max:
            count_dtype = np.dtype(np.uint32 if n < 2**31 else np.uint64)
        length = size_scalar(n, count_dtype) if is_symbolic_dim(n) else np.asarray(n).astype(count_dtype)[()]
        positions = counting(count_dtype, shape, axis)
        extreme = reduced(reducer, x, axes)
        hit = eq(x, broadcast_back(extreme, shape, axes))
        if not may_be_nan:
            return reduced("reduce_min", where(hit, positions, length), axes)
        # NaN is the extreme. Positions of NaN come first, since the reduction drops NaN of large arrays on CPUs.
        candidates = where(ne(x, x), positions, where(hit, add(positions, length), size_scalar(2 * n, count_dtype)))
        return to_dtype(rem_(reduced("reduce_min", candidates, axes), length), np.dtype(index_dtype))

    return find


_UNROLLED_SIZE = 25  # XLA unrolls loops over fewer elements
_IN_CACHE = 2**18  # arrays up to this size are cheaper to read twice


def _reduces_pairs(aval: ShapedArray, axis: int) -> bool:
    """Return True if argmax and argmin reduce pairs of value and index on CPUs.

    They do so along the last dimension, for few elements or for many large integers. Otherwise the two reductions of
    `_arg_function` are faster: small integers fill vectors.
    """
    if axis != aval.ndim - 1:
        return False
    if known(aval.shape[axis], _UNROLLED_SIZE) < _UNROLLED_SIZE:
        return True
    return not dtypes.is_inexact(aval.dtype) and aval.dtype.itemsize >= 4 and known(
        math.prod(aval.shape), 0) > _IN_CACHE


def better_pair(name: str, v: Array, i: Array, w: Array, j: Array) -> list[Array]:
    """Return the pair of value and index that `argmax` or `argmin` prefers, in whatever order it gets the pairs of an array.

    NaN precedes all other values, and of equal values the one with the least index.
    """
    precedes = gt if name == "argmax" else lt
    takes_first = or_(precedes(v, w), and_(eq(v, w), lt(i, j)))
    if dtypes.is_inexact(tracing.aval_of(v).dtype):
        takes_first = or_(takes_first, and_(ne(v, v), or_(eq(w, w), lt(i, j))))
    return [where(takes_first, v, w), where(takes_first, i, j)]


def _arg_lower(name: str) -> Callable:
    """Return the lowering: one reduction of pairs on GPUs, which read the array once then, and on CPUs where `_reduces_pairs`,
    otherwise the two reductions of `_arg_function`."""
    start = lowest if name == "argmax" else highest
    find = lower_fun(_arg_function(name))

    def lower(ctx: RuleContext, x: ir.Value, *, axes: tuple[int, ...], index_dtype: DTypeLike) -> ir.Value:
        [aval], [axis] = ctx.avals_in, axes
        if ctx.platform != "cuda" and not (ctx.platform == "cpu" and _reduces_pairs(aval, axis)):
            return find(ctx, x, axes=axes, index_dtype=index_dtype)
        scalars = [ShapedArray((), aval.dtype), ShapedArray((), index_dtype)]
        jaxpr = tracing.trace_to_closed_jaxpr(functools.partial(better_pair, name), [*scalars, *scalars])
        typed = [((), scalar.dtype) for scalar in scalars]
        worst, none = np.asarray(start(aval.dtype)).astype(aval.dtype), np.asarray(dtypes.iinfo(index_dtype).max, index_dtype)
        shape = ctx.aval_out.shape
        return ctx.with_region(
            "stablehlo.reduce",
            [x, ctx.iota(axis, ShapedArray(aval.shape, index_dtype)), ctx.constant(worst), ctx.constant(none)],
            [*typed, *typed], lambda inner, *pair: inner.inline(jaxpr, list(pair)),
            types=[(shape, aval.dtype), (shape, index_dtype)], dimensions=lowering.mlir.i64s(axes))[1]

    return lower


def _arg_reducer(name: str) -> Primitive:
    def abstract(x: ShapedArray, *, axes: tuple[int, ...], index_dtype: DTypeLike) -> ShapedArray:
        check_dtype(name, "int float bool", x.dtype, ValueError if dtypes.is_extended(x.dtype) else TypeError)
        [axis] = axes
        if not dtypes.is_integer(np.dtype(index_dtype)):
            raise TypeError(f"{name} returns integers, not {index_dtype}.")
        if x.shape[axis] < 1:
            raise ValueError(f"{name} of an empty dimension: axis {axis} of shape {x.shape}.")
        return ShapedArray(tuple(n for i, n in enumerate(x.shape) if i != axis), np.dtype(index_dtype))

    def batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, axes: tuple[int, ...], index_dtype: DTypeLike
              ) -> tuple[Any, Any]:
        [x], [d], [a] = operands, dims, axes
        batched_axis = a + (a >= d)
        return primitive.bind(x, axes=(batched_axis,), index_dtype=index_dtype), d - (batched_axis < d)

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        answer = primitive.bind(*primals, **params)
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())

    primitive = Primitive(
        name, abstract=abstract, lower=_arg_lower(name), batch=batch, jvp=jvp, mesh=MeshRules(sharding_rules.reduced))
    return primitive


argmax_p, argmin_p = _arg_reducer("argmax"), _arg_reducer("argmin")


# Public functions


def _reduce_extra_axes(x: Array, sharding: NamedSharding) -> Array:
    """Reduce the unreduced axes of an array that are not unreduced in the requested sharding."""
    explicit = tracing.aval_of(x).explicit_sharding
    if explicit is None or explicit.spec.unreduced <= sharding.spec.unreduced:
        return x
    return reshard_p.bind(x, dst_sharding=explicit.update(spec=explicit.spec.update(
        unreduced=explicit.spec.unreduced & sharding.spec.unreduced)))


def _check_numbers(name: str, x: Array) -> None:
    """Raise for the booleans that the primitives of sums and products accept, for xlafront.numpy."""
    if name in ("reduce_sum", "reduce_prod"):
        check_dtype(name, "int float complex", tracing.aval_of(x).dtype)


def _public_reducer(name: str) -> Callable:
    def kernel(operand: Array, axes: tuple[int, ...]) -> Array:
        _check_numbers(name, operand)
        return reduced(name, operand, axes)

    def sharded_kernel(operand: Array, axes: tuple[int, ...], out_sharding: NamedSharding) -> Array:
        _check_numbers(name, operand)
        return PRIMITIVES[name].bind(operand, axes=axes, out_sharding=out_sharding)

    kernel.__name__ = sharded_kernel.__name__ = name
    compiled = library(kernel, static=("axes",))
    function: Callable
    if name in SHARDED:
        compiled_sharded = library(sharded_kernel, static=("axes", "out_sharding"))

        def function(operand: ArrayLike, axes: Sequence[int], *, out_sharding: ShardingLike = None) -> Array:
            axes = plain_axes(axes, np.ndim(operand), name)
            sharding = named_sharding(out_sharding, name)
            if sharding is None:
                return compiled(operand, axes)
            if sharding.spec.reduced:
                raise ValueError(f"{name} computes no reduced values: out_sharding cannot be reduced, got {sharding.spec}.")
            return compiled_sharded(_reduce_extra_axes(operand, sharding) if name == "reduce_sum" else operand, axes, sharding)
    else:
        def function(operand: ArrayLike, axes: Sequence[int]) -> Array:
            if name in ("reduce_and", "reduce_or", "reduce_xor"):
                check_dtype(name, "int bool", tracing.aval_of(operand).dtype)
            return compiled(operand, plain_axes(axes, np.ndim(operand), name))

    function.__name__ = function.__qualname__ = name
    summary, operand, output = _DOCUMENTED[name]
    option = "\n        out_sharding: Sharding of the result over explicit mesh axes." if name in SHARDED else ""
    function.__doc__ = f"""{summary}

    Args:
        operand: An array.
        axes: The dimensions to reduce, non-negative.{option}

    Returns:
        An array without these dimensions.

    Example:
        >>> lax.{name}(xnp.array({operand}), (1,))
        Array({output})
    """
    return function


_NUMBERS, _BOOLEANS = "[[1, 2], [3, 4]]", "[[True, False], [True, True]]"
_DOCUMENTED = {
    "reduce_sum": ("Compute the sum of elements along some dimensions.", _NUMBERS, "[3, 7], dtype=int32"),
    "reduce_prod": ("Compute the product of elements along some dimensions.", _NUMBERS, "[ 2, 12], dtype=int32"),
    "reduce_max": ("Compute the maximum of elements along some dimensions.", _NUMBERS, "[2, 4], dtype=int32"),
    "reduce_min": ("Compute the minimum of elements along some dimensions.", _NUMBERS, "[1, 3], dtype=int32"),
    "reduce_and": ("Compute the logical AND of booleans, or the bitwise AND of integers, along some dimensions.", _BOOLEANS,
                   "[False,  True], dtype=bool"),
    "reduce_or": ("Compute the logical OR of booleans, or the bitwise OR of integers, along some dimensions.", _BOOLEANS,
                  "[ True,  True], dtype=bool"),
    "reduce_xor": ("Compute the logical XOR of booleans, or the bitwise XOR of integers, along some dimensions.", _BOOLEANS,
                   "[ True, False], dtype=bool")}
PUBLIC = {name: _public_reducer(name) for name in PRIMITIVES}


def _public_arg(primitive: Primitive) -> Callable:
    def kernel(operand: Array, axis: int, index_dtype: np.dtype) -> Array:
        return primitive.bind(operand, axes=(axis,), index_dtype=index_dtype)

    kernel.__name__ = primitive.name
    compiled = library(kernel, static=("axis", "index_dtype"))

    def function(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
        return compiled(operand, plain_axis(axis, np.ndim(operand), primitive.name),
                        dtypes.canonicalize_dtype(specified(index_dtype, primitive.name)))

    function.__name__ = function.__qualname__ = primitive.name
    extreme = {"argmax": "largest", "argmin": "smallest"}[primitive.name]
    function.__doc__ = f"""Return the index of the first {extreme} element along a dimension; NaN counts as the {extreme}.

    Args:
        operand: An array.
        axis: The dimension to reduce, non-negative.
        index_dtype: dtype of the result, an integer dtype.

    Returns:
        An array without this dimension.

    Example:
        >>> lax.{primitive.name}(xnp.array([2, 7, 1, 7]), 0, 'int32')
        Array({1 if extreme == 'largest' else 2}, dtype=int32)
    """
    return library(function, static=None)


argmax, argmin = _public_arg(argmax_p), _public_arg(argmin_p)

PUBLIC.update({f"{_name}_p": _primitive for _name, _primitive in PRIMITIVES.items()})
