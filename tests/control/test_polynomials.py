"""`lax.polynomial`: values and derivatives against NumPy's polynomials, loops, shapes and dtypes."""

import numpy as np
import pytest
from numpy.polynomial import polynomial

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax


@pytest.mark.parametrize("unroll", [None, 0, 3, 100])
@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 20])
def test_values_and_derivatives(count, unroll, rng):
    c, x = rng.standard_normal(count).astype(np.float32), rng.uniform(-1.2, 1.2, 3).astype(np.float32)
    f = xf.jit(lambda x, c: lax.polynomial(x, c, unroll=unroll))
    close = lambda found, expected: np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)  # noqa: E731
    close(f(x, c), polynomial.polyval(x, c))
    close(lax.polynomial(x, list(c), unroll=unroll), polynomial.polyval(x, c))
    for_x, for_c = xf.grad(lambda x, c: f(x, c).sum(), (0, 1))(x, c)
    close(for_x, polynomial.polyval(x, polynomial.polyder(c)))
    close(for_c, [(x ** k).sum() for k in range(count)])
    close(xf.vmap(xf.grad(xf.grad(f)), (0, None))(x, c), polynomial.polyval(x, polynomial.polyder(c, 2)))


def test_derivative_is_one_polynomial_of_lower_degree():
    program = xf.make_jaxpr(xf.grad(lambda x: lax.polynomial(x, [1.0, 5.0, 2.0])))(3.0)
    assert [len(eqn.invars) for eqn in program.eqns if eqn.primitive is lax.polynomial_p] == [4, 3]


def test_coefficients_have_the_dtype_of_x():
    for x, c, dtype in ((3, [np.float32(1.5), 2.0], np.int32), (np.float16(3), [np.float32(1), 2], np.float16)):
        found = lax.polynomial(x, c)
        assert found.dtype == dtype and found == 7
    for c in ([1.0, 5.0, 2.0], [np.float32(1), np.float32(5)], np.float32([1, 5])):  # and the weak type of x
        assert lax.polynomial(3.0, c).weak_type and not lax.polynomial(np.float32(3), c).weak_type
    assert not lax.polynomial(3.0, [np.float32([1, 2]), 1.0]).weak_type  # that of arrays is theirs
    assert lax.polynomial(np.float32(3), [np.complex64(2 + 1j), xnp.complex64(1 + 7j)]) == 2 + 3
    with pytest.raises(TypeError, match="complex.*Convert x"):
        lax.polynomial(1.0, [1j])
    with pytest.raises(TypeError, match="does not accept dtype bool"):
        lax.polynomial(True, [True])


def test_shapes():
    column, row = np.float32([[1], [2]]), np.float32([[3, 4, 5]])
    np.testing.assert_array_equal(lax.polynomial(row, [column, 2.0]), column + 2 * row)
    assert lax.polynomial(row, []).tolist() == [[0, 0, 0]] and lax.polynomial(1.0, [row]).tolist() == row.tolist()
    found = xf.vmap(lambda x, c: lax.polynomial(x, [c, 3.0, c]), in_axes=(0, 1))(np.float32([1, 2]), np.float32([[1, 2], [3, 4]]))
    np.testing.assert_array_equal(found, [[5, 9], [2 + 6 + 8, 4 + 6 + 16]])
    with pytest.raises(TypeError, match=r"polynomial got incompatible shapes for broadcasting: \(3,\), \(4,\)"):
        lax.polynomial(np.ones(3), [np.ones(4), 1.0])
    with pytest.raises(TypeError, match="polynomial takes a sequence of coefficients"):
        lax.polynomial(np.ones(3), 3.0)


def test_polyval_of_stacked_polynomials(rng):
    p, x = rng.standard_normal((12, 3)).astype(np.float32), rng.uniform(-1, 1, (4, 3)).astype(np.float32)
    expected = sum(c * x ** k for k, c in enumerate(p[::-1].astype(float)))
    for unroll in (None, 16, 1):
        np.testing.assert_allclose(xnp.polyval(p, x, unroll=unroll), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(xf.vmap(lambda q: xnp.polyval(q, x, unroll=unroll), 1)(p)[0], np.polyval(p[:, 0], x),
                                   rtol=1e-4, atol=1e-4)


def test_derivative_in_a_scalar_of_polynomials_in_a_row(rng):
    p, t = rng.standard_normal((4, 3)).astype(np.float32), np.float32(0.7)
    slopes = [np.polyval(np.polyder(p[:, k]), t) for k in range(3)]
    close = lambda found, expected: np.testing.assert_allclose(found, expected, rtol=1e-5)  # noqa: E731
    close(xf.jacfwd(lambda t: xnp.polyval(p, t))(t), slopes)
    close(xf.grad(lambda t: xnp.polyval(p, t).sum())(t), sum(slopes))
    close(xf.jacrev(lambda x: lax.polynomial(x, list(p[::-1, None])))(t[None, None]).ravel(), slopes)
