"""A primitive: one operation of the IR, and everything the system knows of it, in one record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlafront.core import tracing


class Primitive:
    """One operation.

    The fields are the answers to the questions that the rest of the system asks:

    - `abstract(*avals, **params)`: the type of the result (a list of types when `multiple_results`).
    - `lowerings[platform or None](ctx, *operands, **params)`: StableHLO for it.
    - `jvp(primals, tangents, **params)`: result and its directional derivative.
    - `transpose(cotangents, *operands, **params)`: for operations linear in an operand.
    - `batch(operands, dims, **params)`: the operation over one more dimension.
    - `partial_eval`, `dce`, `linearize`: only for operations that contain programs.
    - `effects(*avals, **params)`: what it does besides computing; `impl(*args, **params)`: how it runs eagerly when
      that is not by compiling it.

    `bind` applies the primitive under whatever trace is current.
    """

    __slots__ = ("name", "multiple_results", "abstract", "lowerings", "jvp", "transpose", "batch", "linearize",
                 "partial_eval", "dce", "effects", "impl", "memoise", "spreads_scalars", "shown_as", "types", "eager",
                 "__weakref__")

    def __init__(self, name: str, *, abstract: Callable | None = None, lower: Callable | None = None,
                 jvp: Callable | None = None, transpose: Callable | None = None, batch: Callable | None = None,
                 multiple_results: bool = False, effects: Callable | None = None, impl: Callable | None = None,
                 linearize: Callable | None = None, dce: Callable | None = None, partial_eval: Callable | None = None,
                 memoise: bool = True, spreads_scalars: bool = False, shown_as: str | None = None):
        self.name = name
        self.multiple_results = multiple_results
        self.abstract = abstract
        self.lowerings: dict[str | None, Callable] = {} if lower is None else {None: lower}
        self.jvp, self.transpose, self.batch = jvp, transpose, batch
        self.linearize, self.partial_eval, self.dce = linearize, partial_eval, dce
        self.effects = effects
        self.impl = impl
        self.memoise = memoise  # whether `abstract` is a pure function of hashable types and parameters
        self.spreads_scalars = spreads_scalars  # elementwise: lowering gives its rule operands of the result's shape
        self.shown_as = shown_as or name  # the user's word for it in messages
        self.types: dict[Any, Any] = {}  # memo of `abstract`
        self.eager: dict[Any, Callable] = {}  # compiled kernels by parameters, filled by the eager path

    def bind(self, *args, **params):
        return tracing.thread.trace.process(self, args, params)

    def result_types(self, avals: tuple, params: dict[str, Any]):
        """`abstract`, memoised. Hot: once a traced equation."""
        if not self.memoise:
            return self.abstract(*avals, **params)
        key = (avals, *params.items()) if params else avals
        try:
            return self.types[key]
        except KeyError:
            result = self.types[key] = self.abstract(*avals, **params)
            return result
        except TypeError:  # a parameter that cannot be hashed
            return self.abstract(*avals, **params)

    def lowering_for(self, platform: str) -> Callable:
        rule = self.lowerings.get(platform) or self.lowerings.get(None)
        if rule is None:
            known = ", ".join(sorted(p for p in self.lowerings if p)) or "no platform"
            raise NotImplementedError(
                f"{self.shown_as} cannot run on {platform}: it is implemented for {known}. "
                f"Register a lowering for it with xlafront.interpreters.mlir.register_lowering.")
        return rule

    # The words in which programs that define primitives of their own know these fields.

    def def_impl(self, impl):
        self.impl = impl
        return impl

    def def_abstract_eval(self, abstract):
        self.abstract = abstract
        return abstract

    def def_effectful_abstract_eval(self, abstract):
        """`abstract` returns `(types, effects)`."""
        self.memoise = False
        self.abstract = lambda *avals, **params: abstract(*avals, **params)[0]
        self.effects = lambda *avals, **params: frozenset(abstract(*avals, **params)[1])
        return abstract

    def __repr__(self):
        return self.name

    def __reduce__(self):
        raise TypeError(f"the primitive {self.name} cannot be pickled: pickle the function that uses it, or its export")
