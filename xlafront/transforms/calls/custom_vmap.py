"""`custom_vmap`: a function with a batching rule of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tracing, tree
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import put_leaf
from xlafront.lax.shapes import broadcast_batch, move_dim
from xlafront.lax.zeros import instantiate
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


class custom_vmap(CustomFunction):
    """A function that `vmap` maps by a rule that you give, in place of mapping its operations.

    Decorate the function, then its rule with `def_vmap`.

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

    def __init__(self, fun: Callable):
        super().__init__(fun)

    def def_vmap(self, vmap_rule: Callable) -> Callable:
        """Give the rule: `vmap_rule(axis_size, in_batched, *args)` returns `(results, out_batched)`.

        `in_batched` has, for each argument, a tree of whether each array is a batch; batches are along the first dimension.
        `out_batched` says the same of the results.

        >>> negative = custom_vmap(lambda x: -x)
        >>> rule = negative.def_vmap(lambda axis_size, in_batched, x: (-x, in_batched[0]))
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args, **kwargs):
        rule = self.vmap_rule
        if rule is None:
            raise AttributeError(f"no batching rule is defined for the custom_vmap function {self._name}: give it one with "
                                 f"{self._name}.def_vmap(rule) before it is called.")
        args = self.positional(args, kwargs)
        leaves, in_tree = self.operands(args)
        if self.runs_at_once(leaves):
            result = self.fun(*in_tree.unflatten(map(as_array, leaves)))
            found, out_tree = signatures.check_results(self.fun, result)
            return out_tree.unflatten([put_leaf(x, None) if isinstance(x, int) else as_array(x) for x in found])
        results = Results()

        def fun(*xs):
            return results.of_function(self.fun, self.fun(*in_tree.unflatten(xs)))

        # The rule's results are checked against the types of the function's, so it is traced at once.
        closed, consts = stage_function(fun, leaves, signatures.origin("custom_vmap fun", self.fun, in_tree))
        flat_rule = _flat_rule(rule, self._name, in_tree, results)
        found = custom_vmap_call_p.bind(
            *consts, *leaves, call=closed, rule=Rule(flat_rule, signatures.function_name(rule)),
            in_tree=tree.structure(([0] * len(consts), in_tree.unflatten(leaves))), out_tree=results.out_tree)
        return results.unflatten(found)


def _flat_rule(rule: Callable, name: str, in_tree, known: Results):
    """The rule on flat values: `(size, which are batches, values) -> (results, which are batches)`."""
    title = f"the custom_vmap rule {signatures.function_name(rule)} of {name}"
    out_tree = known.out_tree

    def flat(size: int, batched: Sequence[bool], values: Sequence[Any]):
        pair = rule(size, list(in_tree.unflatten(batched)), *in_tree.unflatten(values))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            kind = ValueError if hasattr(pair, "__len__") else TypeError
            raise kind(f"{title} must return a pair of the results and of whether each is a batch, got {type(pair).__name__}.")
        value, spec = pair
        outs, found_tree = signatures.check_results(rule, value)
        flags, spec_tree = tree.flatten(spec)
        if spec_tree != found_tree:
            raise ValueError(f"{title} must say for each result whether it is a batch: the results are {found_tree}, its "
                             f"second value is {spec_tree}.")
        if found_tree != out_tree:
            raise ValueError(f"{title} must return results of the structure that {name} returns, {out_tree}; it returned "
                             f"{found_tree}.")
        flags = [bool(b) for b in flags]
        for i, (x, b) in enumerate(zip(outs, flags)):
            if b and not np.ndim(x):
                raise IndexError(f"{title} says that result{tree.path_of(value, i)} is a batch of {size}, along its first "
                                 f"dimension, but it is {tracing.aval_of(x)}, a scalar.")
        return outs, flags

    return flat


# The primitive


class _CustomVmapCall(CustomCall):
    __slots__ = ()

    parameter = "call"

    def number_of_consts(self, params):
        return params["in_tree"].children()[0].num_leaves

    def batch_with_axis(self, trace, values, dims, **params):
        skip = self.number_of_consts(params)
        if any(d is not None for d in dims[:skip]):
            raise ValueError(f"the custom_vmap function {self.name_of(params)} closes over a value that is mapped by vmap, "
                             f"which its rule does not see. Pass the value as an argument.")
        if all(d is None for d in dims):
            results = self.bind(*values, **params)
            return results, [None] * len(results)
        batched = [d is not None for d in dims[skip:]]
        moved = [x if d is None else move_dim(x, d, 0) for x, d in zip(values[skip:], dims[skip:])]
        results, flags = params["rule"](trace.size, batched, moved)
        return results, [0 if b else None for b in flags]

    @staticmethod
    def prune(params, used, out_avals):
        rule = params["rule"]

        def pruned(size, batched, values):
            outs, flags = rule(size, batched, values)
            return [x for x, keep in zip(outs, used) if keep], [b for b, keep in zip(flags, used) if keep]

        return {"rule": rule.around(pruned), "out_tree": tree.structure([0] * sum(used))}

    def on_values(self, params, refs):
        rule = params["rule"]

        def of_values(size, batched, values):
            made = refs.made_of(values)
            outs, flags = rule(size, batched, made)
            return [*outs, *refs.held(made)], [*flags, *[batched[i] for i in refs.written]]

        out_tree = tree.structure([0] * (params["out_tree"].num_leaves + len(refs.written)))
        return {"rule": rule.around(of_values), "out_tree": out_tree}


def _jvp(primals, tangents, **params):
    """Differentiate the function, and with it the rule: the result is a function with a batching rule again.

    In reverse mode the values come from a call that keeps its rule, and the linear part from the function's operations.
    """
    run, skip = custom_vmap_call_p.run_of(params), custom_vmap_call_p.number_of_consts(params)
    if isinstance(tracing.thread.trace, LinearTrace):
        return custom_vmap_call_p.bind(*primals, **params), jvp_flat(run, primals, tangents)[1]
    active = [type(t) is not Zero for t in tangents]
    if any(active[:skip]):  # the rule does not see what the function closes over
        return jvp_flat(run, primals, tangents)
    has_tangent = [v.to_tangent_aval().dtype != dtypes.float0 for v in params["call"].out_avals]
    count = len(primals)

    def fun(*xs):
        return _with_tangents(run, xs[:count], xs[count:], active, has_tangent)

    moving = [t for t in tangents if type(t) is not Zero]
    closed, consts = stage_function(fun, [*primals, *moving], params["call"].debug_info)
    rule = params["rule"].around(_rule_with_tangents(params["rule"], active[skip:], has_tangent))
    arguments = [0] * (count - skip + len(moving))
    results = custom_vmap_call_p.bind(
        *consts, *primals, *moving, call=closed, rule=rule, in_tree=tree.structure(([0] * (skip + len(consts)), arguments)),
        out_tree=tree.structure([0] * (len(has_tangent) + sum(has_tangent))))
    outs, rest = results[:len(has_tangent)], iter(results[len(has_tangent):])
    return outs, [next(rest) if h else Zero(tracing.aval_of(x).to_tangent_aval()) for x, h in zip(outs, has_tangent)]


def _with_tangents(function, primals, moving, active, has_tangent) -> list[Any]:
    """Results, then the tangents of those that can have one."""
    given = iter(moving)
    tangents = [next(given) if a else Zero(tracing.aval_of(x).to_tangent_aval()) for x, a in zip(primals, active)]
    outs, out_tangents = jvp_flat(function, primals, tangents)
    return [*outs, *[instantiate(t) for t, h in zip(out_tangents, has_tangent) if h]]


def _rule_with_tangents(rule, active, has_tangent):
    count = len(active)

    def both(size, batched, values):
        xs, ys = list(values[:count]), list(values[count:])
        flags, moving_flags = list(batched[:count]), batched[count:]
        if not any(flags[i] and b for i, b in zip([i for i, a in enumerate(active) if a], moving_flags)):
            # No value is a batch together with its tangent: the rule is for one element, its derivative for the batch.
            def one(*vs):
                return _with_tangents(lambda *inner: rule(size, [False] * count, inner)[0], vs[:count], vs[count:], active,
                                      has_tangent)

            results, dims = batch_flat(one, values, [0 if b else None for b in batched], size)
            return [x if d is None else move_dim(x, d, 0) for x, d in zip(results, dims)], [d is not None for d in dims]
        for k, i in enumerate([i for i, a in enumerate(active) if a]):  # a value and its tangent are batches together
            if flags[i] and not moving_flags[k]:
                ys[k] = broadcast_batch(ys[k], None, size)
            elif moving_flags[k] and not flags[i]:
                xs[i], flags[i] = broadcast_batch(xs[i], None, size), True
        out_flags: list[bool] = []

        def elements(*vs):
            outs, out_flags[:] = rule(size, flags, vs)
            return outs

        results = _with_tangents(elements, xs, ys, active, has_tangent)
        return results, [*out_flags, *[b for b, h in zip(out_flags, has_tangent) if h]]

    return both


custom_vmap_call_p = _CustomVmapCall("custom_vmap_call", "custom_vmap", jvp=_jvp)
