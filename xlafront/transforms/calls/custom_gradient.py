"""`custom_gradient`: a reverse-mode rule that a function returns with its result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.ir import eval_jaxpr
from xlafront.core.wrapping import wraps
from xlafront.core.zeros import Zero
from xlafront.staging import signatures
from xlafront.transforms.ad import backward_logs
from xlafront.transforms.calls.accumulators import GradAccum, NullAccum, RefAccum, ValAccum
from xlafront.transforms.calls.custom_vjp import custom_vjp

if TYPE_CHECKING:
    from xlafront.core.ir import Jaxpr


def custom_gradient(fun: Callable | None = None, *, with_logs: bool = False, remat: bool = False, with_accums: Any = None
                    ) -> Any:
    """Define a reverse-mode rule inside of the function: `fun(*args)` returns `(result, pullback)`.

    `pullback(ct)` returns the cotangents of the arguments, as a tuple if there are several. It may use any value that the
    function
    has computed. Arguments with defaults that a call omits have no cotangents; arguments cannot be passed by keyword.

    Args:
        fun: Function that returns a pair of its result and the pullback. If None, return a decorator.
        with_logs: If True, the pullback returns `(cotangents, logs)`; see `custom_vjp.defvjp_with_logs`.
        remat: If True, `fun` returns `(result, rem)`, where `rem(*args)` returns `(result, pullback)`. In a checkpoint `rem`
            runs in the backward pass, and the values that it closes over are saved; see `custom_vjp.defremat`.
        with_accums: Kinds of accumulators for which the pullback is called as `pullback(ct, *accumulators)`, in place of
            returning cotangents: `ValAccum` or `RefAccum` (`experimental.hijax`), or a prefix of the tuple of arguments with
            these as leaves. The pullback returns None or logs; see `custom_vjp.defvjp_with_accums`.

    Returns:
        A function with the result as its only value, and the pullback as its derivative.

    Example:
        >>> @xf.custom_gradient
        ... def square(x):
        ...     return x ** 2, lambda ct: 2 * x * ct
        >>> xf.grad(square)(3.0)
        Array(6., dtype=float32, weak_type=True)
    """
    if fun is None:
        return functools.partial(custom_gradient, with_logs=with_logs, remat=remat, with_accums=with_accums)
    if with_accums is not None and remat:
        raise NotImplementedError("custom_gradient takes with_accums or remat, not both. Return cotangents in place of adding "
                                  "them to accumulators.")
    name = signatures.function_name(fun)

    @wraps(fun)
    def value_of(*args: Any) -> Any:
        return _call_with_pullback(fun, args, name)[0]

    del value_of.__wrapped__  # keep the defaults of `fun` out of its signature: rules get only the arguments passed
    wrapped = custom_vjp(value_of)

    def traced(pullback: Callable, value: Any, args: tuple) -> _Residuals:
        return _trace_pullback(pullback, value, args, name, with_logs, with_accums)

    def fwd(*args: Any) -> tuple[Any, _Residuals]:
        value, pullback = _call_with_pullback(fun, args, name)
        return value, traced(pullback, value, args)

    def fwd_saving(*args: Any) -> tuple[Any, _Residuals]:
        value, rem = _call_with_pullback(fun, args, name)
        leaves, in_tree = tree.flatten(args)

        def flat(*xs: tracing.StagedTracer) -> tuple[list[Any], Any]:
            inner_args = in_tree.unflatten(xs)
            inner_value, pullback = _call_with_pullback(rem, inner_args, name)
            return tree.flatten((inner_value, traced(pullback, inner_value, inner_args)))

        closed, out_tree = tracing.trace_with_aux(flat, [tracing.aval_of(x) for x in leaves])
        return value, _Residuals(closed.consts, closed.structure, out_tree)

    def rem(saved: _Residuals, *args: Any) -> Any:
        return saved.evaluate(*tree.leaves(args))

    def bwd(residuals: _Residuals, cotangent: Any) -> Any:
        return residuals.evaluate(*tree.leaves(cotangent))

    fwd.__name__ = fwd_saving.__name__ = bwd.__name__ = name
    if remat:
        wrapped.defremat_with_logs(fwd_saving, rem, bwd)
    else:
        wrapped.defvjp_with_logs(fwd, bwd)
    return wrapped


def _call_with_pullback(fun: Callable, args: Sequence[Any], name: str) -> tuple[Any, Callable]:
    pair = fun(*args)
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not callable(pair[1]):
        raise TypeError(f"the custom_gradient function {name} must return a pair of its result and a "
                        f"function that pulls cotangents back, got {errors.short(pair)} of type {type(pair).__name__}.")
    return pair[0], pair[1]


def _trace_pullback(pullback: Callable, value: Any, args: tuple, name: str, with_logs: bool, with_accums: Any) -> _Residuals:
    """Trace the pullback of a call as a function that returns `(cotangents, logs)`."""
    leaves, out_tree = signatures.check_results(pullback, value)
    title = f"the function that the custom_gradient function {name} returns"

    def flat(*cts: tracing.StagedTracer) -> tuple[list[Any], Any]:
        cotangent, logs = out_tree.unflatten(cts), None
        if with_accums is not None:
            accumulators = _accumulators(with_accums, args)
            logs = pullback(cotangent, *tree.structure(args).unflatten(accumulators))
            in_cts = [a.freeze() for a in accumulators]
            cotangents: Any = tree.structure(args).unflatten([None if type(ct) is Zero else ct for ct in in_cts])
        else:
            cotangents = pullback(cotangent)
            if with_logs:
                if not isinstance(cotangents, (tuple, list)) or len(cotangents) != 2:
                    raise TypeError(f"{title} must produce a pair (in_cts, logs) with with_logs=True, got "
                                    f"{errors.short(cotangents)} of type {type(cotangents).__name__}.")
                cotangents, logs = cotangents
            if not isinstance(cotangents, (tuple, list)) and len(args) == 1:
                cotangents = (cotangents,)
        return tree.flatten((cotangents, backward_logs.logs_of_rule(logs, title)))

    closed, result_tree = tracing.trace_with_aux(flat, [tracing.aval_of(x).to_tangent_aval() for x in leaves])
    return _Residuals(closed.consts, closed.structure, result_tree)


def _accumulators(kinds: Any, args: tuple) -> list[GradAccum]:
    """Return an accumulator of the requested kind for each array of the arguments."""
    flat_kinds = tree.leaves_by_prefix("custom_gradient: with_accums", kinds, args)
    for kind in flat_kinds:
        if kind is not ValAccum and kind is not RefAccum:
            raise TypeError(f"custom_gradient takes with_accums as ValAccum, RefAccum, or a prefix of the tuple of arguments "
                            f"with these as leaves, got {errors.short(kind)}.")
    avals = [tracing.aval_of(x).to_tangent_aval() for x in tree.leaves(args)]
    return [(NullAccum if not aval.is_high and aval.dtype == dtypes.float0 else kind)(aval)
            for kind, aval in zip(flat_kinds, avals)]


class _Residuals:
    """A traced function: its jaxpr, its constants, and the tree of its result."""

    def __init__(self, consts: Sequence[Any], jaxpr: Jaxpr, tree: Any) -> None:
        self.consts, self.jaxpr, self.tree = consts, jaxpr, tree

    def evaluate(self, *args: Any) -> Any:
        """Call the function on flat values."""
        return self.tree.unflatten(eval_jaxpr(self.jaxpr, self.consts, *args))


tree.register_pytree_node(_Residuals, lambda r: (tuple(r.consts), (r.jaxpr, r.tree)),
                          lambda static, consts: _Residuals(list(consts), *static))
