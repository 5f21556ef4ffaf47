"""Linear functions with a transpose of their own (`linear_call`), and closures made explicit (`closure_convert`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.ir import eval_jaxpr
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.shapes import move_dim, reduce_sum_p
from xlafront.lax.zeros import instantiate
from xlafront.staging import signatures
from xlafront.transforms.batching.vmap import BatchTracer
from xlafront.transforms.calls.custom_calls import CustomCall, Results, Rule


def linear_call(fun: Callable, fun_transpose: Callable, residual_args: Any, linear_args: Any) -> Any:
    """Call a function that is linear in its second argument, and say what its transpose is.

    - `fun(residual_args, linear_args)` is the function.
    - `fun_transpose(residual_args, cotangent)` returns the cotangent of `linear_args`.
    - `residual_args`, `linear_args`: the two arguments, pytrees.

    Differentiation in `linear_args` applies the function to tangents, and in reverse mode the transpose to cotangents.

    >>> linear_call(lambda r, x: x / r, lambda r, ct: ct / r, 2.0, 3.0)
    1.5
    """
    name = signatures.function_name(fun)
    leaves = [_flat(x, name) for x in (residual_args, linear_args)]
    residuals, linear = leaves
    residual_tree, linear_tree = tree.structure(residual_args), tree.structure(linear_args)
    count, results = len(residuals), Results()

    def flat(*xs):
        return results.of_function(fun, fun(residual_tree.unflatten(xs[:count]), linear_tree.unflatten(xs[count:])))

    title = f"the transpose {signatures.function_name(fun_transpose)} that linear_call was given for {name}"

    def transposed(values, cts):
        found = fun_transpose(residual_tree.unflatten(values), results.unflatten([instantiate(ct) for ct in cts]))
        flat_cts, found_tree = tree.flatten(found)
        if found_tree != linear_tree:
            raise TypeError(f"{title} must return cotangents with the structure of the linear arguments, {linear_tree}; it "
                            f"returned {found_tree}.")
        for i, (ct, aval) in enumerate(zip(flat_cts, avals)):
            if np.shape(ct) != aval.shape:
                raise ValueError(f"{title} must return cotangents of the shapes of the linear arguments: at "
                                 f"linear_args{tree.path_of(linear_args, i)} the argument is {aval}, the rule returned shape "
                                 f"{np.shape(ct)}.")
        return flat_cts

    avals = [tracing.aval_of(x) for x in linear]
    written = fun, tree.structure((residual_args, linear_args)), ()
    found = linear_call_p.bind(*residuals, *linear, fun=Rule(flat, name, written), num_callee_consts=0, num_res=count,
                               transpose_thunk=Rule(transposed, signatures.function_name(fun_transpose)))
    return results.unflatten(found)


def _flat(args: Any, name: str) -> list[Any]:
    leaves = tree.leaves(args)
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, f"linear_call of {name}", tree.path_of(args, i))
    return list(leaves)


class _LinearCall(CustomCall):
    __slots__ = ()

    parameter, constants = "callee", "num_callee_consts"

    def stage(self, trace, args, params):
        """Unlike other calls, one on tangents keeps its rule, which is what the rule is for."""
        return self.stage_call(trace, args, params)

    @staticmethod
    def batched(mapped, dims, params):
        rule, count = params["transpose_thunk"], params["num_res"]

        def transposed(residuals, cts):
            found = mapped.apply_in_front(lambda *xs: rule(xs[:count], xs[count:]), [*residuals, *[
                instantiate(ct) for ct in cts]], [*dims[:count], *[0] * len(cts)])
            return [reduce_sum_p.bind(x, axes=(0,), out_sharding=None) if d is None else move_dim(x, 0, d)
                    for x, d in zip(found, dims[count:])]

        return {"transpose_thunk": rule.around(transposed)}

    @staticmethod
    def prune(params, used, out_avals):
        rule = params["transpose_thunk"]

        def pruned(residuals, cts):
            given = iter(cts)
            return rule(residuals, [next(given) if keep else Zero(aval) for keep, aval in zip(used, out_avals)])

        return {"transpose_thunk": rule.around(pruned)}


def _jvp(primals, tangents, **params):
    fixed = params["num_callee_consts"] + params["num_res"]
    if any(type(t) is not Zero for t in tangents[:fixed]):
        raise errors.UnexpectedTracerError(
            f"linear_call of {linear_call_p.name_of(params)} is differentiated in its residual arguments, or in a value that "
            f"it closes over, but it only says how its linear arguments are transposed. Hold them constant with "
            f"lax.stop_gradient, or give the function a derivative with custom_jvp.")
    moving = [instantiate(t) for t in tangents[fixed:]]
    results = linear_call_p.bind(*primals, **params)
    out_tangents = linear_call_p.bind(*primals[:fixed], *moving, **params)
    return results, [Zero(tracing.aval_of(x).to_tangent_aval()) if tracing.aval_of(x).dtype.kind in "biu" else t
                     for x, t in zip(results, out_tangents)]


def _transpose(cts, *operands, transpose_thunk, num_callee_consts, num_res, **params):
    """The transpose is such a call again, whose own transpose is the function."""
    fixed = num_callee_consts + num_res
    run = linear_call_p.run_of(params)

    def forward(residuals, xs):
        return run(*residuals, *xs)

    found = linear_call_p.bind(
        *operands[:fixed], *[instantiate(ct) for ct in cts], num_callee_consts=0, num_res=fixed,
        fun=transpose_thunk.around(lambda *xs: transpose_thunk(xs[num_callee_consts:fixed], xs[fixed:])),
        transpose_thunk=Rule(forward, linear_call_p.name_of(params)))
    return [None] * fixed + [ct if is_undefined(x) else None for ct, x in zip(found, operands[fixed:])]


linear_call_p = _LinearCall("linear_call", "linear_call", jvp=_jvp)
linear_call_p.runs_eagerly = True
linear_call_p.transpose = _transpose


# Closures


def closure_convert(fun: Callable, *example_args: Any) -> tuple[Callable, list[Any]]:
    """A function that closes over nothing that could be differentiated, and the values that it now takes as arguments.

    Rules of custom_jvp and custom_vjp need it for functions that are given to them as arguments.

    - `fun`: the function.
    - `example_args`: arguments like those that it will get.
    - The result is `(converted, values)`, where `converted(*args, *values)` is `fun(*args)`.

    >>> def scaled(y, x):
    ...     converted, values = xf.closure_convert(lambda z: z * y, x)
    ...     return converted(x, *values)
    >>> float(scaled(2.0, 3.0))
    6.0
    """
    if not callable(fun):
        raise errors.not_callable("closure_convert", fun)
    leaves, in_tree = tree.flatten(example_args)
    name = signatures.function_name(fun)
    out_tree = None

    def flat(*xs):
        nonlocal out_tree
        found, out_tree = signatures.check_results(fun, fun(*in_tree.unflatten(xs)))
        return found

    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, f"closure_convert of {name}", tree.path_of(example_args, i))
    jaxpr, consts = tracing.trace_to_jaxpr(flat, [tracing.aval_of(x) for x in leaves],
                                           signatures.origin("closure_convert", fun, in_tree, lambda: out_tree))
    hoisted = [_may_be_differentiated(c) for c in consts]
    values = [c for c, h in zip(consts, hoisted) if h]
    fixed = [None if h else c for c, h in zip(consts, hoisted)]
    count = len(values)

    def converted(*args):
        given = iter(args[len(args) - count:])
        xs, found_tree = tree.flatten(args[:len(args) - count])
        if found_tree != in_tree:
            raise TypeError(f"the inputs of a function that closure_convert made of {name} must have the same pytree "
                            f"structure as its example arguments, {in_tree}, followed by the {count} values that it closed "
                            f"over; it was called with {found_tree}.")
        results = eval_jaxpr(jaxpr, [next(given) if h else c for c, h in zip(fixed, hoisted)], *xs)
        return out_tree.unflatten(results)

    converted.__name__ = converted.__qualname__ = f"closure_convert({name})"
    return converted, values


def _may_be_differentiated(x) -> bool:
    while type(x) is BatchTracer:
        x = x.value
    return isinstance(x, tracing.Tracer) and dtypes.is_inexact(x.dtype)
