"""Lists are rejected as matrices."""

import pytest

import xlafront.numpy as xnp
from xlafront import lax

A = [[2.0, 1.0], [1.0, 3.0]]


@pytest.mark.parametrize("function", [
    lax.linalg.cholesky, lax.linalg.lu, lax.linalg.qr, lax.linalg.svd, lax.linalg.eigh, lax.linalg.eig,
    pytest.param(lax.linalg.hessenberg, marks=pytest.mark.cpu_only), pytest.param(lax.linalg.schur, marks=pytest.mark.cpu_only),
    lax.linalg.tridiagonal, lambda a: lax.linalg.triangular_solve(a, a),
    lambda a: lax.linalg.symmetric_product(a, a), lambda a: xnp.linalg.matrix_power(a, 2), lambda a: xnp.linalg.multi_dot([a, a]),
    lambda a: xnp.argwhere(a, size=1),
])  # fmt: skip
@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_raise(function, kind):
    function(xnp.array(A))
    with pytest.raises(TypeError, match=kind.__name__):
        function(kind(A))
