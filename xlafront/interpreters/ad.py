"""JVP and transpose rules of primitives.

A JVP rule is `rule(primals, tangents, **params) -> (result, tangent)`, with `Zero` for symbolic zero tangents. A transpose rule
is `rule(cotangent, *operands, **params)`, with an `UndefinedPrimal` for each operand in which the primitive is linear; it
returns a cotangent, a `Zero` or None for each operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base.missing_names import missing
from xlafront.core import source, tracing
from xlafront.core.basic_primitives import add_any_p
from xlafront.core.ir import Jaxpr
from xlafront.core.primitive import Primitive
from xlafront.core.tangents import instantiate, zeros_array
from xlafront.core.zeros import UndefinedPrimal as UndefinedPrimal, Zero as Zero, is_undefined
from xlafront.interpreters.registries import Registry, arrays
from xlafront.lax import families
from xlafront.transforms.ad import backward_logs, transpose
from xlafront.transforms.ad.jvp import JVPTrace as JVPTrace, JVPTracer as JVPTracer, jvp_flat, jvp_of_call, jvp_program
from xlafront.transforms.ad.linearize import linearize_flat
from xlafront.transforms.ad.transpose import transpose_of_call
from xlafront.transforms.calls.custom_calls import as_operand
from xlafront.transforms.calls.linear_util import WrappedFun, wrap_init


class _WithoutAux:
    """A differentiated function of flat arguments, whose auxiliary output is stored in `aux`."""

    def __init__(self, fun, has_aux: bool):
        self.call = fun.call_wrapped if isinstance(fun, WrappedFun) else fun
        self.has_aux, self.aux = has_aux, None

    def __call__(self, *args):
        with source.transformed("jvp"):
            results = self.call(*args)
        if self.has_aux:
            results, self.aux = results
        return results


def _adapt_jvp(primitive: Primitive, rule: Callable) -> Callable:
    def jvp(primals, tangents, **params):
        return rule(tuple(map(as_operand, primals)), tuple(map(as_operand, tangents)), **params)

    return jvp


def _adapt_transpose(primitive: Primitive, rule: Callable) -> Callable:
    def adapted(cotangents, *operands, **params):
        if primitive.multiple_results:
            return rule(arrays(cotangents), *arrays(operands), **params)
        cotangent, *operands = arrays([cotangents, *operands])
        return rule(cotangent, *operands, **params)

    return adapted


primitive_jvps = Registry("primitive_jvps", "jvp", _adapt_jvp, of_calls=jvp_of_call)
primitive_transposes = Registry("primitive_transposes", "transpose", _adapt_transpose, of_calls=transpose_of_call)
add_jaxvals_p = add_any_p


def is_undefined_primal(x: Any) -> bool:
    """Return True if an operand of a transpose rule is one in which the primitive is linear, and False if it is a value.

    Args:
        x: Operand.

    Returns:
        True or False.

    Example:
        >>> is_undefined_primal(3.0)
        False
    """
    return is_undefined(x)


def zeros_like_aval(aval):
    """Return an array of zeros of a type.

    Example:
        >>> zeros_like_aval(xf.core.ShapedArray((2,), "float32"))
        Array([0., 0.], dtype=float32)
    """
    return zeros_array(aval)


def instantiate_zeros(tangent: Any) -> Any:
    """Return a tangent as an array, also if it is a symbolic `Zero`.

    Args:
        tangent: Tangent.

    Returns:
        The array.

    Example:
        >>> instantiate_zeros(xf.interpreters.ad.Zero(xf.core.ShapedArray((2,), "float32")))
        Array([0., 0.], dtype=float32)
    """
    return instantiate(tangent)


def add_jaxvals(x, y):
    """Return the sum of two tangents or cotangents of one type.

    Example:
        >>> add_jaxvals(1.0, 2.0)
        Array(3., dtype=float32, weak_type=True)
    """
    return families.add_tangents(x, y)


def add_tangents(x, y):
    """Return the sum of two tangents or cotangents, each of which may be a symbolic `Zero`.

    Example:
        >>> add_tangents(Zero(xf.typeof(1.0)), 2.0)
        2.0
    """
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    return families.add_tangents(x, y)


def get_primitive_transpose(p: Primitive) -> Callable:
    """Return the transpose rule of a primitive, or raise an error that says how to define one.

    Example:
        >>> rule = get_primitive_transpose(xf.lax.neg_p)
    """
    rule = primitive_transposes.of(p)
    if rule is None:
        raise NotImplementedError(f"the primitive {p} has no transpose rule, which reverse-mode differentiation needs: define "
                                  f"one with xlafront.interpreters.ad.primitive_transposes[{p}] = rule.")
    return rule


# Rules from per-operand functions


def _zero_of(value):
    return Zero(tracing.aval_of(value).to_tangent_aval())


def defjvp(primitive: Primitive, *jvprules: Callable | None) -> None:
    """Register a JVP rule from one function per operand: `rule(tangent, *primals, **params)`, or None for a zero derivative.

    Example:
        >>> square_p = xf.extend.core.Primitive("my_square")
        >>> defjvp(square_p, lambda g, x: 2 * x * g)
    """
    defjvp2(primitive, *[None if rule is None else _without_result(rule) for rule in jvprules])


def _without_result(rule):
    return lambda g, result, *primals, **params: rule(g, *primals, **params)


def defjvp2(primitive: Primitive, *jvprules: Callable | None) -> None:
    """Register a JVP rule as `defjvp` does, from functions that also take the result.

    The functions are `rule(tangent, result, *primals, **params)`.

    Example:
        >>> exp_p = xf.extend.core.Primitive("my_exp")
        >>> defjvp2(exp_p, lambda g, result, x: g * result)
    """
    def jvp(primals, tangents, **params):
        result = primitive.bind(*primals, **params)
        terms = [rule(g, result, *primals, **params) for rule, g in zip(jvprules, tangents)
                 if rule is not None and type(g) is not Zero]
        total = _zero_of(result)
        for term in terms:
            total = add_tangents(total, term)
        return result, total

    primitive_jvps[primitive] = jvp


def deflinear(primitive: Primitive, transpose_rule: Callable) -> None:
    """Register the rules of a linear primitive; `transpose_rule(cotangent, **params)` returns a list of cotangents.

    Example:
        >>> double_p = xf.extend.core.Primitive("double")
        >>> deflinear(double_p, lambda ct: [2 * ct])
    """
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Callable) -> None:
    """Register rules as `deflinear` does, from a rule that also takes the operands.

    The rule is `transpose_rule(cotangent, *operands, **params)`.

    Example:
        >>> triple_p = xf.extend.core.Primitive("triple")
        >>> deflinear2(triple_p, lambda ct, x: [3 * ct])
    """
    def jvp(primals, tangents, **params):
        results = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return results, [_zero_of(r) for r in results] if primitive.multiple_results else _zero_of(results)
        return results, primitive.bind(*[instantiate_zeros(t) for t in tangents], **params)

    def transpose_known(cotangents, *operands, **params):
        given = cotangents if primitive.multiple_results else [cotangents]
        if all(type(ct) is Zero for ct in given):
            return [Zero(x.aval) if is_undefined(x) else None for x in operands]
        return transpose_rule(cotangents, *operands, **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_known


def defbilinear(prim: Primitive, lhs_rule: Callable, rhs_rule: Callable) -> None:
    """Register the rules of a primitive that is linear in each of two operands.

    `lhs_rule(cotangent, x, y, **params)` returns the cotangent of x, `rhs_rule` that of y.

    Example:
        >>> outer_p = xf.extend.core.Primitive("times")
        >>> defbilinear(outer_p, lambda ct, x, y: ct * y, lambda ct, x, y: ct * x)
    """
    def transpose_either(ct, x, y, **params):
        if is_undefined(x) == is_undefined(y):
            raise TypeError(f"the transpose of {prim} needs one operand that is linear and one that is known.")
        if is_undefined(x):
            return Zero(x.aval) if type(ct) is Zero else lhs_rule(ct, x, y, **params), None
        return None, Zero(y.aval) if type(ct) is Zero else rhs_rule(ct, x, y, **params)

    defjvp(prim, lambda g, x, y, **params: prim.bind(g, y, **params), lambda g, x, y, **params: prim.bind(x, g, **params))
    primitive_transposes[prim] = transpose_either


# Whole functions


def jvp(fun: Any, primals: Sequence[Any] | None = None, tangents: Sequence[Any] | None = None, has_aux: bool = False,
        instantiate: bool | Sequence[bool] = True, transform_stack: bool = True):
    """Return the results and tangents of a function of flat arguments; tangents may be `Zero`.

    Without `primals`, return the wrapped function of `(primals, tangents)`.

    Example:
        >>> results, moves = jvp(lambda x: [x * x], [3.0], [1.0])
        >>> float(moves[0])
        6.0
    """
    if primals is None:
        return wrap_init(lambda ps, ts: jvp(fun, ps, ts, has_aux, instantiate, transform_stack),
                         debug_info=getattr(fun, "debug_info", None))
    flat = _WithoutAux(fun, has_aux)
    out, out_tangents = jvp_flat(flat, primals, tangents)
    forced = [instantiate] * len(out) if isinstance(instantiate, bool) else instantiate
    out_tangents = [instantiate_zeros(t) if force else t for t, force in zip(out_tangents, forced)]
    return (out, out_tangents, flat.aux) if has_aux else (out, out_tangents)


def linearize(traceable: Any, primals_ft: Sequence[Any], has_aux: bool = False, is_vjp: bool = False,
              in_nzs: Sequence[bool] | None = None):
    """Linearize a function of flat arguments, in those marked in `in_nzs`; the tangents of others count as zero.

    Return `(results, types of the output tangents, jaxpr of the linear map, values of its constants)`, and the auxiliary output
    with `has_aux`.

    Example:
        >>> results, types, program, consts = linearize(lambda x: [x * x], [3.0])
    """
    flat = _WithoutAux(traceable, has_aux)
    primals = list(primals_ft)
    results, linear = linearize_flat(flat, primals, [True] * len(primals) if in_nzs is None else list(in_nzs))

    def pushforward(*tangents):
        return [instantiate_zeros(t) for t in linear.apply(tangents)]

    jaxpr, consts = tracing.trace_to_jaxpr(pushforward, [tracing.aval_of(x).to_tangent_aval() for x in primals])
    linearized = (results, linear.out_avals, jaxpr, consts)
    return (*linearized, flat.aux) if has_aux else linearized


# Jaxprs


def jvp_jaxpr(jaxpr: Jaxpr, nonzeros: Sequence[bool], instantiate: bool | Sequence[bool]
              ) -> tuple[Jaxpr, list[bool]]:
    """Return the JVP of a jaxpr as a jaxpr.

    Args:
        jaxpr: Jaxpr to differentiate.
        nonzeros: True for each input that has a tangent. The tangents follow the inputs.
        instantiate: True for each result whose tangent is returned even if it is zero; one bool for all.

    Returns:
        The jaxpr, which returns the results and the nonzero tangents, and for each result whether its tangent is returned.

    Example:
        >>> program, nonzero = jvp_jaxpr(xf.make_jaxpr(lambda x, y: (x * y, y))(1.0, 2.0), [True, False], False)
        >>> nonzero
        [True, False]
    """
    forced = (instantiate,) * len(jaxpr.out_avals) if isinstance(instantiate, bool) else tuple(instantiate)
    return jvp_program(jaxpr, tuple(nonzeros), forced if any(forced) else ())


def backward_pass(jaxpr: Jaxpr, transform_stack: bool, consts: Sequence[Any], primals_in: Sequence[Any],
                  cts_in: Sequence[Any], *, return_logs: bool = False) -> Any:
    """Transpose a jaxpr that is linear in some of its inputs.

    Args:
        jaxpr: Jaxpr to transpose.
        transform_stack: Accepted for compatibility; equations keep their name scopes.
        consts: Values of the constants of an open jaxpr.
        primals_in: For each input its value, or an `UndefinedPrimal` if the jaxpr is linear in it.
        cts_in: Cotangents of the results, `Zero` where there is none.
        return_logs: If True, also return the logs of backward rules.

    Returns:
        The cotangent of each input, `Zero` where there is none; `(cotangents, logs)` with `return_logs`.

    Example:
        >>> program = xf.make_jaxpr(lambda x, y: x * y)(1.0, 2.0)
        >>> cts = backward_pass(program, False, [], [UndefinedPrimal(xf.typeof(1.0)), 3.0], [2.0])
        >>> float(cts[0]), type(cts[1]).__name__
        (6.0, 'Zero')
    """
    linear = [is_undefined(x) for x in primals_in]
    known = [(v, x) for v, x, lin in zip(jaxpr.invars, primals_in, linear) if not lin]
    program = jaxpr.replace(constvars=[*jaxpr.constvars, *[v for v, _ in known]],
                            invars=[v for v, lin in zip(jaxpr.invars, linear) if lin])
    values = [*(jaxpr.consts or consts), *[x for _, x in known]]
    with backward_logs.collect(return_logs) as logs:
        found = iter(transpose.backward_pass(*transpose.evaluate_known(program, values), cts_in))
    cts = [next(found) if lin else _zero_of(x) for x, lin in zip(primals_in, linear)]
    return (cts, logs) if return_logs else cts


def __getattr__(name: str) -> Any:
    raise missing(__name__, name, globals())
