"""Reductions over sliding windows: sums and extremes, and what their derivatives are made of.

The function of users, which also takes other computations, is in `control.reduce_window`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.dimensions import as_size, is_symbolic, max_dim
from xlafront.core.ir import ClosedJaxpr
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import of_first
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE, constant_like
from xlafront.lax.reductions import highest, lowest
from xlafront.lax.shapes import broadcast_batch, linear_jvp, typed, zeros_of
from xlafront.lax.slicing import pad_p, slice_p

Padding = tuple[tuple[int, int], ...]


class Window(NamedTuple):
    """How windows lie over an array, by the names of the parameters of the primitives."""

    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]
    padding: Padding
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    def count(self, shape: Sequence[int]) -> tuple[int, ...]:
        """How many windows there are along each dimension."""
        return tuple(_windows(n, *each) for n, each in zip(shape, zip(*self)))

    def with_batch(self, d: int) -> Window:
        """The same windows over each element of a batch that dimension `d` counts."""
        return Window(*[(*v[:d], (0, 0) if v is self.padding else 1, *v[d:]) for v in self])

    def spread(self) -> tuple[int, ...]:
        """What the windows span."""
        return tuple((n - 1) * d + 1 for n, d in zip(self.window_dimensions, self.window_dilation))


def dilated(size: int, dilation: int) -> int:
    """The size of a dimension with `dilation - 1` holes between its elements."""
    return (size - 1) * dilation + 1 if size else 0


def _windows(n: int, window: int, stride: int, pads: tuple[int, int], base: int, dilation: int) -> Any:
    room = dilated(n, base) + pads[0] + pads[1] - dilated(window, dilation)
    return max_dim(room // stride + 1, 0)


def named_padding(name: str, shape: Sequence[int], window: Sequence[int], strides: Sequence[int]) -> Padding:
    """What "VALID", "SAME" and "SAME_LOWER" stand for: no padding, or as many windows as strides fit into the shape."""
    kind = name.upper()
    if kind == "VALID":
        return ((0, 0),) * len(shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(f"there is no padding {name!r}: it can be 'VALID', 'SAME', 'SAME_LOWER', or a (low, high) pair for "
                           f"each dimension.")
    totals = [max_dim((-(-n // s) - 1) * s + w - n, 0) for n, w, s in zip(shape, window, strides)]
    return tuple((t // 2, t - t // 2) if kind == "SAME" else (t - t // 2, t // 2) for t in totals)


def canonical_window(who: str, shape: Sequence[int], window_dimensions, window_strides, padding, base_dilation,
                     window_dilation) -> Window:
    """Windows over an array of this shape, from what a user says of them."""
    rank = len(shape)
    ones = (1,) * rank
    sizes = _sizes(who, "window_dimensions", window_dimensions, shape)
    strides = ones if window_strides is None else _sizes(who, "window_strides", window_strides, shape)
    base = ones if base_dilation is None else _sizes(who, "base_dilation", base_dilation, shape)
    dilation = ones if window_dilation is None else _sizes(who, "window_dilation", window_dilation, shape)
    if isinstance(padding, str):
        full = [dilated(n, d) for n, d in zip(shape, base)]
        pads = named_padding(padding, full, [dilated(n, d) for n, d in zip(sizes, dilation)], strides)
    else:
        try:
            pads = tuple((as_size(low), as_size(high)) for low, high in padding)
        except (TypeError, AttributeError):
            raise TypeError(f"{who} needs a padding of (low, high) pairs of integers, one for each dimension of shape "
                            f"{tuple(shape)}, or a name such as 'SAME', got {padding!r}: it is not iterable as such.") from None
        if len(pads) != rank:
            raise ValueError(f"{who} of an array of shape {tuple(shape)} needs a (low, high) pair of padding for each of its "
                             f"{rank} dimensions, got {len(pads)}: {pads}.")
    return Window(sizes, strides, pads, base, dilation)


def _sizes(who: str, name: str, values, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        found = tuple(as_size(n) for n in values)
    except (TypeError, AttributeError):
        raise TypeError(f"{who} needs a sequence of integers for {name}, one for each dimension of shape {tuple(shape)}, got "
                        f"{values!r}.") from None
    if len(found) != len(shape):
        raise TypeError(f"{who} of an array of shape {tuple(shape)} needs {name} with one number for each of its dimensions, "
                        f"got {found}.")
    if any(n < 1 for n in found):
        raise TypeError(f"{who} needs positive {name}, got {found}.")
    return found


# Records


def attributes(params: dict[str, Any]) -> dict[str, Any]:
    """The attributes of windows in StableHLO."""
    m = lowering.mlir
    if is_symbolic(part for values in params.values() for n in values for part in (n if type(n) is tuple else (n,))):
        return {"computed": Window(**{"base_dilation": (1,) * len(params["padding"]),
                                      "window_dilation": (1,) * len(params["padding"]), **params})}
    found: dict[str, Any] = {key: m.i64s(params[key]) for key in ("window_dimensions", "window_strides")}
    if "window_dilation" in params:
        found["window_dilations"] = m.i64s(params["window_dilation"])
        found["base_dilations"] = m.i64s(params["base_dilation"])
    pads = params["padding"]
    found["padding"] = m.dense_i64(np.array(pads, np.int64).reshape(len(pads), 2))
    return found


def reduce_windows(ctx, operands, scalars, combine, types, params: dict[str, Any]) -> list:
    """`stablehlo.reduce_window` of arrays and their initial values; where the windows have sizes that the module computes, a
    call that XLA's refinement turns into it."""
    found = attributes(params)
    window = found.get("computed")
    if window is None:
        return ctx.with_region("stablehlo.reduce_window", operands, scalars, combine, types=types, **found)
    m = lowering.mlir
    rank = len(window.padding)
    pads = ctx.vector([n for pair in window.padding for n in pair], np.int64)
    numbers = [ctx.vector(v, np.int64) for v in (window.window_dimensions, window.window_strides, window.base_dilation,
                                                 window.window_dilation)]
    body = ctx.function("window", scalars, scalars[:len(scalars) // 2], combine)
    numbers.append(ctx.op("stablehlo.reshape", [pads], [((rank, 2), np.int64)]))
    results = ctx.op("stablehlo.custom_call", [*operands, *numbers], types,
                     call_target_name=m.string("stablehlo.dynamic_reduce_window"),
                     called_computations=m.array([m.symbol(body)]))
    return results if isinstance(results, list) else [results]


def _applied(ctx, primitive: Primitive, aval, x, y):
    """An elementwise operation of two scalars of the type of `aval`, inside of a region."""
    scalar = aval.update(shape=())
    inner = ctx.replace(avals_in=[scalar, scalar], avals_out=[primitive.abstract(scalar, scalar)], primitive=primitive)
    return primitive.lowering_for(ctx.platform)(inner, x, y)


def _initial(ctx, d, identity):
    return ctx.constant(np.asarray(identity(d)).astype(d))


def _windowed(name: str, operation: Primitive, identity, accepts: str) -> Primitive:
    def abstract(x, **params):
        check_dtype(name, accepts, x.dtype)
        return typed(x, Window(**params).count(x.shape))

    def lower(ctx, x, **params):
        aval = ctx.avals_in[0]
        scalar = ((), aval.dtype)
        actual = ELEMENTWISE["or"] if name == "reduce_window_sum" and aval.dtype == dtypes.bool_ else operation
        return reduce_windows(ctx, [x, _initial(ctx, aval.dtype, identity)], [scalar, scalar],
                              lambda inner, a, b: [_applied(inner, actual, aval, a, b)], [ctx.aval_out], params)[0]

    def batch(axis_size, operands, dims, **params):
        [x], [d] = operands, dims
        return primitive.bind(x, **Window(**params).with_batch(d)._asdict()), d

    primitive = Primitive(name, abstract=abstract, lower=lower, batch=batch, sharding_rule=sharding_rules.windows)
    return primitive


def _sum_transpose(ct, x, **params):
    """Each element gets the cotangents of the windows in which it is: the sum over windows of these, spread by the strides."""
    if type(ct) is Zero:
        return [Zero(x.aval)]
    w = Window(**params)
    if 0 in x.aval.shape or 0 in np.shape(ct):
        return [zeros_of(x.aval)]
    config = []
    for n, m, (low, _), stride, base, span in zip(x.aval.shape, np.shape(ct), w.padding, w.window_strides, w.base_dilation,
                                                  w.spread()):
        before = span - 1 - low
        config.append((before, dilated(n, base) + span - 1 - before - dilated(m, stride), stride - 1))
    spread = pad_p.bind(ct, constant_like(ct, 0), padding_config=tuple(config))
    ones = (1,) * x.aval.ndim
    return [reduce_window_sum_p.bind(spread, **w._replace(
        window_strides=w.base_dilation, padding=((0, 0),) * x.aval.ndim, base_dilation=ones)._asdict())]


reduce_window_sum_p = _windowed("reduce_window_sum", ELEMENTWISE["add"], lambda d: 0, "int float complex bool")
reduce_window_sum_p.jvp, reduce_window_sum_p.transpose = linear_jvp(reduce_window_sum_p), _sum_transpose
reduce_window_sum_p.sums = of_first
reduce_window_max_p = _windowed("reduce_window_max", ELEMENTWISE["max"], lowest, "int float complex bool")
reduce_window_min_p = _windowed("reduce_window_min", ELEMENTWISE["min"], highest, "int float complex bool")


def _extreme_jvp(primitive: Primitive, direction: Primitive):
    def jvp(primals, tangents, **params):
        [x], [t] = primals, tangents
        answer = primitive.bind(x, **params)
        if type(t) is Zero:
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return answer, select_and_gather_add_p.bind(t, x, select_prim=direction, **params)

    return jvp


reduce_window_max_p.jvp = _extreme_jvp(reduce_window_max_p, ELEMENTWISE["ge"])
reduce_window_min_p.jvp = _extreme_jvp(reduce_window_min_p, ELEMENTWISE["le"])
for _primitive in (reduce_window_sum_p, reduce_window_max_p, reduce_window_min_p):
    _primitive.shown_as = "reduce_window"


# Of each window of one array the element that stands where another array has its extreme


def _gather_abstract(tangents, operand, *, select_prim, **params):
    _same_shape("select_and_gather_add", "tangents", tangents, operand)
    return typed(tangents, Window(**params).count(operand.shape))


def _same_shape(who: str, what: str, x, operand) -> None:
    if x.shape != operand.shape:
        raise errors.incompatible_shapes(who, [(what, x.shape), ("operand", operand.shape)], "They must have one shape.")


def _least(select_prim: Primitive):
    """What every element is preferred to."""
    return lowest if select_prim is ELEMENTWISE["ge"] else highest


def _gather_lower(ctx, tangents, operand, *, select_prim, **params):
    t, x = ctx.avals_in
    scalars = [((), x.dtype), ((), t.dtype)]

    def choose(inner, best, best_tangent, value, tangent):
        keep = _applied(inner, select_prim, x, best, value)
        return [inner.op("stablehlo.select", [keep, a, b], [kind]) for a, b, kind in (
            (best, value, scalars[0]), (best_tangent, tangent, scalars[1]))]

    results = reduce_windows(
        ctx, [operand, tangents, _initial(ctx, x.dtype, _least(select_prim)), ctx.constant(np.zeros((), t.dtype))],
        [*scalars, *scalars], choose, [ctx.aval_out.update(dtype=x.dtype), ctx.aval_out], params)
    return results[1]


def _gather_jvp(primals, tangents, **params):
    answer = select_and_gather_add_p.bind(*primals, **params)
    if type(tangents[0]) is Zero:
        return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
    return answer, select_and_gather_add_p.bind(tangents[0], primals[1], **params)


def _gather_transpose(ct, tangents, operand, *, select_prim, **params):
    """The cotangent of each window goes to where its extreme is."""
    if type(ct) is Zero:
        return [Zero(tangents.aval), None]
    w = Window(**params)
    if any(d != 1 for d in w.window_dilation):
        raise NotImplementedError(f"the reverse derivative of an extreme over windows with holes is not implemented: "
                                  f"reduce_window got window_dilation={w.window_dilation}. Take xf.jvp, or windows without it.")
    # Holes, and padding whose size is not known, are operations of their own: StableHLO's takes numbers, and no holes.
    pads = w.padding if is_symbolic([n for pair in w.padding for n in pair]) else ((0, 0),) * len(w.padding)
    widened = any(d != 1 for d in w.base_dilation) or any(pair != (0, 0) for pair in pads)
    if widened:
        least = np.asarray(_least(select_prim)(tracing.aval_of(operand).dtype)).astype(tracing.aval_of(operand).dtype)
        operand = pad_p.bind(operand, least[()], padding_config=tuple((*pair, d - 1) for pair, d in zip(pads, w.base_dilation)))
    result = select_and_scatter_add_p.bind(
        ct, operand, select_prim=select_prim, window_dimensions=w.window_dimensions, window_strides=w.window_strides,
        padding=tuple((a - b, c - d) for (a, c), (b, d) in zip(w.padding, pads)))
    if widened:
        result = slice_p.bind(result, start_indices=tuple(low for low, _ in pads), strides=w.base_dilation,
                              limit_indices=tuple(n - high for n, (_, high) in zip(np.shape(operand), pads)))
    return [result, None]


def _both_in_front(axis_size, operands, dims, params):
    xs = [broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)]
    keys = [key for key in Window._fields if key in params]
    full = {key: ((0, 0) if key == "padding" else 1, *params[key]) for key in keys}
    return xs, params | full


def _gather_batch(axis_size, operands, dims, **params):
    xs, params = _both_in_front(axis_size, operands, dims, params)
    return select_and_gather_add_p.bind(*xs, **params), 0


select_and_gather_add_p = Primitive(
    "select_and_gather_add", abstract=_gather_abstract, lower=_gather_lower, jvp=_gather_jvp, transpose=_gather_transpose,
    batch=_gather_batch, sharding_rule=sharding_rules.windows)


# Into an array, what there is for each window: added where another array has its extreme in that window


def _scatter_abstract(source, operand, **params):
    w = _plain_window(params)
    if source.shape != w.count(operand.shape):
        raise errors.incompatible_shapes(
            "select_and_scatter_add", [("source", source.shape), ("operand", operand.shape)],
            f"The source needs an element for each of the {w.count(operand.shape)} windows of {w.window_dimensions}.")
    return typed(source, operand.shape)


def _plain_window(params) -> Window:
    ones = (1,) * len(params["window_dimensions"])
    return Window(params["window_dimensions"], params["window_strides"], params["padding"], ones, ones)


def _scatter_regions(ctx, operand, source, initial, regions, params):
    x, s = operand[1], source[1]
    select, scatter = regions
    return ctx.with_regions(
        "stablehlo.select_and_scatter", [operand[0], source[0], initial],
        [([((), x.dtype)] * 2, select), ([((), s.dtype)] * 2, scatter)], types=[ctx.aval_out],
        **attributes({key: params[key] for key in ("window_dimensions", "window_strides", "padding")}))[0]


def _scatter_lower(ctx, source, operand, *, select_prim, **params):
    s, x = ctx.avals_in
    if x.dtype != s.dtype:  # the operation has one type; what is compared may be converted to it
        operand = ctx.convert(operand, x.shape, s.dtype)
        x = x.update(dtype=s.dtype)
    return _scatter_regions(
        ctx, (operand, x), (source, s), ctx.constant(np.zeros((), s.dtype)),
        (lambda inner, a, b: [_applied(inner, select_prim, x, a, b)],
         lambda inner, a, b: [_applied(inner, ELEMENTWISE["add"], s, a, b)]), params)


def _scatter_transpose(ct, source, operand, **params):
    if type(ct) is Zero:
        return [Zero(source.aval), None]
    ones = (1,) * np.ndim(ct)
    return [select_and_gather_add_p.bind(ct, operand, base_dilation=ones, window_dilation=ones, **params), None]


def _scatter_batch(axis_size, operands, dims, **params):
    xs, params = _both_in_front(axis_size, operands, dims, params)
    return select_and_scatter_add_p.bind(*xs, **params), 0


select_and_scatter_add_p = Primitive(
    "select_and_scatter_add", abstract=_scatter_abstract, lower=_scatter_lower, transpose=_scatter_transpose,
    batch=_scatter_batch, sharding_rule=sharding_rules.second)
select_and_scatter_add_p.jvp = linear_jvp(select_and_scatter_add_p)


# The same for a choice and a combination that are programs of two scalars


def _select_and_scatter_abstract(operand, source, init_value, *, select_jaxpr, select_consts, scatter_jaxpr, scatter_consts,
                                 **params):
    w = _plain_window(params)
    if source.shape != w.count(operand.shape) or init_value.shape:
        raise errors.incompatible_shapes(
            "select_and_scatter", [("operand", operand.shape), ("source", source.shape), ("init_value", init_value.shape)],
            f"The source needs an element for each of the {w.count(operand.shape)} windows, and the initial value none.")
    if not operand.dtype == source.dtype == init_value.dtype:
        raise errors.incompatible_dtypes("select_and_scatter", [operand.dtype, source.dtype, init_value.dtype])
    return typed(operand, operand.shape)


def _select_and_scatter_lower(ctx, operand, source, init_value, *, select_jaxpr, select_consts, scatter_jaxpr, scatter_consts,
                              **params):
    x, s, _ = ctx.avals_in
    select, scatter = ClosedJaxpr(select_jaxpr, select_consts), ClosedJaxpr(scatter_jaxpr, scatter_consts)
    return _scatter_regions(ctx, (operand, x), (source, s), init_value,
                            (lambda inner, a, b: inner.inline(select, [a, b]),
                             lambda inner, a, b: inner.inline(scatter, [a, b])), params)


def _select_and_scatter_batch(axis_size, operands, dims, **params):
    if dims[2] is not None:
        raise NotImplementedError("select_and_scatter takes one initial value for a whole batch, got one for each element.")
    xs, params = _both_in_front(axis_size, operands[:2], dims[:2], params)
    return select_and_scatter_p.bind(*xs, operands[2], **params), 0


select_and_scatter_p = Primitive("select_and_scatter", abstract=_select_and_scatter_abstract, lower=_select_and_scatter_lower,
                                 batch=_select_and_scatter_batch, memoise=False)


def reduce_window_shape_tuple(operand_shape: Sequence[int], window_dimensions: Sequence[int], window_strides: Sequence[int],
                              padding: Sequence[tuple[int, int]], base_dilation: Sequence[int] | None = None,
                              window_dilation: Sequence[int] | None = None) -> tuple[int, ...]:
    """The shape of what `reduce_window` returns.

    - `operand_shape`: the shape of the array.
    - `window_dimensions`, `window_strides`, `base_dilation`, `window_dilation`: as of `reduce_window`.
    - `padding`: a (low, high) pair for each dimension.

    >>> lax.reduce_window_shape_tuple((4, 6), (2, 2), (2, 1), ((0, 0), (0, 1)))
    (2, 6)
    """
    return canonical_window("reduce_window_shape_tuple", tuple(operand_shape), window_dimensions, window_strides, padding,
                            base_dilation, window_dilation).count(tuple(operand_shape))
