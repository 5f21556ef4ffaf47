"""`debug_key_reuse` detects keys that are used twice, outside compiled functions and inside jaxprs."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import errors, lax, random


@pytest.fixture(autouse=True)
def checking():
    with xf.debug_key_reuse(True):
        yield


def draw(keys):
    return random.uniform(keys) if keys.ndim == 0 else xf.vmap(draw)(keys)


def draw_all(results):
    return [draw(x) for x in xf.tree.leaves(results) if xnp.issubdtype(x.dtype, xf.dtypes.prng_key)]


def refused(f, *keys) -> bool:
    try:
        f(*keys)
    except errors.KeyReuseError as e:
        assert isinstance(e, TypeError)
        assert "key reuse" in str(e) and "consumed" in str(e)
        return True
    return False


def one():
    return random.key(0)


def three():
    return random.split(random.key(0), 3)


# Name, keys, operation, and whether these raise: the operation and then sampling from its keys; sampling from the keys, or from
# the first, and then the operation; sampling from its result; inside a jaxpr, sampling from the keys and then from the result.
OPERATIONS = [
    ("draw", one, draw, True, True, False, True),
    ("split", one, random.split, True, True, False, True),
    ("bits", one, random.bits, True, True, False, True),
    ("permutation", one, lambda k: random.permutation(k, 3), True, True, False, True),
    ("fold_in", one, lambda k: random.fold_in(k, 1), False, False, False, False),
    ("key_data", one, random.key_data, False, False, False, False),
    ("clone", one, random.clone, False, False, False, False),
    ("wrap", one, lambda k: random.wrap_key_data(random.key_data(k)), False, False, False, False),
    ("compared", one, lambda k: k == k, False, False, False, False),
    ("reshape", one, lambda k: k.reshape(1), False, False, False, True),
    ("broadcast", one, lambda k: xnp.broadcast_to(k, (3,)), False, False, False, True),
    ("new axis", one, lambda k: k[None], False, False, False, True),
    ("copy", one, xnp.copy, False, False, False, True),
    ("where", one, lambda k: xnp.where(True, k, k), True, True, True, True),
    ("identity", one, xf.jit(lambda k: k), False, False, False, True),
    ("drawn from and returned", one, xf.jit(lambda k: (k, draw(k))), True, True, True, True),
    ("two arguments", one, lambda k: xf.jit(lambda a, b: draw(a))(k, k), True, True, False, True),
    ("closed over", one, lambda k: xf.jit(lambda: draw(k))(), True, True, False, True),
    ("cond", one, lambda k: lax.cond(True, draw, lambda k: 0.0, k), True, True, False, True),
    ("cond, both branches", one, lambda k: lax.cond(True, draw, lambda k: draw(k) + 1, k), True, True, False, True),
    ("cond that returns", one, lambda k: lax.cond(True, lambda k: k, lambda k: k, k), False, False, False, True),
    ("cond, new keys", one, lambda k: lax.cond(True, random.clone, lambda k: random.split(k)[0], k), True, True, False, True),
    ("vmap that closes over", one, lambda k: xf.vmap(lambda i: draw(k) + i)(xnp.arange(2)), True, True, False, True),
    ("vmap of fold_in", one, lambda k: xf.vmap(lambda i: draw(random.fold_in(k, i)))(xnp.arange(2)), False, False, False, False),
    ("grad", one, lambda k: xf.grad(lambda x: x * draw(k))(1.0), True, True, False, True),
    ("checkpoint", one, xf.checkpoint(draw), True, True, False, True),
    ("scan", one, lambda k: lax.scan(lambda c, _: (lambda a: (a[0], draw(a[1])))(random.split(c)), k, None, length=2)[1],
     True, True, False, True),
    ("fori_loop of fold_in", one, lambda k: lax.fori_loop(0, 2, lambda i, k: random.fold_in(k, i), k),
     False, False, False, False),
    ("while_loop", one, lambda k: lax.while_loop(lambda c: c[1] < 2, lambda c: (random.split(c[0])[0], c[1] + 1), (k, 0))[0],
     True, True, False, True),
    ("first", three, lambda k: k[0], True, True, False, True),
    ("others", three, lambda k: k[1:], True, False, False, True),
    ("every second", three, lambda k: k[::2], True, True, False, True),
    ("at a position", three, lambda k: k[xnp.array(0)], False, False, False, True),
    ("at positions", three, lambda k: k[xnp.array([0, 2])], False, False, False, True),
    ("take", three, lambda k: xnp.take(k, 0), False, False, False, False),
    ("dynamic slice", three, lambda k: lax.dynamic_index_in_dim(k, 1), False, False, False, True),
    ("rows", three, lambda k: k.reshape(3, 1), False, False, False, True),
    ("concatenated", three, lambda k: xnp.concatenate([k, three()]), True, True, False, True),
    ("reversed", three, lambda k: lax.rev(k, (0,)), True, True, True, True),
    ("mapped draw", three, xf.vmap(draw), True, True, False, True),
    ("mapped split", three, xf.vmap(random.split), True, True, False, True),
    ("scanned", three, lambda k: lax.scan(lambda c, k: (c, draw(k)), 0.0, k)[1], True, True, False, True),
    ("scanned and returned", three, lambda k: lax.scan(lambda c, k: (c, k), 0.0, k)[1], False, False, False, True),
    ("two of three", three, lambda k: draw(k[0]) + draw(k[1]), True, True, False, True),
]


@pytest.mark.parametrize("name, keys, f, spends, refuses, result_spent, aliased", OPERATIONS, ids=[row[0] for row in OPERATIONS])
def test_key_use_of_each_operation(name, keys, f, spends, refuses, result_spent, aliased):
    assert refused(lambda k: (f(k), draw(k)), keys()) == spends
    assert refused(lambda k: (draw(k if k.ndim == 0 else k[0]), f(k)), keys()) == refuses
    assert refused(lambda k: draw_all(f(k)), keys()) == result_spent
    for g, expected in ((lambda k: (f(k), draw(k)), spends), (lambda k: draw_all(f(k)), result_spent),
                        (lambda k: (draw(k), draw_all(f(k))), aliased or refuses)):
        assert refused(xf.jit(g), keys()) == expected


REPEATED = [
    ("carry", "scan body function leads to key reuse", lambda k: lax.scan(lambda c, _: (c, draw(c)), k, None, length=2)),
    ("constant", "scan body function leads to key reuse", lambda k: lax.scan(lambda c, _: (c, draw(k)), 0.0, None, length=2)),
    ("one step", "scan body function leads to key reuse", lambda k: lax.scan(lambda c, _: (c, draw(c)), k, None, length=1)),
    ("fori_loop", "scan body function leads to key reuse", lambda k: lax.fori_loop(0, 2, lambda i, x: x + draw(k), 0.0)),
    ("body", "while_loop body function leads to key reuse",
     lambda k: lax.while_loop(lambda c: c[1] < 2, lambda c: (c[0], c[1] + draw(c[0]) + 1), (k, 0.0))),
    ("condition", "while_loop cond function leads to key reuse",
     lambda k: lax.while_loop(lambda c: draw(k) > 2, lambda c: c + 1, 0)),
    ("condition and body", "while_loop cond and body functions both use the same key",
     lambda k: lax.while_loop(lambda c: draw(c) < 0.5, lambda c: random.split(c)[0], k)),
    ("branch", "already consumed", lambda k: lax.cond(True, lambda k: draw(k) + draw(k), draw, k)),
    ("split and draw", "already consumed", lambda k: lax.scan(lambda c, _: (random.split(c)[0], draw(c)), k, None, length=2)),
]


@pytest.mark.parametrize("name, words, f", REPEATED, ids=[row[0] for row in REPEATED])
def test_loops_that_reuse_a_key_raise(name, words, f):
    for g in (f, xf.jit(f), lambda k: xf.make_jaxpr(f)(k)):
        with pytest.raises(errors.KeyReuseError, match=words):
            g(one())


def test_elements_of_a_key_array_are_separate():
    """Each key of an array is consumed separately, also by jaxprs that read some of them."""
    keys = three()
    first = xf.jit(lambda k: draw(k[0]))
    first(keys)
    assert refused(first, keys)
    draw(keys[1])
    assert refused(draw, keys)
    np.testing.assert_array_equal(keys._consumed, [True, True, False])
    draw(keys[2])
    assert refused(lambda k: k[2], keys)


def test_same_key_passed_twice_raises():
    assert refused(lambda k: xnp.stack([k, k]), one()) and refused(xf.jit(lambda a, b: draw(a) + draw(b)), *[one()] * 2)
    assert not refused(lambda ks: xnp.stack([*ks]), three()) and not refused(xf.jit(lambda a, b: draw(a)), *[one()] * 2)


def test_a_compiled_function_is_checked_at_every_call():
    f = xf.jit(draw)
    for _ in range(3):
        key = one()
        f(key)
        assert refused(f, key)


def test_recomputation_is_not_reuse():
    key = one()
    xf.jit(lambda k: xf.grad(xf.checkpoint(lambda x: xnp.sin(x * draw(k))))(1.0))(key)
    assert refused(draw, key)
    assert refused(xf.jit(lambda k: xf.grad(xf.checkpoint(lambda x: xnp.sin(x * draw(k) * draw(k))))(1.0)), one())
    xf.grad(lambda x: lax.scan(xf.checkpoint(lambda c, k: (xnp.sin(c * draw(k)), None)), x, random.split(one(), 3))[0])(1.0)


def test_disabled_setting_checks_nothing():
    key = one()
    with xf.debug_key_reuse(False):
        draw(key), draw(key), xf.jit(lambda k: draw(k) + draw(k))(key)
        assert "draw" not in str(xf.make_jaxpr(draw)(key))
    draw(key)
    with xf.debug_key_reuse(False):
        draw(key)
    assert refused(draw, key)


def test_values_are_the_same_with_the_setting():
    def f(k):
        a, b = random.split(k)
        return draw(a), xf.vmap(draw)(random.split(b, 3)), random.key_data(random.clone(b))

    found = f(one()), xf.jit(f)(one())
    with xf.debug_key_reuse(False):
        expected = f(one())
    for results in found:
        for x, y in zip(results, expected):
            np.testing.assert_array_equal(x, y)


def test_messages_name_both_uses_and_the_remedy():
    def reuses(key):
        x = random.normal(key)
        return x + random.uniform(key)

    with pytest.raises(errors.KeyReuseError, match=r"reuses at .*test_key_reuse.py:\d+ uses a random key twice: argument 0 "
                       r"of uniform at .* is already consumed, and was by normal at .*random.split"):
        xf.jit(reuses)(one())
    with pytest.raises(errors.KeyReuseError, match="jit-compiled function got a previously-consumed key at index 0: "
                       "argument key of uniform .*random.clone"):
        reuses(one())
