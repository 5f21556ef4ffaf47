"""Eager gradients that recur run as one compiled program, with the same results."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.api import eager_pullback


@pytest.fixture(autouse=True)
def fresh():
    eager_pullback._compiled.clear()
    yield
    eager_pullback._compiled.clear()


def compiled() -> int:
    return sum(f is not None for f in eager_pullback._compiled.values())


def loss(w, x):
    return (xnp.tanh(x @ w["a"]) * w["b"]).sum() + w["unused"] * 0


def parameters(scale):
    return {"a": scale * np.ones((3, 2), np.float32), "b": 2.0 * scale, "unused": np.float32(1)}


def expected(w, x):
    t = np.tanh(x @ w["a"])
    return {"a": x.T @ ((1 - t**2) * w["b"]), "b": t.sum(), "unused": 0}


def test_the_same_gradients_every_time():
    x = np.arange(6, dtype=np.float32).reshape(2, 3) / 7
    for step in range(5):
        w = parameters(0.1 * (step + 1))
        found = xf.grad(loss)(w, x)
        xf.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected(w, x))
        assert found["b"].weak_type and not found["a"].weak_type
        assert compiled() == (step > 0)


def test_other_shapes_and_other_paths_are_other_programs():
    f = lambda x: (x * 2 if x.sum() > 0 else xnp.sin(x) * x).sum()  # noqa: E731
    for x in (np.ones(3, np.float32), -np.ones(3, np.float32), np.ones(4, np.float32)) * 3:
        value = np.full_like(x, 2) if x.sum() > 0 else np.cos(x) * x + np.sin(x)
        np.testing.assert_allclose(xf.grad(f)(x), value, rtol=1e-6)
    assert compiled() == 3


def test_constants_of_the_program_are_part_of_its_key():
    for factor in (2.0, 2.0, 3.0, 3.0, 2.0):
        assert xf.grad(lambda x, factor=factor: x * factor)(1.0) == factor


def test_pullbacks_of_users_see_values():
    @xf.custom_vjp
    def f(x):
        return x * x

    seen = []

    def backward(x, ct):
        seen.append(float(x))  # works on values only
        return (ct * x if x > 0 else ct * 0,)

    f.defvjp(lambda x: (f(x), x), backward)
    for x in (1.0, -2.0, 3.0):
        assert xf.grad(f)(x) == max(x, 0)
    assert seen == [1.0, -2.0, 3.0] and compiled() == 0


def test_vjp_functions_and_several_cotangents():
    y, pullback = xf.vjp(lambda a, b: (a * b, xnp.sin(a)), 2.0, 3.0)
    for ct in ((1.0, 0.0), (0.0, 1.0), (2.0, 5.0)):
        np.testing.assert_allclose(pullback(ct), (3 * ct[0] + np.cos(2) * ct[1], 2 * ct[0]), rtol=1e-6)


def test_settings_that_want_single_operations():
    for _ in range(3):
        with xf.debug_nans(True), pytest.raises(FloatingPointError):
            xf.grad(lambda x: xnp.sqrt(x) * 0)(0.0)
        with xf.disable_jit():
            assert xf.grad(lambda x: x * x)(3.0) == 6
    assert compiled() == 0


def test_the_number_of_programs_is_bounded(monkeypatch):
    monkeypatch.setattr(eager_pullback._compiled, "limit", 4)
    for n in range(1, 9):
        xf.grad(lambda x: x.sum())(np.ones(n, np.float32))
    assert len(eager_pullback._compiled) <= 4
