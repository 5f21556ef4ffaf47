"""`check` without `checkify`: eager checks raise, compiled ones are rejected. Formatting of messages."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental.checkify import JaxRuntimeError, check, checkify, init_error


def positive(x):
    check(xnp.all(x > 0), "{} is not positive", x)
    return 2 * x


class TestOutsideOfCheckify:
    @pytest.mark.parametrize("way", [lambda f: f, xf.vmap, lambda f: xf.grad(lambda x: f(x).sum()), xf.checkpoint,
                                     lambda f: lambda x: xf.jvp(f, (x,), (x,))])
    def test_eager_check_raises(self, way):
        with pytest.raises(JaxRuntimeError, match="is not positive .*test_checks.py:13"):
            way(positive)(xnp.array([1.0, -1.0]))
        way(positive)(xnp.array([1.0, 2.0]))

    @pytest.mark.parametrize("way", [xf.jit, lambda f: lambda x: lax.map(f, x), lambda f: xf.jit(xf.grad(lambda x: f(x).sum())),
                                     lambda f: lambda x: lax.cond(x[0] > 0, f, lambda x: x, x), xf.pmap,
                                     lambda f: xf.jit(f).lower], ids=["jit", "map", "grad", "cond", "pmap", "lower"])
    def test_compiled_check_without_checkify_raises(self, way):
        with pytest.raises(ValueError, match=r"test_checks.py:13 \(positive\).*jit\(checkify\(f\)\)"):
            way(positive)(xnp.array([1.0]))

    def test_setting_without_jit(self):
        with xf.disable_jit(), pytest.raises(JaxRuntimeError, match="-1.0 is not positive"):
            xf.jit(positive)(xnp.float32(-1))


class TestMessages:
    @pytest.mark.parametrize("text, args, kwargs, expected", [
        ("{} {}", (1, [2.5, 3.0]), {}, "1 [2.5 3. ]"),
        ("{0} {x:.2f}", (True,), {"x": 1.23456}, "True 1.23"),
        ("{0[1]} {0.shape}", ([4, 5],), {}, "5 (2,)"),
        ("{{}} {x[a]}", (), {"x": {"a": 7}}, "{} 7"),
        ("none", (1,), {"y": 2}, "none"),
    ])
    def test_format(self, text, args, kwargs, expected):
        args, kwargs = xf.tree.map(xnp.asarray, [[np.asarray(a) for a in args], {
            k: v if isinstance(v, dict) else np.asarray(v) for k, v in kwargs.items()}])

        def f(args, kwargs):
            check(False, text, *args, **kwargs)

        error, _ = xf.jit(checkify(f))(args, kwargs)
        assert error.get().startswith(f"{expected} (check failed")
        with pytest.raises(JaxRuntimeError) as raised:
            f(args, kwargs)
        assert str(raised.value).startswith(f"{expected} (check failed")

    def test_format_arguments_must_be_arrays(self):
        for value in (3.0, "text", object()):
            with pytest.raises(TypeError, match="Formatting arguments .* pytrees of arrays"):
                check(True, "{}", value)
        check(True, "{} {}", np.arange(3), None)

    def test_conditions_are_boolean_scalars(self):
        for pred in (1, 1.0, None, xnp.ones(()), xnp.array([True]), "true"):
            with pytest.raises(TypeError, match="takes a scalar pred"):
                check(pred, "text")

    def test_fields_without_an_argument(self):
        with pytest.raises(IndexError):
            check(False, "{} {}", xnp.arange(3))
        with pytest.raises(KeyError, match="a"):
            check(False, "{a}", b=xnp.arange(3))


def test_no_error():
    assert init_error.get() is None and init_error.get_exception() is None and repr(init_error) == "Error(None)"
    init_error.throw()
    assert not xf.tree.leaves(init_error)
