"""Keys distinguish 0, False, 0.0 and -0.0, which are equal in Python, and are equal for NaN, which differs from itself."""

import itertools
from enum import Enum
from functools import partial

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.core.program_key import Keyed, append_equation, program_key, scalar_key, value_key

bfloat16 = np.dtype(xnp.bfloat16).type


class Mode(Enum):
    ONE = 1


def nan():
    return float("nan")  # another object in each call


NUMBERS = [
    lambda: 0, lambda: False, lambda: 0.0, lambda: -0.0, lambda: 0j, lambda: complex(0, -0.0), lambda: complex(-0.0, 0),
    lambda: 1, lambda: True, lambda: 1.0, lambda: 1 + 0j, nan, lambda: complex(nan(), 0), lambda: float("inf"),
    lambda: np.float32(0), lambda: np.float32(-0.0), lambda: np.float64(0), lambda: np.int32(0), lambda: np.int8(0),
    lambda: np.bool_(False), lambda: np.float32(1), lambda: np.float64(1), lambda: np.float32("nan"), lambda: np.float64("nan"),
    lambda: np.complex64(0), lambda: bfloat16(0), lambda: bfloat16(1)]
OTHERS = [
    lambda: "", lambda: None, lambda: "0", lambda: b"0", lambda: (), lambda: [], lambda: int, lambda: float,
    lambda: np.dtype("int32"), lambda: np.dtype("float32"), lambda: Mode.ONE]
ARRAYS = [
    lambda: np.zeros(2, np.float32), lambda: -np.zeros(2, np.float32), lambda: np.zeros(2, np.int32),
    lambda: np.zeros((1, 2), np.float32), lambda: np.zeros((), np.float32), lambda: np.full(2, np.nan, np.float32)]
NESTED = [lambda make=make, wrap=wrap: wrap(make()) for make in (*NUMBERS, *OTHERS) for wrap in (
    lambda x: (x,), lambda x: [x], lambda x: ((x, 2), x))]
VALUES = [*NUMBERS, *OTHERS, *ARRAYS, *NESTED]


def assert_all_differ(keys, again):
    assert keys == again and list(map(hash, keys)) == list(map(hash, again))
    for (i, a), (j, b) in itertools.combinations(enumerate(keys), 2):
        assert a != b, (i, j, a)


def test_keys_of_values_differ_by_type_sign_of_zero_and_shape():
    assert_all_differ([value_key(make()) for make in VALUES], [value_key(make()) for make in VALUES])


def test_scalar_keys_are_those_of_numbers_only():
    assert_all_differ([scalar_key(make()) for make in NUMBERS], [scalar_key(make()) for make in NUMBERS])
    assert [scalar_key(make()) for make in (*OTHERS, *ARRAYS, *NESTED)].count(None) == len([*OTHERS, *ARRAYS, *NESTED])


def test_keyed_values_that_cannot_be_hashed_are_compared_by_identity():
    hashable = [make for make in VALUES if Keyed(make()).is_hashable]
    assert not any(isinstance(make(), (list, np.ndarray)) for make in hashable)
    assert_all_differ([Keyed(make()) for make in hashable], [Keyed(make()) for make in hashable])
    x = np.zeros(2)
    assert Keyed(x) == Keyed(x) != Keyed(np.zeros(2))


def test_other_objects_are_compared_by_their_own_equality():
    f, g = lambda: 0, lambda: 0
    assert value_key((f, 1)) == value_key((f, 1)) != value_key((f, True)) != value_key((g, 1))


LITERALS = [0, False, 0.0, -0.0, nan(), 1, True, 1.0, np.float32(0), np.float32(-0.0), np.float32(1), np.int32(1), np.int8(1)]


def program_of(value):
    return xf.make_jaxpr(lambda x: xnp.where(x > 2, value, x))(np.float32(3)).jaxpr


def test_keys_of_jaxprs_and_equations_differ_by_their_literals():
    for make in (lambda value: xf.make_jaxpr(lambda: value)().jaxpr, lambda value: xf.make_jaxpr(
            lambda: xf.lax.eq(value, value))().jaxpr):
        assert_all_differ([program_key(make(value)) for value in LITERALS], [program_key(make(value)) for value in LITERALS])
    for zero in (0.0, -0.0, nan()):
        assert program_key(program_of(zero)) == program_key(program_of(zero))
    assert program_key(program_of(0.0)) != program_key(program_of(-0.0)) != program_key(program_of(nan()))

    def equation_key(value):
        [eqn] = xf.make_jaxpr(lambda x: xf.lax.mul(x, value))(1.0).eqns
        key = []
        append_equation(eqn, lambda v: v.aval, key)
        return key

    assert equation_key(2.0) == equation_key(2.0) != equation_key(3.0)
    assert equation_key(0.0) != equation_key(-0.0) and equation_key(nan()) == equation_key(nan())


def test_keys_of_equations_differ_by_the_side_of_a_literal():
    def key(f):
        [eqn] = xf.make_jaxpr(f)(1.0).eqns
        entries = []
        append_equation(eqn, lambda v: v.aval, entries)
        return entries

    assert key(lambda x: xf.lax.sub(x, 2.0)) != key(lambda x: xf.lax.sub(2.0, x))


def test_keys_of_jaxprs_do_not_depend_on_names_of_variables_and_functions():
    def key(f, *args):
        return program_key(xf.make_jaxpr(f)(*args).jaxpr)

    x, weak = np.float32(1), 1.0
    assert key(lambda a, b: (a + b, a), x, x) == key(lambda c, d: (c + d, c), x, x) != key(lambda a, b: (a + b, b), x, x)
    assert key(lambda a: a + 1, x) != key(lambda a: a + 1, weak)
    assert key(lambda a: a, x) != key(lambda a, b: a, x, x) != key(lambda a, b: b, x, x)
    loop = partial(xf.lax.fori_loop, 0, 3)
    assert key(lambda a: loop(lambda i, c: c * 2, a), x) == key(lambda a: loop(lambda i, d: d * 2, a), x)
    assert key(lambda a: loop(lambda i, c: c * 0.0, a), x) != key(lambda a: loop(lambda i, c: c * -0.0, a), x)


def test_jaxprs_with_functions_or_effects_inside_have_no_key():
    assert program_key(xf.make_jaxpr(lambda a: xf.pure_callback(np.sin, a, a))(np.float32(1)).jaxpr) is None
    assert program_key(xf.make_jaxpr(lambda a: xf.debug.print("{}", a))(1.0).jaxpr) is None


def test_static_arguments_are_distinguished_in_traces():
    seen = []

    @partial(xf.jit, static_argnums=0)
    def f(value, x):
        seen.append(value)
        return x

    hashable = [make for make in VALUES if Keyed(make()).is_hashable]
    for _ in range(2):
        xf.make_jaxpr(lambda x: [f(make(), x) for make in hashable])(1.0)
        assert [value_key(value) for value in seen] == [value_key(make()) for make in hashable]


@pytest.mark.parametrize("values", [
    (0, False, 0.0, np.float32(0), "", None, ()), (True, 1, 1.0, np.float32(1), (1,)), (nan(), 0.0), (-0.0, 0)])
def test_jit_returns_the_result_for_its_static_argument(values):
    f = xf.jit(lambda x, value: x if value is None or isinstance(value, (str, tuple)) else xnp.asarray(value), static_argnums=1)
    for value in (*values, *values):
        result = f(np.int8(5), value)
        expected = np.int8(5) if value is None or isinstance(value, (str, tuple)) else xnp.asarray(value)
        assert result.dtype == expected.dtype
        assert np.asarray(result).tobytes() == np.asarray(expected).tobytes()


def test_eager_gradients_are_distinguished_by_the_sign_of_a_zero():
    for _ in range(3):  # the third call runs compiled
        for c in (0.0, -0.0):
            assert np.signbit(xf.grad(lambda x: xnp.sin(x) * c)(1.0)) == np.signbit(c)
