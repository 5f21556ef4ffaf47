"""Rules of a function in a checkpoint: `custom_vjp.defremat`, `defremat_with_logs` and `custom_gradient(remat=True)`."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

X = 0.7


def equations(jaxpr):
    """Return the names of the operations of a jaxpr and of those in it."""
    names = []
    for eqn in jaxpr.eqns:
        inner = [v.jaxpr for v in eqn.params.values() if hasattr(v, "jaxpr")]
        names += [eqn.primitive.name, *[name for j in inner for name in equations(j)]]
    return names


def recomputed(fun):
    """Return the names of the operations that the derivative of a checkpointed function recomputes."""
    program = xf.make_jaxpr(xf.grad(fun))(X)
    return [name for eqn in program.jaxpr.eqns if eqn.params.get("differentiated")
            for name in equations(eqn.params["jaxpr"].jaxpr)]


def saving_sin(calls=None):
    """Return a function that saves its cosine in a checkpoint, and records which rules run."""
    calls = [] if calls is None else calls
    sin = xf.custom_vjp(xnp.sin)

    def fwd(x):
        calls.append("fwd")
        return xnp.sin(x), xnp.cos(x)

    def rem(cos_x, x):
        calls.append("rem")
        return xnp.sin(x), (cos_x, x)

    def bwd(residuals, ct):
        calls.append("bwd")
        return (ct * residuals[0],)

    sin.defremat(fwd, rem, bwd)
    return sin


@pytest.mark.parametrize("wrap", [lambda f: f, xf.checkpoint, xf.jit, lambda f: xf.checkpoint(xf.jit(f)), lambda f: xf.checkpoint(
    f, policy=xf.checkpoint_policies.nothing_saveable), lambda f: xf.checkpoint(f, policy=xf.checkpoint_policies.dots_saveable)])
def test_derivatives(wrap):
    calls = []
    f = saving_sin(calls)
    fun = wrap(lambda x: f(xnp.exp(x)))
    expected = np.cos(np.exp(X)) * np.exp(X)
    np.testing.assert_allclose(fun(X), np.sin(np.exp(X)), rtol=1e-6)
    for gradient in (xf.grad(fun), xf.jit(xf.grad(fun))):
        np.testing.assert_allclose(gradient(X), expected, rtol=1e-6)
    assert calls[:3] == ["fwd", "rem", "bwd"]
    xs = np.float32([0, X])
    np.testing.assert_allclose(xf.vmap(xf.grad(fun))(xs), np.cos(np.exp(xs)) * np.exp(xs), rtol=1e-6)
    np.testing.assert_allclose(xf.grad(lambda x: xf.vmap(fun)(x).sum())(xs), np.cos(np.exp(xs)) * np.exp(xs), rtol=1e-6)
    second = -np.sin(np.exp(X)) * np.exp(2 * X) + np.cos(np.exp(X)) * np.exp(X)
    np.testing.assert_allclose(xf.grad(xf.grad(fun))(X), second, rtol=1e-5)


def test_what_is_recomputed():
    """The residuals of `fwd` are saved in spite of the policy; results are recomputed by `rem`."""
    f = saving_sin()
    for wrap in (lambda f: f, xf.jit):
        assert "cos" not in recomputed(xf.checkpoint(wrap(f)))
        names = recomputed(xf.checkpoint(wrap(lambda x: f(f(x)))))
        assert names.count("cos") == 0 and "exp" not in names
    steps = lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]
    for fun in (xf.checkpoint(steps), lambda x: lax.scan(xf.checkpoint(lambda c, _: (f(c), None)), x, None, length=2)[0]):
        np.testing.assert_allclose(xf.grad(fun)(X), np.cos(np.sin(X)) * np.cos(X), rtol=1e-6)


def test_other_rules_apply_outside_of_checkpoints():
    calls = []
    f = saving_sin(calls)
    f.defvjp(lambda x: (xnp.sin(x), xnp.cos(x)), lambda cos_x, ct: (ct * cos_x,))
    np.testing.assert_allclose(xf.grad(f)(X), np.cos(X), rtol=1e-6)
    assert not calls
    np.testing.assert_allclose(xf.grad(xf.checkpoint(f))(X), np.cos(X), rtol=1e-6)
    assert calls == ["fwd", "rem", "bwd"]


def test_logs():
    f = xf.custom_vjp(xnp.sin)
    f.defremat_with_logs(lambda x: (xnp.sin(x), None), lambda _, x: (xnp.sin(x), x), lambda x, ct: (
        (ct * xnp.cos(x),), {"ct": ct}))
    for fun in (f, xf.checkpoint(f)):
        (ct,), logs = xf.vjp(fun, X)[1].with_logs(2.0)
        np.testing.assert_allclose(ct, 2 * np.cos(X), rtol=1e-6)
        assert logs == {"ct": 2}


def test_static_arguments():
    power = xf.custom_vjp(lambda n, x: x ** n, nondiff_argnums=(0,))
    power.defremat(lambda n, x: (x ** n, n * x ** (n - 1)), lambda n, saved, x: (x ** n, saved), lambda n, saved, ct: (ct * saved,))
    for fun in (power, xf.checkpoint(power, static_argnums=0)):
        np.testing.assert_allclose(xf.grad(fun, 1)(3, 2.0), 12)


def test_rules_that_do_not_match():
    f = xf.custom_vjp(xnp.sin)
    f.defremat(lambda x: (xnp.sin(x), None), lambda _, x: ((xnp.sin(x), x), x), lambda x, ct: (ct,))
    with pytest.raises(TypeError, match="same structure"):
        xf.grad(f)(X)
    with pytest.raises(TypeError, match="forward-mode"):
        xf.jvp(saving_sin(), (X,), (1.0,))


def test_custom_gradient():
    @xf.custom_gradient(remat=True)
    def f(x):
        cos_x = xnp.cos(x)

        def rem(x):
            return xnp.sin(x), lambda ct: ct * cos_x

        return xnp.sin(x), rem

    assert f(0.0) == 0
    for fun in (f, xf.checkpoint(f)):
        np.testing.assert_allclose(xf.grad(fun)(X), np.cos(X), rtol=1e-6)
        np.testing.assert_allclose(xf.jit(xf.vmap(xf.grad(lambda x: fun(2 * x))))(np.float32([X])), [2 * np.cos(2 * X)],  # noqa: B023
                                   rtol=1e-6)
    assert "cos" not in recomputed(xf.checkpoint(f))
    logged = xf.custom_gradient(lambda x: (2 * x, lambda x: (2 * x, lambda ct: ((2 * ct,), {"x": x}))), remat=True, with_logs=True)
    for fun in (logged, xf.checkpoint(logged)):
        assert xf.vjp(fun, 3.0)[1].with_logs(1.0) == ((2,), {"x": 3})
    with pytest.raises(TypeError, match="pair"):
        xf.grad(xf.custom_gradient(lambda x: (x, lambda x: (x, 3)), remat=True))(X)
