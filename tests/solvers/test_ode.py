"""Differential equations against known solutions and SciPy; derivatives against those of the solutions."""

import numpy as np
import pytest
import scipy.integrate

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import ode

TIMES = np.array([0.0, 0.3, 1.0, 2.0])


@pytest.fixture(autouse=True)
def wide():
    with xf.enable_x64(True):
        yield


def decay(y, t, rate):
    return -rate * y


def test_pendulum_against_scipy():
    def pendulum(y, t, m, g):
        theta, omega = y
        return omega, -m * omega - g * xnp.sin(theta)

    found = ode.odeint(pendulum, (np.pi - 0.1, 0.0), TIMES, 0.25, 9.8, rtol=1e-10, atol=1e-10)
    expected = scipy.integrate.odeint(
        lambda y, t: (y[1], -0.25 * y[1] - 9.8 * np.sin(y[0])), (np.pi - 0.1, 0.0), TIMES, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(np.stack(found, 1), expected, rtol=1e-6, atol=1e-8)


def test_pytrees_complex_numbers_and_time_dependence():
    start = {"turn": np.array([1.0 + 0j, 2j]), "square": np.zeros((2, 2)), "single": np.float32(1)}
    found = xf.jit(lambda y: ode.odeint(
        lambda y, t: {"turn": 1j * y["turn"], "square": 2 * t + 0 * y["square"], "single": -y["single"]}, y, TIMES))(start)
    np.testing.assert_allclose(np.asarray(found["turn"]), np.exp(1j * TIMES)[:, None] * start["turn"], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(np.asarray(found["square"]), np.broadcast_to(TIMES[:, None, None] ** 2, (4, 2, 2)), atol=1e-7)
    np.testing.assert_allclose(np.asarray(found["single"]), np.exp(-TIMES), rtol=1e-6)
    assert found["single"].dtype == np.float32


def test_float32():
    found = ode.odeint(decay, xnp.ones(2, "float32"), TIMES.astype("float32"), 1.0)
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.asarray(found), np.exp(-TIMES)[:, None].repeat(2, 1), rtol=2e-6)


def test_derivatives():
    """Check derivatives of `y exp(-rate (t - t0))` in the start, all times and the rate, as an argument or closed over."""
    def solution(y, ts, rate):
        return y * xnp.exp(-rate * (ts - ts[0]))[:, None]

    weights = np.random.default_rng(0).normal(size=(4, 2))

    def total(f):
        return lambda *args: (weights * f(*args)).sum()

    args = np.array([1.0, 2.0]), TIMES, 0.7
    expected = xf.grad(total(solution), (0, 1, 2))(*args)
    for f in (lambda y, ts, rate: ode.odeint(decay, y, ts, rate),
              lambda y, ts, rate: ode.odeint(lambda y, t: -rate * y, y, ts),
              lambda y, ts, rate: ode.odeint(lambda y, t, p, n: -p["rate"] * y * n, y, ts, {"rate": rate}, 1)):
        for a, b in zip(xf.jit(xf.grad(total(f), (0, 1, 2)))(*args), expected):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=1e-7)


def test_decreasing_times():
    """Integrate the exponential backwards; check its derivatives, and differences in the rate."""
    times = TIMES[::-1].copy()

    def solution(y, ts, rate):
        return y * xnp.exp(-rate * (ts - ts[0]))[:, None]

    weights = np.random.default_rng(0).normal(size=(4, 2))

    def total(f):
        return lambda *args: (weights * f(*args)).sum()

    args = np.array([1.0, 2.0]), times, 0.7
    solved = lambda y, ts, rate: ode.odeint(decay, y, ts, rate, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(solved(*args), solution(*args), rtol=1e-8)
    found = xf.jit(xf.grad(total(solved), (0, 1, 2)))(*args)
    for a, b in zip(found, xf.grad(total(solution), (0, 1, 2))(*args)):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    step = 1e-4
    difference = (total(solved)(*args[:2], 0.7 + step) - total(solved)(*args[:2], 0.7 - step)) / (2 * step)
    np.testing.assert_allclose(found[2], difference, rtol=1e-6)
    early = scipy.integrate.odeint(lambda y, t: np.cos(t) * y, 1.0, [1.0, -1.0, -2.5], rtol=1e-11, atol=1e-11)[:, 0]
    later = ode.odeint(lambda y, t: xnp.cos(t) * y, 1.0, np.array([1.0, -1.0, -2.5]), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(later, early, rtol=1e-7)


def test_derivatives_of_complex_numbers():
    found = xf.grad(lambda a: ode.odeint(lambda y, t: a * y, xnp.array(1 + 0j), TIMES)[-1].real)(0.3 + 0.2j)
    np.testing.assert_allclose(complex(found), 2 * np.exp(2 * (0.3 + 0.2j)), rtol=1e-6)


def test_vmap():
    rates = np.array([0.5, 1.0, 3.0])
    found = xf.vmap(lambda rate: ode.odeint(decay, 1.0, TIMES, rate))(rates)
    np.testing.assert_allclose(np.asarray(found), np.exp(-rates[:, None] * TIMES), rtol=1e-6)
    slopes = xf.vmap(xf.grad(lambda rate: ode.odeint(decay, 1.0, TIMES, rate)[-1]))(rates)
    np.testing.assert_allclose(np.asarray(slopes), -2 * np.exp(-2 * rates), rtol=1e-6)


def test_order_tolerance_and_step_limits():
    """The method is of fifth order, errors follow the tolerance, and step limits hold."""
    def error(dt):
        y = ode.runge_kutta_step(lambda y, t: -y, xnp.ones(1), -xnp.ones(1), 0.0, dt)[0]
        return abs(float(y[0]) - np.exp(-dt))

    assert 2 ** 5.5 < error(0.2) / error(0.1) < 2 ** 6.5
    errors = [np.abs(ode.odeint(decay, 1.0, TIMES, 1.0, rtol=tol, atol=tol) - np.exp(-TIMES)).max() for tol in (1e-3, 1e-6, 1e-9)]
    assert errors[0] < 1e-2 and errors[1] < 1e-5 and errors[2] < 1e-8 and errors[0] > errors[1] > errors[2]
    assert np.abs(ode.odeint(decay, 1.0, TIMES, 1.0, mxstep=1) - np.exp(-TIMES)).max() > 1e-3
    count = []
    ode.odeint(lambda y, t: (xf.debug.callback(count.append, t), -y)[1], 1.0, np.array([0.0, 1.0]), rtol=1e-2, atol=1e-2, hmax=0.1)
    xf.effects_barrier()
    assert len(count) >= 60


def test_step_components():
    """The quartic meets its conditions; step sizes have JAX's values."""
    y0, y1, middle, slope0, slope1, dt = np.random.default_rng(0).normal(size=6)
    p = np.array(ode.fit_4th_order_polynomial(y0, y1, middle, slope0, slope1, dt))
    np.testing.assert_allclose([np.polyval(p, x) for x in (0, 1, 0.5)], [y0, y1, middle])
    np.testing.assert_allclose([np.polyval(np.polyder(p), x) / dt for x in (0, 1)], [slope0, slope1])
    assert ode.optimal_step_size(0.1, 1e-9) == 1.0
    np.testing.assert_allclose(
        [ode.optimal_step_size(0.1, r) for r in (2.0, 0.5, 1e9, 0.0)], [0.07834955, 0.10338285, 0.02, 1.0], rtol=1e-6)
    np.testing.assert_allclose(
        ode.initial_step_size(lambda y, t: -y, 0.0, xnp.ones(2), 4, 1e-3, 1e-3, -xnp.ones(2)), 0.10717735, rtol=1e-6)
    np.testing.assert_allclose(
        ode.mean_error_ratio(np.array([1e-3, 2e-3]), 1e-3, 1e-3, np.ones(2), -2 * np.ones(2)), np.sqrt(5 / 18))
    np.testing.assert_allclose(ode.abs2(1 + 2j), 5)


def test_bad_input_raises():
    for t, error in (([0.0, 1.0], TypeError), (np.arange(3), TypeError), (1.0, ValueError), (TIMES[:0], ValueError)):
        with pytest.raises(error):
            ode.odeint(decay, 1.0, t, 1.0)
    with pytest.raises(TypeError, match="y0"):
        ode.odeint(decay, 1, TIMES, 1.0)
    with pytest.raises(TypeError, match="arguments after t"):
        ode.odeint(decay, 1.0, TIMES, "a")
    with pytest.raises(TypeError):
        ode.odeint(decay, 1.0, TIMES)
    with pytest.raises(TypeError, match="custom_vjp"):
        xf.jvp(lambda y: ode.odeint(decay, y, TIMES, 1.0), (1.0,), (1.0,))


def test_second_derivatives_in_reverse_mode():
    """y' = -a y^2 has the solution y0 / (1 + a y0 t)."""
    times = np.float32([0, 0.5, 1.0])

    def total(p, solve):
        return solve(p[0], p[1]).sum()

    def solution(y0, a):
        return y0 / (1 + a * y0 * times)

    p = xnp.array([1.0, 0.7])
    found = xf.jacrev(xf.grad(lambda p: total(p, lambda y0, a: ode.odeint(lambda y, t, a: -a * y * y, y0, times, a))))(p)
    np.testing.assert_allclose(found, xf.hessian(lambda p: total(p, solution))(p), rtol=1e-3)


def test_no_step_gives_no_finite_value():
    assert np.isinf(ode.odeint(lambda y, t: -y, xnp.ones(2), xnp.array([0.0, 1.0]), mxstep=0)[1]).all()
