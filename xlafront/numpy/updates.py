"""Functional updates of immutable arrays: `x.at[key].set(y)` and its variants return a new array.

Updates of a window (integers and contiguous slices in bounds) use dynamic slices; sums into a window are scatters of
one window, which `lax.indexing` lowers to slices where XLA does not. All other updates are scatters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import dtypes, errors, source, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import reshard_p, to_dtype, with_weakness
from xlafront.core.traceback_filter import with_boundaries
from xlafront.core.typing import Array, ArrayLike
from xlafront.lax import dynamic_slicing, shapes, slicing
from xlafront.lax.dimension_numbers import GatherScatterMode, ScatterDimensionNumbers
from xlafront.lax.elementwise import PRIMITIVES, as_type, eq, max_, min_, size_scalar, where
from xlafront.lax.elementwise_functions import converted
from xlafront.lax.indexing import PRIMITIVES as SCATTERS, bind_scatter
from xlafront.lax.resharding import with_out_sharding
from xlafront.numpy.creation import arange, asarray, astype, ones_like
from xlafront.numpy.indexing import IndexLayout, KeyHasWindows, check_sharded_dims, plan_key, read, take_by, wrap_negative
from xlafront.numpy.indexing_strategies import apply_strategy
from xlafront.numpy.promotion import unwrap
from xlafront.numpy.ufuncs import PUBLIC
from xlafront.staging.library import exact, library
from xlafront.symbolic.dimensions import is_symbolic, is_symbolic_dim

# method -> scatter primitive, and primitive that combines an old and a new element
UPDATES = {
    "set": ("scatter", None), "add": ("scatter_add", "add"), "subtract": ("scatter_sub", "sub"),
    "multiply": ("scatter_mul", "mul"), "min": ("scatter_min", "min"), "max": ("scatter_max", "max"),
}


_INVALID_FOR_BOOL = frozenset(("add", "subtract", "multiply"))
_NUMBERS = frozenset((int, float))
_FLOATS = frozenset((dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64))


@with_boundaries
class At:
    """The property `x.at`: selects elements to read or to update, by an index in brackets as in `x[index]`.

    Example:
        >>> xnp.zeros(3).at[1:].set(5.0)
        Array([0., 5., 5.], dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self.array, index)

    def __getattr__(self, name):
        known = [method for method in dir(AtIndex) if not method.startswith("_") and callable(getattr(AtIndex, method))]
        remedy = f"Index it first: x.at[index].{name}(...)" if name in known else f"x.at[index] has {', '.join(known)}"
        raise AttributeError(f"'At' object has no attribute {name!r}. {remedy}.", name=name, obj=self)

    def __repr__(self):
        return f"{self.array!r}.at"


@with_boundaries
class AtIndex:
    """The selected elements `x.at[index]`, whose methods return the array with these elements updated.

    Options of all methods:

    - `mode`: treatment of positions out of bounds. Updates drop them (`"drop"`, the default) or clamp them (`"clip"`);
      `get` clamps by default, and with `"fill"` returns `fill_value`.
    - `indices_are_sorted`, `unique_indices`: promises about index arrays that may make the operation faster.
    - `wrap_negative_indices`: if False, negative positions are out of bounds.

    Example:
        >>> xnp.zeros(3).at[1].add(5.0)
        Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array, index):
        self.array = array
        self.index = index

    def __repr__(self):
        return f"{self.array!r}.at[{self.index!r}]"

    def get(self, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
            fill_value: ArrayLike | None = None, out_sharding: Any = None, wrap_negative_indices: bool = True,
            strategy: str = "auto") -> Array:
        """Return the elements, as `x[index]` with options.

        Args:
            indices_are_sorted, unique_indices: Promises about index arrays that may make the operation faster.
            mode: Treatment of positions out of bounds: "clip" (default) clamps them, "fill" returns NaN or
                `fill_value`, "promise_in_bounds" leaves the result undefined.
            fill_value: Value for the mode "fill".
            out_sharding: Sharding of the result.
            wrap_negative_indices: If True, negative positions count from the end.
            strategy: Operation that reads: "gather"; "static_slice", for an index of Python integers and slices;
                "dynamic_slice", for scalars and slices with the step 1. Default: the fastest for the index.

        Returns:
            The selected elements.

        Example:
            >>> xnp.array([1.0, 2.0]).at[5].get(mode="fill", fill_value=0.0)
            Array(0., dtype=float32)
        """
        x = self.array
        concrete = type(x) is ArrayImpl and tracing.thread.trace is tracing.eval_trace
        key, reader = self.index, None
        if strategy != "auto":
            key, concrete, reader = apply_strategy(strategy, x, key, concrete, mode)
        return with_out_sharding("x.at[...].get", out_sharding, take_by, (x, key), concrete, mode, fill_value,
                                 indices_are_sorted, unique_indices, wrap_negative_indices, reader)

    def _update(self, name, values, indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None,
                wrap_negative_indices=True):
        values = unwrap(values)
        if out_sharding is None:
            return update(name, self.array, self.index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices)
        return with_out_sharding(f"x.at[...].{name}", out_sharding, lambda x, key, v: update(
            name, x, key, v, indices_are_sorted, unique_indices, mode, wrap_negative_indices), (self.array, self.index, values))

    def set(self, values: ArrayLike, **options: Any) -> Array:
        """Return the array with `x[index] = values`.

        Args:
            values: The new elements, of the shape of `x[index]` or one that broadcasts to it.
            options: Keyword options of `get` except `fill_value`. Positions out of bounds are dropped; with the mode
                "clip" they are clamped.

        Returns:
            The updated array.

        Note:
            If an element is selected several times, it is undefined which value it gets.

        Example:
            >>> xnp.zeros(3).at[1].set(5.0)
            Array([0., 5., 0.], dtype=float32)
        """
        return self._update("set", values, **options)

    def add(self, values: ArrayLike, **options: Any) -> Array:
        """Return the array with `x[index] += values`; repeated positions accumulate.

        Args:
            values: The values to add.
            options: See `set`.

        Returns:
            The updated array.

        Example:
            >>> xnp.zeros(3).at[xnp.array([1, 1])].add(5.0)
            Array([ 0., 10.,  0.], dtype=float32)
        """
        return self._update("add", values, **options)

    def subtract(self, values: ArrayLike, **options: Any) -> Array:
        """Return the array with `x[index] -= values`; repeated positions accumulate.

        Args:
            values: The values to subtract.
            options: See `set`.

        Returns:
            The updated array.

        Example:
            >>> xnp.zeros(3).at[1].subtract(5.0)
            Array([ 0., -5.,  0.], dtype=float32)
        """
        return self._update("subtract", values, **options)

    def multiply(self, values: ArrayLike, **options: Any) -> Array:
        """Return the array with `x[index] *= values`; repeated positions accumulate.

        `mul` is an alias of this method.

        Args:
            values: The factors.
            options: See `set`.

        Returns:
            The updated array.

        Example:
            >>> xnp.ones(3).at[1].multiply(5.0)
            Array([1., 5., 1.], dtype=float32)
        """
        return self._update("multiply", values, **options)

    mul = multiply

    def min(self, values: ArrayLike, **options: Any) -> Array:
        """Return the array with `x[index] = minimum(x[index], values)`.

        Args:
            values: The values to compare with.
            options: See `set`.

        Returns:
            The updated array.

        Example:
            >>> xnp.array([1, 7]).at[:].min(5)
            Array([1, 5], dtype=int32)
        """
        return self._update("min", values, **options)

    def max(self, values: ArrayLike, **options: Any) -> Array:
        """Return the array with `x[index] = maximum(x[index], values)`.

        Args:
            values: The values to compare with.
            options: See `set`.

        Returns:
            The updated array.

        Example:
            >>> xnp.array([1, 7]).at[:].max(5)
            Array([5, 7], dtype=int32)
        """
        return self._update("max", values, **options)

    def divide(self, values: ArrayLike, **options: Any) -> Array:
        """Return the array with `x[index] /= values`; repeated positions accumulate.

        Args:
            values: The divisors.
            options: See `set`.

        Returns:
            The updated array, in a floating-point dtype.

        Example:
            >>> xnp.array([2, 4]).at[0].divide(2)
            Array([1., 4.], dtype=float32)
        """
        return self._update_by_factors("true_divide", values, options)

    def power(self, values: ArrayLike, **options: Any) -> Array:
        """Return the array with `x[index] **= values`; repeated positions accumulate.

        Args:
            values: The exponents.
            options: See `set`.

        Returns:
            The updated array.

        Example:
            >>> xnp.array([2, 4]).at[0].power(3)
            Array([8, 4], dtype=int32)
        """
        return self._update_by_factors("power", values, options)

    def _update_by_factors(self, function, values, options):
        factors = AtIndex(ones_like(self.array), self.index).multiply(values, **options)
        return PUBLIC[function](self.array, factors)

    def apply(self, func: Callable, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
              out_sharding: Any = None, wrap_negative_indices: bool = True) -> Array:
        """Return the array with `x[index] = func(x[index])`; `func` is applied once for each repetition of a position.

        Args:
            func: An elementwise function.
            indices_are_sorted, unique_indices, mode, out_sharding, wrap_negative_indices: See `set`.

        Returns:
            The updated array.

        Example:
            >>> xnp.array([1.0, 4.0]).at[1].apply(xnp.sqrt)
            Array([1., 2.], dtype=float32)
        """
        if not callable(func):
            raise errors.not_callable("x.at[...].apply", func)
        x = self.array
        concrete = type(x) is ArrayImpl and tracing.thread.trace is tracing.eval_trace
        try:
            entries, indices = plan_key(np.shape(x), self.index, not concrete, reads=False)
        except KeyHasWindows as found:
            windows, rest = found.windows, found.remaining_key
            options = {"indices_are_sorted": indices_are_sorted, "unique_indices": unique_indices, "mode": mode,
                       "out_sharding": out_sharding, "wrap_negative_indices": wrap_negative_indices}
            return _update_windows(windows, x, mode, lambda window: AtIndex(window, rest).apply(func, **options))
        return with_out_sharding("x.at[...].apply", out_sharding, _apply_kernel, (x, indices), func, entries,
                             GatherScatterMode.from_any(mode), bool(indices_are_sorted), bool(unique_indices),
                             bool(wrap_negative_indices))


def update(name: str, x, key, values, indices_are_sorted=False, unique_indices=False, mode=None, wrap=True):
    """Return `x` with the elements at `key` updated. Hot for an integer and a Python scalar: watched by the eager
    benchmarks."""
    if (type(key) is int and type(x) is ArrayImpl and mode is None and wrap and type(values) in _NUMBERS
            and tracing.thread.trace is tracing.eval_trace):
        shape, d = x._aval.shape, x._aval.dtype
        if shape and -shape[0] <= key < shape[0] and d in _FLOATS:
            return _row_kernel(x, values, key, name)
    if not tracing.is_arraylike(values):
        values = asarray(values)
    x, values = unwrap(x), unwrap(values)
    own = tracing.aval_of(x).dtype
    if type(values) in _NUMBERS and own in _FLOATS or dtypes.is_integer(own) and _fits(values, own):
        values = exact(own.type(values))
    else:
        joint = _joint_dtype(x, values, name)
        if joint != own and UPDATES[name][1] is not None:  # compute in the promoted dtype
            new = update(name, astype(x, joint), key, values, indices_are_sorted, unique_indices, mode, wrap)
            return with_weakness(converted(new, own), tracing.aval_of(x).weak_type)
        values = _as_dtype(values, own)
    concrete = tracing.thread.trace is tracing.eval_trace and not isinstance(x, tracing.Tracer)
    try:
        entries, indices = plan_key(np.shape(x), key, not concrete, reads=False)
    except KeyHasWindows as found:
        windows, rest = found.windows, found.remaining_key
        return _update_windows(windows, x, mode, lambda window: update(
            name, window, rest, values, indices_are_sorted, unique_indices, mode, wrap))
    mode = GatherScatterMode.from_any(mode)
    window = _window_of(np.shape(x), entries, indices, mode, wrap)
    if window is not None:
        starts, plan = window
        return _window_kernel(x, values, starts, name, plan)
    return _scatter_kernel(x, values, indices, name, entries, mode, bool(indices_are_sorted), bool(unique_indices),
                           bool(wrap))


def _fits(value, dtype) -> bool:
    """True for a Python integer or boolean that an integer dtype holds."""
    if type(value) is not int and type(value) is not bool:
        return False
    info = dtypes.iinfo(dtype)
    return info.min <= value <= info.max


def _joint_dtype(x, values, name):
    """Return the promoted dtype of array and values, in which an update is computed."""
    if name in _INVALID_FOR_BOOL and tracing.aval_of(x).dtype == tracing.aval_of(values).dtype == dtypes.bool_:
        raise TypeError(f"x.at[...].{name} does not accept arrays of dtype bool. Use x.at[...].set, min (and) or max (or).")
    return joint_dtype(f"x.at[...].{name}", x, values)


def joint_dtype(caller: str, x, values):
    """Return the promoted dtype of an array and its new elements; warn if a cast to the array's dtype can lose
    information."""
    own, given = tracing.aval_of(x), tracing.aval_of(values)
    if own.dtype == given.dtype:
        return own.dtype
    if isinstance(own.dtype, np.dtype) and isinstance(given.dtype, np.dtype):
        joint, _ = dtypes.promote_pair(own.dtype, own.weak_type, given.dtype, given.weak_type)
        if joint != own.dtype:
            source.warn(
                f"scatter inputs have incompatible types: {caller} cannot safely cast values of dtype {given.dtype} to the "
                f"dtype {own.dtype} of the array. It may lose information, and a later version will raise an error. Convert "
                f"one of them with astype.", FutureWarning)
            dtypes.warn_of_discarded_imaginary(caller, joint, own.dtype)
        return joint
    error = errors.incompatible_dtypes(caller, [own.dtype, given.dtype])
    raise error if dtypes.is_extended(own.dtype) else ValueError(error)


def _as_dtype(values, d):
    if type(values) not in dtypes.python_scalar_dtypes:
        aval = tracing.aval_of(values)
        return values if aval.dtype == d and not aval.weak_type else converted(values, d)
    if values != values and dtypes.is_integer(d):
        return d.type(0)  # devices convert NaN to 0
    if type(values) is complex and not dtypes.is_complex(d):
        values = values.real
    return exact(np.asarray(values).astype(d)[()])


# Windows of dynamic position


def _update_windows(windows: tuple, x, mode, updated: Callable):
    """Return `x` with the contents of windows replaced by `updated(contents)`.

    By default elements out of bounds are dropped; a contiguous window that is partly out of bounds is dropped as a
    unit. With the mode "clip", windows are shifted inside. Negative starts are out of bounds.
    """
    if not windows:
        return updated(x)
    (dim, window), *rest = windows
    new = _update_windows(tuple(rest), KeyHasWindows((), ((dim, window),)).read(x), mode, updated)
    start, n = to_dtype(window.start, np.dtype(np.int32)), np.shape(x)[dim]
    if window.stride == 1:
        last = np.int32(n - window.size)
        inside = max_(np.int32(0), min_(last, start))
        clips = GatherScatterMode.from_any(mode) is GatherScatterMode.CLIP
        start, mode = inside if clips else where(eq(start, inside), start, np.int32(n)), "drop"
    positions = start + window.stride * arange(window.size, dtype=np.int32)
    return update("set", x, (*[slice(None)] * dim, positions), new, unique_indices=window.stride == 1, mode=mode, wrap=False)


def _scalar_as_dtype(values, d):
    """Return Python scalars as NumPy scalars of dtype `d`, other values unchanged."""
    return d.type(values) if type(values) in dtypes.python_scalar_dtypes else values


# Windows


def _write_window(x, values, starts, sizes, name: str):
    """Return the array with new values in a window. The values are resharded like the array, whose sharded dimensions
    the window covers completely."""
    check_sharded_dims(x, sizes, f"x.at[...].{name}", f"x.at[...].{name}(..., out_sharding=P(...))")
    explicit = tracing.aval_of(x).explicit_sharding
    if explicit is not None and tracing.aval_of(values).explicit_sharding != explicit:
        values = reshard_p.bind(values, dst_sharding=explicit)
    return with_weakness(dynamic_slicing.dynamic_update_slice_p.bind(x, values, *starts), tracing.aval_of(x).weak_type)


@library(static="name", name="at")
def _row_kernel(x, values, index, name):
    """Update one position of the first dimension, which is in bounds, by a scalar."""
    d = tracing.aval_of(x).dtype
    shape = np.shape(x)
    sizes = (1, *shape[1:])
    starts = [wrap_negative(index, shape[0]), *[np.int32(0)] * (len(shape) - 1)]
    values = shapes.broadcast_in_dim(as_type(values, d, False), sizes, ())
    operation = UPDATES[name][1]
    if operation is not None:
        values = PRIMITIVES[operation].bind(dynamic_slicing.dynamic_slice_p.bind(x, *starts, slice_sizes=sizes), values)
    return _write_window(x, values, starts, sizes, name)


def _window_of(shape, entries, indices, mode, wrap):
    """Return `(starts, plan)` if the key selects a box at a static position in bounds, else None.

    The plan is hashable: the size of each dimension in the box, and for each dimension of the result its dimension in
    the array (None for new ones).
    """
    starts, sizes, result_dims = [], [], []
    dim = 0
    for entry in entries:
        kind = entry[0]
        if kind == "new":
            result_dims.append(None)
            continue
        if kind == "mask":
            return None
        n = shape[dim]
        if kind == "slice":
            _, start, size, step, *_ = entry
            if step != 1 or size == 0 or is_symbolic_dim(start):
                return None
            result_dims.append(dim)
        else:
            start, size = (entry[1] if kind == "int" else indices[entry[1]]), 1
            if type(start) is not int:
                return None
            if start < 0 and wrap:
                start += n
            if is_symbolic_dim(n) or not 0 <= start < n:
                if mode is not GatherScatterMode.CLIP:
                    return None
                start = min(max(start, 0), n - 1)
        starts.append(start)
        sizes.append(size)
        dim += 1
    return np.array(starts, np.int32), (tuple(sizes), tuple(result_dims))


@library(static=("name", "plan"), name="at")
def _window_kernel(x, values, starts, name, plan):
    sizes, result_dims = plan
    shape = tuple(1 if d is None else sizes[d] for d in result_dims)
    d = tracing.aval_of(x).dtype
    values = _broadcast(_scalar_as_dtype(values, d), shape, name, sizes)
    scatter, operation = UPDATES[name]
    if scatter in ("scatter_add", "scatter_sub") and sizes and tracing.aval_of(x).explicit_sharding is None:
        all_dims = tuple(range(len(sizes)))  # a scatter is linear: its derivative need not read or rewrite the window
        return bind_scatter(SCATTERS[scatter], x, starts, values, indices_are_sorted=True,
                            dimension_numbers=ScatterDimensionNumbers(all_dims, (), all_dims),
                            unique_indices=True, mode=GatherScatterMode.PROMISE_IN_BOUNDS)
    starts = list(starts) if isinstance(starts, np.ndarray) else _unstack_scalars(starts, len(sizes))
    if operation is not None:
        old = dynamic_slicing.dynamic_slice_p.bind(x, *starts, slice_sizes=sizes) if sizes else x
        values = PRIMITIVES[operation].bind(old, values)
    return _write_window(x, values, starts, sizes, name) if sizes else with_weakness(values, tracing.aval_of(x).weak_type)


def _unstack_scalars(vector, count):
    return [shapes.squeeze_p.bind(slicing.slice_p.bind(vector, start_indices=(i,), limit_indices=(i + 1,), strides=None),
                                  dimensions=(0,)) for i in range(count)]


def _broadcast(values, shape, name, target):
    """Broadcast values to the shape that an index selects, and reshape them to `target` with as many elements."""
    own = np.shape(values)
    if own == shape:
        return shapes.reshape_to(values, target)
    if not own:
        return shapes.broadcast_in_dim_p.bind(values, shape=target, sharding=None, broadcast_dimensions=())
    if len(own) > len(shape) or any(a not in (1, b) for a, b in zip(own[::-1], shape[::-1])):
        raise ValueError(f"x.at[...].{name} cannot put values of shape {own} where the index selects shape {shape}.")
    values = shapes.broadcast_in_dim_p.bind(values, shape=shape, sharding=None,
                                            broadcast_dimensions=tuple(range(len(shape) - len(own), len(shape))))
    return shapes.reshape_to(values, target)


# Scatters


class _ScatterPlan:
    """The operands of a scatter for a plan: index array, dimension numbers, and arrangement of the values.

    Values come in the shape that a read returns and are transposed to (batch, strided slices, windows). A slice whose
    step is not 1 becomes an index column of its own; so does a nonzero start of a window.
    """

    def __init__(self, shape, entries, indices, wrap):
        layout = IndexLayout(shape, entries, indices)
        sizes = [size for _, _, size, _ in layout.slices]
        at, rank = layout.batch_position, len(layout.batch)
        self.read_shape = layout.final_shape
        self.compact_shape = (*sizes[:at], *layout.batch, *sizes[at:])
        strided = [i for i, s in enumerate(layout.slices) if s[3] != 1]
        windows = [i for i, s in enumerate(layout.slices) if s[3] == 1]
        self.permutation = (*range(at, at + rank), *[i if i < at else i + rank for i in (*strided, *windows)])
        columns, dims = [], []
        for number, i in enumerate(strided):
            dim, start, size, step = layout.slices[i]
            column = start + step * (arange(size) if is_symbolic((size,)) else np.arange(size))
            columns.append(column.astype(np.int32).reshape((size,) + (1,) * (len(strided) - number - 1)))
            dims.append(dim)
        for i in windows:
            dim, start, _, _ = layout.slices[i]
            if is_symbolic_dim(start) or start:
                columns.append(size_scalar(start, np.int32))
                dims.append(dim)
        self.index_array = layout.index_array(wrap, tuple(columns), tuple(sizes[i] for i in strided))
        front = rank + len(strided)
        self.numbers = ScatterDimensionNumbers(
            tuple(range(front, front + len(windows))),
            tuple(sorted((*layout.dims, *[layout.slices[i][0] for i in strided]))), (*layout.dims, *dims))

    def arrange(self, values, name):
        values = _broadcast(values, self.read_shape, name, self.compact_shape)
        if self.permutation == tuple(range(len(self.permutation))):
            return values
        return shapes.transpose_p.bind(values, permutation=self.permutation)


def _is_empty(shape) -> bool:
    """True if a dimension has size 0: nothing is written, and the window of a scatter would not fit."""
    return any(type(n) is int and n == 0 for n in shape)


def _selects_uniquely(entries, indices) -> bool:
    """True if no element can be selected twice: the key has only slices and single positions."""
    return all(kind != "mask" and (kind != "array" or np.ndim(indices[rest[0]]) == 0) for kind, *rest in entries)


@library(static=("name", "entries", "mode", "is_sorted", "unique", "wrap"), name="at")
def _scatter_kernel(x, values, indices, name, entries, mode, is_sorted, unique, wrap):
    plan = _ScatterPlan(np.shape(x), entries, indices, wrap)
    if _is_empty(plan.read_shape):
        return x  # values of any shape are accepted
    values = plan.arrange(_scalar_as_dtype(values, tracing.aval_of(x).dtype), name)
    if _is_empty(np.shape(x)):
        return x
    return bind_scatter(SCATTERS[UPDATES[name][0]], x, plan.index_array, values, dimension_numbers=plan.numbers,
                        indices_are_sorted=is_sorted, unique_indices=unique or _selects_uniquely(entries, indices), mode=mode)


@library(static=("func", "entries", "mode", "is_sorted", "unique", "wrap"), name="at_apply")
def _apply_kernel(x, indices, func, entries, mode, is_sorted, unique, wrap):
    d = tracing.aval_of(x).dtype
    if _is_empty(np.shape(x)):
        return x
    if unique or _selects_uniquely(entries, indices):
        reading = read.__wrapped__(x, indices, entries, GatherScatterMode.CLIP, None, is_sorted, unique, wrap)
        return _scatter_kernel.__wrapped__(x, _result_of(func, reading, d), indices, "set", entries, mode, is_sorted,
                                           unique, wrap)
    function = tracing.trace_to_closed_jaxpr(lambda v: [_result_of(func, v, d)], [ShapedArray((), d)])
    plan = _ScatterPlan(np.shape(x), entries, indices, wrap)
    return bind_scatter(SCATTERS["scatter_apply"], x, plan.index_array, plan.arrange(d.type(0), "apply"),
                        function=function, dimension_numbers=plan.numbers, indices_are_sorted=is_sorted,
                        unique_indices=unique, mode=mode)


def _result_of(func, values, d):
    result = asarray(func(values))
    if np.shape(result) != np.shape(values):
        raise ValueError(f"the function given to x.at[...].apply must work elementwise: it turned shape "
                         f"{np.shape(values)} into {np.shape(result)}.")
    return result if tracing.aval_of(result).dtype == d else to_dtype(result, d)
