"""Inspection of functions and values without running them: `make_jaxpr`, `eval_shape`, `typeof`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, overload

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import errors, source, tracing, tree
from xlafront.core.traceback_filter import boundary
from xlafront.runtime import keys
from xlafront.staging import mutable_composites, signatures, stages
from xlafront.staging.jitted import Jitted
from xlafront.staging.signatures import Options

if TYPE_CHECKING:
    from xlafront.core.ir import Jaxpr

_P = ParamSpec("_P")


@overload
def make_jaxpr(fun: Callable[_P, Any], static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[Hashable, int]] | None = None, return_shape: Literal[False] = False
               ) -> Callable[_P, Jaxpr]: ...


@overload
def make_jaxpr(fun: Callable[_P, Any], static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[Hashable, int]] | None = None, *, return_shape: Literal[True]
               ) -> Callable[_P, tuple[Jaxpr, Any]]: ...


def make_jaxpr(fun: Callable, static_argnums: int | Sequence[int] = (), axis_env: Sequence[tuple[Hashable, int]] | None = None,
               return_shape: bool = False) -> Callable[..., Any]:
    """Create a function that returns the jaxpr of another one for given arguments.

    Args:
        fun: Function to trace.
        static_argnums: Positions of arguments that are Python values.
        axis_env: Named axes in scope, as `(name, size)` pairs.
        return_shape: If True, return `(jaxpr, pytree of ShapeDtypeStruct)`.

    Returns:
        A function with the arguments of `fun` that returns a `Jaxpr`.

    Example:
        >>> xf.make_jaxpr(lambda x: xnp.sin(x) * 2)(1.0)
        { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
    """
    if not callable(fun):
        raise errors.not_callable("make_jaxpr", fun)
    jitted = Jitted(fun, Options(signatures.select_arguments(fun, "static", static_argnums, None)))

    @boundary
    def traced_program(*args, **kwargs):
        saved = tracing.thread.axes
        if axis_env:
            tracing.thread.axes = (*saved, *axis_env)
        try:
            traced = stages.trace(jitted, args, kwargs)
        finally:
            tracing.thread.axes = saved
        return (traced.jaxpr, traced.out_info) if return_shape else traced.jaxpr

    signatures.copy_metadata(traced_program, fun)
    if hasattr(fun, "__name__"):
        traced_program.__name__ = traced_program.__qualname__ = f"make_jaxpr({fun.__name__})"
    traced_program.__module__ = __name__.partition(".")[0]
    return traced_program


@boundary
def eval_shape(fun: Callable, *args: Any, **kwargs: Any) -> Any:
    """Compute the shapes and dtypes of a function's results without running it.

    Args:
        fun: Function to trace.
        args, kwargs: Its arguments, arrays or `ShapeDtypeStruct`s.

    Returns:
        A pytree of `ShapeDtypeStruct`s.

    Example:
        >>> xf.eval_shape(xnp.matmul, xf.ShapeDtypeStruct((2, 3), "float32"), xf.ShapeDtypeStruct((3, 4), "float32"))
        ShapeDtypeStruct(shape=(2, 4), dtype=float32)
    """
    if not callable(fun):
        raise errors.not_callable("eval_shape", fun)
    if tracing.composites and mutable_composites.among(tree.leaves((args, kwargs))):
        # The second result are the final components of the arguments.
        return stages.trace(Jitted(fun, Options()), args, kwargs).out_info[0]
    known = getattr(fun, "eval_shape", None)
    if known is not None and getattr(fun, "__wrapped__", None) is not None:
        return known(*args, **kwargs)
    return stages.trace(Jitted(fun, Options()), args, kwargs).out_info


def typeof(x: Any) -> Any:
    """Return the type of a value as an operand: shape, dtype, weak type.

    Args:
        x: Array or scalar.

    Returns:
        The abstract value.

    Example:
        >>> print(xf.typeof(xnp.ones(3)))
        float32[3]
    """
    kind = type(x)
    if kind is ArrayImpl or kind is keys.KeyArray:  # hot: Flax calls it for each value
        return x.aval
    return tracing.composites[kind](x) if kind in tracing.composites else tracing.aval_of(x)


def named_call(fun: Callable, *, name: str | None = None) -> Callable:
    """Put the operations of a function under a name, for profiles and compiler messages.

    Args:
        fun: Function to name.
        name: Name of the scope. Default: that of the function.

    Returns:
        The function under that name.

    Example:
        >>> xf.named_call(lambda x: x + 1, name="increment")(2)
        3
    """
    return source.named_scope(name or signatures.function_name(fun))(fun)
