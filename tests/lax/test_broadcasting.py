"""Broadcasting of dimensions of size 1 in elementwise operations of equal rank: values, derivatives, batches, shardings."""

import numpy as np
import pytest
from elementwise_tables import BINARY
from laws import check_batching, check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.sharding import AxisType, NamedSharding, PartitionSpec as P

LOGIC = (("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor),
         ("shift_left", np.left_shift), ("shift_right_arithmetic", np.right_shift))
SHAPES = (((2, 1), (1, 3)), ((1, 1), (2, 3)), ((2, 3), (2, 1)), ((0, 1), (1, 3)))
# One of each kind of derivative: of sums, of products, of what compares its operands, of what selects among them.
SMOOTH = ("add", "sub", "mul", "div", "max", "atan2", "pow")


def operand(rng, interval, shape):
    if interval is None:
        return rng.integers(0, 3, shape).astype(np.float32)
    return rng.uniform(*interval, shape).astype(np.float32)


@pytest.mark.parametrize("name, theirs, first, second, _", BINARY, ids=[row[0] for row in BINARY])
def test_values_match_numpy(name, theirs, first, second, _, rng):
    f = getattr(lax, name)
    for a, b in SHAPES[:1] if name in ("zeta", "polygamma") else SHAPES:
        x, y = operand(rng, first, a), operand(rng, second, b)
        got = f(x, y)
        np.testing.assert_allclose(np.asarray(got), theirs(x, y), rtol=1e-5, atol=1e-6)
    for a, b in (((3,), (2, 3)), ((2, 3), (2, 2)), ((1, 2, 3), (2, 3))):
        with pytest.raises(TypeError, match="incompatible shapes"):
            f(np.ones(a, np.float32), np.ones(b, np.float32))


@pytest.mark.parametrize("name, theirs", LOGIC)
def test_integers(name, theirs, rng):
    x, y = rng.integers(0, 8, (3, 1)), rng.integers(0, 8, (1, 2))
    got = getattr(lax, name)(x.astype(np.int32), y.astype(np.int32))
    np.testing.assert_array_equal(np.asarray(got), theirs(x, y))


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_match_differences(name, rng):
    f = getattr(lax, name)
    x, y = rng.uniform(0.5, 2.0, (2, 1)), rng.uniform(0.5, 2.0, (1, 3))
    check_derivatives(f, [x, y], rng)
    if name in ("mul", "max"):
        check_batching(f, [x.astype(np.float32), y.astype(np.float32)])


def test_cases_and_bounds_do_not_broadcast():
    """`select` and `clamp` take scalars or equal shapes; the cases of `select` have one shape."""
    x, row = np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)
    for call in (lambda: lax.select(x > 0, x, row), lambda: lax.select(row > 0, x, x), lambda: lax.clamp(row, x, row),
                 lambda: lax.select(x > 0, x, np.float32(1)), lambda: lax.select(row > 0, np.float32(1), np.float32(2))):
        with pytest.raises(TypeError, match="incompatible shapes"):
            call()


@pytest.mark.cpu_only
def test_shardings():
    """A dimension that is broadcast takes the mesh axes of the operand that has it."""
    mesh = xf.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))
    put = lambda x, *spec: xf.device_put(x, NamedSharding(mesh, P(*spec)))  # noqa: E731
    column, row = put(xnp.ones((4, 1)), "x", None), put(xnp.ones((1, 2)), None, None)
    assert xf.typeof(lax.add(column, row)).sharding.spec == P("x", None)
    assert xf.typeof(lax.mul(put(xnp.ones((1, 1)), None, None), put(xnp.ones((4, 2)), None, "x"))).sharding.spec == P(None, "x")
    with pytest.raises(TypeError, match="two dimensions sharded over 'x'"):
        lax.add(column, put(xnp.ones((1, 2)), None, "x"))
    back = xf.grad(lambda c: lax.mul(c, row).sum())(column)
    assert xf.typeof(back).sharding.spec == P("x", None)
    np.testing.assert_array_equal(np.asarray(back), np.full((4, 1), 2))
