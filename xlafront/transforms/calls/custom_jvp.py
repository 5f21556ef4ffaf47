"""`custom_jvp`: a function with a derivative rule of its own, in forward mode; reverse mode follows by transposition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import without_dimension
from xlafront.core.ir import DebugInfo
from xlafront.core.linear_util import wrap_init
from xlafront.core.refs import RefTangent
from xlafront.core.zeros import Zero
from xlafront.lax.barriers import stop_gradient
from xlafront.lax.families import add_tangents
from xlafront.lax.zeros import zeros_array
from xlafront.staging import signatures
from xlafront.transforms.calls.custom_calls import (
    CustomCall,
    CustomFunction,
    RefArguments,
    Results,
    Rule,
    all_in_scope,
    as_array,
    as_operand,
    closed_over,
    leaked_in_rule,
    type_text,
)


class SymbolicZero:
    """In rules with `symbolic_zeros=True`: a tangent or cotangent that is zero without having been computed.

    It has the attributes of its type (`shape`, `dtype`, ...). A rule may return one, too.

    >>> SymbolicZero.from_primal_value(xnp.ones((2, 3))).shape
    (2, 3)
    """

    __slots__ = ("aval",)

    def __init__(self, aval):
        self.aval = aval

    def __getattr__(self, name: str):
        return getattr(object.__getattribute__(self, "aval"), name)

    def __repr__(self):
        return f"SymbolicZero({self.aval})"

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """The zero tangent of a value."""
        return SymbolicZero(tracing.aval_of(val).to_tangent_aval())


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of a value, or of each leaf of a tree: zeros (of dtype float0 for integers), or `SymbolicZero`s.

    - `val`: the value, or the tree.
    - `symbolic_zeros`: whether `SymbolicZero`s are made.

    >>> zero_from_primal(xnp.ones(2))
    Array([0., 0.], dtype=float32)
    """
    def zero(x):
        found = SymbolicZero.from_primal_value(x)
        return found if symbolic_zeros else as_array(zeros_array(found.aval))

    return tree.map(zero, val)


class custom_jvp(CustomFunction):
    """A function whose derivative is a rule that you give, in place of the derivative of its operations.

    Decorate the function, then its rule with `defjvp`. The rule gets the arguments and their tangents as two tuples and
    returns the result and its tangent, in which it must be linear: reverse mode is its transpose.

    - `fun`: the function.
    - `nondiff_argnums`, `nondiff_argnames`: arguments that are no arrays, or are held constant; the rule gets them first.

    >>> @xf.custom_jvp
    ... def log1pexp(x):
    ...     return xnp.log(1 + xnp.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), (1 - 1 / (1 + xnp.exp(x))) * t
    >>> xf.grad(log1pexp)(100.0)
    Array(1., dtype=float32, weak_type=True)
    """

    kind = "custom_jvp"
    jvp: Callable | None = None
    symbolic_zeros: bool = False

    def defjvp(self, jvp: Callable, symbolic_zeros: bool = False) -> Callable:
        """Give the rule: `jvp(*nondiff_args, primals, tangents)` returns `(result, tangent of the result)`.

        With `symbolic_zeros`, tangents that are known to be zero come as `SymbolicZero` in place of arrays of zeros.

        >>> square = custom_jvp(lambda x: x * x)
        >>> rule = square.defjvp(lambda primals, tangents: (square(*primals), 2 * primals[0] * tangents[0]))
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable | None) -> None:
        """Give one rule for each argument: `jvp(tangent, result, *primals)`, or None where the derivative is zero.

        >>> square = custom_jvp(lambda x: x * x)
        >>> square.defjvps(lambda t, result, x: 2 * x * t)
        """
        if self.nondiff_argnums:
            raise TypeError(f"defjvps cannot be used with nondiff_argnums, which {self._name} has: each rule belongs to one "
                            f"argument. Write one rule with defjvp.")

        def jvp(primals, tangents):
            if len(jvps) != len(primals):
                raise ValueError(f"{self._name} has {len(primals)} arguments, but defjvps was given {len(jvps)} rules. Give "
                                 f"one for each argument, None where the derivative is zero.")
            result = self(*primals)
            parts = [rule(t, result, *primals) for rule, t in zip(jvps, tangents) if rule is not None]
            if not parts:
                return result, zero_from_primal(result)
            total = parts[0]
            for part in parts[1:]:
                total = tree.map(add_tangents, total, part)
            return result, total

        self.defjvp(jvp)

    def __call__(self, *args, **kwargs):
        rule = self.jvp
        if rule is None:
            raise AttributeError(f"no JVP (derivative rule) is defined for the custom_jvp function {self._name}: give it one "
                                 f"with {self._name}.defjvp(rule) before it is called.")
        args = self.positional(args, kwargs)
        nondiff, differentiable = self.divided(args)
        leaves, in_tree = self.operands(differentiable)
        if self.runs_at_once(leaves):
            result = self.fun(*self.joined(nondiff, in_tree.unflatten(map(as_operand, leaves))))
            signatures.check_results(self.fun, result)
            return result
        fixed, nondiff_of = _traced_leaves(nondiff)
        count = len(fixed)
        results = Results()

        def fun(*xs):
            return results.of_function(self.fun, self.fun(
                *self.joined(nondiff_of(xs[:count]), in_tree.unflatten(map(as_operand, xs[count:])))))

        flat_rule = _flat_rule(self, rule, nondiff_of, count, in_tree, results)
        found = custom_jvp_call_p.bind(
            *fixed, *leaves, fun=Rule(fun, self._name, (self.fun, in_tree, self.nondiff_argnums)),
            jvp_jaxpr_fun=Rule(flat_rule, signatures.function_name(rule)),
            num_consts=0, symbolic_zeros=self.symbolic_zeros)
        return results.unflatten(found)


def _traced_leaves(nondiff: tuple) -> tuple[list[Any], Callable[[Sequence[Any]], tuple]]:
    """The traced arrays among the fixed arguments, held constant; and the arguments as a function of them."""
    if not nondiff:
        return [], lambda xs: nondiff
    leaves, treedef = tree.flatten(nondiff)
    traced = [isinstance(x, tracing.Tracer) for x in leaves]
    if not any(traced):
        return [], lambda xs: nondiff
    def rebuild(xs):
        given = iter(xs)
        return treedef.unflatten([next(given) if t else x for x, t in zip(leaves, traced)])

    return [stop_gradient(x) for x, t in zip(leaves, traced) if t], rebuild


def _flat_rule(function: custom_jvp, rule: Callable, nondiff_of, count: int, in_tree, results: Results):
    symbolic, name = function.symbolic_zeros, function._name
    title = f"the custom_jvp rule {signatures.function_name(rule)} of {name}"

    def flat(primals, tangents):
        try:
            pair = rule(*nondiff_of(primals[:count]), in_tree.unflatten(map(as_operand, primals[count:])),
                        in_tree.unflatten([as_operand(t) if type(t) is float else given_to_rule(t, symbolic)
                                           for t in tangents[count:]]))
        except errors.UnexpectedTracerError as e:
            raise leaked_in_rule(title, e) from e
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{title} must return a pair of the result and its tangent, got "
                            f"{errors.short(pair)} of type {type(pair).__name__}.")
        value, tangent = pair
        outs, out_tree = signatures.check_results(rule, value)
        out_tangents, tangent_tree = tree.flatten(tangent)
        if not all_in_scope(outs) or not all_in_scope(out_tangents):
            raise leaked_in_rule(title)
        results.of_rule(title, name, value, outs, out_tree)
        if tangent_tree != out_tree:
            raise TypeError(f"{title} must return a tangent with the structure of the result: "
                            f"{tree.first_difference(value, tangent)}. The result is {out_tree}, the tangent {tangent_tree}.")
        return outs, [_checked(p, t, title, lambda i=i: tree.path_of(value, i)) for i, (p, t) in enumerate(
            zip(outs, out_tangents))]

    return flat


def given_to_rule(t, symbolic: bool):
    """A tangent or cotangent as rules get it, with or without `symbolic_zeros`."""
    if type(t) is not Zero:
        return as_array(t)
    return SymbolicZero(t.aval) if symbolic else as_array(zeros_array(t.aval))


def taken_from_rule(t):
    """The inverse, for what a wrapped rule gives."""
    return Zero(t.aval) if type(t) is SymbolicZero else t


def _checked(primal, tangent, title: str, path: Callable[[], str]):
    """A tangent from a rule, which must be of the type that belongs to the result."""
    aval = tracing.aval_of(primal)
    expected = aval.to_tangent_aval()
    if isinstance(tangent, (SymbolicZero, Zero)):
        given = tangent.aval
    elif isinstance(tangent, np.ndarray) and tangent.dtype == dtypes.float0:
        given = expected.update(shape=tangent.shape, dtype=dtypes.float0)
    elif not tracing.is_arraylike(tangent):
        raise TypeError(f"{title} returned a tangent at result{path()} that is no array: {errors.short(tangent)} of type "
                        f"{type(tangent).__name__}. It should be {type_text(expected)}.")
    else:
        given = tracing.aval_of(tangent)
        if type(tangent) in (float, complex) and dtypes.is_inexact(expected.dtype) and not expected.shape and (
                type(tangent) is float or dtypes.is_complex(expected.dtype)):
            if expected.weak_type and given.dtype == expected.dtype:
                return tangent
            return np.asarray(tangent, expected.dtype)[()]
    if (given.shape, given.dtype) != (expected.shape, expected.dtype):
        remedy = ("Integers have no derivative: their tangent is numpy.zeros(shape, float0), which "
                  "custom_derivatives.zero_from_primal gives." if expected.dtype == dtypes.float0
                  else "Compute it from the tangents of the arguments, and convert it with astype if need be.")
        raise TypeError(f"{title} must return tangents of the type of the result: at result{path()} the result is {aval}, so "
                        f"its tangent must be {type_text(expected)}, but the rule returned {type_text(given)}. {remedy}")
    return Zero(expected) if isinstance(tangent, SymbolicZero) or expected.dtype == dtypes.float0 else tangent


# The primitive


class _CustomJvpCall(CustomCall):
    __slots__ = ()

    @staticmethod
    def batched(mapped, dims, params):
        rule = params["jvp_jaxpr_fun"]

        def batched_rule(primals, tangents):
            cells = [i for i, t in enumerate(tangents) if type(t) is RefTangent]
            if cells:  # as values, before and after
                refs = RefArguments([i in cells for i in range(len(primals))], cells)
                held = [t.value if type(t) is RefTangent else t for t in tangents]

                def of_values(values, given):
                    inner = [RefTangent(t) if i in cells else t for i, t in enumerate(given)]
                    outs, out_tangents = rule(values, inner)
                    return [*outs, *refs.held(values)], [*out_tangents, *[inner[i].value for i in cells]]

                outs, out_tangents = batched(of_values, primals, held)
                for i, t in zip(cells, out_tangents[-len(cells):]):
                    tangents[i].value = t
                return outs[:-len(cells)], out_tangents[:-len(cells)]
            return batched(rule, primals, tangents)

        def batched(rule, primals, tangents):
            active = [type(t) is not Zero for t in tangents]
            zeros = [Zero(without_dimension(tracing.aval_of(p), d).to_tangent_aval()) for p, d in zip(primals, dims)]
            nonzero: list[bool] = []

            def flat(*xs):
                moving = iter(xs[len(primals):])
                outs, out_tangents = rule(xs[:len(primals)], [next(moving) if a else z for a, z in zip(active, zeros)])
                nonzero[:] = [type(t) is not Zero for t in out_tangents]
                return [*outs, *[t for t in out_tangents if type(t) is not Zero]]

            moving = [t for t in tangents if type(t) is not Zero]
            moving_dims = [d for d, a in zip(dims, active) if a]
            found, found_dims = mapped.apply(flat, [*primals, *moving], [*dims, *moving_dims])
            tangent_dims = iter(found_dims[len(nonzero):])
            pairs = [(d, next(tangent_dims) if nz else None) for d, nz in zip(found_dims, nonzero)]
            mapped.out_dims = [t if d is None else d for d, t in pairs]  # a result and its tangent are batches together
            found = mapped.in_front(found, found_dims)
            outs, rest = found[:len(nonzero)], iter(found[len(nonzero):])
            return outs, [next(rest) if nz else Zero(tracing.aval_of(x).to_tangent_aval()) for x, nz in zip(outs, nonzero)]

        return {"jvp_jaxpr_fun": rule.around(batched_rule)}

    @staticmethod
    def prune(params, used, out_avals):
        rule = params["jvp_jaxpr_fun"]

        def pruned(primals, tangents):
            outs, out_tangents = rule(primals, tangents)
            return ([x for x, keep in zip(outs, used) if keep], [t for t, keep in zip(out_tangents, used) if keep])

        return {"jvp_jaxpr_fun": rule.around(pruned)}

    def on_values(self, params, refs):
        rule = params["jvp_jaxpr_fun"]

        def of_values(primals, tangents):
            made = refs.made_of(primals)
            cells = [RefTangent(t) if mark else t for t, mark in zip(tangents, refs.marks)]
            outs, out_tangents = rule(made, cells)
            return [*outs, *refs.held(made)], [*out_tangents, *[cells[i].value for i in refs.written]]

        return {"jvp_jaxpr_fun": rule.around(of_values)}

    def get_bind_params(self, params):
        """With the function of flat operands, and its rule: `(*operands, *tangents) -> (*results, *their tangents)`."""
        first, symbolic, rule = params["num_consts"], params["symbolic_zeros"], params["jvp_jaxpr_fun"]

        def jvp(*operands):
            half = len(operands) // 2
            outs, tangents = rule(operands[first:half], [taken_from_rule(t) for t in operands[half + first:]])
            return [*outs, *[given_to_rule(t, symbolic) for t in tangents]]

        subfuns = (self.wrapped_function(params), wrap_init(jvp, debug_info=DebugInfo(self.shown_as, rule.name)))
        return {"subfuns": subfuns, "symbolic_zeros": symbolic}

    def of_wrapped(self, subfuns, *, symbolic_zeros):
        fun, jvp = subfuns
        title = f"the custom_jvp rule {jvp.__name__} of {fun.__name__}"

        def rule(primals, tangents):
            found = jvp.call_wrapped(*primals, *[given_to_rule(t, symbolic_zeros) for t in tangents])
            outs, tangents = found[:len(found) // 2], found[len(found) // 2:]
            return outs, [_checked(p, t, title, lambda i=i: f"[{i}]") for i, (p, t) in enumerate(zip(outs, tangents))]

        return {"fun": Rule(fun.call_wrapped, fun.__name__), "jvp_jaxpr_fun": Rule(rule, jvp.__name__), "num_consts": 0,
                "symbolic_zeros": symbolic_zeros}


def _jvp(primals, tangents, *, jvp_jaxpr_fun, num_consts, **params):
    if any(type(t) is not Zero for t in tangents[:num_consts]):
        raise closed_over("custom_jvp", custom_jvp_call_p.name_of(params))
    return jvp_jaxpr_fun(primals[num_consts:], tangents[num_consts:])


custom_jvp_call_p = _CustomJvpCall("custom_jvp_call", "custom_jvp", jvp=_jvp)
