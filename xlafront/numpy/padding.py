"""`pad` with NumPy's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import errors, tracing, tree
from xlafront.core.basic_primitives import to_dtype, with_weakness
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import shapes, slicing
from xlafront.lax.elementwise import as_type
from xlafront.numpy import reductions
from xlafront.numpy.creation import arange, asarray
from xlafront.numpy.indexing import take
from xlafront.numpy.manipulation import broadcast_to, concatenate, moveaxis, stack
from xlafront.numpy.promotion import check_arraylike, unwrap
from xlafront.numpy.searching import where
from xlafront.numpy.spaces import linspace
from xlafront.numpy.statistics import median
from xlafront.numpy.ufuncs import PUBLIC, clip
from xlafront.staging.accepted_arguments import accepts
from xlafront.staging.library import library
from xlafront.symbolic.dimensions import as_size, is_symbolic, is_symbolic_dim, max_dim, min_dim

_OPTIONS: dict[str, dict[str, Any]] = {
    "constant": {"constant_values": 0}, "edge": {}, "empty": {}, "wrap": {}, "linear_ramp": {"end_values": 0},
    "reflect": {"reflect_type": "even"}, "symmetric": {"reflect_type": "even"},
    "maximum": {"stat_length": None}, "minimum": {"stat_length": None}, "mean": {"stat_length": None},
    "median": {"stat_length": None},
}


def _pairs(value, rank: int, name: str) -> list[tuple]:
    """Expand NumPy's short forms to a (before, after) pair for each dimension."""
    array = np.asarray(value)
    try:
        return [tuple(row) for row in np.broadcast_to(array, (rank, 2)).tolist()]
    except ValueError:
        raise ValueError(f"numpy.pad needs {name} as a number, a pair or one pair for each of the {rank} dimensions, "
                         f"got {value!r}.") from None


def pad(array: ArrayLike, pad_width: Any, mode: str | Callable = "constant", **kwargs: Any) -> Array:
    """Pad an array along each axis.

    Args:
        array: The array.
        pad_width: Number of elements to add: an integer, a pair (before, after) for all axes, a pair for each axis, or
            a dictionary from axes to these.
        mode: "constant", "edge", "empty" (zeros here), "linear_ramp", "maximum", "mean", "median", "minimum",
            "reflect", "symmetric", "wrap", or a padding function as in NumPy.
        kwargs: Options of the mode: `constant_values`, `end_values` (of "linear_ramp"), `reflect_type` ("even" or
            "odd"), `stat_length` (of "maximum", "mean", "median" and "minimum"); or arguments of the function.

    Returns:
        The padded array.

    Example:
        >>> xnp.pad(xnp.array([1, 2, 3]), (1, 2), mode="edge")
        Array([1, 1, 2, 3, 3, 3], dtype=int32)
    """
    if is_symbolic_dim(pad_width):
        pad_width = (pad_width, pad_width)
    if type(mode) is str and type(pad_width) is not dict:
        if not kwargs:
            return _pad_kernel(array, None, pad_width, mode)
        if mode == "constant" and len(kwargs) == 1 and _is_number(kwargs.get("constant_values")):
            return _pad_kernel(array, kwargs["constant_values"], pad_width, mode)
    return _pad(array, pad_width, mode, kwargs)


def _is_number(x) -> bool:
    return type(x) in (float, complex) or type(x) is int and -2**31 <= x < 2**31


@library(static=("pad_width", "mode"))
@accepts(objects="array", lists=("pad_width", "mode"))
def _pad_kernel(array, value, pad_width, mode):
    return _pad(array, pad_width, mode, {} if value is None else {"constant_values": value})


def _pad(array, pad_width, mode, kwargs):
    check_arraylike("pad", array)
    x = asarray(unwrap(array))
    for n in tree.leaves(pad_width):
        if isinstance(n, tracing.Tracer) and n._concrete() is None:
            raise errors.decides_shape("numpy.pad", "pad_width", n)
    if isinstance(pad_width, dict):
        widths = [(0, 0)] * x.ndim
        for axis, width in pad_width.items():
            widths[shapes.canonical_axis(axis, x.ndim, "numpy.pad")] = (width, width) if np.ndim(width) == 0 else tuple(width)
    else:
        widths = _pairs(pad_width, x.ndim, "pad_width")
    try:
        widths = [tuple(as_size(n) for n in pair) for pair in widths]
    except TypeError as e:
        raise TypeError(f"numpy.pad pads by whole numbers of elements, but pad_width is {pad_width!r}.") from e
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError(f"numpy.pad cannot pad by a negative number: {widths}.")
    if callable(mode):
        return _pad_by_function(x, widths, mode, kwargs)
    if mode not in _OPTIONS:
        raise NotImplementedError(f"numpy.pad has no mode {mode!r}; it has {', '.join(_OPTIONS)}.")
    unknown = set(kwargs) - set(_OPTIONS[mode])
    if unknown:
        raise ValueError(f"numpy.pad with mode {mode!r} does not take {', '.join(sorted(unknown))}.")
    options = _OPTIONS[mode] | kwargs
    value, weak = options.get("constant_values"), tracing.aval_of(x).weak_type
    if mode == "constant" and (isinstance(value, tracing.Tracer) or not np.ndim(value)):
        value = as_type(value, x.dtype, weak)
        return with_weakness(slicing.pad(x, value, [(*pair, 0) for pair in widths]), weak) if any(map(any, widths)) else x
    for axis, (before, after) in enumerate(widths):
        if before or after:
            x = _PADDERS[mode](x, axis, before, after, options)
    return with_weakness(x, weak)


def _pad_constant(x, axis, before, after, options):
    low, high = _pairs(options["constant_values"], x.ndim, "constant_values")[axis]
    for value, (a, b) in ((low, (before, 0)), (high, (0, after))):
        if a or b:
            config = tuple((a, b, 0) if i == axis else (0, 0, 0) for i in range(x.ndim))
            x = slicing.pad(x, as_type(asarray(value), x.dtype, False), config)
    return x


def _symbolic_positions(n, before, after, mode: str):
    """Return the source position of each padded element as an array, for symbolic sizes."""
    positions = arange(n + before + after) - before
    if mode == "edge":
        return clip(positions, 0, n - 1)
    if mode == "wrap":
        return positions % n
    period = 2 * (max_dim(n - 1, 1) if mode == "reflect" else n)  # forwards and backwards
    positions = positions % period
    # A single element reflects to itself.
    return clip(PUBLIC["minimum"](positions, period - positions - int(mode == "symmetric")), 0, n - 1)


def _repeat_padder(mode: str):
    """Return the padding function of a mode that repeats elements."""
    def source(n, before, after):
        return np.pad(np.arange(n), (before, after), mode)

    def padder(x, axis, before, after, options):
        n = x.shape[axis]
        if is_symbolic((n, before, after)):
            return take(x, _symbolic_positions(n, before, after, mode), axis=axis)
        if n == 0:
            raise ValueError(f"numpy.pad cannot extend the empty axis {axis} of shape {x.shape} with its own values.")
        positions = source(n, before, after)
        ends = [_runs(positions[:before]), _runs(positions[before + n:])]
        if max(map(len, ends)) > 4:
            return take(x, positions, axis=axis)
        # Concatenate pieces instead of gathering: sharded arrays stay sharded.
        first, last = [[_piece(x, axis, *run) for run in runs] for runs in ends]
        return slicing.concatenate([*first, x, *last], axis)

    return padder


def _runs(positions) -> list[tuple[int, int, int]]:
    """Split positions into runs `(start, count, step)` with step -1, 0 or 1."""
    runs: list[tuple[int, int, int]] = []
    for p in positions.tolist():
        if runs:
            start, count, step = runs[-1]
            if count == 1 and abs(p - start) <= 1:
                runs[-1] = (start, 2, p - start)
                continue
            if count > 1 and p == start + count * step:
                runs[-1] = (start, count + 1, step)
                continue
        runs.append((p, 1, 1))
    return runs


def _piece(x, axis: int, start: int, count: int, step: int):
    if step == 0:
        shape = tuple([count if i == axis else n for i, n in enumerate(x.shape)])
        return broadcast_to(slicing.slice_in_dim(x, start, start + 1, axis=axis), shape)
    if step == 1:
        return slicing.slice_in_dim(x, start, start + count, axis=axis)
    return shapes.rev(slicing.slice_in_dim(x, start - count + 1, start + 1, axis=axis), (axis,))


def _reflect_padder(edge: int):
    def padder(x, axis, before, after, options):
        n = x.shape[axis]
        plain = _repeat_padder("reflect" if edge else "symmetric")
        if options["reflect_type"] == "even" or n == 1:
            return plain(x, axis, before, after, options)
        if options["reflect_type"] != "odd":
            raise ValueError(f"numpy.pad takes reflect_type 'even' or 'odd', got {options['reflect_type']!r}.")
        return _reflect_oddly(x, axis, before, after, edge)

    return padder


def _reflect_oddly(x, axis: int, before, after, edge: int):
    """Reflect values in the end points too: `2 * x[-1] - x[-1 - i]` behind the end, and so on after each period.

    Every two periods the values rise by twice the difference of the end points.
    """
    n = x.shape[axis]
    period = max_dim(n - 1, 1) if edge else n
    positions = arange(n + before + after) - before
    turn, rest = positions // period, positions % period
    is_reflected = turn % 2 == 1
    source = clip(where(is_reflected, period - rest - (1 - edge), rest), 0, n - 1)
    values, first, last = take(x, source, axis=axis), slicing.slice_in_dim(x, 0, 1, axis=axis), slicing.slice_in_dim(
        x, n - 1, n, axis=axis)
    turn, is_reflected = (v.reshape([-1 if i == axis else 1 for i in range(x.ndim)]) for v in (turn, is_reflected))
    remaining = where(is_reflected, where(turn > 0, turn - 1, turn + 1), turn)  # periods beyond the first reflection
    rise = where(remaining == 0, to_dtype(asarray(0), x.dtype), to_dtype(remaining, x.dtype) * (last - first))
    return where(is_reflected, 2 * where(turn > 0, last, first) - values, values) + rise


def _pad_ramp(x, axis, before, after, options):
    ends = _pairs(options["end_values"], x.ndim, "end_values")[axis]
    pieces = [x]
    if x.shape[axis] == 0:
        if not before and not after:
            return x
        raise ValueError(f"numpy.pad cannot extend the empty axis {axis} of shape {x.shape} by a ramp. Use mode='constant'.")
    first, last = slicing.index_in_dim(x, 0, axis, False), slicing.index_in_dim(x, -1, axis, False)
    if before:
        pieces.insert(0, linspace(ends[0], first, before, endpoint=False, dtype=x.dtype, axis=axis))
    if after:
        ramp = linspace(ends[1], last, after, endpoint=False, dtype=x.dtype, axis=axis)
        pieces.append(shapes.rev(ramp, (axis,)))
    return concatenate(pieces, axis)


def _statistic_padder(name, compute):
    def padder(x, axis, before, after, options):
        n = x.shape[axis]
        given = options["stat_length"]
        lengths = (n, n) if given is None else tuple(min_dim(m, n) for m in _pairs(given, x.ndim, "stat_length")[axis])

        def statistic(region):
            value = compute(region, axis=axis, keepdims=True)
            if name in ("mean", "median") and np.issubdtype(x.dtype, np.integer):
                value = PUBLIC["rint"](value)
            return to_dtype(value, x.dtype)

        def repeated(value, count):
            shape = tuple(count if i == axis else m for i, m in enumerate(x.shape))
            return [broadcast_to(value, shape)] if count else []

        if lengths == (n, n):
            first = last = statistic(x)
        else:
            first = statistic(slicing.slice_in_dim(x, 0, lengths[0], axis=axis)) if before else None
            last = statistic(slicing.slice_in_dim(x, n - lengths[1], n, axis=axis)) if after else None
        return concatenate([*repeated(first, before), x, *repeated(last, after)], axis)

    return padder


def _pad_by_function(x, widths, function, options):
    """Pad by NumPy's callback form: call the function with each vector and its padding widths."""
    padded = pad(x, widths, "constant")
    for axis, width in enumerate(widths):
        transposed = moveaxis(padded, axis, -1)
        rows = transposed.reshape(-1, transposed.shape[-1])
        rows = stack([function(row, width, axis, options) for row in rows])
        padded = moveaxis(rows.reshape(transposed.shape), -1, axis)
    return padded


_PADDERS = {
    "constant": _pad_constant, "empty": lambda x, axis, b, a, _: _pad_constant(x, axis, b, a, {"constant_values": 0}),
    "edge": _repeat_padder("edge"),
    "wrap": _repeat_padder("wrap"),
    "reflect": _reflect_padder(1), "symmetric": _reflect_padder(0), "linear_ramp": _pad_ramp,
    **{name: _statistic_padder(name, compute) for name, compute in (
        ("maximum", reductions.max), ("minimum", reductions.min), ("mean", reductions.mean), ("median", median))},
}
