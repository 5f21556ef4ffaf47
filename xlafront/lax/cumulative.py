"""Cumulative reductions along an axis: sums, products, extremes, and scans with an associative function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lowering
from xlafront.base.jaxlib_compat import HAS_SUMS_ON_GPU
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import broadcast_in_dim_p
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.sharding_types import of_first
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.dynamic_slicing import dynamic_slice_p
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE, log_add_p, size_scalar, sub
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.reductions import highest, lowest
from xlafront.lax.shapes import canonical_axis, linear_jvp, plain_axis, reshape_to, rev_p, typed
from xlafront.lax.slicing import concatenate_p, pad_p, slice_p
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import is_symbolic, is_symbolic_dim, known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlafront.core.typing import Dims, Tangent
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


def scan_along(combine: Callable, xs: list, axis: int, reverse: bool = False) -> list:
    """Return the prefix scan along an axis, in a logarithmic number of steps; `combine` maps two lists of arrays to one."""
    size = np.shape(xs[0])[axis]
    if is_symbolic_dim(size):
        raise NotImplementedError(
            f"associative_scan and the derivatives of cumprod, cummax, cummin and cumlogsumexp do not support an axis of size "
            f"'{size}', which is not known while tracing: the number of steps depends on it. Use lax.scan, or export this "
            f"dimension with a fixed size.")
    if reverse:
        xs = [rev_p.bind(x, dimensions=(axis,)) for x in xs]

    def slice_axis(x: ArrayLike, start: int, limit: int, stride: int = 1) -> ArrayLike:
        shape = np.shape(x)
        if start == 0 and limit == shape[axis] and stride == 1:
            return x
        starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
        starts[axis], limits[axis], steps[axis] = start, limit, stride
        return slice_p.bind(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=tuple(steps))

    def scan(elements: list) -> list:
        n = np.shape(elements[0])[axis]
        if n < 2:
            return elements
        pairs = combine([slice_axis(e, 0, n - n % 2, 2) for e in elements], [slice_axis(e, 1, n, 2) for e in elements])
        odd = scan(pairs)
        left = [slice_axis(o, 0, np.shape(o)[axis] - (n % 2 == 0)) for o in odd]
        even = combine(left, [slice_axis(e, 2, n, 2) for e in elements]) if n > 2 else None
        firsts = [slice_axis(e, 0, 1) for e in elements]
        evens = firsts if even is None else [
            concatenate_p.bind(f, e, dimension=axis) for f, e in zip(firsts, even)]
        return [_interleave(a, b, axis) for a, b in zip(evens, odd)]

    results = scan(xs)
    return [rev_p.bind(x, dimensions=(axis,)) for x in results] if reverse else results


def _interleave(a: Array, b: Array, axis: int) -> Array:
    n, m = np.shape(a)[axis], np.shape(b)[axis]
    zero = np.zeros((), tracing.aval_of(a).dtype)

    def padding(low: int, high: int) -> tuple:
        return tuple((low, high, 1) if i == axis else (0, 0, 0) for i in range(np.ndim(a)))

    even_elements = pad_p.bind(a, zero, padding_config=padding(0, 1 if n == m else 0))
    odd_elements = pad_p.bind(b, zero, padding_config=padding(1, 0 if n == m else 1))
    return ELEMENTWISE["or" if tracing.aval_of(a).dtype == dtypes.bool_ else "add"].bind(even_elements, odd_elements)


# The primitives

# name: the binary operation, and a function that returns its identity element for a dtype
_OPERATIONS = {"cumsum": (ELEMENTWISE["add"], lambda d: 0), "cumprod": (ELEMENTWISE["mul"], lambda d: 1),
               "cummax": (ELEMENTWISE["max"], lowest), "cummin": (ELEMENTWISE["min"], highest),
               "cumlogsumexp": (log_add_p, lowest)}
_FEW = 1024  # up to this number of elements, reduce_window takes negligible time
_UNROLLED = 8  # up to this axis size, the steps are unrolled
_ONE_LOOP = 1024  # up to this axis size, they are one loop
_MANY = 1 << 18  # from this number of elements on, each step reads from memory, so they are one loop only up to
_ONE_LOOP_OF_MANY = 64  # this axis size
_BLOCK = 32


def _padded_along(axis: int, rank: int, low: int, high: int) -> tuple:
    return tuple([(low, high, 0) if i == axis else (0, 0, 0) for i in range(rank)])


class _Lowerings:
    """Lowerings of a cumulative operation by platform.

    XLA's compilers for GPUs and TPUs optimize `reduce_window` with a window for each element; newer ones for GPUs have a scan
    operation.

    On CPUs the lowering is a loop: step `k` combines each element with the element `2**k` before it. This is more work than
    `scan_along` (`unrolled`), which halves the remaining work at each step, but the size of the module does not depend on the
    size of the array, and compilation is several times as fast. Long arrays are split into blocks, which take few steps; the
    totals of the blocks are scanned in the same way.
    """

    def __init__(self, name: str, operation: Primitive, identity: Callable, unrolled: Callable) -> None:
        self.name, self.operation, self.identity, self.unrolled = name, operation, identity, unrolled
        self.by_blocks, self.step, self.pair = lower_fun(self._blocks), lower_fun(self._step), lower_fun(operation.bind)

    def on_accelerators(self, ctx: RuleContext, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
        aval = ctx.avals_in[0]
        if is_symbolic(aval.shape):
            return self._loop(ctx, x, axis=axis, reverse=reverse)
        return (self._windows if math.prod(aval.shape) else self.unrolled)(ctx, x, axis=axis, reverse=reverse)

    def sums_on_gpu(self, ctx: RuleContext, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
        """Lower a sum to one scan operation; not for export, since that operation is not part of StableHLO."""
        [aval], m = ctx.avals_in, lowering.mlir
        written_out = is_symbolic(aval.shape) or not math.prod(aval.shape)
        if ctx.module_context.target.for_export or written_out or reverse or dtypes.is_complex(aval.dtype):
            return self.on_accelerators(ctx, x, axis=axis, reverse=reverse)
        slab = ShapedArray((*aval.shape[:axis], *aval.shape[axis + 1:]), aval.dtype)

        def add(inner: RuleContext, element: ir.Value, before: ir.Value) -> list[ir.Value]:
            return [inner.op("stablehlo.add", [element, before], [slab])] * 2

        zero, one_each = ctx.constant(np.zeros((), aval.dtype)), m.attribute("array<i32: 1, 1>")
        if slab.shape:
            zero = ctx.broadcast(zero, slab.shape, slab.dtype, ())
        return ctx.with_region(
            "chlo.scan", [x, zero], [slab] * 2, add, types=[aval, slab], dimension=m.i64(axis), is_reverse=m.boolean(False),
            is_associative=m.boolean(True), operandSegmentSizes=one_each, resultSegmentSizes=one_each)[0]

    def on_cpu(self, ctx: RuleContext, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
        aval = ctx.avals_in[0]
        n = aval.shape[axis]
        if known(n, _UNROLLED + 1) <= _UNROLLED:
            few = not is_symbolic(aval.shape) and 0 < math.prod(aval.shape) <= _FEW
            return (self._windows if few else self.unrolled)(ctx, x, axis=axis, reverse=reverse)
        many = not is_symbolic(aval.shape) and math.prod(aval.shape) >= _MANY
        longest = _ONE_LOOP_OF_MANY if many else _ONE_LOOP
        return (self.by_blocks if known(n, 0) > longest else self._loop)(ctx, x, axis=axis, reverse=reverse)

    def _neutral(self, dtype: np.dtype) -> Any:
        return np.asarray(self.identity(dtype)).astype(dtype)[()]

    def _windows(self, ctx: RuleContext, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
        """Lower to one `reduce_window` operation with a window for each element."""
        aval, m = ctx.avals_in[0], lowering.mlir
        size, scalar = aval.shape[axis], ShapedArray((), aval.dtype)
        padding = np.array([[0, 0] if i != axis else [0, size - 1] if reverse else [size - 1, 0] for i in range(aval.ndim)])
        return ctx.with_region(
            "stablehlo.reduce_window", [x, ctx.constant(self._neutral(aval.dtype))], [scalar] * 2,
            lambda inner, a, b: [self.pair(inner.replace(avals_in=[scalar] * 2), a, b)], types=[aval],
            window_dimensions=m.i64s([size if i == axis else 1 for i in range(aval.ndim)]),
            window_strides=m.i64s([1] * aval.ndim), padding=m.dense_i64(padding.astype(np.int64)))[0]

    def _loop(self, ctx: RuleContext, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
        aval, scalar = ctx.avals_in[0], ShapedArray((), np.dtype(np.int32))
        n = aval.shape[axis]

        def body(inner: RuleContext, x: ir.Value, count: ir.Value) -> list[ir.Value]:
            one = inner.constant(np.int32(1))
            x = self.step(inner.replace(avals_in=[aval, scalar]), x, inner.op("stablehlo.shift_left", [one, count], [scalar]),
                          axis=axis, reverse=reverse)
            return [x, inner.op("stablehlo.add", [count, one], [scalar])]

        def unfinished(inner: RuleContext, x: ir.Value, count: ir.Value) -> ir.Value:
            if is_symbolic_dim(n):
                distance = inner.op("stablehlo.shift_left", [inner.constant(np.int32(1)), count], [scalar])
                return inner.compare("LT", "SIGNED", distance, inner.size(n), ())
            return inner.compare("LT", "SIGNED", count, inner.constant(np.int32((n - 1).bit_length())), ())

        return ctx.loop([x, ctx.constant(np.int32(0))], unfinished, body)[0]

    def _step(self, x: Array, distance: ArrayLike, *, axis: int, reverse: bool) -> Array:
        """Combine each element with the one `distance` before it."""
        shape = np.shape(x)
        n = shape[axis]
        padded = pad_p.bind(x, self._neutral(tracing.aval_of(x).dtype),
                            padding_config=_padded_along(axis, len(shape), *((0, n) if reverse else (n, 0))))
        start = distance if reverse else sub(size_scalar(n, np.int32), distance)
        starts = [start if i == axis else np.int32(0) for i in range(len(shape))]
        return self.operation.bind(dynamic_slice_p.bind(padded, *starts, slice_sizes=shape), x)

    def _blocks(self, x: Array, *, axis: int, reverse: bool) -> Array:
        shape, identity = np.shape(x), self._neutral(tracing.aval_of(x).dtype)
        count = -(-shape[axis] // _BLOCK)
        padded_shape = (*shape[:axis], count * _BLOCK, *shape[axis + 1:])
        x = pad_p.bind(x, identity, padding_config=_padded_along(axis, len(shape), 0, count * _BLOCK - shape[axis]))
        x = reshape_to(x, (*shape[:axis], count, _BLOCK, *shape[axis + 1:]))
        x = PRIMITIVES[self.name].bind(x, axis=axis + 1, reverse=reverse)
        starts, limits = [0] * np.ndim(x), [*np.shape(x)]
        starts[axis + 1], limits[axis + 1] = (0, 1) if reverse else (_BLOCK - 1, _BLOCK)
        totals = slice_p.bind(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=None)
        totals = PRIMITIVES[self.name].bind(totals, axis=axis, reverse=reverse)
        rank = len(starts)
        before = pad_p.bind(totals, identity, padding_config=_padded_along(axis, rank, *((-1, 1) if reverse else (1, -1))))
        before = broadcast_in_dim_p.bind(before, shape=np.shape(x), sharding=None, broadcast_dimensions=tuple(range(rank)))
        x = reshape_to(self.operation.bind(before, x), padded_shape)
        return slice_p.bind(x, start_indices=(0,) * len(shape), limit_indices=shape, strides=None)


def _cumulative(name: str) -> Primitive:
    operation, identity = _OPERATIONS[name]

    def compute(x: Array, *, axis: int, reverse: bool) -> Array:
        return scan_along(lambda a, b: [operation.bind(a[0], b[0])], [x], axis, reverse)[0]

    def abstract(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
        check_dtype(name, "float complex" if name == "cumlogsumexp" else "int float complex", x.dtype)
        return typed(x, x.shape)

    def batch(axis_size: int, operands: Sequence[Any], dims: Dims, *, axis: int, reverse: bool) -> tuple[Any, Any]:
        [x], [d] = operands, dims
        return primitive.bind(x, axis=axis + (axis >= d), reverse=reverse), d

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Sequence[Any]:
        """Scan pairs of primal and tangent as the primals are scanned."""
        [x], [t] = primals, tangents
        if type(t) is Zero:
            answer = primitive.bind(x, **params)
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return scan_along(lambda a, b: operation.jvp((a[0], b[0]), (a[1], b[1])), [x, t], **params)

    def transpose(ct: Tangent, x: Any, *, axis: int, reverse: bool) -> list[Any]:
        return [Zero(x.aval) if type(ct) is Zero else primitive.bind(ct, axis=axis, reverse=not reverse)]

    rules = _Lowerings(name, operation, identity, lower_fun(compute))
    lower = {None: rules.on_accelerators, "cpu": rules.on_cpu}
    is_linear = name == "cumsum"
    if is_linear and HAS_SUMS_ON_GPU:
        lower["cuda"] = rules.sums_on_gpu
    primitive = Primitive(
        name, abstract=abstract, lower=lower, batch=batch, jvp=linear_jvp if is_linear else jvp,
        transpose=transpose if is_linear else None,
        mesh=MeshRules(sharding_rules.along("axis"), sums=of_first if is_linear else None))
    return primitive


PRIMITIVES = {name: _cumulative(name) for name in _OPERATIONS}
cumsum_p = PRIMITIVES["cumsum"]


# Public functions


def _public_cumulative(name: str) -> Callable:
    primitive = PRIMITIVES[name]

    def kernel(operand: Array, axis: int, reverse: bool) -> Array:
        return primitive.bind(operand, axis=axis, reverse=reverse)

    kernel.__name__ = name
    compiled = library(kernel, static=("axis", "reverse"))

    def function(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        return compiled(operand, plain_axis(axis, np.ndim(operand), name), bool(reverse))

    function.__name__ = function.__qualname__ = name
    reduction, operand, output = _DOCUMENTED[name]
    function.__doc__ = f"""Compute the cumulative {reduction} along a dimension.

    Args:
        operand: An array.
        axis: The dimension, non-negative.
        reverse: If True, accumulate from the end.

    Returns:
        An array of the shape and dtype of `operand`.

    Example:
        >>> lax.{name}(xnp.array({operand}))
        Array({output})
    """
    return library(function, static=None)


_DOCUMENTED = {
    "cumsum": ("sum", "[1, 3, 2]", "[1, 4, 6], dtype=int32"),
    "cumprod": ("product", "[1, 3, 2]", "[1, 3, 6], dtype=int32"),
    "cummax": ("maximum", "[1, 3, 2]", "[1, 3, 3], dtype=int32"),
    "cummin": ("minimum", "[1, 3, 2]", "[1, 1, 1], dtype=int32"),
    "cumlogsumexp": ("logarithm of the sum of exponentials", "[0.0, -np.inf]", "[0., 0.], dtype=float32")}
PUBLIC = {name: _public_cumulative(name) for name in PRIMITIVES}
PUBLIC.update({f"{_name}_p": _primitive for _name, _primitive in PRIMITIVES.items()})


@library(static=None)
def associative_scan(fn: Callable, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Scan elements with an associative function, in a logarithmic number of steps.

    Args:
        fn: Associative function: `fn(a, b)` combines two pytrees like `elems`. It must work elementwise along `axis`, for any
            size.
        elems: A pytree of arrays of one size along `axis`.
        reverse: If True, scan from the end. The first argument of `fn` is then the element closer to the end.
        axis: The dimension to scan along. Negative ones count from the end.

    Returns:
        A pytree like `elems`: the combinations of all elements up to each position.

    Example:
        >>> lax.associative_scan(lambda a, b: a * b, xnp.array([1, 2, 3, 4]))
        Array([ 1,  2,  6, 24], dtype=int32)
    """
    name = "associative_scan"
    if not callable(fn):
        raise TypeError(f"{name} needs a function to combine elements with, got {fn!r}.")
    leaves, treedef = tree.flatten(elems)
    if not leaves:
        return elems
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, name, tree.path_of(elems, i))
    axis = canonical_axis(axis, np.ndim(leaves[0]), name)
    if any(np.ndim(x) <= axis for x in leaves):
        raise ValueError(f"{name} needs arrays that all have axis {axis}, got shapes {[np.shape(x) for x in leaves]}.")
    sizes = {np.shape(x)[axis] for x in leaves}
    if len(sizes) > 1:
        raise ValueError(f"{name} needs arrays of one size along axis {axis}, got {sorted(sizes)}.")

    def combine(xs: list, ys: list) -> list:
        result = fn(treedef.unflatten(xs), treedef.unflatten(ys))
        outputs, out_tree = tree.flatten(result)
        if len(outputs) != len(xs):
            raise ValueError(f"the function given to {name} must return what it takes: {treedef}, got {out_tree}.")
        for i, (x, y) in enumerate(zip(xs, outputs)):
            given, returned = tracing.aval_of(x), tracing.aval_of(y, name)
            if (given.shape, given.dtype) != (returned.shape, returned.dtype):
                raise TypeError(f"the function given to {name} must return arrays of the types that it takes, but it got "
                                f"{given} and returned {returned} at result{tree.path_of(result, i)}.")
        return outputs

    if 0 in sizes or sizes == {1}:
        return elems
    return treedef.unflatten(scan_along(combine, leaves, axis, reverse))
