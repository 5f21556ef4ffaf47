"""`custom_vmap`: functions with a custom batching rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import dtypes, tracing, tree
from xlafront.core.basic_primitives import move_dim
from xlafront.core.tangents import instantiate
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import put_leaf
from xlafront.lax.shapes import broadcast_batch
from xlafront.staging import signatures
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.ad.linearize import LinearTrace
from xlafront.transforms.batching.vmap import batch_flat
from xlafront.transforms.calls.custom_calls import (
    CustomCall,
    CustomFunction,
    Results,
    Rule,
    as_array,
    stage_function,
)

if TYPE_CHECKING:
    from xlafront.core.tree import PyTreeDef
    from xlafront.core.typing import Aval, Dims, Marks, Params
    from xlafront.transforms.batching.vmap import BatchTrace
    from xlafront.transforms.calls.custom_calls import RefArguments


class custom_vmap(CustomFunction):
    """A function with a custom batching rule, which replaces the batching of its operations under `vmap`.

    Decorate the function, then decorate its rule with `def_vmap`.

    Args:
        fun: Function to batch with the rule.

    Example:
        >>> @custom_vmap
        ... def solve(a, b):
        ...     return b / a
        >>> @solve.def_vmap
        ... def rule(axis_size, in_batched, a, b):
        ...     a_batched, b_batched = in_batched
        ...     return b / a, a_batched or b_batched
        >>> vmap(solve)(xnp.ones(3), xnp.arange(3.0))
    """

    kind = "custom_vmap"
    vmap_rule: Callable | None = None

    def __init__(self, fun: Callable) -> None:
        super().__init__(fun)

    def def_vmap(self, vmap_rule: Callable) -> Callable:
        """Define the rule `vmap_rule(axis_size, in_batched, *args) -> (results, out_batched)`.

        `in_batched` has, for each argument, a pytree of booleans that flag batched arrays; batches are along the first
        dimension.
        `out_batched` has the same flags for the results.

        Args:
            vmap_rule: The rule.

        Returns:
            The rule.

        Example:
            >>> negative = custom_vmap(lambda x: -x)
            >>> rule = negative.def_vmap(lambda axis_size, in_batched, x: (-x, in_batched[0]))
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rule = self.vmap_rule
        if rule is None:
            raise AttributeError(f"no batching rule is defined for the custom_vmap function {self._name}: give it one with "
                                 f"{self._name}.def_vmap(rule) before it is called.")
        args = self.positional(args, kwargs)
        leaves, in_tree = self.operands(args)
        if self.runs_eagerly(leaves):
            result = self.fun(*in_tree.unflatten(map(as_array, leaves)))
            outputs, out_tree = signatures.check_results(self.fun, result)
            return out_tree.unflatten([put_leaf(x, None) if isinstance(x, int) else as_array(x) for x in outputs])
        results = Results()

        def fun(*xs: tracing.StagedTracer) -> list[Any]:
            return results.record_result(self.fun, self.fun(*in_tree.unflatten(xs)))

        # Trace the function now: the rule's results are checked against its result types.
        closed, consts = stage_function(fun, leaves, signatures.debug_info_of("custom_vmap fun", self.fun, in_tree))
        flat_rule = _flat_rule(rule, self._name, in_tree, results)
        outputs = custom_vmap_call_p.bind(
            *consts, *leaves, call=closed, rule=Rule(flat_rule, signatures.function_name(rule)),
            in_tree=tree.structure(([0] * len(consts), in_tree.unflatten(leaves))), out_tree=results.out_tree)
        return results.unflatten(outputs)


def _flat_rule(rule: Callable, name: str, in_tree: PyTreeDef, recorded: Results) -> Callable:
    """Return the rule on flat values: `(size, batched flags, values) -> (results, batched flags)`."""
    title = f"the custom_vmap rule {signatures.function_name(rule)} of {name}"
    out_tree = recorded.out_tree

    def flat(size: int, batched: Sequence[bool], values: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        pair = rule(size, list(in_tree.unflatten(batched)), *in_tree.unflatten(values))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            kind = ValueError if hasattr(pair, "__len__") else TypeError
            raise kind(
                f"{title} must return a pair of the results and flags of whether each is batched, got {type(pair).__name__}.")
        value, spec = pair
        outs, returned_tree = signatures.check_results(rule, value)
        flags, spec_tree = tree.flatten(spec)
        if spec_tree != returned_tree:
            raise ValueError(f"{title} must return a batched flag for each result: the results are {returned_tree}, the "
                             f"flags are {spec_tree}.")
        if returned_tree != out_tree:
            raise ValueError(f"{title} must return results of the structure that {name} returns, {out_tree}; it returned "
                             f"{returned_tree}.")
        flags = [bool(b) for b in flags]
        for i, (x, b) in enumerate(zip(outs, flags)):
            if b and not np.ndim(x):
                raise IndexError(f"{title} declares that result{tree.path_of(value, i)} is a batch of {size}, along its "
                                 f"first dimension, but it is {tracing.aval_of(x)}, a scalar.")
        return outs, flags

    return flat


# The primitive


class _CustomVmapCall(CustomCall):
    __slots__ = ()

    parameter = "call"

    def number_of_consts(self, params: Params) -> int:
        return params["in_tree"].children()[0].num_leaves

    def _batch(self, trace: BatchTrace, values: Sequence[Any], dims: Dims, **params: Any) -> tuple[Any, Any]:
        num_consts = self.number_of_consts(params)
        if any(d is not None for d in dims[:num_consts]):
            raise ValueError(f"the custom_vmap function {self.name_of(params)} closes over a value that is mapped by vmap, "
                             f"which its rule does not get. Pass the value as an argument.")
        if all(d is None for d in dims):
            results = self.bind(*values, **params)
            return results, [None] * len(results)
        batched = [d is not None for d in dims[num_consts:]]
        arguments = [x if d is None else move_dim(x, d, 0) for x, d in zip(values[num_consts:], dims[num_consts:])]
        results, flags = params["rule"](trace.size, batched, arguments)
        return results, [0 if b else None for b in flags]

    @staticmethod
    def prune(params: Params, used: Marks, out_avals: Sequence[Aval]) -> Params:
        rule = params["rule"]

        def pruned(size: int, batched: Marks, values: Sequence[Any]) -> tuple[list[Any], list[bool]]:
            outs, flags = rule(size, batched, values)
            return [x for x, live in zip(outs, used) if live], [b for b, live in zip(flags, used) if live]

        return {"rule": rule.with_apply(pruned), "out_tree": tree.structure([0] * sum(used))}

    def params_on_values(self, params: Params, refs: RefArguments) -> Params:
        rule = params["rule"]

        def rule_on_values(size: int, batched: Marks, values: Sequence[Any]) -> tuple[list[Any], list[bool]]:
            ref_arguments = refs.make_refs(values)
            outs, flags = rule(size, batched, ref_arguments)
            return [*outs, *refs.read_written(ref_arguments)], [*flags, *[batched[i] for i in refs.written]]

        out_tree = tree.structure([0] * (params["out_tree"].num_leaves + len(refs.written)))
        return {"rule": rule.with_apply(rule_on_values), "out_tree": out_tree}


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """Differentiate the function and its rule: the result is a function with a custom batching rule again.

    In reverse mode, the values come from a call that has the rule, and the linear part from the function's operations.
    """
    function, num_consts = custom_vmap_call_p.callable_of(params), custom_vmap_call_p.number_of_consts(params)
    if isinstance(tracing.thread.trace, LinearTrace):
        return custom_vmap_call_p.bind(*primals, **params), jvp_flat(function, primals, tangents)[1]
    active = [type(t) is not Zero for t in tangents]
    if any(active[:num_consts]):  # the rule does not get closed-over values
        return jvp_flat(function, primals, tangents)
    has_tangent = [v.to_tangent_aval().dtype != dtypes.float0 for v in params["call"].out_avals]
    count = len(primals)

    def fun(*xs: tracing.StagedTracer) -> list[Any]:
        return _with_tangents(function, xs[:count], xs[count:], active, has_tangent)

    nonzero_tangents = [t for t in tangents if type(t) is not Zero]
    closed, consts = stage_function(fun, [*primals, *nonzero_tangents], params["call"].debug_info)
    rule = params["rule"].with_apply(_rule_with_tangents(params["rule"], active[num_consts:], has_tangent))
    arguments = [0] * (count - num_consts + len(nonzero_tangents))
    results = custom_vmap_call_p.bind(
        *consts, *primals, *nonzero_tangents, call=closed, rule=rule,
        in_tree=tree.structure(([0] * (num_consts + len(consts)), arguments)),
        out_tree=tree.structure([0] * (len(has_tangent) + sum(has_tangent))))
    outs, out_tangents = results[:len(has_tangent)], iter(results[len(has_tangent):])
    return outs, [next(out_tangents) if h else Zero(tracing.aval_of(x).to_tangent_aval()) for x, h in zip(outs, has_tangent)]


def _with_tangents(function: Callable, primals: Sequence[Any], nonzero_tangents: Sequence[Any], active: Marks,
                   has_tangent: Marks) -> list[Any]:
    """Return the results, and the tangents of those that can have one."""
    next_tangent = iter(nonzero_tangents)
    tangents = [next(next_tangent) if a else Zero(tracing.aval_of(x).to_tangent_aval()) for x, a in zip(primals, active)]
    outs, out_tangents = jvp_flat(function, primals, tangents)
    return [*outs, *[instantiate(t) for t, h in zip(out_tangents, has_tangent) if h]]


def _rule_with_tangents(rule: Callable, active: Marks, has_tangent: Marks) -> Callable:
    count = len(active)

    def rule_with_tangents(size: int, batched: Marks, values: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        xs, ys = list(values[:count]), list(values[count:])
        flags, active_flags = list(batched[:count]), batched[count:]
        if not any(flags[i] and b for i, b in zip([i for i, a in enumerate(active) if a], active_flags)):
            # No value and its tangent are both batched: apply the rule to single elements, and batch its derivative.
            def apply_to_element(*vs: Any) -> list[Any]:
                return _with_tangents(lambda *inner: rule(size, [False] * count, inner)[0], vs[:count], vs[count:], active,
                                      has_tangent)

            results, dims = batch_flat(apply_to_element, values, [0 if b else None for b in batched], size)
            return [x if d is None else move_dim(x, d, 0) for x, d in zip(results, dims)], [d is not None for d in dims]
        for k, i in enumerate([i for i, a in enumerate(active) if a]):  # batch a value and its tangent together
            if flags[i] and not active_flags[k]:
                ys[k] = broadcast_batch(ys[k], None, size)
            elif active_flags[k] and not flags[i]:
                xs[i], flags[i] = broadcast_batch(xs[i], None, size), True
        out_flags: list[bool] = []

        def apply_rule(*vs: Any) -> list[Any]:
            outs, out_flags[:] = rule(size, flags, vs)
            return outs

        results = _with_tangents(apply_rule, xs, ys, active, has_tangent)
        return results, [*out_flags, *[b for b, h in zip(out_flags, has_tangent) if h]]

    return rule_with_tangents


custom_vmap_call_p = _CustomVmapCall("custom_vmap_call", "custom_vmap", jvp=_jvp)
