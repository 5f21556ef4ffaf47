"""Dtypes and weak types of results: tables over operand types, derived from the rules stated next to them."""

import warnings

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import dtypes, lax

NARROW = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32")
WIDE = ("int64", "uint64")
FLOATING = """exp exp2 expm1 log log1p sin cos tan sinh cosh tanh sqrt cbrt arcsin arccos arctan arcsinh arccosh arctanh log2
    log10 fabs reciprocal deg2rad rad2deg degrees radians sinc""".split()
FLOATING_PAIRS = "true_divide arctan2 copysign nextafter logaddexp logaddexp2 hypot heaviside float_power".split()


def type_of(function, *args, **options):
    found = xf.eval_shape(lambda *values: function(*values, **options), *args)
    return found.dtype.name, bool(found.weak_type)


def of(name):
    return np.ones((), name)


@pytest.mark.parametrize("name", FLOATING)
def test_integers_promote_to_floats_by_width(name):
    """64-bit integers promote to float64, narrower ones and booleans to float32, regardless of the default float."""
    function = getattr(xnp, name)
    for own in (*NARROW, *WIDE):
        assert type_of(function, of(own)) == ("float32", False)
    with xf.enable_x64(True):
        for own in NARROW:
            assert type_of(function, of(own)) == ("float32", False)
        for own in WIDE:
            assert type_of(function, of(own)) == ("float64", False)


def test_64_bit_arrays_while_x64_is_disabled():
    """With x64 disabled, elementwise functions preserve the width of existing 64-bit arrays; reductions return 32-bit
    results."""
    with xf.enable_x64(True):
        integers, floats, complex_numbers = xnp.arange(1, 4), xnp.arange(1.0, 4.0), xnp.array([0, 1j])
    assert xnp.sinc(complex_numbers).dtype == "complex128"
    for x, name in ((integers, "int64"), (floats, "float64")):
        assert x.dtype == name
        for function in (xnp.sin, xnp.sqrt, xnp.exp):
            assert function(x).dtype == "float64"
        for like in (xnp.diag(x), lax.full_like(x, 2), xf.jit(lambda y: lax.full_like(y, 2))(x)):
            assert like.dtype == name
        for narrowed in (xnp.cumsum(x), xnp.cumprod(x)):
            assert narrowed.dtype == name.replace("64", "32")
        assert xnp.mean(x).dtype == xnp.median(x).dtype == "float32"


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_determinants_of_64_bit_arrays_while_x64_is_disabled(n):
    """Determinants have the width of the matrices, as the other functions of `linalg`, and so have their derivatives."""
    for numbers in (np.eye(n) + 0.1, np.eye(n) * (1 + 2j) + 0.1):
        with xf.enable_x64(True):
            a = xnp.asarray(numbers)
        assert np.allclose(xnp.linalg.det(a), np.linalg.det(numbers), rtol=1e-14, atol=0)
        gradients = [xf.grad(lambda a: xnp.linalg.det(a).real)(a)]
        for method in ("lu", "qr"):
            sign, log = map(np.asarray, xnp.linalg.slogdet(a, method=method))
            assert np.allclose(sign * np.exp(log), np.linalg.det(numbers), rtol=1e-14, atol=0)
            gradients.append(xf.grad(lambda a: xnp.linalg.slogdet(a, method=method)[1])(a))  # noqa: B023
        assert [g.dtype for g in gradients] == [numbers.dtype] * 3
        assert np.allclose(gradients[1], np.linalg.inv(numbers).T, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", [*FLOATING_PAIRS, "mean of two"])
def test_integer_pairs_promote_to_floats_by_width(name):
    function = getattr(xnp, name, lambda x, y: xnp.mean(xnp.stack([x, y])))
    with xf.enable_x64(True):
        for own in NARROW:
            assert type_of(function, of(own), of(own)) == ("float32", False)
        assert type_of(function, of("int8"), of("int64")) == ("float64", False)


def test_booleans_compute_in_32_bits():
    with xf.enable_x64(True):
        for name in "remainder fmod floor_divide power left_shift right_shift".split():
            assert type_of(getattr(xnp, name), of("bool"), of("bool")) == ("int32", False)
        assert type_of(xnp.square, of("bool")) == ("int32", False)
        assert type_of(xnp.sum, of("bool")) == ("int64", False)


def test_reductions_of_narrow_integers():
    with xf.enable_x64(True):
        for name in "mean var std median nanmean nanvar average".split():
            assert type_of(getattr(xnp, name), np.ones(3, np.int8)) == ("float32", False)
            assert type_of(getattr(xnp, name), np.ones(3, np.int64)) == ("float64", False)


WEAK_BINARY = """add subtract multiply true_divide floor_divide remainder fmod maximum minimum hypot heaviside logaddexp logaddexp2
    copysign arctan2 equal less logical_and""".split()


@pytest.mark.parametrize("name", WEAK_BINARY)
def test_weak_operands_give_weak_results(name):
    assert type_of(getattr(xnp, name), 1.5, 2.5)[1]
    assert not type_of(getattr(xnp, name), 1.5, np.float32(2))[1]


def test_weak_results_of_unary_functions():
    for name in "negative sin sinc deg2rad rad2deg degrees radians floor sqrt square log2 isnan isfinite logical_not".split():
        assert type_of(getattr(xnp, name), 1.5)[1], name
    assert type_of(xnp.imag, 2)[1]
    for name in "log10 signbit isinf isposinf isneginf".split():
        assert not type_of(getattr(xnp, name), 1.5)[1], name
    assert type_of(xnp.rint, 2) == ("float32", False)
    for decimals in (0, 1, -1):
        assert type_of(lambda x, n=decimals: xnp.round(x, n), 1.5)[1]
        assert not type_of(lambda x, n=decimals: xnp.round(x, n), np.float16(1.5))[1]


def test_weak_vectors():
    weak = xnp.broadcast_to(1.5, (2,))
    assert weak.weak_type
    for name in "cumsum cumprod all any".split():
        assert not getattr(xnp, name)(weak).weak_type, name
    for name in "sum prod max sort mean".split():
        assert getattr(xnp, name)(weak).weak_type == (name == "sort"), name


BESIDE_CONSTANTS = "sinc radians deg2rad rad2deg degrees logical_not iscomplex isreal".split()
PAIRS_BESIDE_CONSTANTS = "heaviside logaddexp2 logical_and logical_or logical_xor gcd lcm".split()


@pytest.mark.parametrize("name", BESIDE_CONSTANTS + PAIRS_BESIDE_CONSTANTS)
def test_functions_with_constants_are_weak_only_for_scalars(name):
    x = 2 if name in ("gcd", "lcm") else 1.5
    vector, one = xnp.broadcast_to(x, (2,)), xnp.broadcast_to(x, (1, 1))
    function = getattr(xnp, name)
    if name in BESIDE_CONSTANTS:
        found = [function(v).weak_type for v in (x, xnp.asarray(x), vector, one)]
    else:
        found = [function(*v).weak_type for v in ((x, x), (xnp.asarray(x), x), (vector, vector), (one, x))]
    assert found == [True, True, False, False]
    if name in BESIDE_CONSTANTS:  # an element under vmap is a scalar
        assert xf.vmap(function)(vector).weak_type


def test_weak_results_of_set_functions():
    """Selected elements stay weakly typed unless a given size is padded."""
    two, three = xnp.asarray(2), xnp.asarray(3)
    for chosen in (xnp.setxor1d(two, three), xnp.intersect1d(two, three), xnp.setdiff1d(two, three), xnp.setdiff1d(two, three, size=2)):
        assert chosen.weak_type
    assert not xnp.setxor1d(two, three, size=2).weak_type and not xnp.intersect1d(two, two, size=1).weak_type


def test_interp_dtype_ignores_weak_positions():
    samples = xnp.arange(4), xnp.ones(4, "bfloat16")
    assert xnp.interp(1.5, *samples).dtype == xnp.interp(1.5, *samples, period=2.0).dtype == xnp.bfloat16


def test_cumulative_functions_accept_weak_scalars_as_vectors():
    assert xnp.cumsum(3, axis=0).tolist() == xnp.cumprod(xnp.asarray(3), axis=-1).tolist() == [3]
    for number in (xnp.int32(3), xnp.float32(3), True):
        with pytest.raises(ValueError, match="axis"):
            xnp.cumsum(number, axis=0)


def test_weak_results_of_functions_of_several_arrays():
    weak = xnp.broadcast_to(2, (3,))
    assert all(part.weak_type for part in xnp.modf(weak))
    assert not xnp.cross(weak, weak).weak_type
    assert not xnp.choose(xnp.array([0, 1]), [1, 2]).weak_type
    assert not xnp.full_like(weak, weak).weak_type
    assert xnp.full_like(weak, 1).weak_type


def test_weak_floor_division_stays_weak():
    assert (xnp.ones(2, xnp.bfloat16) * (xnp.asarray(5.0) // 2)).dtype == xnp.bfloat16


def test_full_like_weakness_follows_its_argument():
    for value in (3, xnp.ones(())):
        assert xnp.full_like(xnp.asarray(1.0), value).weak_type
    assert xnp.full_like(xnp.asarray(1.0), 3, shape=(2,)).weak_type
    assert not xnp.full_like(xnp.asarray(1.0), 3, dtype="float32").weak_type
    assert not xnp.full_like(xnp.ones(2), 3).weak_type


def test_index_dtypes_under_x64():
    with xf.enable_x64(True):
        x = xnp.array([0.0, 1.0, 2.0])
        assert xnp.nonzero(x, size=2)[0].dtype == np.int64
        assert xnp.argwhere(x, size=2).dtype == np.int64
        assert xnp.argpartition(x, 1).dtype == np.int32
        assert xnp.argsort(x).dtype == np.int64
        assert xnp.argsort(x, dtype="int8").dtype == np.int8
        assert xnp.searchsorted(x, 1.0).dtype == np.int32
        assert xnp.tri(2).dtype == np.float64  # float32 in JAX before 0.12
        assert xnp.eye(2).dtype == np.float64
    np.testing.assert_array_equal(xnp.argsort(xnp.array([3, 1, 2]), dtype="float32"), np.float32([1, 2, 0]))


def test_quantile_dtype_is_that_of_the_array():
    for own, expected in (("int8", "float32"), ("bfloat16", "bfloat16"), ("float16", "float16")):
        for q in (0.5, np.float32(0.5), np.float16(0.5), xnp.array([0.2, 0.8])):
            assert xnp.quantile(xnp.ones(3, own), q).dtype == expected


# Promotion of dtypes


def test_promotion_of_edges_and_weights():
    x = np.array([1, 2, 3], np.float32)
    with xf.enable_x64(True):
        assert type_of(xnp.histogram_bin_edges, x, np.array([1, 2])) == ("float32", False)
        assert type_of(xnp.histogram_bin_edges, x.astype(int), np.float32([1, 2])) == ("float64", False)
        assert xnp.quantile(x, 0.5, method="inverted_cdf", weights=np.ones(3)).dtype == np.float64
        assert type_of(lambda m, w: xnp.cov(m, aweights=w), x, np.ones(3)) == ("float64", False)


def test_angle_dtypes_of_real_numbers():
    """Float arrays preserve their dtype; scalars and integers give floats of the default width, never weak."""
    assert xnp.angle(xnp.ones(2, "bfloat16")).dtype == "bfloat16"
    for x in (xnp.ones((), "bfloat16"), 1.0, np.float16(1), xnp.ones(2, int)):
        assert xnp.angle(x).dtype == np.float32 and not xnp.angle(x).weak_type
    with xf.enable_x64(True):
        assert xnp.angle(xnp.ones(2, "int8")).dtype == np.float64
        assert xnp.angle(xnp.ones(2, "float32")).dtype == np.float32


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", ["bool", "uint16", "int16", "bfloat16", "float16", "float32"])
def test_angle_dtypes_of_arrays_and_scalars(name, x64):
    """Float arrays preserve their dtype, everything else gives the default one, as in JAX."""
    with xf.enable_x64(x64):
        default = np.float64 if x64 else np.float32
        for x in (np.array([[1, 0, 1]]), np.zeros(0), np.array(1)):
            x = x if name in ("bool", "uint16") else -x
            x = xnp.asarray(x).astype(name)
            expected = x.dtype if x.ndim and name in ("bfloat16", "float16", "float32") else default
            for found in (xnp.angle(x), xf.jit(xnp.angle)(x)):
                assert found.dtype == expected and not found.weak_type
                np.testing.assert_allclose(np.asarray(found, np.float64), np.angle(np.asarray(x, np.float64)), rtol=5e-3)



def test_matrix_rank_dtype_is_the_default_integer():
    with xf.enable_x64(True):
        x = xnp.ones((3, 3), "float32")
        assert xnp.linalg.matrix_rank(x).dtype == np.int64
        assert xnp.linalg.lstsq(x, x)[2].dtype == np.int64


def test_quantile_requires_float_q():
    for q in (1, True, xnp.array([0, 1])):
        with pytest.raises(TypeError, match="floating-point"):
            xnp.quantile(xnp.ones(3), q)
    assert xnp.percentile(xnp.ones(3), 50) == 1
    with pytest.raises(ValueError, match="rank"):
        xnp.quantile(xnp.ones(3), xnp.ones((1, 2)))


def test_promote_types_does_not_truncate():
    for a, b, expected in (("int64", "int8", "int64"), (float, int, "float64"), ("uint64", "int8", "float64"),
                           (int, int, "int64"), (int, "int8", "int8"), (float, "bfloat16", "bfloat16"),
                           (bool, int, "int64"), (complex, float, "complex128"), ("complex128", "float32", "complex128")):
        assert xnp.promote_types(a, b) == np.dtype(expected)
        assert xnp.promote_types(b, a) == np.dtype(expected)


def test_result_type_truncates_and_warns():
    assert xnp.result_type(float) == np.float32
    for wide in (np.float64, "float64", np.dtype("float64")):
        with pytest.warns(UserWarning, match="float64.*truncated to float32"):
            assert xnp.result_type(wide) == np.float32
    with pytest.warns(UserWarning, match="truncated"):
        assert xnp.ones(2, xnp.float64).dtype == np.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert xnp.ones(2, float).dtype == np.float32
        assert xnp.result_type(xnp.float64) == np.float32  # as called by NumPyro, whose users turn warnings into errors
        assert xnp.result_type(xnp.complex128, xnp.int64) == xnp.result_type(xnp.complex64) == np.complex64


def test_result_type_of_narrow_weak_arrays_is_the_default_of_their_kind():
    for narrow, default in (("float16", "float32"), ("bfloat16", "float32"), ("int16", "int32")):
        weak = xf.lax.convert_element_type_p.bind(xnp.ones(2), new_dtype=np.dtype(narrow), weak_type=True, sharding=None)
        assert weak.weak_type
        assert xnp.result_type(weak) == default
        assert (weak + weak).dtype == narrow


def test_numpy_scalars_are_accepted_as_dtypes():
    assert xnp.zeros(2, np.float16(1)).dtype == np.float16 and xnp.ones(2).astype(np.int8(3)).dtype == np.int8
    assert xnp.promote_types(np.uint8(7), "int64") == "int64" and xnp.issubdtype(np.float32(1), np.floating)


@pytest.mark.parametrize("value", [1.5, 2, True, 1j, np.ones(2)], ids=repr)
def test_values_as_dtypes_raise(value):
    x = xnp.ones(2)
    for call in (lambda: xnp.zeros(2, value), lambda: xnp.full(2, 3, value), lambda: x.astype(value),
                 lambda: xnp.sum(x, dtype=value), lambda: xnp.arange(3, dtype=value), lambda: xnp.promote_types(value, "int8"),
                 lambda: dtypes.canonicalize_dtype(value), lambda: xf.lax.full((2,), 1.0, value),
                 lambda: x.view(value)):
        with pytest.raises((TypeError, ValueError), match="cannot be interpreted as a data type|hash"):
            call()


def test_a_shape_in_two_arguments_gets_a_hint():
    with pytest.raises(TypeError, match=r"one tuple, as in zeros\(\(2, 3\)\)"):
        xnp.zeros(2, 3)
    with pytest.raises(ValueError, match="x.dtype"):
        xnp.zeros(2, xnp.ones(2))


def test_issubdtype_of_abstract_types():
    assert not xnp.issubdtype(np.generic, np.float32)
    assert not xnp.issubdtype(np.number, "bfloat16")
    assert xnp.issubdtype(np.integer, np.number)
    assert dtypes.issubdtype(np.generic, np.generic)
    assert xnp.issubdtype("int4", np.signedinteger)
    assert not xnp.issubdtype("uint4", np.signedinteger)


def test_sub_byte_dtypes():
    for name, bits in (("int1", 1), ("uint1", 1), ("uint2", 2), ("int4", 4), ("float6_e2m3fn", 6), ("float6_e3m2fn", 6),
                       ("float4_e2m1fn", 4), ("bool", 8), ("int16", 16)):
        d = np.dtype(getattr(ml_dtypes, name, name))
        assert dtypes.canonicalize_dtype(dtype=d) == d
        assert dtypes.itemsize_bits(dtype=d) == bits
        assert xf.ShapeDtypeStruct((2,), d).dtype == d
        if bits < 8:
            assert xnp.result_type(d) == d
            with pytest.raises(dtypes.TypePromotionError):
                xnp.promote_types(d, "int8" if "int" in name else "float32")


def test_finfo_and_iinfo():
    assert isinstance(xnp.finfo, type)
    assert isinstance(xnp.iinfo, type)
    assert xnp.finfo(dtype="float32").eps == 2.0**-23
    assert xnp.finfo(xnp.bfloat16).eps == 2.0**-7
    assert xnp.iinfo(int_type="int4").max == 7
    for name in (bool, "int4", "uint2", "complex64"):
        x = xnp.ones(3, name)
        assert x.nbytes == 3 * x.dtype.itemsize == x.size * x.itemsize


def test_variances_of_a_complex_dtype():
    x = np.array([1.5, 2, 4], np.float32)
    assert xnp.var(x, dtype="complex64").dtype == np.complex64
    np.testing.assert_allclose(xnp.var(x, dtype="complex64"), np.var(x), rtol=1e-6)
    with pytest.raises(ValueError, match="real dtype"):
        xnp.var(x * 1j, dtype="float32")
    with pytest.raises(ValueError, match="inexact"):
        xnp.std(x, dtype=int)


def test_reductions_of_16_bits_are_widened_unless_a_dtype_is_given():
    for name in ("sum", "mean", "prod"):
        for dtype, steps in ((None, True), ("bfloat16", False)):
            text = str(xf.make_jaxpr(lambda x, f=getattr(xnp, name), d=dtype: f(x, dtype=d))(xnp.ones(4, "bfloat16")))
            assert ("convert_element_type" in text) == steps


def test_cumulative_functions_of_dtype_bool():
    np.testing.assert_array_equal(xnp.cumsum(xnp.array([0, 2, 0]), dtype=bool), [False, True, True])
    np.testing.assert_array_equal(xnp.cumprod(xnp.array([1, 2, 0]), dtype=bool), [True, True, False])


def test_cumulative_functions_of_scalars():
    for name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
        for axis in (None, 0, -1):
            found, expected = getattr(xnp, name)(3.0, axis), getattr(np, name)(3.0, axis)
            assert found.shape == expected.shape == (1,) and found == expected == 3
        with pytest.raises(ValueError, match="out of bounds"):
            getattr(xnp, name)(3.0, 1)
    assert xf.grad(lambda x: xnp.cumsum(x, 0)[0])(2.0) == 1


def test_geomspace_of_integer_dtypes():
    assert xnp.geomspace(1, 256, 9, dtype="int32").tolist() == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert xnp.geomspace(np.int8(1), 100, 3, dtype="int8").tolist() == [1, 10, 100]
    assert xnp.geomspace(1, 1000, 4, dtype=int).tolist() == [1, 10, 100, 1000]
    assert xnp.geomspace(1.0, 7.0, 1).tolist() == [1]
    assert np.isnan(xnp.geomspace(1, -1000, 4)).all()  # no real ratio exists; complex numbers give a spiral
    spiral = np.exp(np.linspace(0, np.log(1000 + 0j) + 1j * np.pi, 4))
    np.testing.assert_allclose(xnp.geomspace(1, -1000, 4, dtype="complex64"), spiral, rtol=1e-4)
    assert xnp.linspace(2.5j, 30.7, 4, dtype=int).tolist() == [0, 10, 20, 30]


# 64-bit arrays while x64 is disabled: created while it was enabled, or by explicit dtypes if these are allowed

def _uses_of_64_bits():
    third = 1 / 3
    return {
        "product": (lambda y: xf.jit(lambda v: v + v * v)(y), lambda y: y + y * y),
        "mean": (xnp.mean, np.mean), "var": (xnp.var, np.var), "cumsum": (xnp.cumsum, np.cumsum),
        "softmax": (xf.nn.softmax, lambda y: np.exp(y) / np.exp(y).sum()),
        "gradient": (xf.grad(lambda v: (v * v * v).sum()), lambda y: 3 * y * y),
        "index": (lambda y: y[xnp.asarray([2, 0])], lambda y: y[[2, 0]]),
        "update": (xf.jit(lambda y: y.at[1].set(third)), lambda y: np.array([y[0], third, y[2]])),
        "loop": (lambda y: xf.lax.fori_loop(0, 3, lambda i, c: c * y, y), lambda y: y ** 4),
    }


@pytest.mark.parametrize("use", _uses_of_64_bits())
def test_use_of_64_bit_arrays_while_x64_is_disabled(use):
    with xf.enable_x64(True):
        y = xnp.asarray([1.1, 2.2, 3.3])
    ours, numpys = _uses_of_64_bits()[use]
    np.testing.assert_allclose(np.asarray(ours(y)), numpys(np.asarray(y)), rtol=2e-6)


@pytest.fixture
def allowed_64_bits():
    xf.config.update("explicit_x64_dtypes", "allow")
    yield
    xf.config.update("explicit_x64_dtypes", "warn")


@pytest.mark.parametrize("use", _uses_of_64_bits())
def test_allowed_64_bit_types_keep_their_bits(use, allowed_64_bits):
    y = xnp.asarray([1.1, 2.2, 3.3], "float64")
    ours, numpys = _uses_of_64_bits()[use]
    result = ours(y)
    assert result.dtype == np.float64
    np.testing.assert_allclose(np.asarray(result), numpys(np.asarray(y)), rtol=1e-14)


def test_only_explicit_dtypes_have_64_bits(allowed_64_bits):
    assert xnp.asarray(np.ones(3)).dtype == xnp.zeros(3).dtype == (xnp.ones(3) * np.float64(2)).dtype == np.float32
    assert xnp.asarray(2**40, "int64").item() == 2**40
    assert (xnp.arange(3, dtype="int64") / 2).dtype == np.float64
    assert xf.jit(lambda x: x + 1e-12)(xnp.zeros(3, "float64")).tolist() == [1e-12] * 3


def test_disallowed_64_bit_dtypes_are_truncated_with_a_warning():
    with pytest.warns(UserWarning, match="float64"):
        assert xnp.zeros(3, "float64").dtype == np.float32


@pytest.mark.parametrize("convert", [
    lambda x: xf.lax.convert_element_type(x, "float32"), lambda x: xnp.array(x, "float32"), xnp.float32,
    lambda x: xnp.sum(x, dtype="float32"), lambda x: xnp.cumsum(x, dtype="float32"), lambda x: xnp.mean(x, dtype="float32"),
    lambda x: xnp.stack([x], dtype="float32"), lambda x: xnp.concatenate([x], dtype="float32")])
@pytest.mark.parametrize("traced", [False, True])
def test_discarded_imaginary_components_warn(convert, traced):
    function = xf.jit(lambda x: convert(x)) if traced else convert
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part"):
        assert not np.iscomplexobj(function(xnp.array([1 + 1j, 2])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(xnp.array([1.0, 2.0]))


def test_astype_warns_of_dropped_imaginary_components():
    with pytest.warns(DeprecationWarning, match="drops the imaginary part"):
        assert xnp.array([1 + 1j]).astype("float32").tolist() == [1]
