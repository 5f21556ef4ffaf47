"""Accumulators of cotangents: `custom_vjp.defvjp_with_accums` and `custom_gradient(with_accums=...)`."""

import numpy as np
import pytest

import xlafront as xf
from xlafront.experimental.hijax import GradAccum, NullAccum, RefAccum, ValAccum


def product_of(backward, **options):
    product = xf.custom_vjp(lambda x, y: x * y)
    product.defvjp_with_accums(lambda x, y: (x * y, (x, y)), backward, **options)
    return product


def test_cotangents_are_added():
    kinds = []

    def backward(residuals, ct, x_total, y_total):
        x, y = residuals
        kinds.append((type(x_total), type(y_total)))
        x_total.accum(ct * y)
        y_total.accum(ct * x)
        y_total.accum(ct)
        y_total.accum(None)

    f = product_of(backward)
    assert f(2.0, 3.0) == 6
    for gradient in (xf.grad(f, (0, 1)), xf.jit(xf.grad(f, (0, 1))), xf.grad(xf.jit(f), (0, 1)), xf.grad(xf.checkpoint(f), (0, 1))):
        assert gradient(2.0, 3.0) == (3, 3)
    assert set(kinds) == {(ValAccum, ValAccum)}
    assert xf.grad(f, 1)(2.0, 3.0) == 3 and kinds[-1] == (NullAccum, ValAccum)
    xs = np.float32([0, 1, 2])
    for found, expected in zip(xf.vmap(xf.grad(f, (0, 1)))(xs, 2 * xs), (2 * xs, xs + 1)):
        np.testing.assert_array_equal(found, expected)
    shared = xf.grad(lambda x, y: xf.vmap(f, (None, 0))(x, y).sum(), (0, 1))(2.0, xs)
    assert shared[0] == 3
    np.testing.assert_array_equal(shared[1], [3, 3, 3])


def test_structures_and_integers():
    f = xf.custom_vjp(lambda d, n: d["a"] * d["b"][0] * n)

    def backward(d, ct, d_total, n_total):
        assert isinstance(n_total, NullAccum)
        n_total.accum(ct)
        d_total["a"].accum(ct * d["b"][0])

    f.defvjp_with_accums(lambda d, n: (d["a"] * d["b"][0] * n, d), backward)
    assert xf.grad(f)({"a": 2.0, "b": (3.0,)}, 1) == {"a": 3, "b": (0,)}


def test_logs_and_references():
    f = product_of(lambda residuals, ct, x_total, y_total: x_total.accum(ct * residuals[1]) or {"ct": ct})
    cts, logs = xf.vjp(f, 2.0, 3.0)[1].with_logs(1.0)
    assert cts == (3, 0) and logs == {"ct": 1}
    total = xf.new_ref(1.0)
    xf.vjp(f, 2.0, 3.0)[1].with_refs(total, xf.ad.DontWant())(2.0)
    assert total[...] == 7


@pytest.mark.parametrize("backward, error, message", [
    (lambda r, ct, x, y: (ct, ct), TypeError, "dict"), (lambda r, ct, x, y: x.accum(np.ones(3)), ValueError, "type .*float32")])
def test_errors(backward, error, message):
    with pytest.raises(error, match=message):
        xf.grad(product_of(backward))(2.0, 3.0)


def test_accumulators():
    aval = xf.typeof(np.float32([1, 2]))
    value, ref, null = ValAccum(aval), RefAccum(aval), NullAccum(aval)
    for accumulator in (value, ref, null):
        assert isinstance(accumulator, GradAccum) and accumulator.aval == aval
        accumulator.accum(np.float32([1, 2]))
        accumulator.accum(None)
        accumulator.accum(np.float32([3, 4]))
    for found in (value.freeze(), value.val, ref.freeze(), ref.ref[...]):
        np.testing.assert_array_equal(found, [4, 6])
    assert type(null.freeze()) is type(ValAccum(aval).freeze()) is xf.experimental.hijax.Zero
    assert repr(value) == "ValAccum(float32[2])"


def gradient_with(x_kind, y_kind, *, logs=False):
    kinds = []

    def f(x, y):
        def pullback(ct, x_total, y_total):
            kinds[:] = [type(x_total), type(y_total)]
            x_total.accum(ct * y)
            if isinstance(y_total, RefAccum):
                y_total.ref[...] += ct * x
            else:
                y_total.accum(ct * x)
            return {"ct": ct} if logs else None

        return x * y, pullback

    return xf.custom_gradient(f, with_accums=x_kind if y_kind is None else (x_kind, y_kind)), kinds


@pytest.mark.parametrize("x_kind, y_kind", [(ValAccum, None), (RefAccum, None), (ValAccum, RefAccum), (RefAccum, ValAccum)])
def test_custom_gradient(x_kind, y_kind):
    f, kinds = gradient_with(x_kind, y_kind)
    assert f(2.0, 3.0) == 6
    for gradient in (xf.grad(f, (0, 1)), xf.jit(xf.grad(f, (0, 1)))):
        assert gradient(2.0, 3.0) == (3, 2)
    assert kinds == [x_kind, y_kind or x_kind]
    total = xf.new_ref(1.0)
    xf.vjp(f, 2.0, 3.0)[1].with_refs(xf.ad.DontWant(), total)(1.0)
    assert total[...] == 3
    with_logs, _ = gradient_with(x_kind, y_kind, logs=True)
    assert xf.vjp(with_logs, 2.0, 3.0)[1].with_logs(1.0) == ((3, 2), {"ct": 1})


def test_options_of_custom_gradient():
    fun = lambda x, y: (x * y, lambda ct, x_total, y_total: None)
    for kinds, error, message in [(True, TypeError, "with_accums"), (NullAccum, TypeError, "leaves"), ((ValAccum,), ValueError,
                                                                                                 "prefix"), ({}, ValueError, "prefix")]:
        with pytest.raises(error, match=message):
            xf.grad(xf.custom_gradient(fun, with_accums=kinds))(2.0, 3.0)
    with pytest.raises(NotImplementedError, match="with_accums or remat"):
        xf.custom_gradient(fun, with_accums=ValAccum, remat=True)
    counted = xf.custom_gradient(lambda x, n: (x * n, lambda ct, x_total, n_total: x_total.accum(ct * n)), with_accums=ValAccum)
    assert xf.grad(counted)(2.0, 3) == 3
