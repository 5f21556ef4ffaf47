"""The checks of derivatives find what is wrong, and let pass what is right."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.test_util import check_grads, check_jvp, check_vjp


def wrong(f, factor):
    """`f` with derivatives that are so many times too large."""
    @xf.custom_jvp
    def g(x):
        return f(x)

    g.defjvp(lambda primals, tangents: (f(*primals), factor * xf.jvp(f, primals, tangents)[1]))
    return g


RIGHT = {
    "a number": (xnp.sin, (1.0,)), "a pytree": (lambda p, y: {"b": p["a"] ** 2 * y}, ({"a": np.ones(3, "float32")}, 2.0)),
    "complex": (lambda x: x ** 2, (1 + 1j,)), "complex to real": (lambda x: xnp.abs(x) ** 2, (1 + 1j,)),
    "half": (lambda x: x * x, (np.ones(3, "float16"),)),
}


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", RIGHT)
def test_right_derivatives_pass(name, x64):
    f, args = RIGHT[name]
    with xf.enable_x64(x64):
        check_grads(f, args, 2)
        check_grads(f, args, 1, modes="fwd")
        step = 0.1 if name == "half" else 1e-2
        check_jvp(f, lambda primals, tangents: xf.jvp(f, primals, tangents), args, eps=step)
        check_vjp(f, lambda *args: xf.vjp(f, *args), args, eps=step)


def test_wrong_derivatives_are_found():
    for modes in (("fwd",), ("rev",), ("fwd", "rev")):
        with pytest.raises(AssertionError, match="mode, 1 derivatives to go"):
            check_grads(wrong(xnp.sin, 1.1), (1.0,), 1, modes)
    check_grads(wrong(xnp.sin, 1.001), (1.0,), 1, atol=1e-1)
    second = xf.custom_jvp(xnp.exp)  # whose second derivative is wrong
    second.defjvp(lambda primals, tangents: (xnp.exp(*primals), wrong(xnp.exp, 2.0)(*primals) * tangents[0]))
    check_grads(second, (1.0,), 1)
    with pytest.raises(AssertionError):
        check_grads(second, (1.0,), 2)
    with pytest.raises(AssertionError, match="about this the tangent"):
        check_jvp(xnp.sin, lambda primals, tangents: (xnp.sin(*primals), tangents[0]), (1.0,), err_msg="about this")
    with pytest.raises(AssertionError, match="the value"):
        check_jvp(xnp.sin, lambda primals, tangents: (xnp.cos(*primals), tangents[0]), (1.0,))
    with pytest.raises(AssertionError, match="cotangents"):
        check_vjp(xnp.sin, lambda x: (xnp.sin(x), lambda ct: (ct,)), (1.0,))


def test_bad_input():
    with pytest.raises(TypeError):
        check_grads(xnp.sin, 1.0, 1)
    with pytest.raises(TypeError):
        check_grads(xnp.sin, (1,), 1)
    with pytest.raises(ValueError, match="modes"):
        check_grads(xnp.sin, (1.0,), 1, modes=["forward"])


def test_tolerances_by_dtype():
    check_grads(xnp.sin, (1.0,), 1, rtol={np.float32: 1e-2}, atol={np.dtype("float32"): 1e-2})
    check_grads(xnp.sin, (1.0,), 1, rtol={np.float64: 1e-9}, atol={np.float64: 1e-9})  # not the dtype of the argument
    with pytest.raises(AssertionError):
        check_grads(xnp.sin, (1.0,), 1, rtol={np.float32: 0}, atol={np.float32: 0})
