"""Minimization of functions with known minima, against SciPy; options; invalid arguments."""

import numpy as np
import pytest
import scipy.optimize

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.scipy.optimize import OptimizeResults, minimize

LBFGS = "l-bfgs-experimental-do-not-rely-on-this"
METHODS = ("BFGS", LBFGS)
WEIGHTS = np.arange(1.0, 4)


def rosenbrock(x):
    return xnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def far(x):
    return xnp.sum(WEIGHTS * (x - 1e4) ** 2)


def bowl(x):
    return xnp.sum(WEIGHTS * (x - 1) ** 2)


CASES = {  # function, start, minimum
    "rosenbrock": (rosenbrock, [-1.2, 1.0], [1, 1]),
    "rosenbrock in 6 dimensions": (rosenbrock, [0.0] * 6, [1] * 6),
    "himmelblau": (himmelblau, [1.0, 1.0], [3, 2]),
    "far": (far, [0.0] * 3, [1e4] * 3),
}


@pytest.mark.parametrize("method", METHODS)
def test_steps_whose_curvature_has_no_inverse_in_the_dtype(method):
    """A product of a step and a change of the gradient below 1.5e-5 has no inverse in float16."""
    found = minimize(lambda x: xnp.sum((x - 1) ** 2), xnp.array([0, 3, 0.25], "float16"), method=method)
    assert found.success and found.x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_known_minima(case, method):
    f, start, expected = CASES[case]
    with xf.enable_x64(True):
        found = minimize(f, xnp.array(start), method=method, options={} if method == "BFGS" else {"ftol": 0.0})
        assert bool(found.success) and int(found.status) == 0
        np.testing.assert_allclose(np.asarray(found.x), expected, rtol=1e-5)
        np.testing.assert_allclose(np.asarray(found.jac), xf.grad(f)(found.x), rtol=1e-5, atol=1e-11)
        np.testing.assert_allclose(float(found.fun), float(f(found.x)))
        theirs = scipy.optimize.minimize(
            lambda x: float(f(xnp.array(x))), start, method="BFGS" if method == "BFGS" else "L-BFGS-B",
            jac=lambda x: np.asarray(xf.grad(f)(xnp.array(x))))
        assert int(found.nfev) == int(found.njev) < 1.7 * theirs.nfev + 5 and int(found.nit) < 1.7 * theirs.nit + 5


@pytest.mark.parametrize("f, start, method, evaluations, iterations", [  # JAX's counts
    (himmelblau, [1.0, 1.0], "BFGS", 13, 8), (bowl, [0.0] * 3, "BFGS", 8, 5),
    (himmelblau, [1.0, 1.0], LBFGS, 13, 8), (himmelblau, [-3.0, -2.0], LBFGS, 13, 8), (bowl, [0.0] * 3, LBFGS, 8, 6)])
def test_evaluation_counts_match_jax(f, start, method, evaluations, iterations):
    with xf.enable_x64(True):  # in single precision the last step depends on rounding
        found = minimize(f, xnp.array(start), method=method)
    assert bool(found.success) and (int(found.nfev), int(found.nit)) == (evaluations, iterations)


@pytest.mark.parametrize("method, evaluations", [("BFGS", 11), (LBFGS, 21)])
def test_unbounded_functions_return_the_start(method, evaluations):
    found = minimize(xnp.sum, xnp.ones(2), method=method)
    assert found.x.tolist() == [1, 1] and (int(found.status), int(found.nfev), int(found.nit)) == (5, evaluations, 1)


def test_float32_and_inverse_hessian():
    found = minimize(lambda x, a, b: a * bowl(x) + b, np.zeros(3, "float32"), args=(2.0, 1.0), method="bfgs")
    assert isinstance(found, OptimizeResults) and found.x.dtype == found.hess_inv.dtype == np.float32
    np.testing.assert_allclose(np.asarray(found.x), 1, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(found.hess_inv), np.diag(1 / (4 * WEIGHTS)), rtol=1e-3, atol=1e-4)
    assert minimize(bowl, xnp.zeros(3), method=LBFGS).hess_inv is None


@pytest.mark.parametrize("method", METHODS)
def test_jit_vmap_and_derivatives(method):
    def minimum(a):
        return minimize(lambda x: bowl(x * a), xnp.zeros(3), method=method, tol=1e-9).x

    with xf.enable_x64(True):
        scales = np.array([1.0, 2.0, 4.0])
        xs, moved = xf.jit(xf.vmap(lambda a: xf.jvp(minimum, (a,), (1.0,))))(scales)
        np.testing.assert_allclose(np.asarray(xs), np.tile(1 / scales[:, None], 3), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(moved), np.tile(-1 / scales[:, None] ** 2, 3), rtol=1e-3, atol=1e-6)
        with pytest.raises(ValueError, match="while_loop"):
            xf.grad(lambda a: minimum(a).sum())(1.0)


def test_complex_vectors():
    target = np.array([1 + 2j, -3j])
    with xf.enable_x64(True):
        for method in METHODS:
            found = minimize(lambda x: xnp.sum(xnp.abs(x - target) ** 2), xnp.zeros(2, complex), method=method)
            assert bool(found.success)
            np.testing.assert_allclose(np.asarray(found.x), target, atol=1e-5)


def test_stopping_rules():
    x0 = xnp.zeros(2)
    for method, options, status in [
            ("BFGS", {"maxiter": 2}, 1), ("BFGS", {"maxiter": 0}, 1), (LBFGS, {"maxiter": 2}, 1), (LBFGS, {"maxfun": 4}, 2),
            (LBFGS, {"maxgrad": 4}, 3), (LBFGS, {"ftol": 10.0}, 4)]:
        found = minimize(rosenbrock, x0, method=method, options=options)
        assert not bool(found.success) and int(found.status) == status, (method, options)
        if "maxiter" in options:
            assert int(found.nit) == options["maxiter"]
    for method in ("BFGS", LBFGS):
        found = minimize(lambda x: xnp.sum(x) * xnp.nan, x0, method=method)
        assert not bool(found.success) and int(found.status) == 5
        endless = minimize(lambda x: -xnp.sum(x), x0, method=method)
        assert not bool(endless.success) and int(endless.status) == 5
        at_once = minimize(lambda x: xnp.sum(x ** 2), x0, method=method)
        assert bool(at_once.success) and int(at_once.nit) == 0 and int(at_once.nfev) == 1


def test_counts_and_status_are_weakly_typed():
    for method in ("BFGS", "l-bfgs-experimental-do-not-rely-on-this"):
        for options in ({}, {"maxiter": 0}):
            found = minimize(bowl, xnp.zeros(3), method=method, options=options)
            assert found.status.weak_type and found.nit.weak_type and found.nfev.weak_type


def test_tolerances():
    for settings in ({"tol": 5.0}, {"options": {"gtol": 5.0}}, {"tol": 1e-9, "options": {"gtol": 5.0}}):
        found = minimize(bowl, xnp.zeros(3), method="BFGS", **settings)
        assert 1e-3 < np.abs(found.jac).max() < 5
    found = minimize(bowl, xnp.zeros(3), method="BFGS", options={"gtol": 5.0, "norm": 1})
    assert np.abs(found.jac).sum() < 5


def test_bad_input_raises():
    x0 = xnp.zeros(3)
    for args in (3.0, [3.0]):
        with pytest.raises(TypeError, match="args as a tuple"):
            minimize(bowl, x0, args, method="BFGS")
    with pytest.raises(ValueError, match="Nelder-Mead"):
        minimize(bowl, x0, method="Nelder-Mead")
    with pytest.raises(TypeError, match="method"):
        minimize(bowl, x0)
    with pytest.raises(TypeError, match="maxcor"):
        minimize(bowl, x0, method="BFGS", options={"maxcor": 3})
    for start in (xnp.zeros((3, 1)), xnp.zeros(3, int), 1.0):
        with pytest.raises(TypeError, match="vector of floating dtype"):
            minimize(bowl, start, method="BFGS")
    with pytest.raises(TypeError, match="scalar"):
        minimize(lambda x: x, x0, method="BFGS")


@pytest.mark.parametrize("start", [[1, np.inf, 0], [np.nan, 0, 0], [1e30, 0, 0]])
def test_starts_without_a_finite_value_end_at_once(start):
    found = minimize(lambda x: ((x - 1) ** 2).sum(), xnp.array(start, np.float32), method="BFGS")
    assert (bool(found.success), int(found.status), int(found.nit)) == (False, 5, 1)
    np.testing.assert_array_equal(found.hess_inv, np.eye(3))
