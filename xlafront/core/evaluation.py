"""Evaluation of jaxprs on values or tracers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xlafront.core import source

if TYPE_CHECKING:
    from xlafront.core.jaxpr import Atom, Jaxpr, Var


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True) -> list[Any]:
    """Bind the equations of a jaxpr one by one, on values or tracers.

    Args:
        jaxpr: The jaxpr.
        consts: Values of its constants.
        args: Values of its inputs.
        propagate_source_info: If True, the operations have the locations of the equations.

    Returns:
        A list of results.

    Example:
        >>> closed = make_jaxpr(lambda x: x * 2)(3.0)
        >>> eval_jaxpr(closed, closed.consts, 4.0)
    """
    if len(args) != len(jaxpr.invars):
        raise TypeError(f"the jaxpr takes {len(jaxpr.invars)} arguments, {len(args)} were given")
    env: dict[Atom, Any] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    last_use = last_uses(jaxpr)
    thread = source.thread
    saved = thread.site
    scope = source.current_scope.get() if saved is None else saved[2]
    try:
        for index, eqn in enumerate(jaxpr.eqns):
            values = [v.val if v.is_literal else env[v] for v in eqn.invars]  # type: ignore[union-attr]
            if propagate_source_info:
                thread.site = source.inside(scope, eqn.site) if scope else eqn.site
            results = eqn.primitive.bind(*values, **eqn.params)
            if eqn.primitive.multiple_results:
                env.update(zip(eqn.outvars, results))
            else:
                env[eqn.outvars[0]] = results
            for v in last_use.get(index, ()):
                del env[v]
    finally:
        thread.site = saved
    return [v.val if v.is_literal else env[v] for v in jaxpr.outvars]  # type: ignore[union-attr]


def last_reads(jaxpr: Jaxpr) -> dict[Any, int]:
    """Return for each variable that is read the index of the last equation that does; for results the number of equations."""
    reads = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars if not v.is_literal}
    return reads | {v: len(jaxpr.eqns) for v in jaxpr.outvars if not v.is_literal}


def last_uses(jaxpr: Jaxpr) -> dict[int, list[Var]]:
    """Return, by the index of an equation, the variables that it is the last to read, so that evaluation frees them."""
    last: dict[int, list] = {}
    for v, index in last_reads(jaxpr).items():
        last.setdefault(index, []).append(v)
    return last


def jaxpr_as_fun(closed: Jaxpr) -> Callable[..., list[Any]]:
    """Return a jaxpr as a Python function of its inputs."""

    def run(*args: Any) -> list[Any]:
        return closed(*args)

    return run
