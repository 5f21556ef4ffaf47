"""Every primitive has the rules that transformations may need; programs that compute values and tangents together."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

PRIMITIVES = {name: getattr(lax, name) for name in dir(lax) if name.endswith("_p")}

# Their operands or results are booleans and bits, whose tangents are of float0, or they have no operands at all but tokens.
# select_and_scatter_p combines by programs of its own, and no function gives it; the one whose combination is a sum has
# derivatives.
NO_DERIVATIVE = {"iota_p", "reduce_and_p", "reduce_or_p", "reduce_xor_p", "after_all_p", "create_token_p", "select_and_scatter_p",
                 "rng_uniform_p"}
NO_OPERANDS = {"iota_p", "after_all_p", "create_token_p"}
WITHOUT_KEY = {"rng_uniform_p"}  # its numbers would not be independent

# What derivatives of other primitives are made of: linear in an operand.
LINEAR = """add_any add broadcast_in_dim complex concatenate cond conj convert_element_type copy cumsum device_put div dot_general
    dynamic_slice dynamic_update_slice gather imag mul neg pad ragged_dot_general real reduce_precision reduce_sum reduce_window_sum reshape rev
    scan scatter_add scatter_sub select_and_gather_add select_and_scatter_add select_n sharding_constraint slice split squeeze stack stage sub
    transpose unstack while linear_solve""".split()


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_every_primitive_has_its_rules(name):
    p = PRIMITIVES[name]
    assert p.jvp or p.structured.linearize or name in NO_DERIVATIVE
    assert p.batch or p.batch_with_axis or p.mesh.over_axis or name in NO_OPERANDS | WITHOUT_KEY
    assert p.transpose or name.removesuffix("_p") not in LINEAR
    assert p.lowerings or p.impl


def test_the_table_is_of_primitives():
    assert set(LINEAR) <= {name.removesuffix("_p") for name in PRIMITIVES}
    assert NO_DERIVATIVE | NO_OPERANDS <= set(PRIMITIVES)


# A jvp inside of what is linearised or transposed: one program gives values and tangents, and only these are linear.


def _twice(f):
    """`f` with a rule that says twice its derivative, by way of its own jvp."""
    @xf.custom_jvp
    def function(x):
        return f(x)

    @function.defjvp
    def rule(primals, tangents):
        return function(*primals), 2 * xf.jvp(f, primals, tangents)[1]

    return function


MIXED = {
    "jit": (lambda x: xf.jit(lambda y: xnp.sin(y) * y)(x) * x, lambda x: x**2 * np.cos(x) + 2 * x * np.sin(x)),
    "checkpoint": (lambda x: xf.checkpoint(lambda y: xnp.sin(y) * y)(x) * x, lambda x: x**2 * np.cos(x) + 2 * x * np.sin(x)),
    "cond": (lambda x: lax.cond(x > 0, lambda y: y * y, lambda y: y, x) * x, lambda x: 3 * x**2),
    "scan": (lambda x: lax.scan(lambda c, _: (c * x, c), x, None, length=3)[0], lambda x: 4 * x**3),
    "collected": (lambda x: xnp.sum(lax.scan(lambda c, _: (c * x, c * x), x, None, length=2)[1] * x),
                  lambda x: 3 * x**2 + 4 * x**3),
    "counter": (lambda x: lax.fori_loop(1, 4, lambda i, c: xf.jit(lambda d: d * x * i)(c), x), lambda x: 24 * x**3),
    "nested": (lambda x: xf.jit(lambda y: xf.jit(xnp.square)(y) * lax.cond(y > 0, xnp.square, xnp.negative, y))(x) * x,
               lambda x: 5 * x**4),
    "linear solve": (lambda x: lax.custom_linear_solve(lambda v: v * x, x * x * x, lambda _, b: b / x, symmetric=True) * x,
                     lambda x: 3 * x**2),
}


@pytest.mark.parametrize("name", MIXED)
def test_values_and_tangents_from_one_program(name):
    f, derivative = MIXED[name]
    x = 1.25
    with xf.enable_x64(True):
        d = derivative(x)
        for transform in (lambda g: g, xf.jit):
            np.testing.assert_allclose(transform(xf.grad(_twice(f)))(x), 2 * d)
            np.testing.assert_allclose(transform(xf.grad(xf.jit(_twice(f))))(x), 2 * d)
        pulled, = xf.linear_transpose(lambda t: xf.jvp(f, (x,), (t,))[1], x)(3.0)
        np.testing.assert_allclose(pulled, 3 * d)
        pulled, = xf.linear_transpose(lambda t: xf.jit(lambda s: xf.jvp(f, (x,), (s,))[1])(t), x)(3.0)
        np.testing.assert_allclose(pulled, 3 * d)
        np.testing.assert_allclose(xf.vmap(xf.grad(_twice(f)))(np.array([x, 2 * x])), [2 * d, 2 * derivative(2 * x)])
        step = 1e-6
        second = (derivative(x + step) - derivative(x - step)) / (2 * step)
        np.testing.assert_allclose(xf.grad(lambda y: xf.jvp(f, (y,), (1.0,))[1])(x), second, rtol=1e-7)
