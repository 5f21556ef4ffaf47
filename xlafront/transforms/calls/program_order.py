"""`program_order`: functions whose operations run in the order in which they are written, or in any order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing, tree
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.program_call import ProgramCall
from xlafront.core.wrapping import wraps
from xlafront.lax.barriers import optimization_barrier_p
from xlafront.lax.lower_fun import lower_fun
from xlafront.staging.signatures import select_arguments
from xlafront.transforms.calls.programs import trace_function


def program_order(f: Callable | None = None, *, enforce: bool, strict_in_out: bool | tuple[bool, bool] = False,
                  exclude_argnames: str | Sequence[str] | None = None) -> Callable:
    """Make the operations of a function run in the order of the program, or leave their order to the compiler.

    In the former case, each operation waits for the one before it. A call of such a function is one operation of the program
    around it; in one with `enforce=False` the operations inside have no order.

    Args:
        f: Function. If None, return a decorator.
        enforce: If True, keep the order.
        strict_in_out: If True, all arguments are waited for before the first operation, and all results before the first use of
            one of them. Or a pair, one flag for each of the two.
        exclude_argnames: Names of arguments that do not wait for the operation before a call. Only with `enforce=False`.

    Returns:
        A function like `f`, or the decorator.

    Example:
        >>> @program_order(enforce=True)
        ... def f(x, y):
        ...     return xnp.sin(x) + 1, xnp.cos(y)
        >>> xf.jit(f).lower(1.0, 2.0).as_text().count("optimization_barrier")
        2
    """
    if f is None:
        return functools.partial(program_order, enforce=enforce, strict_in_out=strict_in_out, exclude_argnames=exclude_argnames)
    if enforce and exclude_argnames is not None:
        raise ValueError("program_order takes exclude_argnames only with enforce=False.")
    strict_in, strict_out = (strict_in_out, strict_in_out) if isinstance(strict_in_out, bool) else strict_in_out
    function, excluded = f, select_arguments(f, "exclude", None, exclude_argnames)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        mask = [*[i in excluded.nums for i, x in enumerate(args) for _ in tree.leaves(x)],
                *[name in excluded.names for name in sorted(kwargs) for _ in tree.leaves(kwargs[name])]]
        of_pair = wraps(function)(lambda args, kwargs: function(*args, **kwargs))
        jaxpr, consts, out_tree = trace_function(of_pair, structure, [tracing.aval_of(x, "program_order") for x in leaves],
                                                 "program_order")
        return out_tree.unflatten(program_order_p.bind(
            *consts, *leaves, call_jaxpr=jaxpr, enforce=bool(enforce), strict_in=bool(strict_in), strict_out=bool(strict_out),
            exclude_mask=(False,) * len(consts) + tuple(mask)))

    return called


class _OrderedCall(ProgramCall):
    """A call whose operands are marked if they do not wait."""

    __slots__ = ()

    def derived(self, params: dict[str, Any], program: Jaxpr, ins: Sequence[int | None], outs: Sequence[int | None]
                ) -> dict[str, Any]:
        mask = params["exclude_mask"]
        of_derived = tuple([i is not None and i < len(mask) and mask[i] for i in ins])
        return params | {"call_jaxpr": program, "exclude_mask": of_derived}


def _in_order(jaxpr: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    """Evaluate a jaxpr so that each equation depends on the results of the one before it."""
    def value_of(v: Any) -> Any:
        return v.val if v.is_literal else values[v]

    values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*jaxpr.consts, *operands)))
    before: list[Any] = []  # variables of the results of the equation before
    for eqn in jaxpr.eqns:
        read = list(map(value_of, eqn.invars))
        waiting = _waiting(eqn)
        if before and waiting:
            tied = optimization_barrier_p.bind(*[values[v] for v in before], *[read[i] for i in waiting])
            values.update(zip(before, tied))
            for i, x in zip(waiting, tied[len(before):]):
                read[i] = values[eqn.invars[i]] if eqn.invars[i] in before else x
        results = eqn.primitive.bind(*read, **eqn.primitive.get_bind_params(eqn.params))
        values.update(zip(eqn.outvars, results if eqn.primitive.multiple_results else [results]))
        before = list(eqn.outvars) or before
    return list(map(value_of, jaxpr.outvars))


def _waiting(eqn: JaxprEqn) -> list[int]:
    """Return the positions of the operands of an equation that wait for the equation before."""
    mask = eqn.params["exclude_mask"] if eqn.primitive is program_order_p else (False,) * len(eqn.invars)
    return [i for i, (v, excluded) in enumerate(zip(eqn.invars, mask)) if not (v.is_literal or excluded)]


def _evaluate(*operands: Any, call_jaxpr: Jaxpr, enforce: bool, strict_in: bool, strict_out: bool, exclude_mask: tuple
              ) -> list[Any]:
    if strict_in and operands:
        operands = optimization_barrier_p.bind(*operands)
    results = _in_order(call_jaxpr, operands) if enforce else call_jaxpr(*operands)
    return optimization_barrier_p.bind(*results) if strict_out and results else results


program_order_p = _OrderedCall("program_order", parameter="call_jaxpr", lower=lower_fun(_evaluate, True))
