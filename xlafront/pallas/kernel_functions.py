"""What kernels are written with: conditions, loops, memory for a while, and arithmetic of sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlafront.control.cond import cond, switch
from xlafront.control.while_loop import fori_loop
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.refs import is_ref
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import is_tracing
from xlafront.host import checks, debug as host_debug
from xlafront.lax import refs as ref_operations
from xlafront.lax.shapes import zeros_of
from xlafront.numpy import creation, manipulation
from xlafront.pallas.interpret import uninitialized
from xlafront.pallas.specs import ref_type
from xlafront.runtime import config
from xlafront.staging.jit import jit

# Conditions and loops


@boundary
def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """A decorator that runs a function at once, if a condition holds.

    - `condition`: a boolean scalar; where it is known, the function is run or left out while tracing.

    >>> def kernel(x_ref, o_ref):
    ...     @pl.when(pl.program_id(0) == 0)
    ...     def _():
    ...         o_ref[...] = x_ref[...]
    """
    def run(function: Callable[[], None]) -> None:
        if isinstance(condition, (bool, np.bool_)):
            if condition:
                function()
            return
        cond(condition, _without_result(function), lambda: None)

    return run


def _without_result(function: Callable) -> Callable[..., None]:
    def run(*args) -> None:
        function(*args)

    return run


@boundary
def loop(lower: Any, upper: Any, *, init_carry: Any = None, step: Any = 1, unroll: int | bool | None = None) -> Callable:
    """A decorator that runs a function at once, in a loop; in place of the function is what it has carried in the end.

    - `lower`, `upper`: the first number, and the end, which is not reached.
    - `init_carry`: what is carried first. With it the function takes a number and what is carried, and returns what is carried
      next; without, it takes a number.
    - `step`: the distance of two numbers; one that is known may be negative.
    - `unroll`: how many steps go into one turn of the compiled loop, True for all.

    >>> @pl.loop(0, 4, init_carry=0)
    ... def total(i, carry):
    ...     return carry + i
    >>> int(total)
    6
    """
    if isinstance(step, (int, np.integer)) and step == 0:
        raise ValueError("loop needs a step other than 0.")

    def run(body: Callable) -> Any:
        backward = isinstance(step, (int, np.integer)) and step < 0
        count = cdiv(lower - upper, -step) if backward else cdiv(upper - lower, step)

        def turn(i, carry):
            number = lower + i * step
            return _without_result(body)(number) if init_carry is None else body(number, carry)

        return fori_loop(0, count, turn, init_carry, unroll=unroll)

    return run


# Memory


@boundary
def run_scoped(f: Callable[..., Any], *types: Any, collective_axes: Hashable | tuple[Hashable, ...] = (),
               **kw_types: Any) -> Any:
    """Inside of a kernel: a function of references to memory that is there while it runs; what it returns.

    - `f`: the function.
    - `types`, `kw_types`: what memory, as `pl.ANY((8,), xnp.float32)`, for its arguments.
    - `collective_axes`: the axes of a mesh whose threads share it.

    >>> def kernel(x_ref, o_ref):
    ...     def body(scratch_ref):
    ...         scratch_ref[...] = x_ref[...]
    ...         o_ref[...] = scratch_ref[...] * 2
    ...     pl.run_scoped(body, pl.ANY((8,), xnp.float32))
    """
    if not callable(f):
        raise errors.not_callable("run_scoped", f)
    described, structure = tree.flatten((types, kw_types))
    made = [_new("run_scoped", t) for t in described]
    args, kwargs = structure.unflatten(made)
    results = f(*args, **kwargs)
    for ref in made:
        ref_operations.free_ref(ref)
    return results


def _new(what: str, description: Any) -> Any:
    """A reference to memory as it is described, which nobody has written."""
    aval = ref_type(what, description)
    return ref_operations.new_ref_p.bind(uninitialized(aval.inner_aval, aval.memory_space), kind=None,
                                         memory_space=aval.memory_space if is_tracing() else None)


@boundary
def with_scoped(*types: Any, collective_axes: Hashable | tuple[Hashable, ...] = (), **kw_types: Any) -> Callable:
    """`run_scoped` as a decorator: the function gets the references behind its other arguments.

    - `types`, `collective_axes`, `kw_types`: as of `run_scoped`.

    >>> def kernel(x_ref, o_ref):
    ...     @pl.with_scoped(pl.ANY((8,), xnp.float32))
    ...     def body(scratch_ref):
    ...         scratch_ref[...] = x_ref[...]
    ...         o_ref[...] = scratch_ref[...]
    ...     body()
    """
    def decorate(f: Callable) -> Callable:
        @functools.wraps(f)
        def scoped(*args, **kwargs):
            return run_scoped(functools.partial(f, *args, **kwargs), *types, collective_axes=collective_axes, **kw_types)

        return scoped

    return decorate


@boundary
def run_state(f: Callable[..., None]) -> Callable[[Any], Any]:
    """A function that changes references, as one of the values that they hold.

    - `f`: a function of a pytree of references, which returns nothing.

    >>> def double(ref):
    ...     ref[...] *= 2
    >>> pl.run_state(double)(xnp.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    if not callable(f):
        raise errors.not_callable("run_state", f)

    def on_values(values: Any) -> Any:
        leaves, structure = tree.flatten(values)
        made = [ref_operations.new_ref(x) for x in leaves]
        f(structure.unflatten(made))
        return structure.unflatten([ref_operations.freeze(r) for r in made])

    return on_values


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array whose elements do not matter.

    - `shape`: its shape.
    - `dtype`: its dtype.
    - `out_sharding`: how it is split over explicit mesh axes.

    >>> pl.empty((2, 3), "float32").shape
    (2, 3)
    """
    return creation.empty(shape, dtype, out_sharding=out_sharding)


@boundary
def empty_like(x: Any) -> Any:
    """Arrays whose elements do not matter, of the shapes and dtypes of others.

    - `x`: a pytree of what has a shape and a dtype.

    >>> pl.empty_like(xnp.ones(3)).shape
    (3,)
    """
    return tree.map(lambda leaf: zeros_of(ShapedArray(tuple(leaf.shape), dtypes.canonicalize_dtype(leaf.dtype))), x)


@boundary
def empty_ref_like(x: Any) -> Any:
    """References to arrays whose elements do not matter, of the shapes and dtypes of others.

    - `x`: a pytree of what has a shape and a dtype, or describes memory.

    >>> pl.empty_ref_like(xf.ShapeDtypeStruct((3,), "float32")).shape
    (3,)
    """
    def make(leaf):
        if hasattr(leaf, "get_ref_aval"):
            return _new("empty_ref_like", leaf)
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise ValueError(f"empty_ref_like takes what has a shape and a dtype, or describes memory, got "
                             f"{errors.short(leaf)}.")
        return ref_operations.empty_ref(ShapedArray(tuple(leaf.shape), dtypes.canonicalize_dtype(leaf.dtype)))

    return tree.map(make, x)


class SelectedRef:
    """One of several references of one type, known when the program runs. It is read and written as they are.

    >>> pl.select_ref(i, x_ref, y_ref)[...]  # doctest: +SKIP
    """

    __slots__ = ("index", "refs")

    def __init__(self, index: Any, refs: tuple):
        self.index, self.refs = index, refs

    shape = property(lambda self: self.refs[0].shape, doc="The size of each dimension.")
    dtype = property(lambda self: self.refs[0].dtype, doc="The dtype of the elements.")
    ndim = property(lambda self: len(self.shape), doc="The number of dimensions.")

    def __getitem__(self, key):
        return switch(self.index, [lambda r=r: r[key] for r in self.refs])

    def __setitem__(self, key, value):
        switch(self.index, [lambda r=r: ref_operations.set(r, key, value) for r in self.refs])


@boundary
def select_ref(idx: Any, *refs: Any) -> Any:
    """One of several references of one type.

    - `idx`: which one; an integer scalar.
    - `refs`: the references.

    >>> def kernel(x_ref, y_ref, o_ref):
    ...     o_ref[...] = pl.select_ref(pl.program_id(0) % 2, x_ref, y_ref)[...]
    """
    if not refs:
        raise ValueError("select_ref takes one reference at least.")
    for r in refs:
        if not is_ref(r):
            raise TypeError(f"select_ref takes references, got {errors.short(r)}.")
        if (r.shape, r.dtype) != (refs[0].shape, refs[0].dtype):
            raise ValueError(f"select_ref takes references of one type, got {tracing.aval_of(refs[0])} and "
                             f"{tracing.aval_of(r)}.")
    if isinstance(idx, (int, np.integer)):
        return refs[idx]
    return SelectedRef(idx, refs)


# Looking inside


@boundary
def debug_print(fmt: str, *args: Any) -> None:
    """Inside of a kernel: print values while it runs.

    - `fmt`: a text with `{}` in place of values.
    - `args`: the values.

    >>> def kernel(x_ref, o_ref):
    ...     pl.debug_print("the first: {}", x_ref[0])
    ...     o_ref[...] = x_ref[...]
    """
    host_debug.print(fmt, *args)


@boundary
def debug_check(condition: Any, message: str) -> None:
    """Inside of a kernel: a condition that must hold, which `checkify` looks at while `enable_debug_checks` is set.

    - `condition`: a boolean scalar.
    - `message`: what the error says.

    >>> def kernel(x_ref, o_ref):
    ...     pl.debug_check(x_ref[0] > 0, "the first must be positive")
    ...     o_ref[...] = x_ref[...]
    """
    if config.pallas_enable_debug_checks.value:
        checks.debug_check(condition, message)


def enable_debug_checks(new_val: bool = True) -> Any:
    """A context in which `debug_check` looks at its condition.

    - `new_val`: False for one in which it does not.

    >>> with pl.enable_debug_checks():
    ...     pass
    """
    return config.pallas_enable_debug_checks(new_val)


def broadcast_to(a: Any, shape: tuple[int, ...]) -> Any:
    """An array repeated to a shape.

    - `a`: the array.
    - `shape`: the shape.

    >>> pl.broadcast_to(xnp.ones(1), (3,))
    Array([1., 1., 1.], dtype=float32)
    """
    return manipulation.broadcast_to(a, shape)


# Sizes


def cdiv(a: Any, b: Any) -> Any:
    """`a / b`, rounded up.

    - `a`, `b`: integers, or arrays of integers.

    >>> pl.cdiv(7, 2)
    4
    """
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return (a + (b - 1)) // b


def align_to(a: Any, alignment: int) -> Any:
    """The next multiple of a number.

    - `a`: an integer, or an array of integers.
    - `alignment`: the number.

    >>> pl.align_to(9, 8)
    16
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """The smallest power of two that is not less.

    - `x`: an integer.

    >>> pl.next_power_of_2(9)
    16
    """
    if x < 0:
        raise ValueError(f"next_power_of_2 takes an integer that is not negative, got {x}.")
    return 1 if x < 2 else 1 << (x - 1).bit_length()


def strides_from_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """How many elements lie between two neighbours along each dimension.

    - `shape`: the shape of an array whose last dimension lies together.

    >>> pl.strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


# Programs


@boundary
def lower_as_mlir(f: Callable, *args: Any, dynamic_shapes: bool = False, device: Any = None, static_argnames: Any = (),
                  platforms: Any = None, **kwargs: Any) -> Any:
    """The StableHLO module of a function.

    - `f`: the function.
    - `args`, `kwargs`: its arguments, or what stands for them.
    - `dynamic_shapes`: whether shapes are symbolic.
    - `device`: the device that it is for.
    - `static_argnames`: arguments that are Python values.
    - `platforms`: the platforms that it is for.

    >>> "stablehlo.add" in str(pl.lower_as_mlir(lambda x: x + 1, 1.0))
    True
    """
    jitted = jit(f, device=device, static_argnames=static_argnames)
    with pallas_export_experimental(dynamic_shapes):
        traced = jitted.trace(*args, **kwargs)
        return traced.lower(lowering_platforms=tuple(platforms) if platforms else None).compiler_ir("stablehlo")


@contextmanager
def pallas_export_experimental(dynamic_shapes: bool) -> Iterator[None]:
    """A context in which kernels are lowered for export.

    - `dynamic_shapes`: whether their shapes may be symbolic.

    >>> with pl.pallas_export_experimental(False):
    ...     pass
    """
    yield
