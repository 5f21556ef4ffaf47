"""`checkify` through transformations and control flow: which check fails, with which values, at which line and for which elements.

Expected are facts of the programs: which comparison is false first, in the order of the program.
"""

import functools
import inspect

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental.checkify import (
    JaxRuntimeError,
    all_checks,
    check,
    check_error,
    checkify,
    debug_check,
    nan_checks,
    user_checks,
)


def message(error) -> str | None:
    """Return the message of a check, without the location."""
    text = error.get()
    return None if text is None else text.partition(" (check failed")[0]


def positive(x):
    check(xnp.all(x > 0), "{} is not positive", x)
    check(xnp.all(x > 1), "{x} is not above one", x=x)
    return 2 * x


def steps(x):
    """Count from 0 to the length of the array, and fail for counts above 2."""
    def step(count, row):
        check(count < 3, "step {} of {row}", count, row=row)
        return count + 1, row * 2

    return lax.scan(step, 0, x)[1]


def down(x):
    """Halve while above 1; the condition fails for 4, the body for 2."""
    def go_on(v):
        check(v != 4, "condition at {}", v)
        return v > 1

    def halve(v):
        check(v != 2, "body at {}", v)
        return v / 2

    return lax.while_loop(go_on, halve, x)


def branch(x):
    def negative(x):
        check(x < -2, "{} is small", x)
        return -x

    return lax.cond(x > 0, lambda x: 2 * x, negative, x)


class TestErrors:
    @pytest.mark.parametrize("way", [lambda f: f, xf.jit, xf.checkpoint, lambda f: xf.jit(xf.jit(f))])
    def test_first_check_that_fails(self, way):
        checked = xf.jit(checkify(way(positive)))
        for x, expected in ((-1.0, "-1.0 is not positive"), (0.5, "0.5 is not above one"), (2.0, None)):
            error, y = checked(x)
            assert message(error) == expected and float(y) == 2 * x

    def test_line_of_the_user(self):
        error, _ = checkify(positive)(-1.0)
        line = inspect.getsourcelines(positive)[1] + 1
        assert f"test_checkify.py:{line} (positive)" in error.get()

    def test_throw_raises_a_value_error(self):
        error, _ = checkify(positive)(-1.0)
        with pytest.raises(JaxRuntimeError, match=r"^-1\.0 is not positive \(check failed at .*test_checkify"):
            error.throw()
        assert issubclass(JaxRuntimeError, ValueError)
        checkify(positive)(2.0)[0].throw()

    def test_errors_are_pytrees(self):
        error, _ = xf.jit(checkify(positive))(-1.0)
        again, _ = xf.jit(checkify(positive))(0.5)
        assert xf.tree.structure(error) == xf.tree.structure(again)  # a loop can carry them
        stacked = xf.tree.map(lambda *x: xnp.stack(x), error, again)
        assert message(xf.jit(lambda e: e)(error)) == "-1.0 is not positive"
        assert [line.partition(" (")[0] for line in stacked.get().splitlines()] == [
            "at mapped index 0: -1.0 is not positive", "at mapped index 1: 0.5 is not above one"]

    def test_categories(self):
        assert checkify(positive, errors=nan_checks)(-1.0)[0].get() is None
        assert checkify(xnp.log)(-1.0)[0].get() is None
        assert checkify(lambda x: positive(xnp.log(x)), errors=all_checks)(-1.0)[0].get().startswith("nan")
        with pytest.raises(TypeError, match="set of categories"):
            checkify(positive, errors="nan")

    def test_arguments_that_are_no_arrays(self):
        def f(x, kind, *, options):
            check(x > 0, f"{kind} {options['n']}")
            return x

        for options in ({"n": "one"}, {"n": "two"}):
            assert message(checkify(f)(-1.0, "kind", options=options)[0]) == f"kind {options['n']}"


class TestNested:
    def test_errors_of_nested_checkify_are_returned(self):
        inner = checkify(positive)
        error, (found, y) = checkify(inner)(-1.0)
        assert error.get() is None and message(found) == "-1.0 is not positive" and float(y) == -2

        for raising in (lambda x: check_error(inner(x)[0]), lambda x: inner(x)[0].throw()):
            assert message(xf.jit(checkify(raising))(0.5)[0]) == "0.5 is not above one"

    def test_merged_errors(self):
        """Of two errors the one that is checked first; both kinds have room."""
        ok, failed = (checkify(positive)(x)[0] for x in (2.0, -1.0))
        nan, _ = checkify(xnp.log, errors=nan_checks)(-1.0)

        def both(a, b):
            check_error(a)
            check_error(b)

        checked = checkify(both, errors=all_checks)
        assert message(checked(ok, failed)[0]) == "-1.0 is not positive"
        assert "log" in checked(ok, nan)[0].get() and "log" in checked(nan, failed)[0].get()
        assert checked(ok, ok)[0].get() is None
        assert checkify(check_error, errors=user_checks)(nan)[0].get() is None

    def test_check_error_takes_errors(self):
        with pytest.raises(TypeError, match="takes an Error"):
            check_error("not positive")


class TestControlFlow:
    def test_scan(self):
        error, y = xf.jit(checkify(steps))(xnp.arange(5.0))
        assert message(error) == "step 3 of 3.0"
        np.testing.assert_array_equal(y, 2 * np.arange(5.0))
        assert xf.jit(checkify(steps))(xnp.arange(3.0))[0].get() is None

    def test_while(self):
        checked = xf.jit(checkify(down))
        for x, expected in ((4.0, "condition at 4.0"), (8.0, "condition at 4.0"), (2.0, "body at 2.0"), (0.5, None), (3.0, None)):
            assert message(checked(x)[0]) == expected

    def test_for(self):
        def loop(n):
            def body(i, total):
                check(i < 2, "turn {}", i)
                return total + i

            return lax.fori_loop(0, n, body, 0)

        for f in (checkify(lambda: loop(4)), lambda: xf.jit(checkify(loop))(4)):
            error, total = f()
            assert message(error) == "turn 2" and total == 6

    def test_branches(self):
        checked = xf.jit(checkify(branch))
        for x, expected in ((-1.0, "-1.0 is small"), (-3.0, None), (1.0, None)):
            error, y = checked(x)
            assert message(error) == expected and float(y) == (2 * x if x > 0 else -x)

    def test_switch_numbers_the_errors_of_its_branches(self):
        def one(which):
            def run(x):
                check(x < 0, f"branch {which}, " "{}", x)
                return x
            return run

        checked = xf.jit(checkify(lambda i, x: lax.switch(i, [one(0), lambda x: x, one(2)], x)))
        assert [message(checked(i, 1.0)[0]) for i in range(3)] == ["branch 0, 1.0", None, "branch 2, 1.0"]

    def test_loops_within_loops(self):
        def f(x):
            return lax.map(lambda row: lax.cond(row.sum() > 3, steps, lambda r: r * 2, row), x)

        x = np.arange(8.0).reshape(2, 4)
        error, y = xf.jit(checkify(f))(x)
        assert message(error) == "step 3 of 3.0"  # the first row has the sum 6
        np.testing.assert_array_equal(y, 2 * x)

    def test_solves(self):
        def solve(b):
            def product(v):
                check(xnp.all(v < 1), "{}", v)
                return 2 * v

            return xf.scipy.sparse.linalg.cg(product, b)[0]

        error, y = checkify(solve)(xnp.array([2.0, 4.0]))
        assert error.get() is not None
        np.testing.assert_allclose(y, [1, 2])

    def test_while_over_a_batch_is_refused(self):
        def count(n):
            def step(i):
                check(i < 2, "{}", i)
                return i + 1

            return lax.while_loop(lambda i: i < n, step, 0)

        n = xnp.array([1, 2, 3])
        with pytest.raises(ValueError, match=r"vmap\(checkify\(f\)\)"):
            checkify(xf.vmap(count))(n)
        error, y = xf.vmap(checkify(count))(n)
        assert error.get().startswith("at mapped index 2: 2 (") and y.tolist() == [1, 2, 3]


class TestBatches:
    x = np.array([2.0, 0.5, -1.0, 3.0])

    def test_inside(self):
        """One error for all: that of the check which comes first, for the first element where it fails."""
        error, y = checkify(xf.vmap(positive))(self.x)
        assert message(error) == "-1.0 is not positive"
        np.testing.assert_array_equal(y, 2 * self.x)

    def test_outside(self):
        error, _ = xf.vmap(checkify(positive))(self.x)
        assert [line.partition(" (")[0] for line in error.get().splitlines()] == [
            "at mapped index 1: 0.5 is not above one", "at mapped index 2: -1.0 is not positive"]
        with pytest.raises(JaxRuntimeError, match=r"^-1\.0 is not positive .* mapped index 2"):
            error.throw()
        again, _ = checkify(lambda: check_error(error))()
        assert message(again) == "-1.0 is not positive"

    def test_of_batches(self):
        error, _ = xf.vmap(xf.vmap(checkify(positive)))(self.x.reshape(2, 2))
        assert [line.partition(":")[0] for line in error.get().splitlines()] == ["at mapped index 0, 1", "at mapped index 1, 0"]

    @pytest.mark.cpu_only
    def test_many_devices(self):
        mesh = xf.make_mesh((2,), ("i",), (xf.sharding.AxisType.Auto,))
        spec = xf.P("i")

        def part(x):
            check(xnp.all(x < 3), "part {}", x)
            return 2 * x

        for f, x in ((xf.shard_map(part, mesh=mesh, in_specs=spec, out_specs=spec), np.array([1.0, 2.0, 1.0, 4.0])),
                     (xf.pmap(part), np.array([[1.0, 2.0], [1.0, 4.0]]))):
            error, y = xf.jit(checkify(f))(x)
            assert message(error) == "at mapped index 1: part [1. 4.]"
            np.testing.assert_array_equal(y, 2 * x)
            assert xf.jit(checkify(f))(np.ones_like(x))[0].get() is None

    @pytest.mark.cpu_only
    def test_devices_and_all(self):
        """Errors of one device and of the whole program have the same place; the first one counts."""
        mesh = xf.make_mesh((2,), ("i",), (xf.sharding.AxisType.Auto,))

        @xf.shard_map(mesh=mesh, in_specs=xf.P("i"), out_specs=xf.P("i"))
        def part(x):
            check(x[0] < 3, "part {}", x[0])
            return x

        @xf.jit
        @checkify
        def f(x, y):
            check(y > 0, "before {}", y)
            x = part(part(x) + 1)
            check(y < 9, "after {}", y)
            return x

        for x, y, expected in (([0.0, 0.0], 1.0, None), ([0.0, 3.0], 1.0, "part 3.0"), ([0.0, 2.0], 10.0, "part 3.0"),
                               ([0.0, 3.0], -1.0, "before -1.0"), ([0.0, 0.0], 10.0, "after 10.0")):
            assert message(f(xnp.array(x), y)[0]) == expected

    @pytest.mark.cpu_only
    def test_devices_in_a_loop(self):
        mesh = xf.make_mesh((2,), ("i",), (xf.sharding.AxisType.Auto,))

        @xf.shard_map(mesh=mesh, in_specs=xf.P("i"), out_specs=xf.P("i"))
        def part(x):
            def step(i, v):
                check(v[0] < 4, "step {}", i)
                return lax.cond(v[0] > 0, lambda v: v + 1, branch_of_device, v)

            def branch_of_device(v):
                check(v[0] < -1, "branch {}", v)
                return v

            return lax.fori_loop(0, 3, step, x)

        for x, expected in (([1.0, 2.0], "at mapped index 1: step 2"), ([-1.0, -2.0], "at mapped index 0: branch [-1.]"),
                            ([1.0, 1.0], None)):
            assert message(xf.jit(checkify(part))(xnp.array(x))[0]) == expected


class TestDerivatives:
    def test_inside(self):
        error, slope = xf.jit(checkify(xf.grad(positive)))(-1.0)
        assert message(error) == "-1.0 is not positive" and float(slope) == 2

    def test_outside(self):
        def f(x):
            error, y = checkify(steps)(x)
            return y.sum(), error

        slope, error = xf.jit(xf.grad(f, has_aux=True))(xnp.arange(4.0))
        assert message(error) == "step 3 of 3.0"
        np.testing.assert_array_equal(slope, np.full(4, 2.0))

    @pytest.mark.parametrize("around", [lambda f: f, xf.checkpoint])
    def test_of_loops_inside(self, around):
        def f(x):
            def step(a, _):
                check(a < 3, "value {}", a)
                return a * 2, None

            return lax.scan(around(step), x, None, length=3)[0]

        error, slope = checkify(xf.grad(f))(1.0)
        assert message(error) == "value 4.0" and float(slope) == 8  # 1, 2, 4

    def test_rules_in_forward_mode(self):
        @xf.custom_jvp
        def f(x):
            check(x > 0, "function at {}", x)
            return xnp.sin(x)

        @f.defjvp
        def rule(primals, tangents):
            check(primals[0] > 1, "rule at {}", primals[0])
            return f(*primals), 3 * tangents[0]

        assert message(checkify(f)(-1.0)[0]) == "function at -1.0"
        error, slope = xf.jit(checkify(xf.grad(f)))(0.5)
        assert message(error) == "rule at 0.5" and float(slope) == 3

    def test_custom_rules_are_preserved(self):
        """Differentiated outside, the rule is used, and the function is checked."""
        @xf.custom_jvp
        def f(x):
            check(x > 0, "function at {}", x)
            return xnp.sin(x)

        f.defjvp(lambda primals, tangents: (f(*primals), 3 * tangents[0]))

        @xf.custom_vjp
        def g(x):
            check(x > 0, "function at {}", x)
            return xnp.sin(x)

        g.defvjp(lambda x: (g(x), x), lambda x, ct: (3 * ct,))

        for function in (f, g):
            def checked(x, function=function):
                error, y = checkify(function)(x)
                return y, error

            slope, error = xf.jit(xf.grad(checked, has_aux=True))(-1.0)
            assert float(slope) == 3 and message(error) == "function at -1.0"

    def test_rules_in_reverse_mode(self):
        @xf.custom_vjp
        def f(x):
            return xnp.sin(x)

        def forward(x):
            check(x > 1, "forward at {}", x)
            return xnp.sin(x), x

        def backward(x, ct):
            check(x > 2, "backward at {}", x)
            return (3 * ct,)

        f.defvjp(forward, backward)
        checked = xf.jit(checkify(xf.grad(f)))
        assert [message(checked(x)[0]) for x in (0.5, 1.5, 2.5)] == ["forward at 0.5", "backward at 1.5", None]
        assert float(checked(2.5)[1]) == 3

    def test_batching_rules(self):
        @xf.custom_batching.custom_vmap
        def f(x):
            check(x > 0, "element {}", x)
            return x

        @f.def_vmap
        def rule(size, batched, x):
            check(xnp.all(x > 1), "batch {}", x)
            return 10 * x, True

        assert message(checkify(f)(-1.0)[0]) == "element -1.0"
        error, y = checkify(xf.vmap(f))(xnp.array([0.5, 2.0]))
        assert message(error) == "batch [0.5 2. ]" and y.tolist() == [5, 20]


class TestCompiled:
    def test_programs_are_the_same_each_time(self):
        """Nothing in the jaxprs depends on earlier traces, so that executables are found in the cache."""
        def program():
            return xf.jit(checkify(lambda x: positive(x), errors=all_checks)).lower(1.0).as_text()

        first = program()
        checkify(steps)(xnp.arange(3.0))
        assert program() == first

    def test_types_and_programs(self):
        error, y = xf.eval_shape(checkify(positive), 1.0)
        assert y.shape == () and "traced" in repr(error)
        closed = xf.make_jaxpr(checkify(positive))(1.0)
        assert not closed.effects and xf.make_jaxpr(positive)(1.0).effects
        compiled = xf.jit(checkify(positive)).lower(1.0).compile()
        assert message(compiled(-1.0)[0]) == "-1.0 is not positive"

    def test_unread_results_do_not_drop_checks(self):
        assert message(xf.jit(lambda x: checkify(positive)(x)[0])(-1.0)) == "-1.0 is not positive"

    def test_debug_checks(self):
        def f(x):
            debug_check(x > 0, "not positive")
            return x

        assert float(f(-1.0)) == float(xf.jit(f)(-1.0)) == -1
        assert message(checkify(f)(-1.0)[0]) == "not positive"


def test_arguments_are_concrete_in_python():
    """Python code gets concrete arguments, unless a surrounding transformation has only tracers."""
    @functools.partial(xf.jit, static_argnums=1)
    def logs(x, n):
        return [xnp.log(x - i) for i in range(n)]

    calls = [(lambda x, n: [xnp.log(x - i) for i in range(n)], 1.5, 3), (logs, 1.5, 3),
             (lambda x, n: xnp.log(x - 2) if float(x) > 0 and n else x, xnp.float32(1.5), True),
             (lambda x, mask: xnp.log(x[mask] - 2), xnp.arange(3.0), np.array([True, False, True]))]
    for f, *args in calls:
        error, _ = checkify(f, errors=all_checks)(*args)
        assert error.get().startswith("nan generated by primitive: log")
    with pytest.raises(xf.errors.TracerBoolConversionError):
        xf.jit(checkify(lambda x: x if x > 0 else 0))(1.5)

    class Positive:
        __name__ = 7  # no text

        def __call__(self, x):
            return x if x > 0 else 0

    assert checkify(Positive())(1.5)[1] == 1.5


def test_checks_in_backward_rules():
    """The initial cotangent is a number with a dtype, which a message can hold as an array."""
    @xf.custom_vjp
    def f(x):
        return x * 2

    def backward(x, ct):
        check(ct < x, "{ct} came back to {x}", ct=ct, x=x)
        return (ct * 2,)

    f.defvjp(lambda x: (f(x), x), backward)
    for transform in (xf.grad, lambda f: xf.jit(xf.grad(f))):
        error, slope = checkify(transform(f))(xnp.array(-1.0))
        assert slope == 2 and "1.0 came back to -1.0" in error.get()
        assert checkify(transform(f))(xnp.array(3.0))[0].get() is None
