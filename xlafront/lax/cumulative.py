"""Running reductions along an axis: sums, products, extremes, and those by any associative function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import is_symbolic, is_symbolic_dim, known
from xlafront.core.primitive import Primitive
from xlafront.core.sharding_types import of_first
from xlafront.core.typing import Array, ArrayLike
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.arguments import check_dtype
from xlafront.lax.dynamic_slicing import dynamic_slice_p
from xlafront.lax.elementwise import PRIMITIVES as ELEMENTWISE, log_add_p, size_as, sub
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.reductions import highest, lowest
from xlafront.lax.shapes import broadcast_in_dim_p, canonical_axis, linear_jvp, plain_axis, reshape_to, rev_p, typed
from xlafront.lax.slicing import concatenate_p, pad_p, slice_p
from xlafront.runtime.jaxlib_compat import HAS_SUMS_ON_GPU
from xlafront.staging.library import lax_function, written_once


def scan_along(combine, xs: list, axis: int, reverse: bool = False) -> list:
    """Prefix combinations along an axis in logarithmically many steps; `combine` maps two lists to one."""
    size = np.shape(xs[0])[axis]
    if is_symbolic_dim(size):
        raise NotImplementedError(
            f"elements along an axis of the size '{size}', which is not known while tracing, are not combined with those "
            f"before them by associative_scan, nor in the derivatives of cumprod, cummax, cummin and cumlogsumexp: how often "
            f"that is done depends on it. Use lax.scan, or export this dimension with a fixed size.")
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


# The primitives

# What they combine by, and what changes nothing.
_OPERATIONS = {"cumsum": (ELEMENTWISE["add"], lambda d: 0), "cumprod": (ELEMENTWISE["mul"], lambda d: 1),
               "cummax": (ELEMENTWISE["max"], lowest), "cummin": (ELEMENTWISE["min"], highest),
               "cumlogsumexp": (log_add_p, lowest)}
_FEW = 1024  # of as many elements windows take no time
_UNROLLED = 8  # up to this size the steps are written one by one
_ONE_LOOP = 1024  # up to this size they are one loop
_BLOCK = 32


def _padded_along(axis: int, rank: int, low: int, high: int) -> tuple:
    return tuple([(low, high, 0) if i == axis else (0, 0, 0) for i in range(rank)])


class _Lowerings:
    """How a cumulative operation is written, by platform.

    XLA's compilers for GPUs and TPUs know a window for each element, and the newer ones for GPUs a sum along an axis.

    On CPUs it is a loop: each time all elements are combined with those twice as far away as the time before. More work than
    `scan_along` (`unrolled`), which halves what is left to do at each step, but a program whose size does not grow with the
    array's: it compiles several times as fast. Long arrays are blocks, within which it takes few steps, and what is before each
    block, which is combined in the same way.
    """

    def __init__(self, primitive: Primitive, operation: Primitive, identity: Callable, unrolled: Callable) -> None:
        self.primitive, self.operation, self.identity, self.unrolled = primitive, operation, identity, unrolled
        self.by_blocks, self.step, self.pair = lower_fun(self._blocks), lower_fun(self._step), lower_fun(operation.bind)

    def elsewhere(self, ctx, x, *, axis, reverse):
        aval = ctx.avals_in[0]
        if is_symbolic(aval.shape):
            return self._loop(ctx, x, axis=axis, reverse=reverse)
        return (self._windows if math.prod(aval.shape) else self.unrolled)(ctx, x, axis=axis, reverse=reverse)

    def sums_on_gpu(self, ctx, x, *, axis, reverse):
        """One operation that passes on a sum; what leaves the process has none, as it is no StableHLO."""
        [aval], m = ctx.avals_in, lowering.mlir
        written_out = is_symbolic(aval.shape) or not math.prod(aval.shape)
        if ctx.module_context.leaves or written_out or reverse or dtypes.is_complex(aval.dtype):
            return self.elsewhere(ctx, x, axis=axis, reverse=reverse)
        slab = ShapedArray((*aval.shape[:axis], *aval.shape[axis + 1:]), aval.dtype)

        def add(inner, element, before):
            return [inner.op("stablehlo.add", [element, before], [slab])] * 2

        zero, one_each = ctx.constant(np.zeros((), aval.dtype)), m.attribute("array<i32: 1, 1>")
        if slab.shape:
            zero = ctx.broadcast(zero, slab.shape, slab.dtype, ())
        return ctx.with_region(
            "chlo.scan", [x, zero], [slab] * 2, add, types=[aval, slab], dimension=m.i64(axis), is_reverse=m.boolean(False),
            is_associative=m.boolean(True), operandSegmentSizes=one_each, resultSegmentSizes=one_each)[0]

    def on_cpu(self, ctx, x, *, axis, reverse):
        aval = ctx.avals_in[0]
        n = aval.shape[axis]
        if known(n, _UNROLLED + 1) <= _UNROLLED:
            few = not is_symbolic(aval.shape) and 0 < math.prod(aval.shape) <= _FEW
            return (self._windows if few else self.unrolled)(ctx, x, axis=axis, reverse=reverse)
        return (self.by_blocks if known(n, 0) > _ONE_LOOP else self._loop)(ctx, x, axis=axis, reverse=reverse)

    def _neutral(self, dtype):
        return np.asarray(self.identity(dtype)).astype(dtype)[()]

    def _windows(self, ctx, x, *, axis, reverse):
        """Each element the combination of a window of its own, which is one operation."""
        aval, m = ctx.avals_in[0], lowering.mlir
        size, scalar = aval.shape[axis], ShapedArray((), aval.dtype)
        padding = np.array([[0, 0] if i != axis else [0, size - 1] if reverse else [size - 1, 0] for i in range(aval.ndim)])
        return ctx.with_region(
            "stablehlo.reduce_window", [x, ctx.constant(self._neutral(aval.dtype))], [scalar] * 2,
            lambda inner, a, b: [self.pair(inner.replace(avals_in=[scalar] * 2), a, b)], types=[aval],
            window_dimensions=m.i64s([size if i == axis else 1 for i in range(aval.ndim)]),
            window_strides=m.i64s([1] * aval.ndim), padding=m.dense_i64(padding.astype(np.int64)))[0]

    def _loop(self, ctx, x, *, axis, reverse):
        aval, scalar = ctx.avals_in[0], ShapedArray((), np.dtype(np.int32))
        n = aval.shape[axis]

        def body(inner, x, count):
            one = inner.constant(np.int32(1))
            x = self.step(inner.replace(avals_in=[aval, scalar]), x, inner.op("stablehlo.shift_left", [one, count], [scalar]),
                          axis=axis, reverse=reverse)
            return [x, inner.op("stablehlo.add", [count, one], [scalar])]

        def unfinished(inner, x, count):
            if is_symbolic_dim(n):
                distance = inner.op("stablehlo.shift_left", [inner.constant(np.int32(1)), count], [scalar])
                return inner.compare("LT", "SIGNED", distance, inner.size(n), ())
            return inner.compare("LT", "SIGNED", count, inner.constant(np.int32((n - 1).bit_length())), ())

        return ctx.loop([x, ctx.constant(np.int32(0))], unfinished, body)[0]

    def _step(self, x, distance, *, axis, reverse):
        """Each element combined with that of a distance before it."""
        shape = np.shape(x)
        n = shape[axis]
        padded = pad_p.bind(x, self._neutral(tracing.aval_of(x).dtype),
                            padding_config=_padded_along(axis, len(shape), *((0, n) if reverse else (n, 0))))
        start = distance if reverse else sub(size_as(n, np.int32), distance)
        starts = [start if i == axis else np.int32(0) for i in range(len(shape))]
        return self.operation.bind(dynamic_slice_p.bind(padded, *starts, slice_sizes=shape), x)

    def _blocks(self, x, *, axis, reverse):
        shape, nothing = np.shape(x), self._neutral(tracing.aval_of(x).dtype)
        count = -(-shape[axis] // _BLOCK)
        whole = (*shape[:axis], count * _BLOCK, *shape[axis + 1:])
        x = pad_p.bind(x, nothing, padding_config=_padded_along(axis, len(shape), 0, count * _BLOCK - shape[axis]))
        x = reshape_to(x, (*shape[:axis], count, _BLOCK, *shape[axis + 1:]))
        x = self.primitive.bind(x, axis=axis + 1, reverse=reverse)
        starts, limits = [0] * np.ndim(x), [*np.shape(x)]
        starts[axis + 1], limits[axis + 1] = (0, 1) if reverse else (_BLOCK - 1, _BLOCK)
        totals = slice_p.bind(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=None)
        totals = self.primitive.bind(totals, axis=axis, reverse=reverse)
        rank = len(starts)
        before = pad_p.bind(totals, nothing, padding_config=_padded_along(axis, rank, *((-1, 1) if reverse else (1, -1))))
        before = broadcast_in_dim_p.bind(before, shape=np.shape(x), sharding=None, broadcast_dimensions=tuple(range(rank)))
        x = reshape_to(self.operation.bind(before, x), whole)
        return slice_p.bind(x, start_indices=(0,) * len(shape), limit_indices=shape, strides=None)


def _cumulative(name: str) -> Primitive:
    operation, identity = _OPERATIONS[name]

    def compute(x, *, axis, reverse):
        return scan_along(lambda a, b: [operation.bind(a[0], b[0])], [x], axis, reverse)[0]

    def abstract(x, *, axis, reverse):
        check_dtype(name, "float complex" if name == "cumlogsumexp" else "int float complex", x.dtype)
        return typed(x, x.shape)

    def batch(axis_size, operands, dims, *, axis, reverse):
        [x], [d] = operands, dims
        return primitive.bind(x, axis=axis + (axis >= d), reverse=reverse), d

    def jvp(primals, tangents, **params):
        """Pairs of a value and its tangent are combined as the values alone."""
        [x], [t] = primals, tangents
        if type(t) is Zero:
            answer = primitive.bind(x, **params)
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        return scan_along(lambda a, b: operation.jvp((a[0], b[0]), (a[1], b[1])), [x, t], **params)

    def transpose(ct, x, *, axis, reverse):
        return [Zero(x.aval) if type(ct) is Zero else primitive.bind(ct, axis=axis, reverse=not reverse)]

    primitive = Primitive(name, abstract=abstract, lower=lower_fun(compute), batch=batch, jvp=jvp,
                          sharding_rule=sharding_rules.along("axis"), sums=of_first if name == "cumsum" else None)
    written = _Lowerings(primitive, operation, identity, primitive.lowerings[None])
    primitive.lowerings |= {None: written.elsewhere, "cpu": written.on_cpu}
    if name == "cumsum":  # which is linear
        primitive.jvp, primitive.transpose = linear_jvp(primitive), transpose
        if HAS_SUMS_ON_GPU:
            primitive.lowerings["cuda"] = written.sums_on_gpu
    return primitive


PRIMITIVES = {name: _cumulative(name) for name in _OPERATIONS}
cumsum_p = PRIMITIVES["cumsum"]


# Public functions


def _public_cumulative(name: str):
    primitive = PRIMITIVES[name]

    def kernel(operand, axis, reverse):
        return primitive.bind(operand, axis=axis, reverse=reverse)

    kernel.__name__ = name
    compiled = lax_function(kernel, static=("axis", "reverse"))

    def function(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        return compiled(operand, plain_axis(axis, np.ndim(operand), name), bool(reverse))

    function.__name__ = function.__qualname__ = name
    words, operand, gives = _DOCUMENTED[name]
    function.__doc__ = (
        f"{words} of the elements of an array up to each place along a dimension.\n\n- `operand`: an array.\n"
        f"- `axis`: the dimension, not negative; `xnp` has functions that count from the end.\n"
        f"- `reverse`: go from the end instead.\n\n>>> lax.{name}(xnp.array({operand}))\nArray({gives})")
    return written_once(function)


_DOCUMENTED = {
    "cumsum": ("The sum", "[1, 3, 2]", "[1, 4, 6], dtype=int32"),
    "cumprod": ("The product", "[1, 3, 2]", "[1, 3, 6], dtype=int32"),
    "cummax": ("The maximum", "[1, 3, 2]", "[1, 3, 3], dtype=int32"),
    "cummin": ("The minimum", "[1, 3, 2]", "[1, 1, 1], dtype=int32"),
    "cumlogsumexp": ("The logarithm of the sum of the exponentials", "[0.0, -np.inf]", "[0., 0.], dtype=float32")}
PUBLIC = {name: _public_cumulative(name) for name in PRIMITIVES}
PUBLIC.update({f"{_name}_p": _primitive for _name, _primitive in PRIMITIVES.items()})


@written_once
def associative_scan(fn: Callable, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Running combination of elements by an associative function, in a logarithmic number of steps.

    - `fn`: `fn(a, b)` combines pytrees like `elems`, of any size along `axis`, elementwise along it.
    - `elems`: a pytree of arrays.
    - `reverse`: from the end, where `a` is what comes from there.
    - `axis`: the dimension along which elements lie.

    >>> lax.associative_scan(lambda a, b: a * b, xnp.array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    who = "associative_scan"
    if not callable(fn):
        raise TypeError(f"{who} needs a function to combine elements with, got {fn!r}.")
    leaves, treedef = tree.flatten(elems)
    if not leaves:
        return elems
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, who, tree.path_of(elems, i))
    axis = canonical_axis(axis, np.ndim(leaves[0]), who)
    if any(np.ndim(x) <= axis for x in leaves):
        raise ValueError(f"{who} needs arrays that all have axis {axis}, got shapes {[np.shape(x) for x in leaves]}.")
    sizes = {np.shape(x)[axis] for x in leaves}
    if len(sizes) > 1:
        raise ValueError(f"{who} needs arrays of one size along axis {axis}, got {sorted(sizes)}.")

    def combine(xs, ys):
        result = fn(treedef.unflatten(xs), treedef.unflatten(ys))
        found, other = tree.flatten(result)
        if len(found) != len(xs):
            raise ValueError(f"the function given to {who} must return what it takes: {treedef}, got {other}.")
        for i, (x, y) in enumerate(zip(xs, found)):
            given, returned = tracing.aval_of(x), tracing.aval_of(y, who)
            if (given.shape, given.dtype) != (returned.shape, returned.dtype):
                raise TypeError(f"the function given to {who} must return arrays of the types that it takes, but it got "
                                f"{given} and returned {returned} at result{tree.path_of(result, i)}.")
        return found

    if 0 in sizes or sizes == {1}:
        return elems
    return treedef.unflatten(scan_along(combine, leaves, axis, reverse))
