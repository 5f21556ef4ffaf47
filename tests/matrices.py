"""Matrices for the tests of linear algebra, and what must hold for every function of them."""

import numpy as np
import pytest
from laws import check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P

DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(autouse=True)
def wide():
    """64-bit types, in each test of a file that imports this."""
    with xf.enable_x64(True):
        yield


def random(rng, shape, dtype="float64"):
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("complex") else x).astype(dtype)


def near(x, y, dtype, tolerance=None):
    """Up to rounding in a dtype."""
    tolerance = tolerance or (2e-4 if dtype in ("float32", "complex64") else 1e-10)
    np.testing.assert_allclose(np.asarray(x), y, rtol=tolerance, atol=tolerance)


def orthonormal(x, dtype):
    near(x.conj().mT @ x, np.broadcast_to(np.eye(x.shape[-1]), (*x.shape[:-2], x.shape[-1], x.shape[-1])), dtype)


def arrays(found):
    return [np.asarray(x) for x in found]


def check_matrix_derivatives(f, kind, shapes, rng, tolerance=1e-6):
    """`check_derivatives` of a function of real matrices, or of complex ones as one of their real and imaginary parts."""
    def real(*args):
        matrices = args if kind == "real" else [re + 1j * im for re, im in zip(args[::2], args[1::2])]
        found = xf.tree.leaves(f(*matrices))
        components = [part for x in found for part in ((x.real, x.imag) if xnp.iscomplexobj(x) else (x,))]
        return [x for x in components if x.dtype == np.float64]  # no integers

    check_derivatives(real, [rng.normal(size=s) for s in shapes for _ in range(1 if kind == "real" else 2)], rng, tolerance)


def check_over_devices(f, x):
    """Mapped, and split along a batch over eight devices, each of which works on its own matrices."""
    alone = xf.tree.map(lambda *rows: np.stack(rows), *[xf.tree.map(np.asarray, f(row)) for row in x])
    mesh = xf.make_mesh((8,), ("data",), axis_types=(xf.sharding.AxisType.Auto,))
    split = xf.device_put(x, NamedSharding(mesh, P("data")))
    compiled = xf.jit(f).lower(split).compile()
    assert "all-gather" not in compiled.as_text()
    for found in (xf.vmap(f, in_axes=2)(np.moveaxis(x, 0, 2)), compiled(split)):
        for ours, theirs in zip(xf.tree.leaves(found), xf.tree.leaves(alone), strict=True):
            near(ours, theirs, "float32")
    assert all(leaf.sharding.spec[0] == "data" for leaf in xf.tree.leaves(compiled(split)))
