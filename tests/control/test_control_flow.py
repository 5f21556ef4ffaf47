"""Loops and branches: values against Python's own, derivatives against differences, every order of transformations."""

import itertools

import numpy as np
import pytest
from laws import check_batching, check_derivatives, total

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

# Programs of (a, x): a scalar and a vector of 4. Beside each, the same in NumPy.


def _scan(a, x):
    return lax.scan(lambda c, r: (xnp.sin(c * a) + r, c * r), 1.0 * a, x)


def _scan_numpy(a, x):
    c, ys = a, []
    for r in x:
        ys.append(c * r)
        c = np.sin(c * a) + r
    return c, np.stack(ys)


def _reverse(a, x):
    return lax.scan(lambda c, r: (c * a + r, xnp.cos(c)), 1.0 * a, x, reverse=True, unroll=3)


def _reverse_numpy(a, x):
    c, ys = a, [None] * len(x)
    for i in reversed(range(len(x))):
        ys[i] = np.cos(c)
        c = c * a + x[i]
    return c, np.stack(ys)


def _tree(a, x):
    def step(carry, rows):
        return {"s": carry["s"] + rows[0] * xnp.exp(a), "n": carry["n"] + 1}, (rows[1] * carry["s"], None)

    return lax.scan(step, {"s": x[0] * 0, "n": 0}, (x, x[::-1]))


def _tree_numpy(a, x):
    s, ys = 0 * x[0], []
    for r, q in zip(x, x[::-1]):
        ys.append(q * s)
        s = s + r * np.exp(a)
    return {"s": s, "n": len(x)}, (np.stack(ys), None)


def _nested(a, x):
    def outer(c, r):
        return lax.fori_loop(0, 3, lambda i, d: xnp.sin(d) * r + i * a, c), c

    return lax.scan(outer, 1.0 * a, x)


def _nested_numpy(a, x):
    c, ys = a, []
    for r in x:
        ys.append(c)
        for i in range(3):
            c = np.sin(c) * r + i * a
    return c, np.stack(ys)


def _for(a, x):
    return lax.fori_loop(1, 5, lambda i, v: v * xnp.sin(x) + a * i, x)


def _for_numpy(a, x):
    v = x
    for i in range(1, 5):
        v = v * np.sin(x) + a * i
    return v


def _cond(a, x):
    return lax.cond(a > 0.5, lambda v, b: xnp.sin(v) * b, lambda v, b: v**3 + b, x, a)


def _cond_numpy(a, x):
    return np.sin(x) * a if a > 0.5 else x**3 + a


def _closed_over(a, x):
    return lax.cond(a > 0.5, lambda: x * a, lambda: xnp.cos(x))


def _closed_over_numpy(a, x):
    return x * a if a > 0.5 else np.cos(x)


def _switch(a, x):
    index = (a * 3).astype(int)
    return lax.switch(index, [xnp.sin, lambda v: v * a, lambda v: v**2], x)


def _switch_numpy(a, x):
    return [np.sin, lambda v: v * a, lambda v: v**2][min(int(a * 3), 2)](x)


def _cond_in_scan(a, x):
    return lax.scan(lambda c, r: (lax.cond(r > 0, lambda: c * r + a, lambda: xnp.sin(c)), c), 1.0 * a, x)


def _cond_in_scan_numpy(a, x):
    c, ys = a, []
    for r in x:
        ys.append(c)
        c = c * r + a if r > 0 else np.sin(c)
    return c, np.stack(ys)


def _scan_in_cond(a, x):
    return lax.cond(a > 0.5, lambda: _scan(a, x)[1], lambda: x)


def _scan_in_cond_numpy(a, x):
    return _scan_numpy(a, x)[1] if a > 0.5 else x


def _map(a, x):
    return lax.map(lambda r: (xnp.sin(r * a), r), x)


def _map_numpy(a, x):
    return np.sin(x * a), x


def _map_blocks(a, x):
    return lax.map(lambda r: xnp.sin(r * a), x, batch_size=3)


def _map_blocks_numpy(a, x):
    return np.sin(x * a)


def _inner_jit(a, x):
    step = xf.jit(lambda c, r: (c * r + a, xnp.tanh(c)))
    return lax.scan(step, 1.0 * a, x)


def _inner_jit_numpy(a, x):
    c, ys = a, []
    for r in x:
        ys.append(np.tanh(c))
        c = c * r + a
    return c, np.stack(ys)


def _while(a, x):
    return lax.while_loop(lambda s: s[0] < 3 + 4 * a, lambda s: (s[0] + 1, xnp.sin(s[1]) * a + x), (0.0, x))[1]


def _while_numpy(a, x):
    n, v = 0.0, x
    while n < 3 + 4 * a:
        n, v = n + 1, np.sin(v) * a + x
    return v


def _for_dynamic(a, x):
    return lax.fori_loop(0, (a * 4).astype(int), lambda i, v: xnp.cos(v) * x + i, x)


def _for_dynamic_numpy(a, x):
    v = x
    for i in range(int(a * 4)):
        v = np.cos(v) * x + i
    return v


FORWARD = {"while": (_while, _while_numpy), "fori_loop, traced bound": (_for_dynamic, _for_dynamic_numpy)}
BOTH = {
    "scan": (_scan, _scan_numpy), "scan, reverse and unrolled": (_reverse, _reverse_numpy),
    "scan of trees": (_tree, _tree_numpy), "loop in loop": (_nested, _nested_numpy), "fori_loop": (_for, _for_numpy),
    "cond": (_cond, _cond_numpy), "cond, closures": (_closed_over, _closed_over_numpy),
    "switch": (_switch, _switch_numpy), "cond in scan": (_cond_in_scan, _cond_in_scan_numpy),
    "scan in cond": (_scan_in_cond, _scan_in_cond_numpy), "map": (_map, _map_numpy),
    "map in blocks": (_map_blocks, _map_blocks_numpy), "jit in scan": (_inner_jit, _inner_jit_numpy),
}
ALL = BOTH | FORWARD
POINTS = [(np.float32(a), np.array([0.3, -0.7, 1.1, 0.5], np.float32)) for a in (0.3, 0.8)]
named = pytest.mark.parametrize("name", ALL)
reversible = pytest.mark.parametrize("name", BOTH)


def close(found, expected, tolerance=1e-5):
    xf.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), found, expected)


@named
@pytest.mark.parametrize("point", POINTS, ids=["low", "high"])
def test_values_match_python(name, point):
    f, oracle = ALL[name]
    expected = oracle(*point)
    arrays = [xnp.asarray(v) for v in point]
    close(f(*arrays), expected)
    close(xf.jit(f)(*arrays), expected)
    with xf.disable_jit():
        close(f(*arrays), expected)


def inexact(f):
    return lambda *args: [y for y in xf.tree.leaves(f(*args)) if xnp.issubdtype(y.dtype, xnp.inexact)]


@reversible
@pytest.mark.parametrize("point", POINTS, ids=["low", "high"])
def test_derivatives_match_differences(name, point, rng):
    check_derivatives(inexact(BOTH[name][0]), point, rng)


@reversible
def test_second_derivatives_match_differences(name, rng):
    f = total(inexact(BOTH[name][0]))
    check_derivatives(xf.grad(f, (0, 1)), POINTS[1], rng)


@pytest.mark.parametrize("name", FORWARD)
def test_forward_derivatives(name):
    f, oracle = FORWARD[name]
    a, x = POINTS[1]
    direction = np.array([1.0, -0.5, 0.25, 2.0])
    with xf.enable_x64(True):
        x = x.astype(np.float64)
        step = 1e-6
        expected = (oracle(0.8, x + step * direction) - oracle(0.8, x - step * direction)) / (2 * step)
        g = lambda v: f(xnp.asarray(0.8), v)  # noqa: E731
        for found in (xf.jvp(g, (x,), (direction,))[1], xf.jit(lambda v, d: xf.jvp(g, (v,), (d,))[1])(x, direction),
                      xf.linearize(g, x)[1](direction), xf.jacfwd(g)(x) @ direction):
            np.testing.assert_allclose(found, expected, rtol=1e-6)


@named
def test_vmap_equals_a_loop(name):
    """Also batched predicates and bounds, with carries that are batched and not."""
    check_batching(ALL[name][0], POINTS[1])


@reversible
def test_orders_of_transformations(name):
    f = total(inexact(BOTH[name][0]))
    a, x = POINTS[1]
    xs = np.stack([x, x * 0.5, -x])
    loop = np.stack([xf.grad(f, 1)(a, row) for row in xs])
    gradient = xf.grad(f, 1)
    for g in (xf.vmap(gradient, (None, 0)), xf.jit(xf.vmap(gradient, (None, 0))), xf.vmap(xf.jit(gradient), (None, 0)),
              xf.jit(xf.vmap(xf.grad(xf.jit(f), 1), (None, 0))),
              xf.grad(lambda a, rows: xf.vmap(f, (None, 0))(a, rows).sum(), 1),
              xf.grad(lambda a, rows: xf.jit(xf.vmap(xf.jit(f), (None, 0)))(a, rows).sum(), 1)):
        close(g(a, xs), loop)


def test_gradients_of_batched_cond_select_by_element():
    f = lambda p, x: lax.cond(p, lambda v: xnp.sqrt(v), lambda v: v * 2, x)  # noqa: E731
    p, x = np.array([True, False, True]), np.array([4.0, 0.0, 1.0], np.float32)
    close(xf.vmap(xf.grad(f, 1))(p, x), np.array([0.25, 2.0, 0.5]))  # no NaN from sqrt at the element that doubles
    close(xf.grad(lambda x: xf.vmap(f)(p, x).sum())(x), np.array([0.25, 2.0, 0.5]))


def test_a_batched_while_stops_each_element_by_itself():
    f = lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, 1))[1]  # noqa: E731
    np.testing.assert_array_equal(xf.vmap(f)(xnp.arange(6)), 2 ** np.arange(6))
    np.testing.assert_array_equal(xf.vmap(xf.vmap(f))(xnp.arange(6).reshape(2, 3)), 2 ** np.arange(6).reshape(2, 3))


def _doubled_until(first, factor, last):
    steps, value = 0, first
    while value < last:
        steps, value = steps + 1, value * factor
    return steps, value


_THREE_WAYS = list(itertools.product((None, 0), repeat=3))


@pytest.mark.parametrize("outer", _THREE_WAYS)
@pytest.mark.parametrize("inner", _THREE_WAYS)
def test_batches_of_batches_of_while(inner, outer):
    """Whatever is mapped first: what the condition reads, what the body reads, or neither."""
    f = lambda *args: lax.while_loop(  # noqa: E731
        lambda s: s[1] < args[2], lambda s: (s[0] + 1, s[1] * args[1]), (0, args[0]))
    values = [np.array([[1, 7, 2], [3, 1, 30]], "float32"), np.array([[2, 3, 5], [4, 2, 3]], "float32"),
              np.array([[20, 9, 25], [1, 40, 33]], "float32")]
    args = [x[(slice(None) if o == 0 else 1, slice(None) if i == 0 else 2)] for x, i, o in zip(values, inner, outer)]
    batched = [x if (i, o) != (0, None) else x[None] for x, i, o in zip(args, inner, outer)]
    batched = [x[:, None] if (i, o) == (None, 0) else x for x, i, o in zip(batched, inner, outer)]
    g = f
    for axes in (inner, outer):
        g = xf.vmap(g, axes) if any(a == 0 for a in axes) else g
    expected = np.vectorize(_doubled_until, otypes=["int32", "float32"])(*batched)
    for found, x in zip(xf.jit(g)(*args), expected):
        np.testing.assert_array_equal(found, np.squeeze(x))
    tangents = xf.jvp(lambda a: g(a, *args[1:])[1], args[:1], [np.ones_like(args[0])])[1]
    close(tangents, np.squeeze(np.broadcast_to(expected[1] / batched[0], expected[1].shape)))  # linear in the first value


def test_batched_while_loop_has_one_flag_per_element():
    """Extensions see the user's condition and body, mapped, and nothing else."""
    f = lambda n: lax.while_loop(lambda x: x < n, lambda x: x * 2, 1.0)  # noqa: E731
    [loop] = [e for e in xf.make_jaxpr(xf.vmap(f))(xnp.arange(3.0)).eqns if e.primitive is lax.while_p]
    assert loop.params["cond_jaxpr"].out_avals[0].shape == (3,)
    assert [e.primitive.name for e in loop.params["body_jaxpr"].eqns] == ["mul"]


@pytest.mark.parametrize("reverse, unroll, length", list(itertools.product((False, True), (1, 2, 3, True), (0, 1, 5))))
def test_scan_lengths_and_unrolling(reverse, unroll, length):
    x = np.arange(length, dtype=np.float32)
    c, ys = 1.0, [0.0] * length
    for i in (range(length)[::-1] if reverse else range(length)):
        ys[i] = c - x[i]
        c = 2 * c + x[i]
    found = xf.jit(lambda x: lax.scan(lambda c, r: (2 * c + r, c - r), 1.0, x, reverse=reverse, unroll=unroll))(x)
    close(found, (np.float32(c), np.array(ys, np.float32)))
    slope = xf.grad(lambda s: lax.scan(lambda c, r: (s * c + r, c - r), 1.0, x, reverse=reverse, unroll=unroll)[0])(2.0)
    g, d = 1.0, 0.0
    for r in (x[::-1] if reverse else x):
        g, d = 2 * g + r, 2 * d + g
    close(slope, np.float32(d))


def test_a_function_is_traced_once():
    seen = []

    def step(c, r):
        seen.append(1)
        return c + r, c

    for _ in range(3):
        lax.scan(step, 0.0, xnp.arange(3.0))
    assert len(seen) <= 2  # once with a weakly typed carry, once with the type that it takes
    seen.clear()
    xf.jit(lambda x: lax.scan(step, 0.0, x))(xnp.arange(1000.0))
    assert not seen or len(seen) <= 2


def test_the_program_does_not_grow_with_the_length():
    def count(n):
        f = lambda a: lax.scan(lambda c, _: (xnp.sin(c) * a, c), 1.0, None, n)[1].sum()  # noqa: E731
        return xf.jit(xf.grad(f)).lower(1.0).as_text().count("\n")

    assert count(10) == count(10_000)


def test_loop_invariant_residuals_are_computed_once():
    f = lambda a, x: lax.scan(lambda c, r: (c * xnp.sin(a) + r, None), 0.0, x)[0]  # noqa: E731
    eqns = xf.make_jaxpr(xf.grad(f))(1.0, xnp.arange(5.0)).eqns
    assert [e.primitive.name for e in eqns].count("sin") == 1
    loops = [e for e in eqns if e.primitive.name == "scan"]
    assert len(loops) == 2
    assert not any(e.primitive.name in ("sin", "cos") for loop in loops for e in loop.params["jaxpr"].eqns)
    # Forward the only value collected is the carry, which the derivative reads.
    assert [v.aval.shape for v in loops[0].outvars] == [(), (5,)]


def test_dead_code_of_loops_is_dropped():
    from xlafront.core.ir import dce_jaxpr

    def f(x):
        (a, b), (y, z) = lax.scan(lambda c, r: ((c[0] + r, c[1] * r), (c[0], xnp.sin(c[1]))), (np.float32(0), np.float32(1)), x)
        return a, y

    jaxpr, _ = dce_jaxpr(xf.make_jaxpr(f)(xnp.arange(3.0)).jaxpr, [True, True])
    [eqn] = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
    assert eqn.params["num_carry"] == 1 and [e.primitive.name for e in eqn.params["jaxpr"].eqns] == ["add"]
    g = lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2, xnp.sin(s[2])), (0, x, x))[1]  # noqa: E731
    jaxpr, _ = dce_jaxpr(xf.make_jaxpr(g)(1.0).jaxpr, [True])
    assert len(jaxpr.eqns[-1].outvars) == 2


def test_keys_go_through_loops():
    def walk(key, _):
        key, sub = xf.random.split(key)
        return key, xf.random.normal(sub)

    key = xf.random.key(3)
    _, found = lax.scan(walk, key, None, 4)
    expected = []
    for _ in range(4):
        key, y = walk(key, None)
        expected.append(y)
    np.testing.assert_array_equal(found, np.stack(expected))
    keys = xf.random.split(xf.random.key(3), 4)
    rows = lax.map(lambda k: xf.random.uniform(k, (2,)), keys)
    np.testing.assert_array_equal(rows, np.stack([xf.random.uniform(k, (2,)) for k in keys]))


def test_weakly_typed_carries_take_the_type_of_the_body():
    total, _ = lax.scan(lambda c, r: (c + r, None), 0, xnp.arange(3.0))
    assert total.dtype == np.float32 and total == 3
    assert lax.while_loop(lambda c: c < 3, lambda c: c + np.float32(1), 0).dtype == np.float32
    assert lax.fori_loop(0, 3, lambda i, c: c + xnp.float16(1), 0).dtype == np.float16


def test_branches_and_loop_functions_are_traced_in_fixed_order():
    """Layers that make their parameters while they are traced get other numbers in another order."""
    seen = []

    def noting(name, f):
        return lambda *args: (seen.append(name), f(*args))[1]

    lax.cond(True, noting("true", lambda x: x + 1), noting("false", lambda x: x - 1), 1.0)
    lax.switch(1, [noting("zero", lambda x: x), noting("one", lambda x: -x)], 1.0)
    lax.while_loop(noting("condition", lambda x: x < 3), noting("body", lambda x: x + 1), 1.0)
    assert seen == ["true", "false", "zero", "one", "condition", "body"]
    with pytest.raises(ZeroDivisionError):
        lax.cond(True, lambda x: 1 / 0, lambda x: [][1], 1)
    with pytest.raises(ZeroDivisionError):
        lax.while_loop(lambda x: 1 / 0, lambda x: [][1], 1)


def test_linear_transpose_of_a_loop_with_a_counter():
    f = lambda x: lax.fori_loop(0, 4, lambda i, c: c * (i + 1), x)  # noqa: E731
    assert xf.linear_transpose(f, 1.0)(2.0)[0] == 48


def test_reverse_mode_through_loop_with_invariant_active_carry():
    f = lambda x, y: lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] * 2, s[1], s[2]), (1, x, xnp.sin(y)))  # noqa: E731
    np.testing.assert_allclose(xf.grad(lambda x, y: f(x, y)[1] * f(x, y)[2], (0, 1))(3.0, 2.0),
                               (np.sin(2), 3 * np.cos(2)), rtol=1e-6)


@pytest.mark.cpu_only
def test_platform_dependent():
    assert lax.platform_dependent(2.0, cpu=lambda x: x + 1, tpu=lambda x: x + 2) == 3
    assert xf.jit(lambda x: lax.platform_dependent(x, tpu=lambda x: x + 2, default=lambda x: x * 5))(2.0) == 10
    assert xf.grad(lambda x: lax.platform_dependent(x, cpu=lambda x: x**2, default=lambda x: x))(3.0) == 6
    with pytest.raises(NotImplementedError, match="cpu"):
        xf.jit(lambda x: lax.platform_dependent(x, tpu=lambda x: x, rocm=lambda x: x + 1))(1.0)
    with pytest.raises(ValueError, match="cuda= or rocm="):
        lax.platform_dependent(1.0, gpu=lambda x: x, default=lambda x: x)


V = xnp.arange(3.0)


def _grad_of_while():
    return xf.grad(lambda x: lax.while_loop(lambda c: c < 3, lambda c: c * x, x))(2.0)


BAD = {
    "scan, structure of the carry": (lambda: lax.scan(lambda c, r: ((c, c), r), 0.0, V), TypeError, "same pytree structure as the carry"),
    "scan, type of the carry": (lambda: lax.scan(lambda c, r: ({"a": c["a"] + V}, r), {"a": np.float32(0)}, V), TypeError,
                                r"\['a'\] is float32\[\] on entry but float32\[3\]"),
    "scan, no pair": (lambda: lax.scan(lambda c, r: c, 0.0, V), TypeError, r"pair \(carry, y\)"),
    "scan, lengths": (lambda: lax.scan(lambda c, r: (c, None), 0.0, (V, xnp.arange(4.0))), ValueError, "different leading axis sizes"),
    "scan, no length": (lambda: lax.scan(lambda c, r: (c, None), 0.0), ValueError, "length="),
    "scan, wrong length": (lambda: lax.scan(lambda c, r: (c, None), 0.0, V, 4), ValueError, r"length=4.*\(3,\)"),
    "scan of a scalar": (lambda: lax.scan(lambda c, r: (c, None), 0.0, {"x": 3.0}), ValueError, r"\['x'\].*scalar"),
    "scan, not arrays": (lambda: lax.scan(lambda c, r: (c, None), "a", V), TypeError, "str"),
    "scan, traced length": (lambda: xf.jit(lambda n: lax.scan(lambda c, r: (c, None), 0.0, None, n))(3),
                            xf.errors.ConcretizationTypeError, "number of its steps.*concrete"),
    "while, condition": (lambda: lax.while_loop(lambda c: c, lambda c: c, 0.0), TypeError, "boolean scalar"),
    "while, structure": (lambda: lax.while_loop(lambda c: c < 3, lambda c: (c, c), 0.0), TypeError, "structure"),
    "while, type": (lambda: lax.while_loop(lambda c: c < 3, lambda c: c.astype(int), 0.0), TypeError, r"float32\[\].*int32\[\]"),
    "while, reverse mode": (_grad_of_while, ValueError, "reverse-mode.*lax.scan"),
    "fori, float bound": (lambda: lax.fori_loop(0, 3.5, lambda i, x: x, 1), TypeError, "lower and upper .* equal types"),
    "fori, wide float bound": (lambda: lax.fori_loop(0.0, np.int64(3), lambda i, x: x, 1), TypeError, "equal types"),
    "fori, narrow integer": (lambda: lax.fori_loop(np.int8(0), 3.0, lambda i, x: x, 1), TypeError, "equal types"),
    "cond, type of branches": (lambda: lax.cond(True, lambda: {"a": 1}, lambda: {"a": 2.0}), TypeError,
                               r"result\['a'\] is ~float32\[\] from false_fun but ~int32\[\] from true_fun"),
    "cond, structure of branches": (lambda: lax.cond(True, lambda: 1, lambda: (2,)), TypeError, "structure"),
    "cond, array predicate": (lambda: lax.cond(V > 1, lambda: 1, lambda: 2), TypeError, "numpy.any"),
    "cond, predicate": (lambda: lax.cond("yes", lambda: 1, lambda: 2), TypeError, "str"),
    "cond, no function": (lambda: lax.cond(True, 1, lambda: 2), TypeError, "two functions"),
    "switch, no branches": (lambda: lax.switch(0, []), ValueError, "at least one"),
    "switch, float": (lambda: lax.switch(0.5, [lambda: 1, lambda: 2]), TypeError, "integer"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    call, kind, match = BAD[case]
    with pytest.raises(kind, match=match):
        call()


def test_map_retraces_methods_after_attribute_changes():
    class Scaled:
        def __init__(self):
            self.factor = 1.0

        def __call__(self, x):
            return x * self.factor

    scaled = Scaled()
    assert lax.map(scaled, np.ones(2, np.float32)).tolist() == [1, 1]
    scaled.factor = 3.0
    assert lax.map(scaled, np.ones(2, np.float32)).tolist() == [3, 3]


def test_loops_in_python_under_derivatives():
    def double(x):
        return lax.while_loop(lambda c: c < 3.0, lambda c: c * 2, x)

    with xf.disable_jit():
        assert xf.grad(double)(1.0) == xf.grad(xf.jit(double))(1.0) == 4  # (1, 2, 4: two steps)
        np.testing.assert_array_equal(xf.vmap(double)(xnp.array([1.0, 2.0])), [4, 4])


def test_fori_loop_with_traced_bounds_accepts_unroll_one():
    count = xf.jit(lambda n, unroll: lax.fori_loop(0, n, lambda i, c: c + i, 0, unroll=unroll), static_argnums=1)
    assert [int(count(4, unroll)) for unroll in (None, False, 1, True)] == [6] * 4
    for unroll in (0, 2):
        with pytest.raises(ValueError, match="traced"):
            count(4, unroll)


def test_traced_unroll_raises():
    with pytest.raises(xf.errors.ConcretizationTypeError, match="`unroll`.*static"):
        xf.jit(lambda n, x: lax.scan(lambda c, z: (c, z), x, (), 10, unroll=n))(3, 1.0)


def test_associative_scan_shows_no_internal_frames():
    def combine(*_):
        raise AssertionError

    with pytest.raises(AssertionError) as info:
        lax.associative_scan(combine, xnp.arange(4))
    assert [entry.name for entry in info.traceback] == ["test_associative_scan_shows_no_internal_frames", "combine"]
