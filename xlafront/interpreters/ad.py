"""Derivative and transpose rules of primitives.

A jvp rule is `rule(primals, tangents, **params) -> (result, tangent)`, with `Zero` for tangents that vanish. A
transpose rule is `rule(cotangent, *operands, **params)`, with an `UndefinedPrimal` for each operand that the operation is
linear in; it returns a cotangent, a `Zero` or None for each operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import source, tracing
from xlafront.core.linear_util import WrappedFun, wrap_init
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import UndefinedPrimal as UndefinedPrimal, Zero as Zero, is_undefined
from xlafront.interpreters.registries import Registry, arrays
from xlafront.lax import families
from xlafront.lax.families import add_any_p
from xlafront.lax.zeros import instantiate, zeros_array
from xlafront.transforms.ad.jvp import JVPTrace as JVPTrace, JVPTracer as JVPTracer, jvp_flat, jvp_of_call
from xlafront.transforms.ad.linearize import linearize_flat
from xlafront.transforms.ad.transpose import transpose_of_call
from xlafront.transforms.calls.custom_calls import as_operand


class _AuxApart:
    """A function of flat arguments that is differentiated, without what it returns besides its results, which is kept in
    `aux`."""

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
    def transpose(cotangents, *operands, **params):
        if primitive.multiple_results:
            return rule(arrays(cotangents), *arrays(operands), **params)
        cotangent, *operands = arrays([cotangents, *operands])
        return rule(cotangent, *operands, **params)

    return transpose


primitive_jvps = Registry("primitive_jvps", "jvp", _adapt_jvp, of_calls=jvp_of_call)
primitive_transposes = Registry("primitive_transposes", "transpose", _adapt_transpose, of_calls=transpose_of_call)
add_jaxvals_p = add_any_p


def is_undefined_primal(x: Any) -> bool:
    """In a transpose rule: is this the operand that the operation is linear in, rather than a value?

    - `x`: the operand.

    >>> is_undefined_primal(3.0)
    False
    """
    return is_undefined(x)


def zeros_like_aval(aval):
    """The zero of a type, as an array.

    >>> zeros_like_aval(xf.core.ShapedArray((2,), "float32"))
    Array([0., 0.], dtype=float32)
    """
    return zeros_array(aval)


def instantiate_zeros(tangent: Any) -> Any:
    """A tangent as an array, also when it is a symbolic `Zero`.

    - `tangent`: the tangent.

    >>> instantiate_zeros(xf.interpreters.ad.Zero(xf.core.ShapedArray((2,), "float32")))
    Array([0., 0.], dtype=float32)
    """
    return instantiate(tangent)


def add_jaxvals(x, y):
    """The sum of two tangents or cotangents of one type.

    >>> add_jaxvals(1.0, 2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    return families.add_tangents(x, y)


def add_tangents(x, y):
    """As `add_jaxvals`, where each may be a symbolic `Zero`.

    >>> add_tangents(Zero(xf.typeof(1.0)), 2.0)
    2.0
    """
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    return families.add_tangents(x, y)


def get_primitive_transpose(p: Primitive) -> Callable:
    """The transpose rule of a primitive, or an error that says how to give it one.

    >>> rule = get_primitive_transpose(xf.lax.neg_p)
    """
    rule = primitive_transposes.of(p)
    if rule is None:
        raise NotImplementedError(f"the primitive {p} has no transpose rule, as reverse-mode differentiation needs: give it "
                                  f"one with xlafront.interpreters.ad.primitive_transposes[{p}] = rule.")
    return rule


# Rules from pieces


def _zero_of(value):
    return Zero(tracing.aval_of(value).to_tangent_aval())


def defjvp(primitive: Primitive, *jvprules: Callable | None) -> None:
    """Derivative rule from one piece per operand: `piece(tangent, *primals, **params)`, None where it is zero.

    >>> square_p = xf.extend.core.Primitive("my_square")
    >>> defjvp(square_p, lambda g, x: 2 * x * g)
    """
    defjvp2(primitive, *[None if rule is None else _without_result(rule) for rule in jvprules])


def _without_result(rule):
    return lambda g, result, *primals, **params: rule(g, *primals, **params)


def defjvp2(primitive: Primitive, *jvprules: Callable | None) -> None:
    """As `defjvp`, for pieces that also take the result: `piece(tangent, result, *primals, **params)`.

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
    """Say that a primitive is linear: its derivative is itself; `transpose_rule(cotangent, **params)` gives a list.

    >>> double_p = xf.extend.core.Primitive("double")
    >>> deflinear(double_p, lambda ct: [2 * ct])
    """
    deflinear2(primitive, lambda ct, *operands, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Callable) -> None:
    """As `deflinear`, for a rule that also takes the operands: `transpose_rule(cotangent, *operands, **params)`.

    >>> triple_p = xf.extend.core.Primitive("triple")
    >>> deflinear2(triple_p, lambda ct, x: [3 * ct])
    """
    def jvp(primals, tangents, **params):
        results = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return results, [_zero_of(r) for r in results] if primitive.multiple_results else _zero_of(results)
        return results, primitive.bind(*[instantiate_zeros(t) for t in tangents], **params)

    def transpose(cotangents, *operands, **params):
        given = cotangents if primitive.multiple_results else [cotangents]
        if all(type(ct) is Zero for ct in given):
            return [Zero(x.aval) if is_undefined(x) else None for x in operands]
        return transpose_rule(cotangents, *operands, **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose


def defbilinear(prim: Primitive, lhs_rule: Callable, rhs_rule: Callable) -> None:
    """Say that a primitive is linear in each of its two operands; `lhs_rule(cotangent, x, y, **params)` gives that of x.

    >>> outer_p = xf.extend.core.Primitive("times")
    >>> defbilinear(outer_p, lambda ct, x, y: ct * y, lambda ct, x, y: ct * x)
    """
    def transpose(ct, x, y, **params):
        if is_undefined(x) == is_undefined(y):
            raise TypeError(f"the transpose of {prim} needs one operand that is linear and one that is known.")
        if is_undefined(x):
            return Zero(x.aval) if type(ct) is Zero else lhs_rule(ct, x, y, **params), None
        return None, Zero(y.aval) if type(ct) is Zero else rhs_rule(ct, x, y, **params)

    defjvp(prim, lambda g, x, y, **params: prim.bind(g, y, **params), lambda g, x, y, **params: prim.bind(x, g, **params))
    primitive_transposes[prim] = transpose


# Whole functions


def jvp(fun: Any, primals: Sequence[Any] | None = None, tangents: Sequence[Any] | None = None, has_aux: bool = False,
        instantiate: bool | Sequence[bool] = True, transform_stack: bool = True):
    """Results and tangents of a function of flat arguments; tangents may be `Zero`.

    Without `primals` it returns the wrapped function of `(primals, tangents)`.

    >>> results, moves = jvp(lambda x: [x * x], [3.0], [1.0])
    >>> float(moves[0])
    6.0
    """
    if primals is None:
        return wrap_init(lambda ps, ts: jvp(fun, ps, ts, has_aux, instantiate, transform_stack),
                         debug_info=getattr(fun, "debug_info", None))
    flat = _AuxApart(fun, has_aux)
    out, out_tangents = jvp_flat(flat, primals, tangents)
    wanted = [instantiate] * len(out) if isinstance(instantiate, bool) else instantiate
    out_tangents = [instantiate_zeros(t) if w else t for t, w in zip(out_tangents, wanted)]
    return (out, out_tangents, flat.aux) if has_aux else (out, out_tangents)


def linearize(traceable: Any, primals_ft: Sequence[Any], has_aux: bool = False, is_vjp: bool = False):
    """Results of a function of flat arguments, the types of its tangents, and its derivative there as a program.

    Returns `(results, result tangent types, program, values of its constants)`, and what else the function returns with
    `has_aux`.

    >>> results, types, program, consts = linearize(lambda x: [x * x], [3.0])
    """
    flat = _AuxApart(traceable, has_aux)
    primals = list(primals_ft)
    results, linear = linearize_flat(flat, primals, [True] * len(primals))

    def pushforward(*tangents):
        return [instantiate_zeros(t) for t in linear.apply(tangents)]

    program, consts = tracing.trace_to_jaxpr(pushforward, [tracing.aval_of(x).to_tangent_aval() for x in primals])
    found = (results, linear.out_avals, program, consts)
    return (*found, flat.aux) if has_aux else found
