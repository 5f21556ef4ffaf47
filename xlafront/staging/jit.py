"""`jit`: compile a function with XLA."""

from __future__ import annotations

import copyreg
import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from xlafront.base.jaxlib_compat import PjitFunction
from xlafront.core import errors
from xlafront.staging import signatures
from xlafront.staging.dispatch import ErrorTranslatingDispatcher, public_function
from xlafront.staging.inlining import Inline, as_parameter
from xlafront.staging.jitted import Jitted
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.staging.signatures import Options

if TYPE_CHECKING:
    from xlafront.staging import stages

    _P = ParamSpec("_P")
    _R = TypeVar("_R", covariant=True)

    class JittedFunction(Generic[_P, _R]):
        """A compiled function as type checkers see it: it has the parameters and the result of the function."""

        __name__: str
        __wrapped__: Callable[_P, _R]

        def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
        def __get__(self, instance: Any, owner: Any = ...) -> Callable[..., _R]: ...
        def lower(self, *args: Any, **kwargs: Any) -> stages.Lowered: ...
        def trace(self, *args: Any, **kwargs: Any) -> stages.Traced: ...
        def eval_shape(self, *args: Any, **kwargs: Any) -> Any: ...
        def clear_cache(self) -> None: ...

if TYPE_CHECKING:
    @overload
    def jit(fun: Callable[_P, _R], /, *, in_shardings: Any = ..., out_shardings: Any = ...,
            static_argnums: int | Sequence[int] | None = None, static_argnames: str | Sequence[str] | None = None,
            donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Sequence[str] | None = None,
            keep_unused: bool = False, device: Any = None, backend: str | None = None, inline: bool | Inline = False,
            compiler_options: dict[str, Any] | None = None) -> JittedFunction[_P, _R]: ...
    @overload
    def jit(*, in_shardings: Any = ..., out_shardings: Any = ...,
            static_argnums: int | Sequence[int] | None = None, static_argnames: str | Sequence[str] | None = None,
            donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Sequence[str] | None = None,
            keep_unused: bool = False, device: Any = None, backend: str | None = None, inline: bool | Inline = False,
            compiler_options: dict[str, Any] | None = None
            ) -> Callable[[Callable[_P, _R]], JittedFunction[_P, _R]]: ...


def jit(fun: Callable = UNSPECIFIED, /, *, in_shardings: Any = UNSPECIFIED, out_shardings: Any = UNSPECIFIED,
        static_argnums: int | Sequence[int] | None = None, static_argnames: str | Sequence[str] | None = None,
        donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Sequence[str] | None = None,
        keep_unused: bool = False, device: Any = None, backend: str | None = None, inline: bool | Inline = False,
        compiler_options: dict[str, Any] | None = None) -> Any:
    """Compile a function with XLA.

    The function is traced and compiled once for each combination of shapes, dtypes, shardings and static values.

    Args:
        fun: Function of arrays, scalars and pytrees of them. Without it, return a decorator.
        in_shardings, out_shardings: Pytree prefixes of shardings for arguments and results. Default: chosen from the
            arguments and by the compiler.
        static_argnums, static_argnames: Arguments that are Python values; they must be hashable, and new values retrace.
        donate_argnums, donate_argnames: Arguments whose memory the results may take; the arrays are deleted by the call.
        keep_unused: If True, pass arguments that the function does not read to the compiled program, too.
        device, backend: Device or platform to run on. Deprecated: use `in_shardings`, or `device_put` of an argument.
        inline: When a call within another traced function is inlined: a member of `Inline`. True is `JAX_LATE`, False `AUTO`.
        compiler_options: XLA flags by name.

    Returns:
        The compiled function, with the methods `trace`, `lower`, `eval_shape` and `clear_cache`.

    Example:
        >>> @xf.jit
        ... def leaky(x, slope=0.5):
        ...     return xnp.where(x > 0, x, slope * x)
        >>> leaky(xnp.array([-2.0, 2.0]))
        Array([-1.,  2.], dtype=float32)
    """
    if fun is UNSPECIFIED:
        return functools.partial(
            jit, in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
            static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            keep_unused=keep_unused, device=device, backend=backend, inline=inline,
            compiler_options=compiler_options)
    if not callable(fun) or isinstance(fun, staticmethod):
        raise errors.not_callable("jit", fun)
    if hasattr(fun, "_is_generator_function") or _is_generator(fun):
        raise TypeError(f"jit cannot compile the generator function {signatures.function_name(fun)}: return a list instead")
    static = signatures.select_arguments(fun, "static", static_argnums, static_argnames)
    donate = signatures.select_arguments(fun, "donate", donate_argnums, donate_argnames)
    both = sorted(set(static.nums) & set(donate.nums)) or sorted(set(static.names) & set(donate.names))
    if both:
        raise ValueError(f"the argument {both[0]!r} of {signatures.function_name(fun)} cannot be both static and donated: "
                         f"static_argnames and donate_argnames (or the _argnums) must not intersect.")
    if device is not None and backend is not None:
        raise ValueError("jit takes device or backend, not both: a device has a backend.")
    for which, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
        if given is not UNSPECIFIED and (device is not None or backend is not None):
            raise ValueError(f"jit takes {which} or a device or backend, not both: shardings have devices. Leave device and "
                             f"backend out.")
    if device is not None or backend is not None:
        warnings.warn("backend and device argument on jit is deprecated: choose the device by in_shardings, by device_put of "
                      "an argument or by the setting default_device.", DeprecationWarning, stacklevel=2)
    # None in place of a pytree is unspecified, so that calls may have keyword arguments.
    in_shardings, out_shardings = (UNSPECIFIED if s is None else s for s in (in_shardings, out_shardings))
    options = Options(static, donate, in_shardings, out_shardings, bool(keep_unused), device, backend, as_parameter(inline),
                      tuple(sorted((compiler_options or {}).items())))
    return public_function(Jitted(fun, options))


def _is_generator(fun) -> bool:
    code = getattr(fun, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)


def _trace(jitted: Jitted, args: tuple, kwargs: dict[str, Any]) -> stages.Traced:
    from xlafront.staging import stages  # start-up: 1 ms

    return stages.trace(jitted, args, kwargs)


def _attach_stages() -> None:
    """Attach stages to the classes, so that `functools.wraps(jit(f))` does not copy them to a function that is not jitted."""
    for cls in (PjitFunction, ErrorTranslatingDispatcher):
        cls.trace = lambda self, /, *args, **kwargs: _trace(self._jitted, args, kwargs)
        cls.lower = lambda self, /, *args, **kwargs: self.trace(*args, **kwargs).lower()
        cls.eval_shape = lambda self, /, *args, **kwargs: self.trace(*args, **kwargs).out_info
        cls.clear_cache = lambda self: self._jitted.clear_cache()
        copyreg.pickle(cls, _reduce)


def _reduce(dispatcher):
    """Pickle a jitted function by its name in a module; one without such a name with the function inside."""
    known_as = getattr(dispatcher, "__qualname__", "")  # callable objects have none
    found: Any = sys.modules.get(getattr(dispatcher, "__module__", ""))
    for name in known_as.split("."):
        found = getattr(found, name, None)
    if found is dispatcher:
        return known_as
    jitted = getattr(dispatcher, "_jitted", None)
    if jitted is None:
        raise TypeError(f"{known_as} is compiled for this process and cannot be pickled or copied: pickle the function, "
                        f"or export it (xlafront.export).")
    return public_function, (jitted,)


_attach_stages()


def pjit(fun: Callable, in_shardings: Any = UNSPECIFIED, out_shardings: Any = UNSPECIFIED,
         static_argnums: int | Sequence[int] | None = None, static_argnames: str | Sequence[str] | None = None,
         donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Sequence[str] | None = None,
         keep_unused: bool = False, device: Any = None, backend: str | None = None, inline: bool | Inline = False,
         compiler_options: dict[str, Any] | None = None) -> Any:
    """Compile a function with XLA, as `jit` does; within `with mesh:`, over the devices of this mesh.

    There, specs refer to the mesh, and None in place of a sharding is `P()`.

    Args:
        fun: Function of arrays, scalars and pytrees of them.
        in_shardings, out_shardings, static_argnums, static_argnames, donate_argnums, donate_argnames: As for `jit`.
        keep_unused, device, backend, inline, compiler_options: As for `jit`.

    Returns:
        The compiled function.

    Example:
        >>> pjit(lambda x: x + 1)(1.0)
        Array(2., dtype=float32, weak_type=True)
    """
    jitted = jit(fun, in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
                 static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
                 keep_unused=keep_unused, device=device, backend=backend, inline=inline,
                 compiler_options=compiler_options)._jitted
    return public_function(Jitted(jitted.fun, jitted.options._replace(
        in_shardings=in_shardings, out_shardings=out_shardings, allow_mesh_context=True)))
