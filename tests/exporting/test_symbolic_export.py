"""Exports with dimension variables: calls, checks, derivatives, files, nested calls."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import export, lax, lowering
from xlafront.errors import InconclusiveDimensionOperation

f32 = np.float32


def function(x, y):
    return x[1:] * 2, xnp.sin(y).sum(0), x.shape[0] * y


@pytest.fixture(scope="module")
def exported():
    a, b = export.symbolic_shape("a, b", constraints=["a >= b + 1"])
    return export.export(xf.jit(function))(xf.ShapeDtypeStruct((a, 2 * b), f32), xf.ShapeDtypeStruct((b, 3), f32))


X, Y = np.arange(16, dtype=f32).reshape(4, 4), np.linspace(0, 1, 6, dtype=f32).reshape(2, 3)


def expected(x, y):
    return x[1:] * 2, np.sin(y).sum(0), len(x) * y


def check(found, correct):
    for x, y in zip(found, correct, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


def test_exports_have_symbolic_types(exported):
    assert [str(aval) for aval in exported.in_avals] == ["float32[a,2*b]", "float32[b,3]"]
    assert [str(aval) for aval in exported.out_avals] == ["float32[a - 1,2*b]", "float32[3]", "float32[b,3]"]
    assert exported.uses_global_constants
    text = exported.mlir_module()
    assert "jax.uses_shape_polymorphism = true" in text and "@shape_assertion" in text and "tensor<?x3xf32>" in text


def test_exported_calls(exported):
    check(exported.call(X, Y), expected(X, Y))
    check(exported.call(X[:3, :2], Y[:1]), expected(X[:3, :2], Y[:1]))
    both = xf.jit(lambda: (exported.call(X, Y), exported.call(X[:3, :2], Y[:1])))()
    check(both[0], expected(X, Y))
    check(both[1], expected(X[:3, :2], Y[:1]))


@pytest.mark.parametrize("shapes, message", [
    (((4, 5), (2, 3)), r"division by 2 .*'b' from args\[0\].shape\[1\] \(= 5\).*remainder"),
    (((4, 4), (3, 3)), r"args\[1\].shape\[0\] has size 3, but by the other sizes 'b' is 2.*'a' = 4 from 'a' for args\[0\].shape\[0\]"),
    (((2, 4), (2, 3)), "constraint a >= b [+] 1 does not hold.* is -1"),
    (((0, 0), (0, 3)), "Expected value >= 1 for dimension variable 'a', which is 0"),
    (((4, 4), (2, 5)), r"args\[1\].shape\[1\] is 5, but the program was exported for 3"),
    (((4,), (2, 3)), r"rank mismatch: args\[0\]"),
])
def test_shapes_that_do_not_fit(exported, shapes, message):
    arguments = [np.ones(s, f32) for s in shapes]
    with pytest.raises(ValueError, match=message):
        exported.call(*arguments)
    with pytest.raises(ValueError, match=message):
        xf.jit(exported.call)(*arguments)


def test_the_module_checks_its_arguments(exported):
    """For programs that refine the module without this library."""
    module = lowering.artifacts.deserialize(exported.mlir_module_serialized)
    with pytest.raises(ValueError, match="the division by 2 that computes 'b'"):
        lowering.refinement.refined(module, [((4, 5), f32), ((2, 3), f32)])
    refined = lowering.refinement.refined(module, [((4, 4), f32), ((2, 3), f32)])
    assert "?" not in lowering.module_text.module_text(refined)


def test_serialized_exports_preserve_constraints(exported):
    read = export.deserialize(exported.serialize(vjp_order=1))
    assert [str(aval) for aval in read.in_avals] == ["float32[a,2*b]", "float32[b,3]"]
    assert read.in_avals[0].shape[0].scope is read.out_avals[0].shape[1].scope
    assert [c.text for c in read.in_avals[0].shape[0].scope.constraints] == ["a >= b + 1"]
    check(read.call(X, Y), expected(X, Y))
    with pytest.raises(ValueError, match="constraint a >= b [+] 1"):
        read.call(X[:2], Y)
    gradient = xf.grad(lambda x, y: (read.call(x, y)[0] ** 2).sum() + read.call(x, y)[1].sum(), (0, 1))(X, Y)
    check(gradient, [np.concatenate([0 * X[:1], 8 * X[1:]]), np.cos(Y)])


def test_derivatives(exported):
    gradient = xf.jit(xf.grad(lambda x, y: (exported.call(x, y)[2] ** 2).sum(), 1))(X, Y)
    np.testing.assert_allclose(gradient, 2 * 16 * Y, rtol=1e-5)
    assert [str(aval) for aval in exported.vjp().in_avals[2:]] == ["float32[a - 1,2*b]", "float32[3]", "float32[b,3]"]


def test_calls_at_other_symbolic_shapes(exported):
    c, h = export.symbolic_shape("c, h", constraints=["c >= h + 1"])
    outer = export.export(xf.jit(lambda x, y: exported.call(x, y)))(
        xf.ShapeDtypeStruct((c, 2 * h), f32), xf.ShapeDtypeStruct((h, 3), f32))
    assert [str(aval) for aval in outer.out_avals] == ["float32[c - 1,2*h]", "float32[3]", "float32[h,3]"]
    check(outer.call(X, Y), expected(X, Y))
    [n] = export.symbolic_shape("n", constraints=["n >= 2"])
    mixed = export.export(xf.jit(lambda x: exported.call(x, Y)))(xf.ShapeDtypeStruct((2 * n, 4), f32))
    assert str(mixed.out_avals[0]) == "float32[2*n - 1,4]"
    check(mixed.call(X), expected(X, Y))
    with pytest.raises(ValueError, match="constraint n >= 2"):
        mixed.call(X[:2])
    with pytest.raises(ValueError, match="does not hold"):
        xf.eval_shape(exported.call, xf.ShapeDtypeStruct((h, 2 * h), f32), xf.ShapeDtypeStruct((h, 3), f32))


@pytest.mark.parametrize("inner, outer, words", [
    ("3, a, a + b", "3, 4, c", "Expected value >= 1 for dimension variable 'b'.*must hold for all values.*constraints=."),
    ("a, a", "b, c", "has size c, but by the other sizes 'a' is b"), ("2*a", "c", "division by 2 .* has a remainder"),
    ("a + 2", "c", "Expected value >= 1"), ("a, 2*a", "b, c", "has size c"), ("a, a", "b, 2", "has size 2")])
def test_calls_hold_for_all_sizes_of_the_caller(inner, outer, words):
    types = [xf.ShapeDtypeStruct(export.symbolic_shape(shape), f32) for shape in (inner, outer)]
    called = export.export(xf.jit(lambda x: x * 2))(types[0])
    with pytest.raises(ValueError, match=words):
        export.export(xf.jit(lambda x: called.call(x)))(types[1])


def test_constraints_are_on_variables_of_the_arguments():
    for constraint in ("m >= m1", "a >= b"):
        [m] = export.symbolic_shape("m", constraints=[constraint])
        with pytest.raises(ValueError, match="constraint .* has the dimension variable.*not in the shapes of the arguments"):
            export.export(xf.jit(lambda x: x))(xf.ShapeDtypeStruct((m,), f32))
    [m] = export.symbolic_shape("m", constraints=["m1 == 4", "m >= m1"])
    assert export.export(xf.jit(lambda x: x))(xf.ShapeDtypeStruct((m,), f32)).call(np.ones(5, f32)).shape == (5,)


def test_a_module_that_calls_one_with_symbolic_sizes_uses_global_constants():
    a, b = export.symbolic_shape("a, b")
    inner = export.export(xf.jit(lambda x: x.reshape(-1)))(xf.ShapeDtypeStruct((a, b), f32))
    outer = export.export(xf.jit(lambda x: inner.call(x)))(xf.ShapeDtypeStruct((3, 4), f32))
    assert outer.uses_global_constants and outer.call(np.ones((3, 4), f32)).shape == (12,)
    assert not export.export(xf.jit(lambda x: x))(xf.ShapeDtypeStruct((3, 4), f32)).uses_global_constants


def test_several_platforms():
    [b] = export.symbolic_shape("b")
    module = export.export(xf.jit(lambda x: x.sum(0)), platforms=("cpu", "cuda", "tpu"))(xf.ShapeDtypeStruct((b, 3), f32))
    np.testing.assert_array_equal(module.call(np.ones((5, 3), f32)), [5, 5, 5])


def test_variables_that_cannot_be_computed():
    a, b = export.symbolic_shape("a, b")
    with pytest.raises(ValueError, match="'a', 'b' cannot be computed from the shapes"):
        export.export(xf.jit(xnp.sin))(xf.ShapeDtypeStruct((a * b,), f32))
    with pytest.raises(ValueError, match="'a' cannot be computed"):
        export.export(xf.jit(xnp.sin))(xf.ShapeDtypeStruct((a % 3,), f32))
    once = export.export(xf.jit(lambda x, y: x))(xf.ShapeDtypeStruct((a * b + a,), f32), xf.ShapeDtypeStruct((b,), f32))
    assert once.call(np.ones(6, f32), np.ones(2, f32)).shape == (6,)
    with pytest.raises(ValueError, match=r"division by b [+] 1 .*'a' from args\[0\].shape\[0\] \(= 5\)"):
        once.call(np.ones(5, f32), np.ones(2, f32))


def test_unread_arguments_give_sizes():
    a, b = export.symbolic_shape("a, b")
    module = export.export(xf.jit(lambda x, y: xnp.arange(y.shape[0])))(
        xf.ShapeDtypeStruct((a,), f32), xf.ShapeDtypeStruct((b - a,), f32))
    np.testing.assert_array_equal(module.call(np.ones(2, f32), np.ones(3, f32)), np.arange(3))


def test_comparisons_while_tracing():
    [b] = export.symbolic_shape("b")
    spec = xf.ShapeDtypeStruct((b, 3), f32)
    with pytest.raises(InconclusiveDimensionOperation, match="'b' > '4'"):
        export.export(xf.jit(lambda x: x if x.shape[0] > 4 else -x))(spec)
    with pytest.raises(InconclusiveDimensionOperation, match="constant integer"):
        export.export(xf.jit(lambda x: [x * i for i in range(int(x.shape[0]))]))(spec)
    with pytest.raises(TypeError, match="(?s)b, 3.*3, b"):
        export.export(xf.jit(lambda x: x + x.T))(spec)


def test_derivatives_of_integer_arguments_have_symbolic_shapes():
    sharding = xf.sharding.SingleDeviceSharding(xf.devices()[0])
    [placed] = export.symbolic_args_specs((xf.ShapeDtypeStruct((2, 3), f32, sharding=sharding),), ("2, a",))
    assert placed.sharding is None  # as in JAX: that of a size may not divide another
    types = export.symbolic_args_specs((np.zeros((2, 3), np.int32), np.zeros((3, 4), f32)), ("2, a", "a, 4"))
    exported = export.export(xf.jit(lambda i, x: (2 * i.T, x.T * x.T)))(*types)
    read = export.deserialize(exported.serialize(vjp_order=2))
    assert [str(aval) for aval in read.vjp().vjp().out_avals] == ["float0[2,a]", "float32[a,4]", "float0[a,2]", "float32[4,a]"]
    x, ct = np.arange(12, dtype=f32).reshape(3, 4), np.ones((4, 3), f32)
    _, found = read.vjp().call(np.zeros((2, 3), np.int32), x, np.zeros((3, 2), xf.float0), ct)
    np.testing.assert_array_equal(found, 2 * x)


@pytest.mark.parametrize("x64", [False, True])
def test_sizes_are_integers_of_the_default_dtype(x64):
    with xf.enable_x64(x64):
        [b] = export.symbolic_shape("b")
        module = export.export(xf.jit(lambda x: (xnp.array(x.shape[0]), x * x.shape[0], x.shape[0] / 2)))(
            xf.ShapeDtypeStruct((b,), f32))
        size, product, half = module.call(np.ones(3, f32))
        assert (size.dtype, product.dtype) == (np.int64 if x64 else np.int32, f32)
        assert (int(size), float(product[0]), float(half)) == (3, 3.0, 1.5)


@pytest.mark.parametrize("call, error, words", [  # the classes are those of the reference but for `unstack`
    (lambda x: xnp.fft.fft(x), NotImplementedError, "Fourier transforms along a dimension of the size 'b'"),
    (xf.grad(lambda x: xnp.fft.irfft(xnp.append(x, x).astype(complex)).sum()), NotImplementedError, r"Fourier.*'4\*b - 2'"),
    (lambda x: xf.scipy.signal.fftconvolve(x, xnp.ones(3)), TypeError, r"convolve arrays of shapes \(b,\) and \(3,\).*direct"),
    (lambda x: xf.random.permutation(xf.random.key(0), x), NotImplementedError, "cannot permute 'b' elements"),
    (lambda x: lax.associative_scan(xnp.add, x), NotImplementedError, "size 'b'.*Use lax.scan"),
    (xf.grad(lambda x: xnp.cumprod(x).sum()), NotImplementedError, "derivatives of cumprod.*Use lax.scan"),
    (xf.grad(lambda x: xnp.prod(x)), InconclusiveDimensionOperation, "derivative of a product of 'b' elements"),
    (lambda x: xnp.squeeze(x), ValueError, r"squeeze of shape \(b,\) needs an axis.*'b >= 2'"),
    (lambda x: xnp.cov(x[:, None]), ValueError, "squeeze of shape .* needs an axis"),
    (lambda x: list(x), InconclusiveDimensionOperation, "'b' was used where a constant integer is needed"),
    (lambda x: len(x), InconclusiveDimensionOperation, "'b' was used where a constant integer is needed"),
    (lambda x: xnp.unstack(x), InconclusiveDimensionOperation, "'b' was used where a constant integer is needed"),
])
def test_constant_dimension_is_needed(call, error, words):
    with pytest.raises(error, match=words):
        export.export(xf.jit(call))(xf.ShapeDtypeStruct(export.symbolic_shape("b"), f32))


def test_arguments_are_of_one_scope():
    types = [xf.ShapeDtypeStruct(export.symbolic_shape("b"), f32) for _ in range(2)]
    for call in (lambda x, y: (x, y), xnp.add):  # before operations find that sizes differ
        with pytest.raises(ValueError, match="mixing of symbolic scopes: the dimensions 'b' and 'b' are of different"):
            export.export(xf.jit(call))(*types)
