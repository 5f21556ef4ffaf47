"""Discharge rules that other packages register for primitives that take references."""

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.core.effects import ReadEffect, WriteEffect
from xlafront.core.refs import AbstractRef
from xlafront.extend.core import Primitive
from xlafront.interpreters.discharge import discharge_rules, register_discharge_rule

seen = []
scale_p = Primitive("scale_and_add")  # adds k * y to the reference, and returns its former value times y
scale_p.multiple_results = True
scale_p.def_effectful_abstract_eval(lambda ref, y, k: ([y], {ReadEffect(0), WriteEffect(0)}))


@register_discharge_rule(scale_p)
def scale_rule(context, value, y, k):
    seen.append(context)
    return [value + k * y, None], [value * y]


def scaled(x, y):
    ref = xf.new_ref(x)
    [first] = scale_p.bind(ref, y, k=3.0)
    [second] = scale_p.bind(ref, y, k=1.0)
    return ref[...], first, second


def test_operations_on_references_are_applied_in_order():
    x, y = np.float32([2, 3]), np.float32([5, 7])
    for f in (scaled, xf.jit(scaled)):
        for found, expected in zip(f(xnp.asarray(x), xnp.asarray(y)), (x + 4 * y, x * y, (x + 3 * y) * y), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_the_context_of_a_rule():
    xf.jit(scaled).lower(np.ones(2, np.float32), np.ones(2, np.float32))
    context = seen[-1]
    assert context.should_discharge == [True, False] and type(context.in_avals[0]) is AbstractRef
    assert [a.shape for a in (*context.in_avals, *context.out_avals)] == [(2,)] * 3
    assert discharge_rules[scale_p] is scale_rule
