"""`custom_vjp`: a function with a reverse-mode rule of its own, as two functions: forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import with_dimension, without_dimension
from xlafront.core.ir import DebugInfo, ReadEffect, RefEffect, effects_by_operand, eval_jaxpr
from xlafront.core.linear_util import wrap_init
from xlafront.core.primitive import Primitive
from xlafront.core.refs import RefTangent
from xlafront.core.tree import map as tree_map
from xlafront.core.wrapping import wraps
from xlafront.core.zeros import Zero
from xlafront.lax.elementwise import convert_element_type_p
from xlafront.lax.shapes import move_dim, reduce_sum_p
from xlafront.runtime import config
from xlafront.staging import signatures
from xlafront.transforms.ad.linearize import LinearTrace
from xlafront.transforms.calls.custom_calls import (
    CustomCall,
    CustomFunction,
    Mapped,
    Results,
    Rule,
    all_in_scope,
    as_operand,
    closed_over,
    leaked_in_rule,
    stage_function,
)
from xlafront.transforms.calls.custom_jvp import SymbolicZero, given_to_rule, taken_from_rule
from xlafront.transforms.calls.custom_vjp_remat import forward_or_function


class CustomVJPPrimal:
    """In forward rules with `symbolic_zeros=True`: an argument, and whether it is differentiated.

    >>> CustomVJPPrimal(2.0, perturbed=False).value
    2.0
    """

    __slots__ = ("value", "perturbed")

    def __init__(self, value: Any, perturbed: bool):
        self.value = value
        self.perturbed = perturbed

    def __eq__(self, other):
        return isinstance(other, CustomVJPPrimal) and (self.value, self.perturbed) == (other.value, other.perturbed)

    def __repr__(self):
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed!r})"


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values in a tree of `CustomVJPPrimal`s.

    - `tree`: the tree, as forward rules with `symbolic_zeros=True` get it.

    >>> custom_vjp_primal_tree_values({"w": xf.custom_derivatives.CustomVJPPrimal(3.0, True)})
    {'w': 3.0}
    """
    def value(leaf):
        if type(leaf) is not CustomVJPPrimal:
            raise TypeError(f"custom_vjp_primal_tree_values takes a tree of CustomVJPPrimal, found a leaf of type "
                            f"{type(leaf).__name__}: {errors.short(leaf)}.")
        return leaf.value

    return tree_map(value, tree)


class custom_vjp(CustomFunction):
    """A function whose reverse-mode derivative is a rule that you give, in place of that of its operations.

    Decorate the function, then give its two rules with `defvjp`. It cannot be differentiated in forward mode (`jvp`).

    - `fun`: the function.
    - `nondiff_argnums`, `nondiff_argnames`: arguments that are no arrays; the forward rule gets them in their places, the
      backward rule gets them first.

    >>> @xf.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda residuals, ct: (xnp.clip(ct, -1.0, 1.0),))
    >>> xf.grad(lambda x: 5 * clip_gradient(x))(2.0)
    Array(1., dtype=float32, weak_type=True)
    """

    kind = "custom_vjp"
    fwd: Callable | None = None
    bwd: Callable | None = None
    symbolic_zeros: bool = False
    optimize_remat: bool = False

    def defvjp(self, fwd: Callable, bwd: Callable, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Give the rules.

        - `fwd(*args)` returns `(result, residuals)`; the residuals are a pytree of what the backward rule needs.
        - `bwd(*nondiff_args, residuals, cotangent)` returns a tuple with a cotangent for each argument; None is zero.
        - `symbolic_zeros`: `fwd` gets `CustomVJPPrimal`s that say which arguments are differentiated, and cotangents known
          to be zero come as `SymbolicZero`.
        - `optimize_remat`: where the residuals turn out not to be needed, the function runs in place of `fwd`.

        >>> sin = custom_vjp(xnp.sin)
        >>> sin.defvjp(lambda x: (xnp.sin(x), x), lambda x, ct: (xnp.cos(x) * ct,))
        """
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros, self.optimize_remat = symbolic_zeros, optimize_remat

    def __call__(self, *args, **kwargs):
        if self.fwd is None or self.bwd is None:
            raise AttributeError(f"no VJP (rules fwd and bwd) is defined for the custom_vjp function {self._name}: give it "
                                 f"them with {self._name}.defvjp(fwd, bwd) before it is called.")
        args = self.positional(args, kwargs)
        nondiff, differentiable = self.divided(args)
        self._check_nondiff(nondiff)
        leaves, in_tree = self.operands(differentiable)
        if self.runs_at_once(leaves):
            result = self.fun(*self.joined(nondiff, in_tree.unflatten(map(as_operand, leaves))))
            signatures.check_results(self.fun, result)
            return result
        results = Results()

        def fun(*xs):
            return results.of_function(self.fun, self.fun(*self.joined(nondiff, in_tree.unflatten(map(as_operand, xs)))))

        written = self.fun, in_tree, self.nondiff_argnums
        forward = Forward(_flat_fwd(self, nondiff, in_tree, results), signatures.function_name(self.fwd), self.optimize_remat)
        found = custom_vjp_call_p.bind(
            *leaves, fun=Rule(fun, self._name, written), fwd_jaxpr_thunk=forward, num_consts=0,
            symbolic_zeros=self.symbolic_zeros,
            bwd=Rule(results.pull_back, signatures.function_name(self.bwd)), out_trees=results.trees)
        return results.unflatten(found)

    def _check_nondiff(self, nondiff: tuple) -> None:
        for leaf in tree.leaves(nondiff) if nondiff else ():
            if isinstance(leaf, tracing.Tracer):
                raise errors.UnexpectedTracerError(
                    f"the custom_vjp function {self._name} got a traced array (Tracer) of type {leaf.aval} for one of its "
                    f"nondiff_argnums {self.nondiff_argnums}. Those are for values that no transformation sees, such as "
                    "functions and options: pass arrays as ordinary arguments, and return None for their cotangents.")


class Forward(Rule):
    """A forward rule: `(primals, which are differentiated) -> (results, residuals, pullback)`. With `optimize_remat` it and the
    function are one operation, of which what is needed is run."""

    __slots__ = ("optimize_remat",)

    def __init__(self, apply: Callable, name: str, optimize_remat: bool):
        super().__init__(apply, name)
        self.optimize_remat = optimize_remat

    def around(self, apply: Callable) -> Forward:
        return Forward(apply, self.name, self.optimize_remat)


def _flat_fwd(function: custom_vjp, nondiff: tuple, in_tree, results: Results):
    """The rules on flat values: `(primals, which are differentiated) -> (results, residuals, pullback)`."""
    fwd, bwd, symbolic, name = function.fwd, function.bwd, function.symbolic_zeros, function._name
    title = f"custom_vjp, fwd: the forward rule {signatures.function_name(fwd)} of {name}"

    def flat(primals, perturbed):
        arrays = map(as_operand, primals)
        given = [CustomVJPPrimal(x, p) for x, p in zip(arrays, perturbed)] if symbolic else list(arrays)
        try:
            pair = fwd(*function.joined(nondiff, in_tree.unflatten(given)))
        except errors.UnexpectedTracerError as e:
            raise leaked_in_rule(title, e) from e
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{title} must return a pair of the result and the residuals for the backward rule, got "
                            f"{errors.short(pair)} of type {type(pair).__name__}.")
        value, residuals = pair
        outs, out_tree = signatures.check_results(fwd, value)
        results.of_rule(title, name, value, outs, out_tree)
        saved, residual_tree = tree.flatten(residuals)
        for i, x in enumerate(saved):
            if not tracing.is_arraylike(x):
                raise TypeError(f"{title} returned residuals that are not arrays: residuals{tree.path_of(residuals, i)} is "
                                f"{errors.short(x)} of type {type(x).__name__}. Values that the backward rule needs and that "
                                f"are no arrays go into nondiff_argnums.")
        if not all_in_scope(outs) or not all_in_scope(saved):
            raise leaked_in_rule(title)
        avals = [tracing.aval_of(x) for x in primals]
        pullback = _flat_bwd(function, bwd, nondiff, in_tree, avals, residual_tree, out_tree)
        results.residual_tree, results.pullback = residual_tree, pullback
        return outs, list(saved), pullback

    return flat


def _flat_bwd(function: custom_vjp, bwd, nondiff, in_tree, avals, residual_tree, out_tree):
    """The backward rule on flat values: `(residuals, cotangents) -> cotangents of the arguments`, with `Zero`s."""
    symbolic = function.symbolic_zeros
    title = f"custom_vjp, bwd: the backward rule {signatures.function_name(bwd)} of {function._name}"

    def path(index: int) -> str:
        return function.argument_path(tree.numbered(in_tree), index)

    def pullback(residuals, cts):
        cotangent = out_tree.unflatten([given_to_rule(ct, symbolic) for ct in cts])
        try:
            found = bwd(*nondiff, residual_tree.unflatten(residuals), cotangent)
        except errors.UnexpectedTracerError as e:
            raise leaked_in_rule(title, e) from e
        found_cts = _broadcast_cotangents(found, in_tree, title)
        if not all_in_scope(found_cts):
            raise leaked_in_rule(title)
        return [_checked(ct, aval, title, lambda i=i: path(i)) for i, (ct, aval) in enumerate(zip(found_cts, avals))]

    return pullback


def _broadcast_cotangents(found: Any, in_tree, title: str) -> list[Any]:
    """The leaves of what a backward rule returned; None stands for zeros in a whole subtree."""
    if isinstance(found, list):
        found = tuple(found)
    leaves, treedef = tree.flatten(found, lambda x: isinstance(x, (SymbolicZero, Zero)))
    if treedef == in_tree:
        return leaves
    expected = tree.numbered(in_tree)
    if not isinstance(found, tuple) or len(found) != len(expected):
        what = f"{errors.short(found)} of type {type(found).__name__}"
        if isinstance(found, tuple):
            what = f"a tuple of {len(found)}"
        raise TypeError(f"{title} must produce a tuple of cotangents, one (or None, for zero) for each of the {len(expected)} "
                        f"differentiable argument(s) of the function, its length and container (pytree) structure; got {what}.")
    result: list[Any] = []
    for i, (ct, part) in enumerate(zip(found, expected)):
        _place(ct, part, f"[{i}]", result, title)
    return result


def _place(ct, part, path: str, result: list[Any], title: str) -> None:
    """Add to `result` the leaves of a cotangent, for the part of the arguments that it is of."""
    if ct is None:
        result.extend([None] * tree.structure(part).num_leaves)
        return
    if tree.structure(part) == tree.structure(0):  # (an empty container has one node, too)
        if tree.treedef_is_leaf(tree.structure(ct, lambda x: isinstance(x, (SymbolicZero, Zero)))):
            result.append(ct)
            return
        raise TypeError(f"{title} must return cotangents with the structure of the arguments: at output{path} it "
                        f"returned {tree.structure(ct)} for an argument that is an array.")
    if type(ct) not in tree.registered_nodes and tracing.is_arraylike(ct):  # for all that is in an argument
        result.extend([ct] * tree.structure(part).num_leaves)
        return
    mine: list[Any] = []
    theirs: list[Any] = [None]
    mine_aux, aux = None, 0
    try:
        mine, mine_aux = tree.flatten_one_level_with_keys(ct)
        theirs, aux = tree.flatten_one_level_with_keys(part)
    except ValueError:
        pass
    mine, theirs = list(mine), list(theirs)
    if type(ct) is not type(part) or mine_aux != aux or len(mine) != len(theirs):
        raise TypeError(f"{title} must return cotangents with the structure of the arguments: at output{path} it returned "
                        f"{tree.structure(ct)}, the argument is {tree.structure(part)}.")
    for (key, x), (_, y) in zip(mine, theirs):
        _place(x, y, f"{path}{key}", result, title)


def _checked(ct, aval, title: str, path: Callable[[], str]):
    expected = aval.to_tangent_aval()
    if ct is None or isinstance(ct, Zero) or expected.dtype == dtypes.float0:
        return Zero(expected)

    if isinstance(ct, SymbolicZero):
        given = ct.aval
    elif isinstance(ct, np.ndarray) and ct.dtype == dtypes.float0:
        given = expected.update(shape=ct.shape)
        ct = Zero(expected)
    elif not tracing.is_arraylike(ct):
        raise TypeError(f"{title} returned a cotangent for argument {path()} that is no array: {errors.short(ct)} of type "
                        f"{type(ct).__name__}. It should be {expected}, or None for zero.")
    else:
        given = tracing.aval_of(ct)
    if given.shape != expected.shape and not config.disable_bwd_checks.value:
        raise ValueError(f"{title} must return cotangents of the shapes of the arguments: argument {path()} is {aval}, but the "
                         f"rule returned {given} for it. Sum over dimensions that the function broadcasts.")
    if isinstance(ct, (SymbolicZero, Zero)):
        return Zero(expected)
    if given.dtype == expected.dtype:
        return ct
    if dtypes.is_inexact(given.dtype) and not isinstance(ct, (float, np.generic)):
        return ct  # of another precision: left to the program, as it may keep gradients in another than its arguments
    if not isinstance(ct, tracing.Tracer) and np.ndim(ct) == 0:
        return np.asarray(ct).astype(expected.dtype)[()]
    return convert_element_type_p.bind(ct, new_dtype=expected.dtype, weak_type=False, sharding=None)


# The primitives


class _CustomVjpCall(CustomCall):
    __slots__ = ()

    writes_constants = True

    @staticmethod
    def batched(mapped, dims, params):
        rule = params["fwd_jaxpr_thunk"]

        def batched_fwd(primals, perturbed):
            count, pullback = 0, None

            def flat(*xs):
                nonlocal count, pullback
                outs, residuals, pullback = rule(xs, perturbed)
                count = len(outs)
                return [*outs, *residuals]

            found, found_dims = mapped.apply(flat, primals, dims)
            mapped.out_dims = found_dims[:count]
            outs = mapped.in_front(found[:count], found_dims)
            return outs, found[count:], _batched_pullback(mapped, pullback, found_dims[count:], dims, mapped.out_dims)

        return {"fwd_jaxpr_thunk": rule.around(batched_fwd)}

    @staticmethod
    def prune(params, used, out_avals):
        rule = params["fwd_jaxpr_thunk"]
        zeros = [Zero(aval.to_tangent_aval()) for aval in out_avals]

        def pruned(primals, perturbed):
            outs, residuals, pullback = rule(primals, perturbed)

            def wider(values, cts):
                given = iter(cts)
                return pullback(values, [next(given) if keep else zero for keep, zero in zip(used, zeros)])

            return [x for x, keep in zip(outs, used) if keep], residuals, wider

        return {"fwd_jaxpr_thunk": rule.around(pruned)}

    def on_values(self, params, refs):
        rule = params["fwd_jaxpr_thunk"]

        def of_values(primals, perturbed):
            made = refs.made_of(primals)
            outs, residuals, pullback = rule(made, [p and not mark for p, mark in zip(perturbed, refs.marks)])

            def narrower(values, cts):
                return pullback(values, cts[:len(cts) - len(refs.written)])

            return [*outs, *refs.held(made)], residuals, narrower

        return {"fwd_jaxpr_thunk": rule.around(of_values)}

    def get_bind_params(self, params):
        """With the function of flat operands, and its rules: `fwd` takes each operand and whether it is differentiated, and
        returns `(*residuals, *results)`, `bwd` takes residuals and cotangents. `out_trees()`, after `fwd`, says how many."""
        first, symbolic, forward = params["num_consts"], params["symbolic_zeros"], params["fwd_jaxpr_thunk"]
        rules = Results()

        def fwd(*operands):
            outs, residuals, rules.pullback = forward(operands[2 * first::2], operands[2 * first + 1::2])
            rules.avals = [tracing.aval_of(x).to_tangent_aval() for x in operands[:2 * first:2]]
            rules.tree_of_rule, rules.residual_tree = tree.structure(list(outs)), tree.structure(list(residuals))
            return [*residuals, *outs]

        def bwd(*residuals_and_cotangents):
            found = rules.pull_back(*map(taken_from_rule, residuals_and_cotangents))
            return [given_to_rule(ct, symbolic) for ct in (*map(Zero, rules.avals), *found)]

        def out_trees():
            return (*rules.trees(), [None] * rules.residual_tree.num_leaves)

        wrapped = [wrap_init(f, debug_info=DebugInfo(self.shown_as, name)) for f, name in (
            (fwd, forward.name), (bwd, params["bwd"].name))]
        return {"subfuns": (self.wrapped_function(params), *wrapped), "out_trees": out_trees, "symbolic_zeros": symbolic}

    def of_wrapped(self, subfuns, *, out_trees, symbolic_zeros):
        fun, fwd, bwd = subfuns
        title, rules = f"the backward rule {bwd.__name__} of {fun.__name__}", Results()

        def forward(primals, perturbed):
            found = iter(fwd.call_wrapped(*[x for pair in zip(primals, perturbed) for x in pair]))
            rules.tree_of_rule, rules.residual_tree, forwarded = out_trees()  # residuals that are operands are not returned
            residuals = [next(found) if i is None else primals[i] for i in forwarded]
            avals = [tracing.aval_of(x) for x in primals]

            def pullback(residuals, cts):
                cts = bwd.call_wrapped(*residuals, *[given_to_rule(ct, symbolic_zeros) for ct in cts])
                return [_checked(ct, aval, title, lambda i=i: f"[{i}]") for i, (ct, aval) in enumerate(zip(cts, avals))]

            rules.pullback = pullback
            return list(found), residuals, pullback

        return {"fun": Rule(fun.call_wrapped, fun.__name__), "fwd_jaxpr_thunk": Forward(forward, fwd.__name__, False),
                "num_consts": 0, "symbolic_zeros": symbolic_zeros, "bwd": Rule(rules.pull_back, bwd.__name__),
                "out_trees": rules.trees}


def _batched_pullback(mapped, pullback, residual_dims, in_dims, out_dims):
    """Pull batches of cotangents back; those of an argument that is the same for all elements are summed.

    Of a result that is the same for all elements, which is taken from one of them, every element has the whole cotangent.
    """
    def batched(residuals, cts):
        nonzero: list[bool] = []
        zeros: list[Zero] = []
        given = [ct if d is not None else reduce_sum_p.bind(ct, axes=(0,), out_sharding=None)
                 for ct, d in zip(cts, out_dims) if type(ct) is not Zero]
        given_dims = [None if d is None else 0 for ct, d in zip(cts, out_dims) if type(ct) is not Zero]
        element_zeros = [Zero(without_dimension(ct.aval, 0)) if type(ct) is Zero else None for ct in cts]

        def flat(*xs):
            moving = iter(xs[len(residuals):])
            found = pullback(xs[:len(residuals)], [next(moving) if z is None else z for z in element_zeros])
            nonzero[:] = [type(ct) is not Zero for ct in found]
            zeros[:] = [ct for ct in found if type(ct) is Zero]
            return [ct for ct in found if type(ct) is not Zero]

        found = iter(mapped.apply_in_front(flat, [*residuals, *given], [*residual_dims, *given_dims]))
        absent = iter(zeros)
        results = []
        for nz, d in zip(nonzero, in_dims):
            if not nz:
                aval = next(absent).aval
                results.append(Zero(aval if d is None else with_dimension(aval, d, mapped.size)))
            elif d is None:
                results.append(reduce_sum_p.bind(next(found), axes=(0,), out_sharding=None))
            else:
                results.append(move_dim(next(found), 0, d))
        return results

    return batched


def _without_references(operands: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The tangents without those of references, of which rules know nothing: what depends on the arguments they say of values
    alone. What the call writes to a reference is a constant from then on."""
    if not any([type(t) is RefTangent for t in tangents]):
        return list(tangents)
    closed = params["call_jaxpr"] if "call_jaxpr" in params else stage_function(
        params["fun"], operands, DebugInfo("custom_vjp fun", params["fun"].name))[0]
    shift = len(closed.in_avals) - len(operands)  # what it closes over comes first
    for effect in effects_by_operand(closed, -shift):
        if isinstance(effect, RefEffect) and type(effect) is not ReadEffect and isinstance(effect.ref, int) and effect.ref >= 0:
            cell = tangents[effect.ref]
            if type(cell) is RefTangent:
                cell.value = Zero(tracing.aval_of(operands[effect.ref]).to_tangent_aval())
    return [Zero(tracing.aval_of(x).to_tangent_aval()) if type(t) is RefTangent else t for x, t in zip(operands, tangents)]


def _jvp(primals, tangents, *, fwd_jaxpr_thunk, bwd, num_consts, symbolic_zeros, out_trees, **params):
    tangents, name = _without_references(primals, tangents, params), custom_vjp_call_p.name_of(params)
    if any(type(t) is not Zero for t in tangents[:num_consts]):
        raise closed_over("custom_vjp", name)
    consts, primals, tangents = primals[:num_consts], primals[num_consts:], tangents[num_consts:]
    active = [type(t) is not Zero for t in tangents]
    trace = tracing.thread.trace
    # The forward rule works on values alone: outside of the program in tangents.
    with tracing.current_trace(trace.parent if isinstance(trace, LinearTrace) else trace):
        if fwd_jaxpr_thunk.optimize_remat and tracing.is_tracing():
            outs, residuals, pullback = forward_or_function(fwd_jaxpr_thunk, custom_vjp_call_p.run_of(params), consts, primals,
                                                            active, name)
        else:
            outs, residuals, pullback = fwd_jaxpr_thunk(primals, active)
    out_avals = tuple([tracing.aval_of(x).to_tangent_aval() for x in outs])
    found = custom_lin_p.bind(
        *residuals, *[t for t in tangents if type(t) is not Zero], num_res=len(residuals), bwd=bwd.around(pullback),
        in_zeros=tuple(not a for a in active), out_avals=out_avals, symbolic_zeros=symbolic_zeros, name=name)
    return outs, [Zero(aval) if aval.dtype == dtypes.float0 else t for t, aval in zip(found, out_avals)]


custom_vjp_call_p = _CustomVjpCall("custom_vjp_call", "custom_vjp", jvp=_jvp)


# The derivative of a custom_vjp function: linear, known only by its transpose


def _forward_mode(*_, name, **params):
    raise TypeError(f"can't apply forward-mode autodiff (jvp, jacfwd, or the function that linearize returns) to {name}, a "
                    "custom_vjp function: it says how cotangents are pulled back, so that forward-mode can't be applied. Use "
                    "reverse mode (grad, vjp, jacrev), or define its derivative with custom_jvp, which serves both.")


def _lin_transpose(cts, *operands, num_res, bwd, in_zeros, **_):
    found = bwd(operands[:num_res], cts)
    return [None] * num_res + [ct for ct, zero in zip(found, in_zeros) if not zero]


class _CustomLin(Primitive):
    __slots__ = ()

    def batch_with_axis(self, trace, values, dims, *, num_res, bwd, in_zeros, out_avals, **params):
        moving = iter(dims[num_res:])
        in_dims = [None if zero else next(moving) for zero in in_zeros]
        pullback = _batched_pullback(Mapped(trace), bwd, dims[:num_res], in_dims, [0] * len(out_avals))
        batches = tuple([aval.update(shape=(trace.size, *aval.shape)) for aval in out_avals])
        results = self.bind(*values, num_res=num_res, bwd=bwd.around(pullback), in_zeros=in_zeros, out_avals=batches,
                            **params)
        return results, [0] * len(results)


custom_lin_p = _CustomLin(
    "custom_lin", multiple_results=True, memoise=False, shown_as="the derivative of a custom_vjp function",
    abstract=lambda *_, out_avals, **params: list(out_avals), lower=lambda ctx, *xs, **params: _forward_mode(**params),
    impl=_forward_mode, jvp=lambda primals, tangents, **params: _forward_mode(**params), transpose=_lin_transpose)
custom_lin_p.runs_eagerly = custom_lin_p.ref_primitive = custom_lin_p.pulls_back_zeros = True


# custom_gradient


def custom_gradient(fun: Callable) -> custom_vjp:
    """A function whose reverse-mode rule is written inside it: `fun(*args)` returns `(result, pullback)`.

    `pullback(ct)` returns the cotangents of the arguments, as a tuple when there are several. It may use anything that
    the function has computed. Arguments with defaults that a call leaves out have no cotangents; none is given by keyword.

    >>> @xf.custom_gradient
    ... def square(x):
    ...     return x ** 2, lambda ct: 2 * x * ct
    >>> xf.grad(square)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    @wraps(fun)
    def value_of(*args):
        return _pair(fun, args)[0]

    del value_of.__wrapped__  # its arguments are those of a call: the rule knows nothing of the function's defaults
    wrapped = custom_vjp(value_of)

    def fwd(*args):
        value, rule = _pair(fun, args)
        leaves, out_tree = signatures.check_results(fun, value)
        cts_tree = None

        def flat_rule(*cts):
            nonlocal cts_tree
            cotangents = rule(out_tree.unflatten(cts))
            if not isinstance(cotangents, (tuple, list)) and len(args) == 1:
                cotangents = (cotangents,)
            flat, cts_tree = tree.flatten(cotangents)
            return flat

        jaxpr, consts = tracing.trace_to_jaxpr(flat_rule, [tracing.aval_of(x).to_tangent_aval() for x in leaves])
        return value, _Residuals(consts, jaxpr, cts_tree)

    def bwd(residuals, cotangent):
        return residuals.tree.unflatten(eval_jaxpr(residuals.jaxpr, residuals.consts, *tree.leaves(cotangent)))

    fwd.__name__ = bwd.__name__ = signatures.function_name(fun)
    wrapped.defvjp(fwd, bwd)
    return wrapped


def _pair(fun: Callable, args: Sequence[Any]) -> tuple[Any, Callable]:
    pair = fun(*args)
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not callable(pair[1]):
        raise TypeError(f"the custom_gradient function {signatures.function_name(fun)} must return a pair of its result and a "
                        f"function that pulls cotangents back, got {errors.short(pair)} of type {type(pair).__name__}.")
    return pair[0], pair[1]


class _Residuals:
    """A traced pullback: its program, and the values that it closes over."""

    def __init__(self, consts, jaxpr, tree):
        self.consts, self.jaxpr, self.tree = consts, jaxpr, tree


tree.register_pytree_node(_Residuals, lambda r: (tuple(r.consts), (r.jaxpr, r.tree)),
                          lambda static, consts: _Residuals(list(consts), *static))
