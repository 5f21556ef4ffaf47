"""Elementwise primitives: values against NumPy and SciPy, derivatives, batching, dtypes, bad input; one row each."""

import numpy as np
import pytest
from elementwise_tables import BINARY, REAL, UNARY
from laws import check_batching, check_derivatives

import xlafront as xf
from xlafront import lax
from xlafront.scipy import stats

INTEGERS = [
    ("add", np.add),
    ("sub", np.subtract),
    ("mul", np.multiply),
    ("max", np.maximum),
    ("min", np.minimum),
    ("bitwise_and", np.bitwise_and),
    ("bitwise_or", np.bitwise_or),
    ("bitwise_xor", np.bitwise_xor),
    ("shift_left", np.left_shift),
    ("shift_right_arithmetic", np.right_shift),
    ("eq", np.equal),
    ("lt", np.less),
]


def sample(rng, interval, shape=(2, 3), dtype=np.float32):
    if interval is None:
        return rng.integers(0, 3, shape).astype(dtype)
    return rng.uniform(*interval, shape).astype(dtype)


@pytest.mark.parametrize("name, theirs, interval, smooth", UNARY, ids=[row[0] for row in UNARY])
def test_unary(name, theirs, interval, smooth, rng):
    f = getattr(lax, name)
    for dtype in (np.float32, np.float16):
        x = sample(rng, interval, dtype=dtype)
        tolerance = 4e-6 if dtype == np.float32 else 4e-3
        np.testing.assert_allclose(
            np.asarray(f(x)).astype(np.float32), theirs(x.astype(np.float64)), rtol=tolerance, atol=tolerance
        )
    for shape in ((), (0, 2), (1,)):
        x = sample(rng, interval, shape)
        assert np.asarray(f(x)).shape == shape
    x = sample(rng, interval)
    np.testing.assert_array_equal(np.asarray(xf.jit(f)(x)), np.asarray(f(x)))
    check_batching(f, [x])
    if smooth:
        check_derivatives(f, [x], rng)


@pytest.mark.parametrize("name, theirs, first, second, smooth", BINARY, ids=[row[0] for row in BINARY])
def test_binary(name, theirs, first, second, smooth, rng):
    f = getattr(lax, name)
    x, y = sample(rng, first), sample(rng, second)
    np.testing.assert_allclose(np.asarray(f(x, y)), theirs(x, y), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        np.asarray(f(x, y.flat[0])), theirs(x, y.flat[0]), rtol=1e-5, atol=1e-6
    )  # a scalar beside an array
    check_batching(f, [x, y])
    check_batching(f, [x, y.flat[0]])
    if smooth:
        check_derivatives(f, [x, y], rng)
        check_derivatives(f, [x, y.flat[0]], rng)
    with pytest.raises(TypeError, match=r"\(2, 3\).*\(3,\)"):
        f(x, y[0])
    if name != "pow":  # which raises floats to integer powers
        with pytest.raises(TypeError, match="int32"):
            f(x, np.ones((2, 3), np.int32))


@pytest.mark.parametrize("name, theirs", INTEGERS, ids=[row[0] for row in INTEGERS])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint32"])
def test_integers(name, theirs, dtype, rng):
    x, y = rng.integers(0, 7, (2, 5)).astype(dtype), rng.integers(0, 5, (2, 5)).astype(dtype)
    ours = np.asarray(getattr(lax, name)(x, y))
    expected = theirs(x, y)
    assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(ours, expected)


def test_bits(rng):
    x = rng.integers(0, 2**31, 50).astype(np.uint32)
    assert lax.population_count(x).tolist() == [bin(v).count("1") for v in x.tolist()]
    assert lax.clz(x).tolist() == [32 - v.bit_length() for v in x.tolist()]
    assert lax.bitwise_not(x).tolist() == (~x).tolist()
    y = rng.integers(-1000, 1000, 20).astype(np.int32)
    assert lax.shift_right_logical(y, np.int32(3)).tolist() == (y.view(np.uint32) >> 3).view(np.int32).tolist()


COMPLEX = [
    ("exp", np.exp),
    ("log", np.log),
    ("sin", np.sin),
    ("cos", np.cos),
    ("tanh", np.tanh),
    ("sqrt", np.sqrt),
    ("abs", np.abs),
    ("real", np.real),
    ("imag", np.imag),
    ("conj", np.conj),
    ("neg", np.negative),
    ("square", np.square),
    ("sign", np.sign),
    ("atan", np.arctan),
    ("asinh", np.arcsinh),
]


@pytest.mark.parametrize("name, theirs", COMPLEX, ids=[row[0] for row in COMPLEX])
def test_complex(name, theirs, rng):
    x = (rng.normal(size=6) + 1j * rng.normal(size=6)).astype(np.complex64)
    np.testing.assert_allclose(np.asarray(getattr(lax, name)(x)), theirs(x), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["sin", "cos", "square"])
def test_complex_special_values(name):
    """Values on the imaginary axis, at infinity and near 0, with NumPy's signs; the sine of infinity is NaN."""
    components = [0.0, -0.0, 0.5, -2.0, 1e-30, 1e30, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in (components if name == "square" else components[:5]) for b in components], np.complex64)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z.astype(np.complex128)).astype(np.complex64)
    ours = np.asarray(getattr(lax, name)(z))
    for got, correct in ((ours.real, expected.real), (ours.imag, expected.imag)):
        np.testing.assert_allclose(got, correct, rtol=1e-5)
    if name != "square":
        on_axis = (z.real == 0) & ~np.isnan(z.imag)
        part = (lambda x: x.real) if name == "sin" else (lambda x: x.imag)
        np.testing.assert_array_equal(np.signbit(part(ours))[on_axis], np.signbit(part(expected))[on_axis])


def test_selection(rng):
    x, y, c = sample(rng, REAL), sample(rng, REAL), rng.random((2, 3)) > 0.5
    np.testing.assert_array_equal(np.asarray(lax.select(c, x, y)), np.where(c, x, y))
    which = rng.integers(0, 4, (2, 3)).astype(np.int32)
    cases = [sample(rng, REAL) for _ in range(4)]
    np.testing.assert_array_equal(np.asarray(lax.select_n(which, *cases)), np.choose(which, cases))
    np.testing.assert_array_equal(np.asarray(lax.clamp(-0.5, x, 0.5)), np.clip(x, -0.5, 0.5))
    np.testing.assert_allclose(np.asarray(lax.integer_pow(x, 3)), x**3, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(lax.integer_pow(x, -2)), x**-2.0, rtol=1e-5)
    check_derivatives(lambda a, b: lax.select(c, a, b), [x, y], rng)
    check_derivatives(lambda a: lax.clamp(-0.5, a, 0.5), [x], rng)
    check_derivatives(lambda a: lax.integer_pow(a, 3), [x], rng)
    check_batching(lambda c, a, b: lax.select(c, a, b), [c, x, y])
    check_batching(lambda w, a, b: lax.select_n(w, a, b, a), [which % 3, x, y])
    with pytest.raises(TypeError, match="does not accept dtype float32"):
        lax.select_n(x, x, y)


def test_rounding(rng):
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.7], np.float32)
    assert lax.round(halves).tolist() == [-3, -2, -1, 1, 2, 3, 4]
    assert lax.round(halves, lax.RoundingMethod.TO_NEAREST_EVEN).tolist() == np.rint(halves).tolist()
    assert float(lax.reduce_precision(np.float32(1 + 2**-9), exponent_bits=8, mantissa_bits=7)) == 1.0


CONVERSIONS = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
    "float8_e4m3fn",
    "int4",
    "uint4",
]


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("old", CONVERSIONS)
def test_conversion(old):
    import xlafront.numpy as xnp

    values = np.array([0, 1, 2, 5], np.int32)
    source = values.astype(getattr(xnp, old).dtype)
    for new in CONVERSIONS:
        d = getattr(xnp, new).dtype
        ours = np.asarray(lax.convert_element_type(source, d))
        assert ours.dtype == d
        expected = (
            source.astype(np.complex64).real.astype(np.float32) if old == "complex64" else source.astype(np.float32)
        )
        np.testing.assert_array_equal(ours.astype(np.complex64).real, expected.astype(d).astype(np.complex64).real)


def test_conversion_of_special_values():
    assert lax.convert_element_type(np.array([0.5, 0.0, -3.0, np.nan], np.float32), bool).tolist() == [
        True,
        False,
        True,
        True,
    ]
    assert lax.convert_element_type(np.float32(-1.7), np.int32) == -1
    assert lax.convert_element_type(np.array([300, -1]), np.int8).tolist() == [44, -1]
    assert lax.bitcast_convert_type(np.float32(1.0), np.int32) == 0x3F800000
    assert lax.bitcast_convert_type(np.array([0x01020304], np.uint32), np.uint8).shape == (1, 4)


def test_boundary_derivatives():
    """Derivatives at points where they jump or do not exist, as in JAX."""
    grad = xf.grad
    assert np.isinf(grad(lax.sqrt)(0.0))
    assert grad(lax.abs)(0.0) == 1
    assert grad(lambda x: lax.max(x, 0.0))(0.0) == 0.5
    assert grad(lambda x: lax.min(x, 0.0))(0.0) == 0.5
    assert np.isnan(grad(lambda x: lax.pow(x, 0.0))(0.0)) and grad(lambda x: x**0)(0.0) == 0
    assert grad(lambda x: lax.pow(0.0, x))(2.0) == 0
    assert grad(lax.sign)(0.5) == 0 and grad(lax.floor)(0.5) == 0
    assert grad(lambda x: lax.select(x > 0, lax.log(x), x))(-1.0) == 1


def test_unsupported_dtypes_raise():
    with pytest.raises(TypeError, match="sin.*int32.*float"):
        lax.sin(np.arange(3))
    with pytest.raises(TypeError, match="bitwise_and|and does not"):
        lax.bitwise_and(np.float32(1), np.float32(2))
    with pytest.raises(TypeError, match="float32, int32"):
        lax.add(np.float32(1), np.int32(1))


def test_derivative_of_zeta_in_its_exponent():
    for x in (1.2, 2.0, 3.5, 9.0):
        for q in (0.4, 1.0, 2.5, 40.0):
            n, end = np.arange(20000) + q, 20000 + q
            tail = end ** (1 - x) * (np.log(end) / (x - 1) + 1 / (x - 1) ** 2) + 0.5 * np.log(end) * end**-x
            np.testing.assert_allclose(xf.grad(lax.zeta)(x, q), -np.sum(np.log(n) * n**-x) - tail, rtol=5e-5)


TOLERANCES = [lax.Tolerance(atol=1e-7), lax.Tolerance(rtol=1e-12), lax.Tolerance(ulps=1000000), lax.Tolerance(1e-30, 3.0, 2),
              lax.AccuracyMode.HIGHEST, lax.AccuracyMode.DEFAULT]


@pytest.mark.parametrize("name", "exp exp2 expm1 log log2 log1p sin cos tan tanh logistic sqrt rsqrt cbrt".split())
def test_accuracy(name):
    """Small tolerances are emitted with exponents."""
    f = getattr(lax, name)
    for accuracy in TOLERANCES:
        g = xf.jit(lambda x: f(x, accuracy=accuracy))
        np.testing.assert_allclose(g(0.3), f(0.3), rtol=1e-6)
        assert ("TOLERANCE" in g.lower(0.3).as_text()) == isinstance(accuracy, lax.Tolerance)
    for accuracy in ("highest", 3, (1.0, 2.0, 3)):
        with pytest.raises(NotImplementedError, match="AccuracyMode"):
            f(0.3, accuracy=accuracy)


def test_tolerances():
    assert lax.Tolerance(1.0, 2.0, 3) == lax.Tolerance(atol=1.0, rtol=2.0, ulps=3) != lax.Tolerance(1.0, 2.0, 4)
    assert hash(lax.Tolerance(ulps=3)) == hash(lax.Tolerance(0, 0, 3))
    for bad in ((), (0, 0, 0), (0, 0, -1), (-1e-9, 1, 1)):
        with pytest.raises(ValueError, match="toleranc|Tolerance"):
            lax.Tolerance(*bad)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int4"])
def test_integer_division_of_constants_by_zero(dtype):
    """The quotient has all bits set, as XLA defines; the remainder is the dividend. Folding it in the compiler would crash."""
    seven, zero = (xf.numpy.full((3,), n, dtype) for n in (7, 0))
    ones = np.array(-1).astype(dtype)

    def divided(x):
        made = lax.full((3,), 7, dtype), lax.sub(lax.full((3,), 2, dtype), lax.full((3,), 2, dtype))
        return lax.div(seven, zero), lax.rem(seven, zero), lax.div(*made), lax.rem(*made), x

    for result, expected in zip(xf.jit(divided)(1.0), [ones, seven[0], ones, seven[0]]):
        assert (np.asarray(result) == expected).all()


@pytest.mark.parametrize("name", ["div", "rem", "max", "min", "add", "sub"])
def test_div_binds_with_parameters_of_mul(name):
    """Code that inverts jaxprs binds `div` with the parameters of a `mul` equation."""
    x, y = np.float32([7.0, 2.0]), np.float32([4.0, 3.0])
    [eqn] = xf.make_jaxpr(xf.lax.mul)(x, y).eqns
    primitive = getattr(xf.lax, f"{name}_p")
    np.testing.assert_array_equal(primitive.bind(x, y, **eqn.params), primitive.bind(x, y))
    np.testing.assert_array_equal(xf.jit(lambda x: primitive.bind(x, y, **eqn.params))(x), primitive.bind(x, y))


def test_derivatives_of_nextafter():
    """The neighbor of a float moves with it."""
    found = xf.jvp(lax.nextafter, (lax.full((2,), 1.0), lax.full((2,), 0.0)), (3 * lax.full((2,), 1.0), 5 * lax.full((2,), 1.0)))
    np.testing.assert_array_equal(found[0], np.nextafter(np.ones(2, np.float32), np.float32(0)))
    np.testing.assert_array_equal(found[1], [3, 3])
    assert xf.grad(lax.nextafter, (0, 1))(1.0, 2.0) == (1, 0)


def test_the_sign_of_a_complex_number_turns():
    z, step = np.complex64([1 + 2j, -3 - 1j, 2j]), np.complex64([1j, 2 - 1j, 3])
    sign = lambda z: z / abs(z)
    found = xf.jvp(lax.sign, (z,), (step,))[1]
    wide = z.astype(np.complex128)
    np.testing.assert_allclose(found, (sign(wide + 1e-6 * step) - sign(wide - 1e-6 * step)) / 2e-6, rtol=1e-5)
    pulled, = xf.vjp(lax.sign, z)[1](np.conj(step))
    np.testing.assert_allclose(np.sum(pulled * step).real, np.sum(np.conj(step) * found).real, rtol=1e-5)  # linear over real numbers
    assert xf.jvp(lax.sign, (np.complex64(0),), (np.complex64(1),))[1] == 0
    assert xf.grad(lax.sign)(2.0) == 0


def test_derivative_of_expm1_of_very_negative_numbers():
    x = np.float32([-40, -20, -3, -1e-3, 2])
    np.testing.assert_allclose(xf.vmap(xf.grad(lax.expm1))(x), np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(xf.grad(lambda x: stats.expon.cdf(x))(30.0), np.exp(-30), rtol=1e-5)
