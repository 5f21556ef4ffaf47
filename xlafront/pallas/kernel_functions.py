"""Functions for kernels: conditions, loops, scratch memory, and arithmetic of sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlafront.base import config
from xlafront.control.cond import cond, switch
from xlafront.control.while_loop import fori_loop
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import DebugInfo, RefEffect, effects_by_operand, internal_refs
from xlafront.core.refs import is_ref
from xlafront.core.tangents import zeros_of
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import is_tracing
from xlafront.host import checks, debug as host_debug
from xlafront.lax import refs as ref_operations
from xlafront.numpy import creation, manipulation
from xlafront.pallas.kernel_operation import kernel_operation
from xlafront.pallas.specs import ref_type
from xlafront.pallas.uninitialized import uninitialized
from xlafront.staging import signatures
from xlafront.staging.jit import jit

# Conditions and loops


@boundary
def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """Make a decorator that calls a function immediately if a condition holds.

    Args:
        condition: Boolean scalar. If it is concrete, the function is called or skipped during tracing.

    Returns:
        The decorator.

    Example:
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
    """Make a decorator that runs a function immediately as a loop body, and replaces it by the final carry.

    Args:
        lower, upper: First index, and the exclusive end.
        init_carry: Initial carry. With it, the body takes an index and the carry and returns the next carry; without it, the
            body takes an index.
        step: Distance of consecutive indices; can be negative if it is concrete.
        unroll: Number of steps per iteration of the compiled loop; True for all.

    Returns:
        The decorator.

    Example:
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

        def iteration(i, carry):
            index = lower + i * step
            return _without_result(body)(index) if init_carry is None else body(index, carry)

        return fori_loop(0, count, iteration, init_carry, unroll=unroll)

    return run


# Memory


@boundary
def run_scoped(f: Callable[..., Any], *types: Any, collective_axes: Hashable | tuple[Hashable, ...] = (),
               **kw_types: Any) -> Any:
    """Run a function of references to scratch memory, which exists during the call. For use in kernels.

    Args:
        f: The function.
        types, kw_types: Scratch memory for its arguments, such as `pl.ANY((8,), xnp.float32)`.
        collective_axes: Axes of a mesh whose threads share the memory.

    Returns:
        The result of the function.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     def body(scratch_ref):
        ...         scratch_ref[...] = x_ref[...]
        ...         o_ref[...] = scratch_ref[...] * 2
        ...     pl.run_scoped(body, pl.ANY((8,), xnp.float32))
    """
    if not callable(f):
        raise errors.not_callable("run_scoped", f)
    descriptions, structure = tree.flatten((types, kw_types))
    avals = [ref_type("run_scoped", t) for t in descriptions]
    result_tree = None

    def flat(*refs):
        nonlocal result_tree
        args, kwargs = structure.unflatten(refs)
        results, result_tree = tree.flatten(f(*args, **kwargs))
        for ref, aval in zip(refs, avals):
            if any([x is ref for x in results]):
                raise RuntimeError(f"run_scoped: the function returned its reference of type {aval}, which would be used after "
                                   f"freeze or free_ref: the memory exists only during the call. Return ref[...], its value.")
        return results

    axes = collective_axes if isinstance(collective_axes, tuple) else (collective_axes,)
    if not is_tracing():
        return _with_scratch(flat, avals)
    jaxpr, consts = tracing.trace_to_jaxpr(flat, avals, DebugInfo("run_scoped", signatures.function_name(f)))
    results = run_scoped_p.bind(*consts, jaxpr=jaxpr.with_constants_as_inputs(), count=len(avals), collective_axes=axes)
    return tree.unflatten(result_tree, results)


def _with_scratch(run: Callable, avals: Sequence[Any]) -> Any:
    """Call a function with references to uninitialized memory, which is freed afterwards."""
    refs = [_scratch_ref(a) for a in avals]
    results = run(*refs)
    for ref in refs:
        ref_operations.free_ref(ref)
    return results


def _run_with_scratch(*operands, jaxpr, count, collective_axes):
    return _with_scratch(lambda *refs: jaxpr(*operands, *refs), [v.aval for v in jaxpr.invars[len(jaxpr.invars) - count:]])


def _scoped_effects(*_, jaxpr, count, **params):
    """Return the effects of the function on its operands; those on the scratch memory stay inside."""
    operands = len(jaxpr.invars) - count
    outside = [e for e in effects_by_operand(jaxpr) if not isinstance(e, RefEffect) or e.ref < operands]
    return frozenset([*outside, internal_refs])


run_scoped_p = kernel_operation(
    "run_scoped", _run_with_scratch, multiple_results=True,
    abstract=lambda *operands, jaxpr, **_: jaxpr.out_avals,
    effects=_scoped_effects)


def _new_scratch_ref(caller: str, description: Any) -> Any:
    """Return a reference to uninitialized memory."""
    return _scratch_ref(ref_type(caller, description))


def _scratch_ref(aval: Any) -> Any:
    return ref_operations.new_ref_p.bind(uninitialized(aval.inner_aval, aval.memory_space), kind=None, pin=False,
                                         memory_space=aval.memory_space if is_tracing() else None)


@boundary
def with_scoped(*types: Any, collective_axes: Hashable | tuple[Hashable, ...] = (), **kw_types: Any) -> Callable:
    """Make a decorator with `run_scoped`: the function gets the references after its other arguments.

    Args:
        types, kw_types: Scratch memory for its last arguments, such as `pl.ANY((8,), xnp.float32)`.
        collective_axes: Axes of a mesh whose threads share the memory.

    Returns:
        The decorator.

    Example:
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
    """Convert a function that updates references to a function of the values that they hold.

    Args:
        f: Function of a pytree of references. It returns nothing.

    Returns:
        A function of a pytree of values, which returns the final values.

    Example:
        >>> def double(ref):
        ...     ref[...] *= 2
        >>> pl.run_state(double)(xnp.arange(3.0))
        Array([0., 2., 4.], dtype=float32)
    """
    if not callable(f):
        raise errors.not_callable("run_state", f)

    def on_values(values: Any) -> Any:
        leaves, structure = tree.flatten(values)
        refs = [ref_operations.new_ref(x) for x in leaves]
        f(structure.unflatten(refs))
        return structure.unflatten([ref_operations.freeze(r) for r in refs])

    return on_values


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """Return an array with arbitrary content.

    Args:
        shape: Shape of the array.
        dtype: dtype of the array.
        out_sharding: Sharding of the result over explicit mesh axes.

    Returns:
        The array.

    Example:
        >>> pl.empty((2, 3), "float32").shape
        (2, 3)
    """
    return creation.empty(shape, dtype, out_sharding=out_sharding)


@boundary
def empty_like(x: Any) -> Any:
    """Return arrays with arbitrary content, with the shapes and dtypes of others.

    Args:
        x: Pytree of arrays, or objects with a shape and a dtype.

    Returns:
        The arrays, in the same structure.

    Example:
        >>> pl.empty_like(xnp.ones(3)).shape
        (3,)
    """
    return tree.map(lambda leaf: zeros_of(ShapedArray(tuple(leaf.shape), dtypes.canonicalize_dtype(leaf.dtype))), x)


@boundary
def empty_ref_like(x: Any) -> Any:
    """Return references to arrays with arbitrary content, with the shapes and dtypes of others.

    Args:
        x: Pytree of arrays, objects with a shape and a dtype, or descriptions of memory such as `pl.ANY((8,), xnp.float32)`.

    Returns:
        The references, in the same structure.

    Example:
        >>> pl.empty_ref_like(xf.ShapeDtypeStruct((3,), "float32")).shape
        (3,)
    """
    def make(leaf):
        if hasattr(leaf, "get_ref_aval"):
            return _new_scratch_ref("empty_ref_like", leaf)
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise ValueError(f"empty_ref_like takes what has a shape and a dtype, or describes memory, got "
                             f"{errors.short(leaf)}.")
        return ref_operations.empty_ref(ShapedArray(tuple(leaf.shape), dtypes.canonicalize_dtype(leaf.dtype)))

    return tree.map(make, x)


class SelectedRef:
    """A reference selected at run time from several references of one type. It is read and written as these are.

    Example:
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
    """Select one of several references of one type.

    Args:
        idx: Index of the reference: an integer scalar.
        refs: The references.

    Returns:
        The reference.

    Example:
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


# Debugging


@boundary
def debug_print(fmt: str, *args: Any) -> None:
    """Print values while a kernel runs.

    Args:
        fmt: Format string, with `{}` in place of values.
        args: The values.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.debug_print("the first: {}", x_ref[0])
        ...     o_ref[...] = x_ref[...]
    """
    host_debug.print(fmt, *args)


@boundary
def debug_check(condition: Any, message: str) -> None:
    """Check a condition in a kernel with `checkify`, while `enable_debug_checks` is set.

    Args:
        condition: Boolean scalar that must be True.
        message: Message of the error.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     pl.debug_check(x_ref[0] > 0, "the first must be positive")
        ...     o_ref[...] = x_ref[...]
    """
    if config.pallas_enable_debug_checks.value:
        checks.debug_check(condition, message)


def enable_debug_checks(new_val: bool = True) -> Any:
    """Return a context manager in which `debug_check` checks its conditions.

    Args:
        new_val: If False, conditions are not checked.

    Returns:
        The context manager.

    Example:
        >>> with pl.enable_debug_checks():
        ...     pass
    """
    return config.pallas_enable_debug_checks(new_val)


def broadcast_to(a: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast an array to a shape.

    Args:
        a: The array.
        shape: The shape.

    Returns:
        The array of that shape.

    Example:
        >>> pl.broadcast_to(xnp.ones(1), (3,))
        Array([1., 1., 1.], dtype=float32)
    """
    return manipulation.broadcast_to(a, shape)


# Sizes


def cdiv(a: Any, b: Any) -> Any:
    """Return `a / b`, rounded up.

    Args:
        a, b: Integers, or arrays of integers.

    Returns:
        The rounded quotient.

    Example:
        >>> pl.cdiv(7, 2)
        4
    """
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return (a + (b - 1)) // b


def align_to(a: Any, alignment: int) -> Any:
    """Round up to a multiple of `alignment`.

    Args:
        a: Integer, or array of integers.
        alignment: The divisor of the result.

    Returns:
        The smallest multiple of `alignment` that is at least `a`.

    Example:
        >>> pl.align_to(9, 8)
        16
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """Round up to a power of two.

    Args:
        x: Nonnegative integer.

    Returns:
        The smallest power of two that is at least `x`.

    Example:
        >>> pl.next_power_of_2(9)
        16
    """
    if x < 0:
        raise ValueError(f"next_power_of_2 takes an integer that is not negative, got {x}.")
    return 1 if x < 2 else 1 << (x - 1).bit_length()


def strides_from_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a row-major array, in elements.

    Args:
        shape: Shape of the array.

    Returns:
        The stride along each dimension.

    Example:
        >>> pl.strides_from_shape((2, 3, 4))
        (12, 4, 1)
    """
    strides, stride = [], 1
    for n in reversed(shape):
        strides.append(stride)
        stride *= n
    return tuple(reversed(strides))


# Lowering and export


@boundary
def lower_as_mlir(f: Callable, *args: Any, dynamic_shapes: bool = False, device: Any = None, static_argnames: Any = (),
                  platforms: Any = None, **kwargs: Any) -> Any:
    """Lower a function to a StableHLO module.

    Args:
        f: The function.
        args, kwargs: Its arguments: arrays, or objects with a shape and a dtype.
        dynamic_shapes: If True, shapes can be symbolic.
        device: Device to compile for.
        static_argnames: Names of static arguments, which are Python values.
        platforms: Platforms to lower for.

    Returns:
        The module.

    Example:
        >>> "stablehlo.add" in str(pl.lower_as_mlir(lambda x: x + 1, 1.0))
        True
    """
    jitted = jit(f, device=device, static_argnames=static_argnames)
    with pallas_export_experimental(dynamic_shapes):
        traced = jitted.trace(*args, **kwargs)
        return traced.lower(lowering_platforms=tuple(platforms) if platforms else None).compiler_ir("stablehlo")


@contextmanager
def pallas_export_experimental(dynamic_shapes: bool) -> Iterator[None]:
    """Return a context manager in which kernels are lowered for export.

    Args:
        dynamic_shapes: If True, shapes can be symbolic.

    Yields:
        None.

    Example:
        >>> with pl.pallas_export_experimental(False):
        ...     pass
    """
    yield
