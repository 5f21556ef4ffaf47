"""Reductions over sliding windows: sums and extrema, and the operations of their derivatives.

The public function, which also takes other computations, is in `control.reduce_window`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.ir import Jaxpr
from xlafront.core.primitive import MeshRules, OwnRule, Primitive, Traits
from xlafront.core.sharding_types import Sums, of_first
from xlafront.core.tangents import zeros_of
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE, constant_like
from xlafront.lax.reductions import highest, lowest
from xlafront.lax.shapes import broadcast_batch, linear_jvp, typed
from xlafront.lax.slicing import pad_p, slice_p
from xlafront.symbolic.dimensions import as_size, is_symbolic, max_dim

if TYPE_CHECKING:
    from xlafront.core.avals import ShapedArray
    from xlafront.core.ir import Jaxpr
    from xlafront.core.typing import Dims, Params, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

Padding = tuple[tuple[int, int], ...]


class Window(NamedTuple):
    """The geometry of windows over an array, with the parameter names of the primitives."""

    window_dimensions: tuple[int, ...]
    window_strides: tuple[int, ...]
    padding: Padding
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    def count(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the number of windows along each dimension."""
        return tuple(_num_windows(n, *each) for n, each in zip(shape, zip(*self)))

    def with_batch(self, d: int) -> Window:
        """Return the windows over each element of a batch along dimension `d`."""
        return Window(*[(*v[:d], (0, 0) if v is self.padding else 1, *v[d:]) for v in self])

    def extent(self) -> tuple[int, ...]:
        """Return the size that a dilated window spans in each dimension."""
        return tuple((n - 1) * d + 1 for n, d in zip(self.window_dimensions, self.window_dilation))


def dilated(size: int, dilation: int) -> int:
    """Return the size of a dimension with `dilation - 1` holes between elements."""
    return (size - 1) * dilation + 1 if size else 0


def _num_windows(n: int, window: int, stride: int, pads: tuple[int, int], base: int, dilation: int) -> Any:
    free_size = dilated(n, base) + pads[0] + pads[1] - dilated(window, dilation)
    return max_dim(free_size // stride + 1, 0)


def named_padding(name: str, shape: Sequence[int], window: Sequence[int], strides: Sequence[int]) -> Padding:
    """Return the padding for "VALID" (none), "SAME" and "SAME_LOWER" (as many windows as strides fit into the shape)."""
    kind = name.upper()
    if kind == "VALID":
        return ((0, 0),) * len(shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(f"unknown padding {name!r}. Use 'VALID', 'SAME', 'SAME_LOWER', or a (low, high) pair for each "
                           f"dimension.")
    totals = [max_dim((-(-n // s) - 1) * s + w - n, 0) for n, w, s in zip(shape, window, strides)]
    return tuple((t // 2, t - t // 2) if kind == "SAME" else (t - t // 2, t // 2) for t in totals)


def canonical_window(caller: str, shape: Sequence[int], window_dimensions: Sequence[int], window_strides: Sequence[int] | None,
                     padding: Sequence[tuple[int, int]] | str, base_dilation: Sequence[int] | None,
                     window_dilation: Sequence[int] | None) -> Window:
    """Return the windows over an array of this shape for the arguments of `caller`."""
    rank = len(shape)
    ones = (1,) * rank
    sizes = _sizes(caller, "window_dimensions", window_dimensions, shape)
    strides = ones if window_strides is None else _sizes(caller, "window_strides", window_strides, shape)
    base = ones if base_dilation is None else _sizes(caller, "base_dilation", base_dilation, shape)
    dilation = ones if window_dilation is None else _sizes(caller, "window_dilation", window_dilation, shape)
    if isinstance(padding, str):
        pads = named_padding(padding, shape, [dilated(n, d) for n, d in zip(sizes, dilation)], strides)
    else:
        try:
            pads = tuple((as_size(low), as_size(high)) for low, high in padding)
        except (TypeError, AttributeError):
            raise TypeError(f"{caller} needs a padding of (low, high) pairs of integers, one for each dimension of "
                            f"shape {tuple(shape)}, or a name such as 'SAME', got {padding!r}: it is not iterable as such."
                            ) from None
        if len(pads) != rank:
            raise ValueError(f"{caller} of an array of shape {tuple(shape)} needs a (low, high) pair of padding for each of "
                             f"its {rank} dimensions, got {len(pads)}: {pads}.")
    return Window(sizes, strides, pads, base, dilation)


def _sizes(caller: str, name: str, values: Any, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(as_size(n) for n in values)
    except (TypeError, AttributeError):
        raise TypeError(f"{caller} needs a sequence of integers for {name}, one for each dimension of shape {tuple(shape)}, "
                        f"got {values!r}.") from None
    if len(sizes) != len(shape):
        raise TypeError(f"{caller} of an array of shape {tuple(shape)} needs {name} with one number for each of its "
                        f"dimensions, got {sizes}.")
    if any(n < 1 for n in sizes):
        raise TypeError(f"{caller} needs positive {name}, got {sizes}.")
    return sizes


# Primitives


def attributes(params: dict[str, Any]) -> dict[str, Any]:
    """Return the StableHLO attributes of windows."""
    m = lowering.mlir
    if is_symbolic(part for values in params.values() for n in values for part in (n if type(n) is tuple else (n,))):
        return {"computed": Window(**{"base_dilation": (1,) * len(params["padding"]),
                                      "window_dilation": (1,) * len(params["padding"]), **params})}
    attrs: dict[str, Any] = {key: m.i64s(params[key]) for key in ("window_dimensions", "window_strides")}
    if "window_dilation" in params:
        attrs["window_dilations"] = m.i64s(params["window_dilation"])
        attrs["base_dilations"] = m.i64s(params["base_dilation"])
    pads = params["padding"]
    attrs["padding"] = m.dense_i64(np.array(pads, np.int64).reshape(len(pads), 2))
    return attrs


def reduce_windows(ctx: RuleContext, operands: Sequence[ir.Value], scalars: Sequence[Any], combine: Callable,
                   types: Sequence[Any], params: dict[str, Any]) -> list:
    """Lower to `stablehlo.reduce_window` of arrays and their initial values. With symbolic window sizes, lower to a custom call
    that XLA's shape refinement turns into it.
    """
    attrs = attributes(params)
    window = attrs.get("computed")
    if window is None:
        return ctx.with_region("stablehlo.reduce_window", operands, scalars, combine, types=types, **attrs)
    m = lowering.mlir
    rank = len(window.padding)
    pads = ctx.vector([n for pair in window.padding for n in pair], np.int64)
    window_operands = [ctx.vector(v, np.int64) for v in (window.window_dimensions, window.window_strides, window.base_dilation,
                                                 window.window_dilation)]
    body = ctx.function("window", scalars, scalars[:len(scalars) // 2], combine)
    window_operands.append(ctx.op("stablehlo.reshape", [pads], [((rank, 2), np.int64)]))
    results = ctx.op("stablehlo.custom_call", [*operands, *window_operands], types,
                     call_target_name=m.string("stablehlo.dynamic_reduce_window"),
                     called_computations=m.array([m.symbol(body)]))
    return results if isinstance(results, list) else [results]


def _apply_scalar(ctx: RuleContext, primitive: Primitive, aval: ShapedArray, x: ir.Value, y: ir.Value) -> Any:
    """Apply an elementwise primitive to two scalars of the dtype of `aval` in a region."""
    scalar = aval.update(shape=())
    inner = ctx.replace(avals_in=[scalar, scalar], avals_out=[primitive.abstract(scalar, scalar)], primitive=primitive)
    return primitive.lowering_for(ctx.platform)(inner, x, y)


def _initial(ctx: RuleContext, d: np.dtype, identity: Callable[[np.dtype], Any]) -> ir.Value:
    return ctx.constant(np.asarray(identity(d)).astype(d))


def _window_reduction(name: str, operation: Primitive, identity: Callable[[np.dtype], Any], accepts: str,
                      sums: Sums | None = None, **rules: Any) -> Primitive:
    def abstract(x: ShapedArray, **params: Any) -> ShapedArray:
        check_dtype(name, accepts, x.dtype)
        return typed(x, Window(**params).count(x.shape))

    def lower(ctx: RuleContext, x: ir.Value, **params: Any) -> ir.Value:
        aval = ctx.avals_in[0]
        scalar = ((), aval.dtype)
        actual = ELEMENTWISE["or"] if name == "reduce_window_sum" and aval.dtype == dtypes.bool_ else operation
        return reduce_windows(ctx, [x, _initial(ctx, aval.dtype, identity)], [scalar, scalar],
                              lambda inner, a, b: [_apply_scalar(inner, actual, aval, a, b)], [ctx.aval_out], params)[0]

    def batch(axis_size: int, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
        [x], [d] = operands, dims
        return primitive.bind(x, **Window(**params).with_batch(d)._asdict()), d

    primitive = Primitive(name, abstract=abstract, lower=lower, batch=batch, shown_as="reduce_window",
                          mesh=MeshRules(sharding_rules.windows, sums=sums), **rules)
    return primitive


def _sum_transpose(ct: Tangent, x: Any, **params: Any) -> list[Any]:
    """Sum, for each element, the cotangents of its windows: a window sum over the cotangents, dilated by the strides."""
    if type(ct) is Zero:
        return [Zero(x.aval)]
    w = Window(**params)
    if 0 in x.aval.shape or 0 in np.shape(ct):
        return [zeros_of(x.aval)]
    config = []
    for n, m, (low, _), stride, base, extent in zip(x.aval.shape, np.shape(ct), w.padding, w.window_strides, w.base_dilation,
                                                  w.extent()):
        before = extent - 1 - low
        config.append((before, dilated(n, base) + extent - 1 - before - dilated(m, stride), stride - 1))
    dilated_ct = pad_p.bind(ct, constant_like(ct, 0), padding_config=tuple(config))
    ones = (1,) * x.aval.ndim
    return [reduce_window_sum_p.bind(dilated_ct, **w._replace(
        window_strides=w.base_dilation, padding=((0, 0),) * x.aval.ndim, base_dilation=ones)._asdict())]


def _minmax_jvp(direction: Primitive) -> OwnRule:
    def make(primitive: Primitive) -> Callable:
        def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
            [x], [t] = primals, tangents
            answer = primitive.bind(x, **params)
            if type(t) is Zero:
                return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
            return answer, select_and_gather_add_p.bind(t, x, select_prim=direction, **params)

        return jvp

    return OwnRule(make)


reduce_window_sum_p = _window_reduction("reduce_window_sum", ELEMENTWISE["add"], lambda d: 0, "int float complex bool",
                                        sums=of_first,
                                jvp=linear_jvp, transpose=_sum_transpose)
reduce_window_max_p = _window_reduction("reduce_window_max", ELEMENTWISE["max"], lowest, "int float complex bool",
                                jvp=_minmax_jvp(ELEMENTWISE["ge"]))
reduce_window_min_p = _window_reduction("reduce_window_min", ELEMENTWISE["min"], highest, "int float complex bool",
                                jvp=_minmax_jvp(ELEMENTWISE["le"]))


# Select, in each window of one array, the element at the extremum of another array


def _gather_abstract(tangents: ShapedArray, operand: ShapedArray, *, select_prim: Primitive, **params: Any) -> ShapedArray:
    _check_same_shape("select_and_gather_add", "tangents", tangents, operand)
    return typed(tangents, Window(**params).count(operand.shape))


def _check_same_shape(caller: str, name: str, x: ShapedArray, operand: ShapedArray) -> None:
    if x.shape != operand.shape:
        raise errors.incompatible_shapes(caller, [(name, x.shape), ("operand", operand.shape)], "They must have one shape.")


def _identity_of(select_prim: Primitive) -> Callable[[np.dtype], Any]:
    """Return the function that gives the value which every element is preferred to."""
    return lowest if select_prim is ELEMENTWISE["ge"] else highest


def _gather_lower(ctx: RuleContext, tangents: ir.Value, operand: ir.Value, *, select_prim: Primitive, **params: Any
                  ) -> ir.Value:
    t, x = ctx.avals_in
    scalars = [((), x.dtype), ((), t.dtype)]

    def choose(inner: RuleContext, best: ir.Value, best_tangent: ir.Value, value: ir.Value, tangent: ir.Value
               ) -> list[ir.Value]:
        keeps_best = _apply_scalar(inner, select_prim, x, best, value)
        return [inner.op("stablehlo.select", [keeps_best, a, b], [kind]) for a, b, kind in (
            (best, value, scalars[0]), (best_tangent, tangent, scalars[1]))]

    results = reduce_windows(
        ctx, [operand, tangents, _initial(ctx, x.dtype, _identity_of(select_prim)), ctx.constant(np.zeros((), t.dtype))],
        [*scalars, *scalars], choose, [ctx.aval_out.update(dtype=x.dtype), ctx.aval_out], params)
    return results[1]


def _gather_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    result = select_and_gather_add_p.bind(*primals, **params)
    if type(tangents[0]) is Zero:
        return result, Zero(tracing.aval_of(result).to_tangent_aval())
    return result, select_and_gather_add_p.bind(tangents[0], primals[1], **params)


def _gather_transpose(ct: Tangent, tangents: Any, operand: Any, *, select_prim: Primitive, **params: Any) -> list[Any]:
    """Add the cotangent of each window at its extremum."""
    if type(ct) is Zero:
        return [Zero(tangents.aval), None]
    w = Window(**params)
    if any(d != 1 for d in w.window_dilation):
        raise NotImplementedError(f"the reverse derivative of a maximum or minimum over windows with holes is not implemented: "
                                  f"reduce_window got window_dilation={w.window_dilation}. Use xf.jvp, or undilated windows.")
    # Base dilation and symbolic padding are separate operations, since StableHLO's select_and_scatter has neither.
    pads = w.padding if is_symbolic([n for pair in w.padding for n in pair]) else ((0, 0),) * len(w.padding)
    needs_padding = any(d != 1 for d in w.base_dilation) or any(pair != (0, 0) for pair in pads)
    if needs_padding:
        fill = np.asarray(_identity_of(select_prim)(tracing.aval_of(operand).dtype)).astype(tracing.aval_of(operand).dtype)
        operand = pad_p.bind(operand, fill[()], padding_config=tuple((*pair, d - 1) for pair, d in zip(pads, w.base_dilation)))
    result = select_and_scatter_add_p.bind(
        ct, operand, select_prim=select_prim, window_dimensions=w.window_dimensions, window_strides=w.window_strides,
        padding=tuple((a - b, c - d) for (a, c), (b, d) in zip(w.padding, pads)))
    if needs_padding:
        result = slice_p.bind(result, start_indices=tuple(low for low, _ in pads), strides=w.base_dilation,
                              limit_indices=tuple(n - high for n, (_, high) in zip(np.shape(operand), pads)))
    return [result, None]


def _batch_in_front(axis_size: int, operands: Sequence[Any], dims: Dims, params: Params) -> tuple[list[Any], Params]:
    xs = [broadcast_batch(x, d, axis_size) for x, d in zip(operands, dims)]
    keys = [key for key in Window._fields if key in params]
    batched = {key: ((0, 0) if key == "padding" else 1, *params[key]) for key in keys}
    return xs, params | batched


def _gather_batch(axis_size: int, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
    xs, params = _batch_in_front(axis_size, operands, dims, params)
    return select_and_gather_add_p.bind(*xs, **params), 0


select_and_gather_add_p = Primitive(
    "select_and_gather_add", abstract=_gather_abstract, lower=_gather_lower, jvp=_gather_jvp, transpose=_gather_transpose,
    batch=_gather_batch, mesh=MeshRules(sharding_rules.windows))


# Add one value per window to an array, at the position of the extremum of another array in that window


def _scatter_abstract(source: ShapedArray, operand: ShapedArray, **params: Any) -> ShapedArray:
    w = _undilated_window(params)
    if source.shape != w.count(operand.shape):
        raise errors.incompatible_shapes(
            "select_and_scatter_add", [("source", source.shape), ("operand", operand.shape)],
            f"The source needs an element for each of the {w.count(operand.shape)} windows of {w.window_dimensions}.")
    return typed(source, operand.shape)


def _undilated_window(params: Params) -> Window:
    ones = (1,) * len(params["window_dimensions"])
    return Window(params["window_dimensions"], params["window_strides"], params["padding"], ones, ones)


def _emit_select_and_scatter(ctx: RuleContext, operand: tuple[ir.Value, ShapedArray], source: tuple[ir.Value, ShapedArray],
                             initial: ir.Value, regions: tuple[Callable, Callable], params: Params) -> ir.Value:
    x, s = operand[1], source[1]
    select, scatter = regions
    return ctx.with_regions(
        "stablehlo.select_and_scatter", [operand[0], source[0], initial],
        [([((), x.dtype)] * 2, select), ([((), s.dtype)] * 2, scatter)], types=[ctx.aval_out],
        **attributes({key: params[key] for key in ("window_dimensions", "window_strides", "padding")}))[0]


def _scatter_lower(ctx: RuleContext, source: ir.Value, operand: ir.Value, *, select_prim: Primitive, **params: Any) -> ir.Value:
    s, x = ctx.avals_in
    if x.dtype != s.dtype:  # the operation has one dtype; operands that are compared may be converted to it
        operand = ctx.convert(operand, x.shape, s.dtype)
        x = x.update(dtype=s.dtype)
    return _emit_select_and_scatter(
        ctx, (operand, x), (source, s), ctx.constant(np.zeros((), s.dtype)),
        (lambda inner, a, b: [_apply_scalar(inner, select_prim, x, a, b)],
         lambda inner, a, b: [_apply_scalar(inner, ELEMENTWISE["add"], s, a, b)]), params)


def _scatter_transpose(ct: Tangent, source: Any, operand: Any, **params: Any) -> list[Any]:
    if type(ct) is Zero:
        return [Zero(source.aval), None]
    ones = (1,) * np.ndim(ct)
    return [select_and_gather_add_p.bind(ct, operand, base_dilation=ones, window_dilation=ones, **params), None]


def _scatter_batch(axis_size: int, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
    xs, params = _batch_in_front(axis_size, operands, dims, params)
    return select_and_scatter_add_p.bind(*xs, **params), 0


select_and_scatter_add_p = Primitive(
    "select_and_scatter_add", abstract=_scatter_abstract, lower=_scatter_lower, transpose=_scatter_transpose,
    batch=_scatter_batch, jvp=linear_jvp, mesh=MeshRules(sharding_rules.same_as_second))


# The same with jaxprs of two scalars that select and combine


def _select_and_scatter_abstract(operand: ShapedArray, source: ShapedArray, init_value: ShapedArray, *, select_jaxpr: Jaxpr,
                                 select_consts: Sequence[Any], scatter_jaxpr: Jaxpr, scatter_consts: Sequence[Any],
                                 **params: Any) -> ShapedArray:
    w = _undilated_window(params)
    if source.shape != w.count(operand.shape) or init_value.shape:
        raise errors.incompatible_shapes(
            "select_and_scatter", [("operand", operand.shape), ("source", source.shape), ("init_value", init_value.shape)],
            f"The source needs an element for each of the {w.count(operand.shape)} windows, and the initial value none.")
    if not operand.dtype == source.dtype == init_value.dtype:
        raise errors.incompatible_dtypes("select_and_scatter", [operand.dtype, source.dtype, init_value.dtype])
    return typed(operand, operand.shape)


def _select_and_scatter_lower(ctx: RuleContext, operand: ir.Value, source: ir.Value, init_value: ir.Value, *,
                              select_jaxpr: Jaxpr, select_consts: Sequence[Any], scatter_jaxpr: Jaxpr,
                              scatter_consts: Sequence[Any], **params: Any) -> ir.Value:
    x, s, _ = ctx.avals_in
    select, scatter = select_jaxpr.with_consts(select_consts), scatter_jaxpr.with_consts(scatter_consts)
    return _emit_select_and_scatter(ctx, (operand, x), (source, s), init_value,
                            (lambda inner, a, b: inner.inline(select, [a, b]),
                             lambda inner, a, b: inner.inline(scatter, [a, b])), params)


def _select_and_scatter_batch(axis_size: int, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
    if dims[2] is not None:
        raise NotImplementedError("select_and_scatter under vmap takes one init_value for all elements, got a batched one.")
    xs, params = _batch_in_front(axis_size, operands[:2], dims[:2], params)
    return select_and_scatter_p.bind(*xs, operands[2], **params), 0


select_and_scatter_p = Primitive(
    "select_and_scatter", abstract=_select_and_scatter_abstract, lower=_select_and_scatter_lower,
    batch=_select_and_scatter_batch, traits=Traits(memoise=False))


def reduce_window_shape_tuple(operand_shape: Sequence[int], window_dimensions: Sequence[int], window_strides: Sequence[int],
                              padding: Sequence[tuple[int, int]], base_dilation: Sequence[int] | None = None,
                              window_dilation: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the shape of the result of `reduce_window`.

    Args:
        operand_shape: Shape of the operand.
        window_dimensions, window_strides, base_dilation, window_dilation: As in `reduce_window`.
        padding: A `(low, high)` pair per dimension, or the name of a padding.

    Returns:
        A tuple of sizes.

    Example:
        >>> lax.reduce_window_shape_tuple((4, 6), (2, 2), (2, 1), ((0, 0), (0, 1)))
        (2, 6)
    """
    return canonical_window("reduce_window_shape_tuple", tuple(operand_shape), window_dimensions, window_strides, padding,
                            base_dilation, window_dilation).count(tuple(operand_shape))
