"""Transformations of callable objects with unusual attributes."""

import functools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.core.wrapping import wraps
from xlafront.experimental import checkify


class Nameless:
    """Twice."""

    __name__ = None

    def __call__(self, x):
        return 2.0 * x


@pytest.mark.parametrize("transformed", [
    lambda f: xf.jit(f)(1.0), lambda f: xf.grad(f)(1.0), lambda f: xf.value_and_grad(f)(1.0)[1], lambda f: xf.jacfwd(f)(1.0),
    lambda f: xf.vmap(f)(xnp.ones(1))[0], lambda f: xf.checkpoint(f)(1.0), lambda f: xf.pmap(f)(xnp.ones(1))[0],
    lambda f: checkify.checkify(f)(1.0)[1], lambda f: xnp.vectorize(f)(1.0), lambda f: xf.eval_shape(f, 2.0).size * 2,
    lambda f: xf.linearize(f, 1.0)[0]], ids=range(11))
def test_names_that_are_no_strings_are_ignored(transformed):
    assert np.asarray(transformed(Nameless())) == 2.0


def test_settable_attributes_are_copied():
    made = wraps(Nameless())(lambda x: x)
    assert (made.__doc__, made.__name__, made.__wrapped__(2.0)) == ("Twice.", "<lambda>", 4.0)
    assert wraps(np.sum)(lambda x: x).__name__ == "sum" and wraps(functools.partial(abs))(lambda x: x).__wrapped__(-1) == 1
    assert xf.vmap(Nameless()).__name__ == "Nameless"
