"""Facts about JAX that no other oracle has: observed values, dtypes and exceptions."""

import types

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

V = np.array([5, 1, 4, 1, 3], np.int32)
F = np.array([1.0, 2.0, 3.0], np.float32)
J = type("Convertible", (), {"__jax_array__": lambda self: xnp.arange(3)})()
C = np.array([1 + 2j, 1 - 1j, -1j, 2], np.complex64)
B = np.array([True, False])
weak = xnp.asarray

VALUES = [  # call, values, dtype, weakly typed
    ("n.cumulative_sum(np.array([100, 100], np.int8))", [100, 200], "int32", False),
    ("n.cumulative_prod(np.array([3, 3], np.int8))", [3, 9], "int8", False), ("n.unwrap(np.zeros(0, np.int8))", [], "float32", None),
    ("n.logical_and(0.5, B)", [1, 0], "bool", False), ("n.logical_or(0.0, 0.0)", 0, "bool", True),
    ("n.remainder(V, 0)", [0, 0, 0, 0, 0], "int32", False),
    ("n.fmod(V, 0)", [0, 0, 0, 0, 0], "int32", False),
    ("n.sign(np.array([0, 7], np.uint8))", [0, 1], "uint8", False),
    ("n.maximum(True, 1 + 2j)", 1 + 2j, "complex64", None),
    ("xf.jit(lambda c: n.maximum(c, 1))(C)", [1 + 2j, 1, 1, 2], "complex64", False),
    ("n.minimum(C, C[::-1])", [1 + 2j, -1j, -1j, 1 + 2j], "complex64", False),
    ("n.digitize(V, np.array([5, 3, 1]))", [0, 2, 1, 2, 1], "int32", False),
    ("n.square(B)", [1, 0], "int32", False),
    ("n.bitwise_count(np.array([-7, -3, 8], np.int32))", [3, 2, 1], "uint8", False),
    ("n.quantile(n.arange(12.0), 0.5, method='nearest')", 5, "float32", False),
    ("n.hypot(np.float32(np.inf), np.nan)", np.inf, "float32", False),
    ("n.var(np.array([1, 2], np.int8), ddof=20)", np.nan, "float32", False),
    ("n.var(np.array([1, 2, 4, 9]), dtype=int, ddof=1)", 12, "float32", True), ("n.var(F, dtype='int8')", 0, "float32", True),
    ("n.nanvar(np.array([1, 2, 4, 9]), dtype=int, ddof=1)", 12, "int32", False),
    ("n.floor_divide(B, np.array([True, True]))", [1, 0], "int32", False),
    ("n.power(B, np.array([True, True]))", [1, 0], "int32", False),
    ("n.array([n.asarray(1), 2.0])", [1, 2], "float32", False),
    ("n.bincount(-V)", [5], "int32", False),
    ("n.argsort(V, descending=True, stable=False)", [0, 2, 4, 3, 1], "int32", False), ("n.argsort(V, descending=True)", [0, 2, 4, 1, 3], "int32", False),
    ("n.argsort(B[::-1], descending=True, stable=False)", [1, 0], "int32", False),
    ("n.round(np.array([15, -25, 127], np.int8), -3)", [0, 0, 0], "int8", False),
    ("n.pad(np.array([1], np.uint8), 1, constant_values=300.0)", [255, 1, 255], "uint8", False),
    ("n.pad(np.array([1], np.uint8), 1, constant_values=((300.0, -5.0),))", [255, 1, 0], "uint8", False),
    ("n.pad(V[:1], 1, constant_values=float('nan'))", [0, 5, 0], "int32", False),
    ("n.pad(V[:1], (1, 0), constant_values=1e10)", [2147483647, 5], "int32", False),
    ("n.pad(V[:1], 1, constant_values=(2.5, float('nan')))", [2, 5, 0], "int32", False),
    ("n.pad(F, 1, constant_values=2j)", [0, 1, 2, 3, 0], "float32", False),
    ("n.sum(n.asarray(2))", 2, "int32", False),
    ("n.zeros_like(n.asarray(2.0))", 0, "float32", True),
    ("n.linspace(0, 1, 5, retstep=True)[1]", 0.25, "float32", False),
    ("xf.grad(lambda x: x * 2)(1.0)", 2, "float32", True),
    ("n.full(2, 7.0, device=xf.devices()[0])", [7, 7], "float32", False),
    ("xf.lax.full((2,), 7, sharding=xf.sharding.SingleDeviceSharding(xf.devices()[0]))", [7, 7], "int32", False),
    ("n.full_like(n.asarray(2.0), 7, device=xf.devices()[0])", 7, "float32", False),
    ("n.zeros_like(n.asarray(2.0), device=xf.devices()[0])", 0, "float32", False),
    ("xf.grad(lambda x: 1.0)(1.0)", 0, "float32", True),
    ("xf.grad(lambda a, b: a + b)(np.float32(1), np.float32(2))", 1, "float32", False),
    ("xf.grad(xf.grad(xf.nn.softplus))(0.0)", 0.25, "float32", True),
    ("xf.grad(abs)(0.0)", 1, "float32", True),
    ("xf.grad(lambda x: n.logaddexp(x, np.inf))(np.inf)", 1, "float32", True),
    ("xf.grad(xf.nn.relu)(np.float32(np.nan))", 0, "float32", False),
    ("xf.grad(lambda x: n.floor_divide(x, 0.0))(1.0)", 0, "float32", True),
    ("xf.grad(lambda x: n.abs(n.sign(x)).sum())(C)", [0, 0, 0, 0], "complex64", False),
    ("xf.grad(lambda x: x**0.0)(0.0)", np.nan, "float32", None),
    ("xf.grad(lambda x: x**0)(0.0)", 0, "float32", True),
    ("xf.grad(n.power, 1)(0.0, 0.0)", 0, "float32", True),
    ("xf.grad(xf.grad(n.power, 0), 1)(2.0, 0.0)", 0.5, "float32", True),
    ("xf.grad(xf.grad(n.power, 1), 0)(0.0, 2.0)", 0, "float32", None),
    ("xf.grad(xf.grad(n.cbrt))(0.0)", -np.inf, "float32", None),
    ("xf.vmap(xf.grad(n.fmax))(F, n.array([1.0, n.nan, 4.0]))", [0, 1, 0], "float32", False),
    ("xf.vmap(xf.grad(n.fmin))(F, n.array([1.0, n.nan, 4.0]))", [0, 1, 1], "float32", False),
    ("n.fmax(C, C[::-1])", [2, 1 - 1j, 1 - 1j, 2], "complex64", False),
    ("xf.vmap(xf.grad(xf.nn.relu6))(n.array([0.0, n.nan, 6.0, 5.0]))", [0, 0, 0, 1], "float32", False),
    ("xf.nn.relu6(n.array([9]))", [6], "float32", True),
    ("xf.grad(lambda x: n.quantile(x, 0.3))(n.array([2.0, 2.0, 1.0, 1.0]))", [0, 0, 0.1, 0.9], "float32", False),
    ("xf.jvp(n.sin, (0.0,), (1.0,))[1]", 1, "float32", True),
    ("xf.jvp(lambda x: x * 2, (np.float32(1),), (1.0,))[1]", 2, "float32", False),
    ("xf.linearize(n.sin, 0.0)[1](2.0)", 2, "float32", True),
    ("xf.linear_transpose(lambda x: 2 * x, 1.0)(3.0)[0]", 6, "float32", True),
    ("xf.linear_transpose(lambda x: 2.0, 1.0)(3.0)[0]", 0, "float32", True),
    ("xf.jit(lambda f, x: f(x))(xf.linearize(n.sin, 0.0)[1], 3.0)", 3, "float32", True),
    ("xf.vmap(lambda f, x: f(x))(xf.vmap(lambda x: xf.linearize(n.square, x)[1])(F), F)", [2, 8, 18], "float32", False),
    ("xf.grad(lambda x: [x * 2, 1], has_aux=True)(1.0)[0]", 2, "float32", True),
    ("xf.lax.scan(lambda c, x: (c + x, c), 0.0, F)[0]", 6, "float32", False),
    ("xf.lax.scan(lambda c, x: (c + x, c), 0.0, F)[1]", [0, 1, 3], "float32", True),
    ("xf.lax.scan(lambda c, x: (2.0, c), np.float32(1), F)[0]", 2, "float32", True),
    ("xf.lax.scan(lambda c, x: [c + x, x], 0.0, F)[0]", 6, "float32", False),
    ("xf.lax.scan(lambda c, x: (c + x, c), 0.0, n.asarray(F, 'bfloat16'))[0]", 6, "bfloat16", False),
    ("xf.lax.scan(lambda c, x: (c + np.int8(1), c), 1, F)[1]", [1, 2, 3], "int8", False),
    ("xf.lax.scan(lambda c, x: (c * 1.5, c), 1, F[:2])[0]", 2.25, "float32", False),
    ("xf.lax.while_loop(lambda c: c < 9, lambda c: c * n.array(2, 'bfloat16'), 1.0)", 16, "bfloat16", False),
    ("xf.lax.while_loop(lambda c: c < 9, lambda c: 20.0, np.float32(1))", 20, "float32", True),
    ("xf.lax.fori_loop(0, 3, lambda i, c: c + i, 0)", 3, "int32", True),
    ("xf.lax.fori_loop(0, 3, lambda i, c: c + i, np.int8(0))", 3, "int8", False),
    ("xf.jit(lambda k: xf.lax.fori_loop(0, k, lambda i, c: c + i, 0))(3)", 3, "int32", True),
    ("xf.jit(lambda k: xf.lax.fori_loop(0, k, lambda i, c: c + i, 0))(np.int8(3))", 3, "int8", False),
    ("xf.lax.cond(False, 1.0, lambda x: x, 2.0, lambda x: -x)", -2, "float32", True),
    ("xf.custom_derivatives.zero_from_primal({'a': F, 'b': (2, None)})['a']", [0, 0, 0], "float32", False),
    ("xf.pure_callback(lambda x: x, (xf.ShapeDtypeStruct((3,), 'float32'),), F)[0]", F, "float32", False),
    ("xf.jacfwd(lambda x: V)(F)", np.zeros((5, 3)), "int32", False),
    ("n.logaddexp(C, C)", C + np.log(2), "complex64", False),
    ("n.sum(np.ones((2, 3, 4), np.float32), axis=[0, 2])", [8, 8, 8], "float32", False),
    ("n.mean(np.ones((2, 3), np.float32), axis=n.array(1))", [1, 1], "float32", False),
    ("n.ones((2, 3)).max(axis=[0, 1])", 1, "float32", False),
    ("n.log10(n.asarray(0j))", -np.inf, "complex64", False),
    ("n.logaddexp(np.complex64(3 - 3j), np.complex64(2 + 3j))", np.log(np.exp(3 - 3j) + np.exp(2 + 3j)), "complex64", False),
    ("xf.nn.softplus(np.complex64(-1 + 4j))", np.log(1 + np.exp(-1 + 4j)), "complex64", False),
    ("n.linalg.cholesky(-n.eye(2) * (1 + 0j)).imag", [[np.nan, 0], [np.nan, np.nan]], "float32", False),
    ("xf.jvp(lambda c: xf.lax.scan(lambda c, x: (c + x, c), c, F)[0], (0.0,), (1.0,))[0]", 6, "float32", False),
    ("xf.jvp(lambda c: xf.lax.scan(lambda c, x: (c + x, c), c, F)[0], (0.0,), (1.0,))[1]", 1, "float32", False),
    ("xf.linearize(lambda c: xf.lax.scan(lambda c, x: (c + x, c), c, F)[0], 0.0)[1](2.0)", 2, "float32", False),
    ("xf.grad(lambda v: xf.lax.max(v, 0.0))(0.5)", 1, "float32", False),  # unlike most derivatives of a Python scalar
    ("xf.grad(lambda v: n.minimum(0.5, v))(0.5)", 0.5, "float32", False),
    ("xf.lax.cond(True, lambda: F[0], lambda: 0.0)", 1, "float32", True),  # as weakly typed as the first branch, for False
    ("xf.lax.cond(False, lambda: 0.0, lambda: F[0])", 1, "float32", False),
    ("xf.lax.switch(1, [lambda: F[0], lambda: 2.0])", 2, "float32", False),
    ("n.diff(n.ones(0), 5)", [], "float32", False),
    ("n.ediff1d(n.ones(0), 1, 2)", [2, 1], "float32", False),
    ("n.histogram(V, bins=0)[0]", [], "float32", False),
    ("n.minimum.reduce(np.array([[7, 3], [2, 9]]), dtype='int8')", [2, 3], "int8", False),
    ("n.logical_and.reduce(np.array([[7, 3], [0, 9]]), dtype='int8')", [0, 1], "int8", False),
    ("n.maximum.at(V, 0, 6.5, inplace=False)", [6.5, 1, 4, 1, 3], "float32", False),
    ("n.logical_or.at(F, np.array([0, 0]), 0, inplace=False)", [True, True, True], "bool", False),
    ("n.add.at(B, 1, True, inplace=False)", [True, True], "bool", False),
    ("xf.lax.full_like(types.SimpleNamespace(shape=(3,), dtype=np.dtype('float32')), 2.0)", [2, 2, 2], "float32", False),
    ("xf.jvp(lambda a: xf.lax.clamp(0.0, a, 2.0), (F[0],), (n.asarray(1.0),))[1]", 1, "float32", False),
    ("n.ones(2).at[()].get(mode='wrap')", [1, 1], "float32", False),  # all of it: nothing can lie outside
]


def evaluate(text):
    return eval(text, {"n": xnp, "np": np, "xf": xf, "V": V, "F": F, "C": C, "B": B, "J": J, "types": types})


@pytest.mark.parametrize("text, values, dtype, is_weak", VALUES, ids=[row[0] for row in VALUES])
def test_values_and_dtypes_of_jax(text, values, dtype, is_weak):
    x = evaluate(text)
    assert isinstance(x, xf.Array)
    assert x.dtype == dtype
    if is_weak is not None:
        assert x.weak_type == is_weak
    np.testing.assert_allclose(np.asarray(x), values, rtol=2e-6, atol=1e-6)


ERRORS = [
    ("n.select([], 1)", TypeError), ("V_[range(2)]", TypeError), ("xf.jit(lambda k: n.rot90(n.ones((2, 2)), k))(1)", ValueError),
    *[(f"xf.jit(lambda k: n.{call})(1)", xf.errors.ConcretizationTypeError) for call in (
        "sum(V, k)", "flip(V, k)", "squeeze(V, k)", "roll(V, 1, k)", "split(V, k)", "repeat(V, 2, k)", "var(F, k)")],
    ("n.power(V, -1)", TypeError),
    ("V_ ** -1", TypeError),
    ("xf.lax.integer_pow(V, -1)", TypeError),
    ("xf.lax.reciprocal(V)", TypeError),
    ("n.clip(C, 0, 1)", ValueError),
    ("n.ones((2, 3)) + n.ones(2)", ValueError), ("n.ones((2, 3)) + n.ones((2, 2))", TypeError),
    ("n.bincount(n.ones((2, 2), int))", ValueError), ("n.bincount(n.ones(2))", TypeError),
    ("n.nanargmax(n.ones(2), axis=())", TypeError),
    ("n.sum(F, axis=2)", ValueError),
    ("n.mean(F, axis=2)", IndexError),
    ("V_ == [1]", TypeError),
    ("float(n.asarray(C)[0])", TypeError),
    ("xf.grad(lambda x: x)()", TypeError),
    ("n.arange(3, dtype=bool)", TypeError),
    ("xf.jacrev(lambda x: V)(F)", TypeError),
    ("xf.jvp(lambda x: x, (1.0,), (1,))", TypeError),
    ("xf.jvp(lambda x: x, (1.0,), (1j,))", TypeError),
    ("xf.vjp(lambda x: x, 1.0)[1](1)", ValueError),
    ("xf.vjp(n.sin, n.array(1, 'bfloat16'))[1](1.0)", ValueError),
    ("xf.linear_transpose(lambda x: 2 * x, 1.0)(F)", TypeError),
    ("xf.linear_transpose(lambda x: 1j * x, 1.0)(3.0)", TypeError),
    ("xf.jacfwd(lambda x: x, argnums=2)(F)", ValueError),
    ("xf.grad(lambda x: x, argnums=2)(1.0)", TypeError),
    ("xf.grad(lambda x: x, argnums=-3)(1.0)", ValueError),
    ("xf.lax.cond(1j, lambda: 1, lambda: 2)", TypeError),
    ("xf.lax.scan(lambda c, x: (c * n.array(1, 'bfloat16'), c), np.int32(1), F)", TypeError),
    ("xf.lax.abs(np.ones(2, np.uint8))", TypeError),
    ("xf.lax.conj(np.ones(2, np.float16))", TypeError),
    ("n.array([True]).at[n.array([0, 0])].subtract(True)", TypeError),
    ("n.copysign(C, 1.0)", TypeError),
    ("n.broadcast_to(V, (-1, 5))", TypeError),
    ("n.pad(F, 1.5)", TypeError),
    ("n.array_equal('a', F)", TypeError),
    ("n.clip()", ValueError), ("n.clip(max=2)", ValueError), ("xf.lax.reduce_and(F, (3,))", TypeError), ("xf.lax.reduce_or(F, (3,))", TypeError),
    ("n.flip(n.ones((1, 2)), (0, 0))", TypeError),
    ("n.moveaxis(n.ones((1, 2)), (0, 0), (1, 0))", TypeError),
    ("n.median(n.zeros(0))", ValueError),
    pytest.param("n.dot(F, F, precision='TF32_TF32_F32')", ValueError, marks=pytest.mark.cpu_only),
    ("n.sum(V, axis=(0, 'i'))", NameError), ("n.var(F, axis=(0, 'i'))", NameError),
    ("n.round(F, 1.5)", TypeError), ("n.round(F, 'a')", TypeError),
    ("xf.grad(xf.lax.polygamma)(1.0, 2.0)", ValueError),
    ("xf.jit(lambda k: list(range(k)))(3)", xf.errors.TracerIntegerConversionError),
    ("n.dot(F, F, precision='ANY_F8_ANY_F8_F32')", ValueError),
    ("n.subtract.reduce(n.ones((2, 2)), axis=(0, 1))", NotImplementedError),
    ("n.maximum.reduce(F, dtype='int8')", TypeError),
    ("xf.lax.reduce(F, 1, n.add, ())", TypeError),
    ("xf.tree_util.tree_transpose(xf.tree.structure([]), xf.tree.structure(0), [])", ValueError),
    ("xf.flatten_util.ravel_pytree([xf.random.key(0)])", TypeError),
    ("xf.flatten_util.ravel_pytree(F)[1]([1.0, 2.0, 3.0])", TypeError),
    *[(f"n.{call}", ValueError) for call in (  # what has __jax_array__ is not converted
        "ravel(J)", "atleast_1d(J)", "take(F, J)", "digitize(F, J)")],
]


@pytest.mark.parametrize("text, error", ERRORS)
def test_exceptions(text, error):
    with pytest.raises(error):
        evaluate(text.replace("V_", "n.asarray(V)"))


@pytest.mark.parametrize("x64", [False, True])
def test_weakly_typed_arrays_promote_as_their_dtypes_do(x64):
    wide = "float64" if x64 else "float32"
    rows = [("float32", 1, "float32"), ("bfloat16", 1, "bfloat16"), ("bfloat16", 1.0, wide), ("int32", 1.0, wide),
            ("bfloat16", 1j, "complex128" if x64 else "complex64"), ("bfloat16", True, wide)]
    with xf.enable_x64(x64):
        for own, other, found in rows:
            x = xf.ShapeDtypeStruct((3,), own, weak_type=True)
            for function in (lambda x: x + other, lambda x: other * x):
                result = xf.eval_shape(function, x)
                assert (result.dtype, result.weak_type) == (found, True), (own, other)
        for own, other, found in (("bfloat16", "int32", "bfloat16"), ("float32", "bfloat16", "float32"),
                                  ("int32", "float32", "float32")):
            result = xf.eval_shape(xnp.add, *[xf.ShapeDtypeStruct((3,), d, weak_type=True) for d in (own, other)])
            assert (result.dtype, result.weak_type) == (found, True), (own, other)


@pytest.mark.parametrize("x64", [False, True])
def test_integers_that_are_too_large(x64):
    """For 64 bits, alone or in lists, too: nothing is cut off, and nothing becomes unsigned or a float."""
    with xf.enable_x64(x64):
        for value in (2**63, 2**64, -(2**63) - 1):
            for given in (value, [value], [1, value], (True, value), [xnp.int32(1), value]):
                for make in (xnp.array, xnp.asarray):
                    with pytest.raises(OverflowError):
                        make(given)
        assert xnp.array([1.0, 2**64]).tolist() == [1, 2.0**64]
        assert xnp.linalg.vector_norm(np.array([3, 4], np.int8)).dtype == (np.float64 if x64 else np.float32)


def test_powers_of_booleans():
    """To a known integer they are int32, whatever the default integer is."""
    for x64 in (False, True):
        with xf.enable_x64(x64):
            assert (xnp.array(B) ** 2).dtype == xnp.power(True, 3).dtype == np.int32 and xnp.power(True, 3) == 1


def test_interfaces():
    assert xnp.ndim(np.ones(2)) == 1 and xnp.shape(np.ones((2, 1))) == (2, 1) and xnp.zeros(xnp.array(2)).shape == (2,)
    assert str(xf.typeof(1)) == "~int32[]"
    lowered = xf.jit(lambda x, y: x + y, donate_argnums=1).lower(1.0, xnp.float32(1))
    assert lowered.in_avals[1] == {} and len(lowered.in_avals[0]) == 2 and lowered.donate_argnums == (1,)
    key = xf.random.key(True)
    assert xnp.array([key, key]).shape == (2,) and key.copy() == key
    chain = [np.ones((n, n + 1)) for n in range(2, 6)]
    paths = [xnp.einsum_path("ij,jk,kl,lm", *chain, optimize=optimize)[0] for optimize in ("auto", True, "greedy", False)]
    assert paths == [[(0, 1), (0, 2), (0, 1)]] * 2 + [[(2, 3), (1, 2), (0, 1)], [(0, 1)] * 3]
    assert xnp.einsum_path("ij,jk,kl,lm", *chain)[0] == paths[0]  # as in einsum, the one with the fewest multiplications


@pytest.mark.parametrize("value", [1, 1.0, True, np.int8(1), np.float32(1), V[:1]], ids=repr)
@pytest.mark.parametrize("function", [
    xf.lax.stop_gradient, lambda x: xf.lax.reshape(x, np.shape(x)), lambda x: xf.lax.collapse(np.ones((2, 2)), 1, 2)])
def test_values_of_programs_are_arrays(function, value):
    found = []
    xf.make_jaxpr(lambda: found.append(function(value)))()
    assert isinstance(found[0], xf.Array)


def test_derivatives_of_integers():
    block = xf.jacrev(lambda x: x * 1.5, allow_int=True)(V[:2])
    assert block.shape == (2, 2) and block.dtype == np.int32  # as the reference has it
    _, tangents = xf.jvp(lambda x: xf.lax.cond(x > 1, lambda y: (y, 1), lambda y: (2.0, 2), x), (2.0,), (1.0,))
    assert tangents[0] == 1 and tangents[1].dtype == xf.dtypes.float0


def test_rules_get_values_with_a_dtype():
    """NumPy's arrays come to custom rules as arrays, of canonical dtypes, Python's floats as floats that know theirs."""
    seen = []

    @xf.custom_vjp
    def product(x, y):
        seen.append((x.dtype, y.dtype))
        return x * y

    product.defvjp(lambda x, y: (product(x, y), (x, y)), lambda saved, ct: (
        (ct * saved[1]).sum().astype(saved[0].dtype), ct * saved[0]))
    product(2.0, np.ones(3))
    assert xf.grad(lambda x: product(x, np.ones(3)).sum())(2.0) == 3
    assert set(seen) == {(np.dtype(np.float32), np.dtype(np.float32))}
    square = xf.custom_jvp(lambda x: x**2)
    square.defjvp(lambda primals, tangents: (square(*primals), primals[0].dtype.type(3) * primals[0] * tangents[0]))
    assert xf.grad(square)(2.0) == 6 and xf.jit(xf.grad(square))(2.0) == 6
    function = xf.custom_jvp(lambda x: x)
    function.defjvp(lambda primals, tangents: (function(*primals), 2 * tangents[0]))
    assert [type(x) for x in xf.jvp(function, (2.0,), (3.0,))] == [float, float] and xf.jvp(function, (2.0,), (3.0,)) == (2.0, 6.0)
    assert type(xf.vjp(function, 2.0)[0]) is float and isinstance(xf.grad(lambda x: function(xnp.asarray(x)))(2.0), xf.Array)
    zeros = xf.custom_derivatives.zero_from_primal({"a": F, "b": 2}, symbolic_zeros=True)
    assert zeros["a"].shape == (3,) and zeros["b"].dtype == xf.dtypes.float0


def test_a_function_that_is_not_linear_cannot_be_transposed():
    with pytest.raises(TypeError, match="not linear: mul"):
        xf.linear_transpose(lambda x: x * x, 1.0)(3.0)
    with pytest.raises(NotImplementedError, match="sin.*not linear"):
        xf.linear_transpose(xnp.sin, 1.0)(3.0)
    with pytest.raises(TypeError, match="a single argument, the cotangent.*given 2"):
        xf.vjp(lambda x: (x, x), 1.0)[1](1.0, 1.0)
