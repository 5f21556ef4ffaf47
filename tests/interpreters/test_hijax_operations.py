"""Primitives on composite values, written as classes: mantissas with exponents, which are multiplied and added."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import hijax

FLOAT = hijax.ShapedArray((), np.dtype("float32"))


@dataclass(frozen=True)
class Scaled:
    """`m * 2**e`"""

    m: Any
    e: Any


@dataclass(frozen=True)
class ScaledType(hijax.HiType):
    def lo_ty(self):
        return [FLOAT, FLOAT]

    def lower_val(self, x):
        return [x.m, x.e]

    def raise_val(self, m, e):
        return Scaled(m, e)

    def to_tangent_aval(self):
        return self

    def vspace_zero(self):
        return Scaled(xnp.float32(0), xnp.float32(0))

    def vspace_add(self, x, y):
        return add_p.bind(x, y)

    def str_short(self, short_dtypes=False, mesh_axis_types=False):
        return "scaled"


class Add(hijax.HiPrimitive):
    def abstract_eval(self, x, y):
        return x, set()

    def to_lojax(self, x, y):
        return Scaled(x.m + y.m * 2 ** (y.e - x.e), x.e)

    def jvp(self, primals, tangents):
        return self.bind(*primals), self.bind(*map(hijax.instantiate_zeros, tangents))

    def transpose(self, ct, x, y):
        return ct, ct


class Multiply(hijax.HiPrimitive):
    def abstract_eval(self, x, y):
        return x, set()

    def to_lojax(self, x, y):
        return Scaled(x.m * y.m, x.e + y.e)

    def jvp(self, primals, tangents):
        (x, y), (dx, dy) = primals, map(hijax.instantiate_zeros, tangents)
        return self.bind(x, y), add_p.bind(self.bind(dx, y), self.bind(x, dy))

    def transpose(self, ct, x, y):
        return (None, self.bind(ct, x)) if hijax.is_undefined_primal(y) else (self.bind(ct, y), None)


class Make(hijax.HiPrimitive):
    def abstract_eval(self, m, *, e):
        return ScaledType(), set()

    def to_lojax(self, m, *, e):
        return Scaled(xnp.float32(m), xnp.float32(e))

    def jvp(self, primals, tangents, *, e):
        return self.bind(*primals, e=e), self.bind(*tangents, e=e)

    def transpose(self, ct, m, *, e):
        return [lax.mul(value_p.bind(ct), np.float32(2.0 ** e))]


class Value(hijax.HiPrimitive):
    def abstract_eval(self, x):
        return FLOAT, set()

    def to_lojax(self, x):
        return x.m * 2 ** x.e

    def jvp(self, primals, tangents):
        return self.bind(*primals), self.bind(*tangents)

    def transpose(self, ct, x):
        return [make_p.bind(ct, e=0)]


class Both(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, x):
        return [x, FLOAT], set()

    def to_lojax(self, x):
        return [x, x.m]


hijax.register_hitype(Scaled, lambda x: ScaledType())
add_p, multiply_p, make_p, value_p, both_p = (
    Add("add_scaled"), Multiply("multiply_scaled"), Make("scaled"), Value("value"), Both("both"))
X, Y = Scaled(xnp.float32(3), xnp.float32(2)), Scaled(xnp.float32(5), xnp.float32(1))  # 12 and 10


def value(x):
    return float(x.m * 2 ** x.e)


@pytest.mark.parametrize("run", [lambda f: f, xf.jit, lambda f: xf.jit(xf.jit(f)), xf.checkpoint],
                         ids=["eager", "jit", "jit of jit", "checkpoint"])
def test_values(run):
    assert value(run(multiply_p.bind)(X, Y)) == 120 and value(run(add_p.bind)(X, Y)) == 22
    assert run(lambda m: value_p.bind(make_p.bind(m, e=3)))(2.0) == 16
    again, mantissa = run(both_p.bind)(X)
    assert value(again) == 12 and mantissa == 3


def test_in_control_flow():
    for run in (lambda f: f, xf.jit):
        assert value(run(lambda x: lax.scan(lambda c, _: (multiply_p.bind(c, c), None), x, None, length=2)[0])(X)) == 12 ** 4
        assert value(run(lambda x: lax.fori_loop(0, 3, lambda i, c: add_p.bind(c, x), x))(X)) == 48
        assert value(run(lambda x, y: lax.cond(True, multiply_p.bind, add_p.bind, x, y))(X, Y)) == 120


def test_jaxprs_show_composite_values():
    product = xf.make_jaxpr(multiply_p.bind)(X, Y)
    assert str(product) == "{ lambda ; a:scaled b:scaled. let c:scaled = multiply_scaled a b in (c,) }"
    assert product.in_avals == [ScaledType()] * 2
    assert "lambda a:scaled; b:scaled" in str(xf.make_jaxpr(lambda x: multiply_p.bind(x, Y))(X))
    assert "scaled[e=3]" in str(xf.make_jaxpr(lambda m: value_p.bind(make_p.bind(m, e=3)))(1.0))
    assert xf.eval_shape(multiply_p.bind, X, Y) == ScaledType()
    assert xf.jit(multiply_p.bind).lower(X, Y).as_text().count("stablehlo.multiply") == 1


def test_derivatives():
    def cube(x):
        return value_p.bind(multiply_p.bind(x, multiply_p.bind(x, x)))

    primal, tangent = xf.jvp(multiply_p.bind, (X, Y), (Y, X))
    assert value(primal) == 120 and value(tangent) == 10 ** 2 + 12 ** 2
    for run in (lambda f: f, xf.jit):
        assert value(run(xf.grad(cube))(X)) == 3 * 12 ** 2
        assert run(xf.grad(lambda m: cube(make_p.bind(m, e=1))))(3.0) == 8 * 3 * 3 ** 2
    result, pull_back = xf.vjp(lambda x: multiply_p.bind(x, Y), X)
    assert value(result) == 120 and value(pull_back(X)[0]) == 120
    assert value(xf.grad(lambda x: 1.0)(X)) == 0
    assert xf.linearize(cube, X)[1](Y) == 3 * 12 ** 2 * 10


def test_type_errors():
    with pytest.raises(TypeError, match=r"tangent of argument \[0\].*ScaledType.*float32"):
        xf.jvp(value_p.bind, (X,), (1.0,))
    with pytest.raises(ValueError, match="cotangent.*ScaledType.*float32"):
        xf.vjp(lambda x: x, X)[1](1.0)
    with pytest.raises(NotImplementedError, match="scaled cannot be mapped"):
        xf.vmap(lambda m: both_p.bind(make_p.bind(m, e=1))[1])(xnp.ones(2))
