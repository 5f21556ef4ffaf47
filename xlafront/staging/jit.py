"""`jit`: compile a function with XLA."""

from __future__ import annotations

import copyreg
import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import errors
from xlafront.runtime.jaxlib_compat import PjitFunction
from xlafront.staging import signatures, stages
from xlafront.staging.jitted import Explaining, Jitted, Options, function_of
from xlafront.staging.sharding_arguments import UNSPECIFIED


def jit(fun: Callable = UNSPECIFIED, /, *, in_shardings: Any = UNSPECIFIED, out_shardings: Any = UNSPECIFIED,
        static_argnums: int | Sequence[int] | None = None, static_argnames: str | Sequence[str] | None = None,
        donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Sequence[str] | None = None,
        keep_unused: bool = False, device: Any = None, backend: str | None = None, inline: bool = False,
        compiler_options: dict[str, Any] | None = None) -> Any:
    """A function compiled with XLA; it is traced once for each new combination of shapes, dtypes and static values.

    - `fun`: the function.
    - `in_shardings`, `out_shardings`: pytree prefixes of shardings for arguments and results.
    - `static_argnums`, `static_argnames`: arguments that are Python values, not arrays; hashable, part of the key.
    - `donate_argnums`, `donate_argnames`: arguments whose memory the results may take; they cannot be used after.
    - `keep_unused`: keep arguments that the function does not read.
    - `device`, `backend`: where it runs. Deprecated; arguments that were put on a device decide, or `in_shardings`.
    - `inline`: no call when used inside another.
    - `compiler_options`: XLA flags by name.

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
        raise ValueError("jit takes device or backend, not both: a device says its backend.")
    for which, given in (("in_shardings", in_shardings), ("out_shardings", out_shardings)):
        if given is not UNSPECIFIED and (device is not None or backend is not None):
            raise ValueError(f"jit takes {which} or a device or backend, not both: shardings say the devices. Leave device and "
                             f"backend out.")
    if device is not None or backend is not None:
        warnings.warn("backend and device argument on jit is deprecated: say where it runs by in_shardings, by device_put of "
                      "an argument or by the setting default_device.", DeprecationWarning, stacklevel=2)
    # None in place of a tree says no more than nothing at all, so that keyword arguments can be given.
    in_shardings, out_shardings = (UNSPECIFIED if s is None else s for s in (in_shardings, out_shardings))
    options = Options(static, donate, in_shardings, out_shardings, bool(keep_unused), device, backend, inline,
                      tuple(sorted((compiler_options or {}).items())))
    return function_of(Jitted(fun, options))


def _is_generator(fun) -> bool:
    code = getattr(fun, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)


def _attach_stages() -> None:
    """On the classes, so that `functools.wraps(jit(f))` does not copy them to a function that is not jitted."""
    for cls in (PjitFunction, Explaining):
        cls.trace = lambda self, /, *args, **kwargs: stages.trace(self._jitted, args, kwargs)
        cls.lower = lambda self, /, *args, **kwargs: self.trace(*args, **kwargs).lower()
        cls.eval_shape = lambda self, /, *args, **kwargs: self.trace(*args, **kwargs).out_info
        cls.clear_cache = lambda self: self._jitted.clear_cache()
        copyreg.pickle(cls, _reduce)


def _reduce(dispatcher):
    """A jitted function that has a name in its module is pickled and copied as that, others with the function inside."""
    known_as = getattr(dispatcher, "__qualname__", "")  # the functions that objects are have none
    found: Any = sys.modules.get(getattr(dispatcher, "__module__", ""))
    for name in known_as.split("."):
        found = getattr(found, name, None)
    if found is dispatcher:
        return known_as
    jitted = getattr(dispatcher, "_jitted", None)
    if jitted is None:
        raise TypeError(f"{known_as} is compiled for this process and cannot be pickled or copied: pickle the function, "
                        f"or export it (xlafront.export).")
    return function_of, (jitted,)


_attach_stages()


def pjit(fun: Callable, in_shardings: Any = UNSPECIFIED, out_shardings: Any = UNSPECIFIED,
         static_argnums: int | Sequence[int] | None = None, static_argnames: str | Sequence[str] | None = None,
         donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Sequence[str] | None = None,
         keep_unused: bool = False, device: Any = None, backend: str | None = None, inline: bool = False,
         compiler_options: dict[str, Any] | None = None) -> Any:
    """The older name of `jit`. Its shardings may be specs over the mesh of a `with mesh:` around the call.

    - `fun`: the function.
    - `in_shardings`, `out_shardings`, `static_argnums`, `static_argnames`, `donate_argnums`, `donate_argnames`,
      `keep_unused`, `device`, `backend`, `inline`, `compiler_options`: as for `jit`.

    >>> pjit(lambda x: x + 1)(1.0)
    Array(2., dtype=float32, weak_type=True)
    """
    jitted = jit(fun, in_shardings=in_shardings, out_shardings=out_shardings, static_argnums=static_argnums,
                 static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
                 keep_unused=keep_unused, device=device, backend=backend, inline=inline,
                 compiler_options=compiler_options)._jitted
    return function_of(Jitted(jitted.fun, jitted.options._replace(entered=True)))
