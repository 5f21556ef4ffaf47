"""In the body of a loop that calls a program, only what a tangent comes to has one: all else may have no derivative there."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax


def step(carry):
    """The root of zero has an infinite slope, which is not needed: the second result never has a tangent."""
    return carry[0] + xnp.sqrt(carry[1]), carry[1] * 0


CALLS = {
    "jit": xf.jit(step),
    "checkpoint": xf.checkpoint(step),
    "cond": lambda c: lax.cond(c[0] > -1, step, step, c),
    "cond of jit": lambda c: lax.cond(c[0] > -1, xf.jit(step), xf.jit(step), c),
    "scan": lambda c: lax.scan(lambda c, _: (step(c), None), c, length=1)[0],
    "while": lambda c: lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, step(s[1])), (0, c))[1],
}
LOOPS = {
    "scan": lambda call, x: lax.scan(lambda c, _: (call(c), None), (x, 0.0), length=2)[0][0],
    "while": lambda call, x: lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, call(s[1])), (0, (x, 0.0)))[1][0],
    "cond": lambda call, x: lax.cond(x > -1, call, call, (x, 0.0))[0],
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("call", CALLS)
def test_inactive_results_of_calls_have_no_tangent(call, loop):
    def f(x):
        return LOOPS[loop](CALLS[call], x)

    assert xf.jvp(f, (1.0,), (1.0,))[1] == 1
    if loop != "while" and call != "while":  # of which there is no reverse mode
        assert xf.grad(f)(1.0) == 1
        assert xf.hessian(lambda x: f(x) ** 2)(1.0) == 2


def test_inactive_calls_need_no_derivative():
    def unknown(y):
        return xf.pure_callback(np.asarray, xf.ShapeDtypeStruct((), "float32"), y)

    body = xf.jit(lambda c: (c[0] + unknown(c[1]), c[1] * 0))

    def f(x, y):
        return lax.scan(lambda c, _: (body(c), None), (x, y), length=3)[0][0]

    assert xf.grad(f)(np.float32(1), np.float32(0)) == 1


def test_rules_get_symbolic_zeros_of_inactive_arguments():
    seen = []

    @xf.custom_vjp
    def f(x, y):
        return x * y

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        return x.value * y.value, (x.value, y.value)

    f.defvjp(fwd, lambda saved, ct: (ct * saved[1], ct * saved[0]), symbolic_zeros=True)
    body = xf.checkpoint(lambda c: (f(c[0], c[1]), c[1] + 1))
    found = xf.grad(lambda x: lax.scan(lambda c, _: (body(c), None), (x, 2.0), length=3)[0][0])(1.0)
    assert found == 2 * 3 * 4 and set(seen) == {(True, False)}
