"""`custom_jvp`: functions with a custom forward-mode rule, which is transposed for reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import without_dimension
from xlafront.core.ir import DebugInfo
from xlafront.core.refs import RefTangent
from xlafront.core.tangents import add_tangents, zeros_array
from xlafront.core.zeros import Zero
from xlafront.lax.barriers import stop_gradient
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
    closure_error,
    leak_error,
    type_string,
)
from xlafront.transforms.calls.linear_util import wrap_init

if TYPE_CHECKING:
    from xlafront.core.tree import PyTreeDef
    from xlafront.core.typing import Aval, Dims, Marks, Params
    from xlafront.transforms.calls.custom_calls import BatchContext
    from xlafront.transforms.calls.linear_util import WrappedFun


class SymbolicZero:
    """A symbolically zero tangent or cotangent, passed to rules with `symbolic_zeros=True`.

    It has the attributes of its type (`shape`, `dtype`, ...). A rule may also return one.

    Args:
        aval: Type of the zero.

    Example:
        >>> SymbolicZero.from_primal_value(xnp.ones((2, 3))).shape
        (2, 3)
    """

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "aval"), name)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"

    @staticmethod
    def from_primal_value(val: Any) -> SymbolicZero:
        """Return the zero tangent of a value."""
        return SymbolicZero(tracing.aval_of(val).to_tangent_aval())


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """Return the zero tangents of a pytree of values.

    Args:
        val: Value, or pytree of values.
        symbolic_zeros: If True, return `SymbolicZero`s in place of arrays.

    Returns:
        A pytree of zeros, with dtype float0 for integers, or of `SymbolicZero`s.

    Example:
        >>> zero_from_primal(xnp.ones(2))
        Array([0., 0.], dtype=float32)
    """
    def zero(x: Any) -> Any:
        symbolic = SymbolicZero.from_primal_value(x)
        return symbolic if symbolic_zeros else as_array(zeros_array(symbolic.aval))

    return tree.map(zero, val)


class custom_jvp(CustomFunction):
    """A function with a custom derivative rule, which replaces the derivative of its operations.

    Decorate the function, then decorate its rule with `defjvp`. The rule takes the arguments and their tangents as two tuples,
    and
    returns the result and its tangent. The tangent must be linear in the input tangents, because reverse mode transposes the
    rule.

    Args:
        fun: Function to differentiate with the rule.
        nondiff_argnums: Positions of arguments that are not arrays or are held constant. The rule takes them first.
        nondiff_argnames: Names of such arguments.

    Example:
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
    __class_getitem__: Any = classmethod(GenericAlias)  # `custom_jvp[Result]` in annotations
    jvp: Callable | None = None
    symbolic_zeros: bool = False

    def defjvp(self, jvp: Callable, symbolic_zeros: bool = False) -> Callable:
        """Define the rule `jvp(*nondiff_args, primals, tangents) -> (result, tangent of the result)`.

        Args:
            jvp: The rule.
            symbolic_zeros: If True, tangents that are symbolically zero are passed as `SymbolicZero`s and not as arrays of
                zeros.

        Returns:
            The rule.

        Example:
            >>> square = custom_jvp(lambda x: x * x)
            >>> rule = square.defjvp(lambda primals, tangents: (square(*primals), 2 * primals[0] * tangents[0]))
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable | None) -> None:
        """Define a rule for each argument separately.

        Args:
            jvps: A rule `jvp(tangent, result, *primals)` for each argument, or None if the derivative is zero.

        Example:
            >>> square = custom_jvp(lambda x: x * x)
            >>> square.defjvps(lambda t, result, x: 2 * x * t)
        """
        if self.nondiff_argnums:
            raise TypeError(f"defjvps cannot be used with nondiff_argnums, which {self._name} has: each rule belongs to one "
                            f"argument. Define a single rule with defjvp.")

        def jvp(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
            if len(jvps) != len(primals):
                raise ValueError(f"{self._name} has {len(primals)} arguments, but defjvps was given {len(jvps)} rules. Pass "
                                 f"one for each argument, None if the derivative is zero.")
            result = self(*primals)
            terms = [rule(t, result, *primals) for rule, t in zip(jvps, tangents) if rule is not None]
            if not terms:
                return result, zero_from_primal(result)
            total = terms[0]
            for term in terms[1:]:
                total = tree.map(add_tangents, total, term)
            return result, total

        self.defjvp(jvp)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rule = self.jvp
        if rule is None:
            raise AttributeError(f"no JVP (derivative rule) is defined for the custom_jvp function {self._name}: give it one "
                                 f"with {self._name}.defjvp(rule) before it is called.")
        args = self.positional(args, kwargs)
        nondiff, differentiable = self.split_nondiff(args)
        leaves, in_tree = self.operands(differentiable)
        if self.runs_eagerly(leaves):
            result = self.fun(*self.merge_nondiff(nondiff, in_tree.unflatten(map(as_operand, leaves))))
            signatures.check_results(self.fun, result)
            return result
        traced_nondiff, rebuild_nondiff = _traced_leaves(nondiff)
        count = len(traced_nondiff)
        results = Results()

        def fun(*xs: Any) -> list[Any]:
            return results.record_result(self.fun, self.fun(
                *self.merge_nondiff(rebuild_nondiff(xs[:count]), in_tree.unflatten(map(as_operand, xs[count:])))))

        flat_rule = _flat_rule(self, rule, rebuild_nondiff, count, in_tree, results)
        outputs = custom_jvp_call_p.bind(
            *traced_nondiff, *leaves, fun=Rule(fun, self._name, (self.fun, in_tree, self.nondiff_argnums)),
            jvp_jaxpr_fun=Rule(flat_rule, signatures.function_name(rule)),
            num_consts=0, symbolic_zeros=self.symbolic_zeros)
        return results.unflatten(outputs)


def _traced_leaves(nondiff: tuple) -> tuple[list[Any], Callable[[Sequence[Any]], tuple]]:
    """Return the traced leaves of the non-differentiable arguments, held constant, and a function that rebuilds the
    arguments from them."""
    if not nondiff:
        return [], lambda xs: nondiff
    leaves, treedef = tree.flatten(nondiff)
    is_traced = [isinstance(x, tracing.Tracer) for x in leaves]
    if not any(is_traced):
        return [], lambda xs: nondiff

    def rebuild(xs: Sequence[Any]) -> tuple:
        traced_leaves = iter(xs)
        return treedef.unflatten([next(traced_leaves) if t else x for x, t in zip(leaves, is_traced)])

    return [stop_gradient(x) for x, t in zip(leaves, is_traced) if t], rebuild


def _flat_rule(function: custom_jvp, rule: Callable, rebuild_nondiff: Callable, count: int, in_tree: PyTreeDef, results: Results
               ) -> Callable:
    symbolic, name = function.symbolic_zeros, function._name
    title = f"the custom_jvp rule {signatures.function_name(rule)} of {name}"

    def flat(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        try:
            pair = rule(*rebuild_nondiff(primals[:count]), in_tree.unflatten(map(as_operand, primals[count:])),
                        in_tree.unflatten([as_operand(t) if type(t) is float else to_rule_argument(t, symbolic)
                                           for t in tangents[count:]]))
        except errors.UnexpectedTracerError as e:
            raise leak_error(title, e) from e
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{title} must return a pair of the result and its tangent, got "
                            f"{errors.short(pair)} of type {type(pair).__name__}.")
        value, tangent = pair
        outs, out_tree = signatures.check_results(rule, value)
        out_tangents, tangent_tree = tree.flatten(tangent)
        if not all_in_scope(outs) or not all_in_scope(out_tangents):
            raise leak_error(title)
        results.check_rule_result(title, name, value, outs, out_tree)
        if tangent_tree != out_tree:
            raise TypeError(f"{title} must return a tangent with the structure of the result: "
                            f"{tree.first_difference(value, tangent)}. The result is {out_tree}, the tangent {tangent_tree}.")
        return outs, [_check_tangent(p, t, title, lambda i=i: tree.path_of(value, i)) for i, (p, t) in enumerate(
            zip(outs, out_tangents))]

    return flat


def to_rule_argument(t: Any, symbolic: bool) -> Any:
    """Convert a tangent or cotangent to the form that rules take, with or without `symbolic_zeros`."""
    if type(t) is not Zero:
        return as_array(t)
    return SymbolicZero(t.aval) if symbolic else as_array(zeros_array(t.aval))


def from_rule_argument(t: Any) -> Any:
    """Convert a tangent or cotangent of a wrapped rule back to the internal form."""
    return Zero(t.aval) if type(t) is SymbolicZero else t


def _check_tangent(primal: Any, tangent: Any, title: str, path: Callable[[], str]) -> Any:
    """Check that a rule's tangent has the tangent type of the result, and return it."""
    aval = tracing.aval_of(primal)
    expected = aval.to_tangent_aval()
    if isinstance(tangent, (SymbolicZero, Zero)):
        given_aval = tangent.aval
    elif isinstance(tangent, np.ndarray) and tangent.dtype == dtypes.float0:
        given_aval = expected.update(shape=tangent.shape, dtype=dtypes.float0)
    elif not tracing.is_arraylike(tangent):
        raise TypeError(f"{title} returned a tangent at result{path()} that is not an array: {errors.short(tangent)} of type "
                        f"{type(tangent).__name__}. It should be {type_string(expected)}.")
    else:
        given_aval = tracing.aval_of(tangent)
        if type(tangent) in (float, complex) and dtypes.is_inexact(expected.dtype) and not expected.shape and (
                type(tangent) is float or dtypes.is_complex(expected.dtype)):
            if expected.weak_type and given_aval.dtype == expected.dtype:
                return tangent
            return np.asarray(tangent, expected.dtype)[()]
    if (given_aval.shape, given_aval.dtype) != (expected.shape, expected.dtype):
        remedy = ("Integers have no derivative: their tangent is numpy.zeros(shape, float0), as "
                  "custom_derivatives.zero_from_primal returns." if expected.dtype == dtypes.float0
                  else "Compute it from the tangents of the arguments, and convert it with astype if need be.")
        raise TypeError(f"{title} must return tangents of the type of the result: at result{path()} the result is {aval}, so "
                        f"its tangent must be {type_string(expected)}, but the rule returned "
                        f"{type_string(given_aval)}. {remedy}")
    return Zero(expected) if isinstance(tangent, SymbolicZero) or expected.dtype == dtypes.float0 else tangent


# The primitive


class _CustomJvpCall(CustomCall):
    __slots__ = ()

    @staticmethod
    def batched(mapped: BatchContext, dims: Dims, params: Params) -> Params:
        rule = params["jvp_jaxpr_fun"]

        def batched_rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            ref_positions = [i for i, t in enumerate(tangents) if type(t) is RefTangent]
            if ref_positions:  # run the rule on the tangent values of Refs
                refs = RefArguments([i in ref_positions for i in range(len(primals))], ref_positions)
                tangent_values = [t.value if type(t) is RefTangent else t for t in tangents]

                def rule_on_values(values: Sequence[Any], values_in: Sequence[Any]) -> tuple[list[Any], list[Any]]:
                    ref_tangents = [RefTangent(t) if i in ref_positions else t for i, t in enumerate(values_in)]
                    outs, out_tangents = rule(values, ref_tangents)
                    return [*outs, *refs.read_written(values)], [*out_tangents, *[ref_tangents[i].value for i in ref_positions]]

                outs, out_tangents = batched(rule_on_values, primals, tangent_values)
                for i, t in zip(ref_positions, out_tangents[-len(ref_positions):]):
                    tangents[i].value = t
                return outs[:-len(ref_positions)], out_tangents[:-len(ref_positions)]
            return batched(rule, primals, tangents)

        def batched(rule: Callable, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            active = [type(t) is not Zero for t in tangents]
            zeros = [Zero(without_dimension(tracing.aval_of(p), d).to_tangent_aval()) for p, d in zip(primals, dims)]
            nonzero: list[bool] = []

            def flat(*xs: Any) -> list[Any]:
                nonzero_tangents = iter(xs[len(primals):])
                outs, out_tangents = rule(xs[:len(primals)],
                                          [next(nonzero_tangents) if a else z for a, z in zip(active, zeros)])
                nonzero[:] = [type(t) is not Zero for t in out_tangents]
                return [*outs, *[t for t in out_tangents if type(t) is not Zero]]

            nonzero_tangents = [t for t in tangents if type(t) is not Zero]
            nonzero_dims = [d for d, a in zip(dims, active) if a]
            outputs, out_dims = mapped.apply(flat, [*primals, *nonzero_tangents], [*dims, *nonzero_dims])
            tangent_dims = iter(out_dims[len(nonzero):])
            pairs = [(d, next(tangent_dims) if nz else None) for d, nz in zip(out_dims, nonzero)]
            # A result and its tangent are both batched or both unbatched.
            mapped.out_dims = [t if d is None else d for d, t in pairs]
            outputs = mapped.broadcast_to_front(outputs, out_dims)
            outs, nonzero_out = outputs[:len(nonzero)], iter(outputs[len(nonzero):])
            return outs, [next(nonzero_out) if nz else Zero(tracing.aval_of(x).to_tangent_aval())
                          for x, nz in zip(outs, nonzero)]

        return {"jvp_jaxpr_fun": rule.with_apply(batched_rule)}

    @staticmethod
    def prune(params: Params, used: Marks, out_avals: Sequence[Aval]) -> Params:
        rule = params["jvp_jaxpr_fun"]

        def pruned(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            outs, out_tangents = rule(primals, tangents)
            return ([x for x, keep in zip(outs, used) if keep], [t for t, keep in zip(out_tangents, used) if keep])

        return {"jvp_jaxpr_fun": rule.with_apply(pruned)}

    def params_on_values(self, params: Params, refs: RefArguments) -> Params:
        rule = params["jvp_jaxpr_fun"]

        def rule_on_values(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            ref_arguments = refs.make_refs(primals)
            tangents_in = [RefTangent(t) if is_ref else t for t, is_ref in zip(tangents, refs.is_ref)]
            outs, out_tangents = rule(ref_arguments, tangents_in)
            return [*outs, *refs.read_written(ref_arguments)], [*out_tangents, *[tangents_in[i].value for i in refs.written]]

        return {"jvp_jaxpr_fun": rule.with_apply(rule_on_values)}

    def get_bind_params(self, params: Params) -> dict[str, Any]:
        """Return parameters with the flat function and its rule `(*operands, *tangents) -> (*results, *tangents)` as
        `subfuns`."""
        first, symbolic, rule = params["num_consts"], params["symbolic_zeros"], params["jvp_jaxpr_fun"]

        def jvp(*operands: Any) -> list[Any]:
            half = len(operands) // 2
            outs, tangents = rule(operands[first:half], [from_rule_argument(t) for t in operands[half + first:]])
            return [*outs, *[to_rule_argument(t, symbolic) for t in tangents]]

        subfuns = (self.wrapped_function(params), wrap_init(jvp, debug_info=DebugInfo(self.shown_as, rule.name)))
        return {"subfuns": subfuns, "symbolic_zeros": symbolic}

    def params_from_subfuns(self, subfuns: Sequence[WrappedFun], *, symbolic_zeros: bool) -> dict[str, Any]:
        fun, jvp = subfuns
        title = f"the custom_jvp rule {jvp.__name__} of {fun.__name__}"

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Sequence[Any], list[Any]]:
            outputs = jvp.call_wrapped(*primals, *[to_rule_argument(t, symbolic_zeros) for t in tangents])
            outs, tangents = outputs[:len(outputs) // 2], outputs[len(outputs) // 2:]
            return outs, [_check_tangent(p, t, title, lambda i=i: f"[{i}]") for i, (p, t) in enumerate(zip(outs, tangents))]

        return {"fun": Rule(fun.call_wrapped, fun.__name__), "jvp_jaxpr_fun": Rule(rule, jvp.__name__), "num_consts": 0,
                "symbolic_zeros": symbolic_zeros}


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jvp_jaxpr_fun: Rule, num_consts: int, **params: Any
         ) -> tuple[Any, Any]:
    if any(type(t) is not Zero for t in tangents[:num_consts]):
        raise closure_error("custom_jvp", custom_jvp_call_p.name_of(params))
    return jvp_jaxpr_fun(primals[num_consts:], tangents[num_consts:])


custom_jvp_call_p = _CustomJvpCall("custom_jvp_call", "custom_jvp", jvp=_jvp)
