"""The number of runs of debugging callbacks in recomputed programs, and the values that the NaN settings check."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

policies = xf.checkpoint_policies


def lines(capsys) -> list[str]:
    xf.effects_barrier()
    return capsys.readouterr().out.splitlines()


def noisy(x):
    y = xnp.sin(x)
    xf.debug.print("{}", y)
    return xnp.sin(y)


# By policy, how often the derivative prints: where the callback is computed again, it runs again.
TIMES = {"nothing_saveable": 2, "everything_saveable": 1, "dots_saveable": 2}


@pytest.mark.parametrize("way", [lambda f: f, xf.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("policy, times", [(None, 2), *[(getattr(policies, n), k) for n, k in TIMES.items()],
                                           (policies.save_any_names_but_these("a"), 2)])
def test_recomputation_prints_again(policy, times, way, capsys):
    x = 2.0
    derivative = way(xf.grad(xf.checkpoint(noisy, policy=policy)))(x)
    np.testing.assert_allclose(derivative, np.cos(np.sin(x)) * np.cos(x), rtol=1e-5)
    found = lines(capsys)
    assert len(found) == times
    np.testing.assert_allclose([float(line) for line in found], np.sin(x), rtol=1e-6)
    way(xf.checkpoint(noisy, policy=policy))(x)
    assert len(lines(capsys)) == 1


def test_recomputation_in_a_loop(capsys):
    step = xf.checkpoint(lambda c, _: ((xf.debug.print("{}", c), xnp.sin(c))[1], None))
    xf.grad(lambda x: lax.scan(step, x, None, length=2)[0])(2.0)
    found = [float(line) for line in lines(capsys)]
    np.testing.assert_allclose(found, [2.0, np.sin(2.0), np.sin(2.0), 2.0], rtol=1e-6)


def test_debug_effects_in_dead_branches(capsys):
    """The results are operands; still the print of one branch must be seen."""
    def noisy(x):
        xf.debug.print("{}", x)
        return x

    f = xf.jit(lambda p, x: lax.cond(p, noisy, lambda x: x, x))
    assert float(f(True, 2.0)) == float(f(False, 2.0)) == 2.0
    assert lines(capsys) == ["2.0"]


def test_io_callback_is_not_repeated():
    """Unlike debugging callbacks, side effects are not repeated."""
    seen = []

    def f(x):
        xf.experimental.io_callback(lambda v: seen.append(float(v)), None, lax.stop_gradient(x))
        return xnp.sin(xnp.sin(x))

    xf.grad(xf.checkpoint(f))(2.0)
    xf.effects_barrier()
    assert seen == [2.0]


@pytest.mark.parametrize("way", [lambda f: f, xf.jit], ids=["eager", "jit"])
def test_conditions_that_print_under_vmap(way, capsys):
    """Each step evaluates the condition twice: for any element, and for each."""
    stop = np.array([1, 3])

    def count(n):
        def condition(i):
            xf.debug.print("{}", i)
            return i < n

        return lax.while_loop(condition, lambda i: i + 1, 0)

    np.testing.assert_array_equal(way(xf.vmap(count))(stop), stop)
    evaluations = [np.minimum(step, stop) for step in range(4)]
    expected_counts = evaluations + evaluations[:-1]
    assert sorted(map(int, lines(capsys))) == sorted(int(i) for values in expected_counts for i in values)


@pytest.mark.parametrize("make", [lambda v: xnp.array(v), lambda v: xnp.asarray(np.array([1.0, v]))])
@pytest.mark.parametrize("setting, value", [("debug_nans", np.nan), ("debug_infs", np.inf)])
def test_debug_nans_checks_new_arrays(make, setting, value):
    with getattr(xf, setting)(True):
        make(1.0)
        with pytest.raises(FloatingPointError, match="invalid value"):
            make(value)
    make(value)


def test_python_divides_by_zero_where_the_function_runs_uncompiled():
    f = xf.jit(lambda x: x / 0.0)
    with xf.debug_nans(True):
        with pytest.raises(ZeroDivisionError):
            f(0.0)
        with pytest.raises(FloatingPointError):
            f(xnp.zeros(2))
        for mapped in (xf.vmap(f), xf.jit(xf.vmap(f))):
            with pytest.raises(FloatingPointError):
                mapped(xnp.zeros(2))
