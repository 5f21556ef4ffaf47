"""Linear functions with a custom transpose (`linear_call`), and closure conversion (`closure_convert`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.basic_primitives import move_dim
from xlafront.core.primitive import Traits
from xlafront.core.tangents import instantiate
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.shapes import reduce_sum_p
from xlafront.staging import signatures
from xlafront.transforms.batching.vmap import BatchTracer
from xlafront.transforms.calls.custom_calls import CustomCall, Results, Rule

if TYPE_CHECKING:
    from xlafront.core.tracing import Trace
    from xlafront.core.typing import Aval, Dims, Marks, Params
    from xlafront.transforms.calls.custom_calls import BatchContext


def linear_call(fun: Callable, fun_transpose: Callable, residual_args: Any, linear_args: Any) -> Any:
    """Call a function that is linear in its second argument, with a custom transpose.

    Forward-mode differentiation with respect to `linear_args` applies the function to tangents; reverse mode applies the
    transpose
    to cotangents.

    Args:
        fun: Function `fun(residual_args, linear_args)`.
        fun_transpose: Function `fun_transpose(residual_args, cotangent)` that returns the cotangent of `linear_args`.
        residual_args: First argument, a pytree of arrays.
        linear_args: Second argument, a pytree of arrays.

    Returns:
        The result of `fun`.

    Example:
        >>> linear_call(lambda r, x: x / r, lambda r, ct: ct / r, 2.0, 3.0)
        1.5
    """
    name = signatures.function_name(fun)
    leaves = [_flat(x, name) for x in (residual_args, linear_args)]
    residuals, linear = leaves
    residual_tree, linear_tree = tree.structure(residual_args), tree.structure(linear_args)
    count, results = len(residuals), Results()

    def flat(*xs: Any) -> list[Any]:
        return results.record_result(fun, fun(residual_tree.unflatten(xs[:count]), linear_tree.unflatten(xs[count:])))

    title = f"the transpose {signatures.function_name(fun_transpose)} that linear_call was given for {name}"

    def transposed(values: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        cotangents = fun_transpose(residual_tree.unflatten(values), results.unflatten([instantiate(ct) for ct in cts]))
        flat_cts, cts_tree = tree.flatten(cotangents)
        if cts_tree != linear_tree:
            raise TypeError(f"{title} must return cotangents with the structure of the linear arguments, {linear_tree}; it "
                            f"returned {cts_tree}.")
        for i, (ct, aval) in enumerate(zip(flat_cts, avals)):
            if np.shape(ct) != aval.shape:
                raise ValueError(f"{title} must return cotangents of the shapes of the linear arguments: at "
                                 f"linear_args{tree.path_of(linear_args, i)} the argument is {aval}, the rule returned shape "
                                 f"{np.shape(ct)}.")
        return flat_cts

    avals = [tracing.aval_of(x) for x in linear]
    source = fun, tree.structure((residual_args, linear_args)), ()
    outputs = linear_call_p.bind(*residuals, *linear, fun=Rule(flat, name, source), num_callee_consts=0, num_res=count,
                                 transpose_thunk=Rule(transposed, signatures.function_name(fun_transpose)))
    return results.unflatten(outputs)


def _flat(args: Any, name: str) -> list[Any]:
    leaves = tree.leaves(args)
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, f"linear_call of {name}", tree.path_of(args, i))
    return list(leaves)


class _LinearCall(CustomCall):
    __slots__ = ()

    parameter, constants = "callee", "num_callee_consts"

    def _stage(self, trace: Trace, args: Sequence[Any], params: Params) -> Any:
        """Stage the call. Unlike other custom calls, a call on tangents has its rule."""
        return self.stage_call(trace, args, params)

    def _transpose(self, cts: Sequence[Any], *operands: Any, transpose_thunk: Rule, num_callee_consts: int, num_res: int,
                   **params: Any) -> list[Any]:
        """Bind the transpose as another such call, whose transpose is the function."""
        fixed = num_callee_consts + num_res
        function = self.callable_of(params)

        def forward(residuals: Sequence[Any], xs: Sequence[Any]) -> Sequence[Any]:
            return function(*residuals, *xs)

        in_cts = self.bind(
            *operands[:fixed], *[instantiate(ct) for ct in cts], num_callee_consts=0, num_res=fixed,
            fun=transpose_thunk.with_apply(lambda *xs: transpose_thunk(xs[num_callee_consts:fixed], xs[fixed:])),
            transpose_thunk=Rule(forward, self.name_of(params)))
        return [None] * fixed + [ct if is_undefined(x) else None for ct, x in zip(in_cts, operands[fixed:])]

    @staticmethod
    def batched(mapped: BatchContext, dims: Dims, params: Params) -> Params:
        rule, count = params["transpose_thunk"], params["num_res"]

        def transposed(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            in_cts = mapped.apply_and_broadcast(lambda *xs: rule(xs[:count], xs[count:]), [*residuals, *[
                instantiate(ct) for ct in cts]], [*dims[:count], *[0] * len(cts)])
            return [reduce_sum_p.bind(x, axes=(0,), out_sharding=None) if d is None else move_dim(x, 0, d)
                    for x, d in zip(in_cts, dims[count:])]

        return {"transpose_thunk": rule.with_apply(transposed)}

    @staticmethod
    def prune(params: Params, used: Marks, out_avals: Sequence[Aval]) -> Params:
        rule = params["transpose_thunk"]

        def pruned(residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
            used_cts = iter(cts)
            return rule(residuals, [next(used_cts) if live else Zero(aval) for live, aval in zip(used, out_avals)])

        return {"transpose_thunk": rule.with_apply(pruned)}


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    fixed = params["num_callee_consts"] + params["num_res"]
    if any(type(t) is not Zero for t in tangents[:fixed]):
        raise errors.UnexpectedTracerError(
            f"linear_call of {linear_call_p.name_of(params)} is differentiated with respect to its residual arguments or a "
            f"closed-over value, but its transpose covers only the linear arguments. Hold them constant with "
            f"lax.stop_gradient, or give the function a derivative with custom_jvp.")
    linear_tangents = [instantiate(t) for t in tangents[fixed:]]
    results = linear_call_p.bind(*primals, **params)
    out_tangents = linear_call_p.bind(*primals[:fixed], *linear_tangents, **params)
    return results, [Zero(tracing.aval_of(x).to_tangent_aval()) if tracing.aval_of(x).dtype.kind in "biu" else t
                     for x, t in zip(results, out_tangents)]


linear_call_p = _LinearCall("linear_call", "linear_call", jvp=_jvp, traits=Traits(runs_eagerly=True))


# Closures


def closure_convert(fun: Callable, *example_args: Any) -> tuple[Callable, list[Any]]:
    """Convert a function to one that takes the differentiable values that it closes over as arguments.

    Rules of `custom_jvp` and `custom_vjp` need this for functions that are passed to them as arguments.

    Args:
        fun: Function to convert.
        example_args: Arguments with the types of those that the function will be called with.

    Returns:
        A pair `(converted, values)`, where `converted(*args, *values)` is equal to `fun(*args)`.

    Example:
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
    out_tree: Any = None

    def flat(*xs: tracing.StagedTracer) -> list[Any]:
        nonlocal out_tree
        outputs, out_tree = signatures.check_results(fun, fun(*in_tree.unflatten(xs)))
        return outputs

    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, f"closure_convert of {name}", tree.path_of(example_args, i))
    jaxpr, consts = tracing.trace_to_jaxpr(flat, [tracing.aval_of(x) for x in leaves],
                                           signatures.debug_info_of("closure_convert", fun, in_tree, lambda: out_tree))
    hoisted = [_may_be_differentiated(c) for c in consts]
    values = [c for c, h in zip(consts, hoisted) if h]
    fixed = [None if h else c for c, h in zip(consts, hoisted)]
    count = len(values)

    def converted(*args: Any) -> Any:
        next_value = iter(args[len(args) - count:])
        xs, called_tree = tree.flatten(args[:len(args) - count])
        if called_tree != in_tree:
            raise TypeError(f"the inputs of the function that closure_convert returned for {name} must have the same pytree "
                            f"structure as its example arguments, {in_tree}, followed by the {count} values that it closed "
                            f"over; it was called with {called_tree}.")
        closed = jaxpr.with_consts([next(next_value) if h else c for c, h in zip(fixed, hoisted)])
        return out_tree.unflatten(closed(*xs))

    converted.__name__ = converted.__qualname__ = f"closure_convert({name})"
    return converted, values


def _may_be_differentiated(x: Any) -> bool:
    while type(x) is BatchTracer:
        x = x.value
    return isinstance(x, tracing.Tracer) and dtypes.is_inexact(x.dtype)
