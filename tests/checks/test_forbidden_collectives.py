"""`no_collectives`: programs that communicate over forbidden axes raise, others run."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import P, lax
from xlafront.errors import ForbiddenCollectiveError
from xlafront.sharding import no_collectives

pytestmark = pytest.mark.cpu_only
A = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def x():
    with xf.set_mesh(xf.make_mesh((2, 2), ("x", "y"))):
        yield xf.device_put(A, P("x", "y"))


ALLOWED = {
    "elementwise": (lambda x: x + 1, A + 1), "sum over another axis": (lambda x: xnp.sum(x, 0), A.sum(0)),
    "maximum over another axis": (lambda x: xnp.max(x, 0), A.max(0)),
    "open sum": (lambda x: lax.reduce_sum(x, (1,), out_sharding=P("x", unreduced={"y"})), None),
    "psum": (lambda x: xf.shard_map(lambda x: lax.psum(x, "x"), in_specs=P("x", "y"), out_specs=P(None, "y"))(x),
             A[:2] + A[2:]),
}
FORBIDDEN = {
    "sum": lambda x: xnp.sum(x, 1), "full sum": lambda x: x.sum(), "maximum": lambda x: xnp.max(x, 1),
    "product": lambda x: xnp.dot(x, x.T, out_sharding=P("x", None)), "reshard": lambda x: xf.reshard(x, P(None, None)),
    "moved": lambda x: xf.reshard(x, P("y", "x")),
    "end of sum": lambda x: xf.reshard(lax.reduce_sum(x, (1,), out_sharding=P("x", unreduced={"y"})), P("x")),
    "psum": lambda x: xf.shard_map(lambda x: lax.psum(x, "y"), in_specs=P("x", "y"), out_specs=P("x", None))(x),
    "ppermute": lambda x: xf.shard_map(lambda x: lax.ppermute(x, "y", [(0, 1), (1, 0)]), in_specs=P("x", "y"),
                                       out_specs=P("x", "y"))(x),
}


@pytest.mark.parametrize("through", [lambda f: f, xf.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", ALLOWED)
def test_other_programs_run(x, name, through):
    f, expected = ALLOWED[name]
    with no_collectives({"y"}):
        result = through(f)(x)
    if expected is not None:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("through", [lambda f: f, xf.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", FORBIDDEN)
def test_collectives_raise(x, name, through):
    run = through(FORBIDDEN[name])
    run(x)  # without the context, and cached for it
    with no_collectives(frozenset({"y"})), pytest.raises(ForbiddenCollectiveError, match="'y' is forbidden by no_collectives"):
        run(x)
    run(x)


def test_axes_are_a_set():
    for axes in ("y", ("y",), ["y"], None, True):
        with pytest.raises(TypeError, match="set or frozenset"):
            no_collectives(axes)
