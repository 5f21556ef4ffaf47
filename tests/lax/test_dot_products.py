"""Products of arrays of two dtypes: the dtype of the result, as one operation, in lax and in xlafront.numpy."""

import re

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.tuning.compiler_options import for_products_of_bytes

# The order by which `lax.dot` chooses the dtype of its result; facts of the reference.
ORDER = ("bool", "uint4", "int4", "uint8", "int8", "uint16", "int16", "uint32", "int32", "float4_e2m1fn", "float8_e3m4",
         "float8_e4m3fn", "float8_e5m2", "float16", "float8_e8m0fnu", "bfloat16", "float32", "complex64")


def of(name, shape=(3,), weak=False):
    return xf.ShapeDtypeStruct(shape, getattr(ml_dtypes, name, None) or name, weak_type=weak)


def test_promotion_of_product_dtypes():
    for setting in ("standard", "strict"):  # which does not concern them
        with xf.numpy_dtype_promotion(setting):
            for i, a in enumerate(ORDER):
                for b in ORDER[i:]:
                    for pair in ((a, b), (b, a)):
                        assert str(xf.eval_shape(lax.dot, *map(of, pair)).dtype) == b, pair


def test_weak_types():
    assert xf.eval_shape(lax.dot, of("float32", weak=True), of("float32", weak=True)).weak_type
    mixed = xf.eval_shape(lax.dot, of("float32", weak=True), of("bfloat16"))
    assert (str(mixed.dtype), mixed.weak_type) == ("float32", False)


@pytest.mark.parametrize("a, b, preferred", [("float32", "bfloat16", None), ("float16", "bfloat16", None), ("int8", "uint8", None),
                                             ("int8", "int8", "int32"), ("bfloat16", "int8", "float32"), ("float32", "complex64", None)])
def test_values_of_lax(a, b, preferred, rng):
    x, y = (np.asarray(rng.integers(0, 5, (2, 3))).astype(getattr(ml_dtypes, d, d)) for d in (a, b))
    got = lax.dot(x, y.T, preferred_element_type=preferred)
    np.testing.assert_array_equal(np.asarray(got).astype(complex), x.astype(complex) @ y.T.astype(complex))
    if preferred is not None:
        assert str(got.dtype) == preferred


@pytest.mark.parametrize("preferred", ["float32", "int32"])
def test_real_preferred_type_of_complex_product_is_real_component(preferred):
    x = np.array([[1 + 1j, 2 - 1j], [1j, 3]], np.complex64)
    got = xf.jit(lambda x: xnp.matmul(x, x, preferred_element_type=preferred))(x)
    assert str(got.dtype) == preferred
    np.testing.assert_array_equal(got, (x @ x).real)
    group = lax.ragged_dot(x, x[None], np.array([2], np.int32), preferred_element_type=preferred)
    np.testing.assert_array_equal(group, (x @ x).real)


def test_narrow_preferred_types_raise():
    for a, preferred in (("int32", "int16"), ("int32", "bfloat16"), ("complex64", "float16"), ("int8", "bool")):
        with pytest.raises(TypeError, match="must not be narrower"):
            xf.eval_shape(lambda x, p=preferred: lax.dot(x, x, preferred_element_type=p), of(a))
    for a, preferred in (("float32", "bfloat16"), ("int8", "int32"), ("int32", "float32")):
        assert str(xf.eval_shape(lambda x, p=preferred: lax.dot(x, x, preferred_element_type=p), of(a)).dtype) == preferred


def lowered(a, b, precision, preferred, platform):
    f = xf.jit(lambda x, y: lax.dot(x, y, precision=precision, preferred_element_type=preferred))
    return f.trace(of(a, (2, 2)), of(b, (2, 2))).lower(lowering_platforms=(platform,)).as_text()


def multiplied(text):
    """Return the dtypes of the operands and of the result of the emitted product."""
    return " ".join(re.search(r"dot_general.*: \(tensor<2x2x(\w+)>, tensor<2x2x(\w+)>\) -> tensor<2x2x(\w+)>", text).groups())


def algorithm(text):
    kinds = re.search(r"lhs_precision_type = (\w+), rhs_precision_type = (\w+), accumulation_type = (\w+),", text).groups()
    count, fast = re.search(r"num_primitive_operations = (\d), allow_imprecise_accumulation = (\w+)", text).groups()
    return " ".join(kinds), int(count), fast == "true"


# Operand and result dtypes of named algorithms; facts about JAX.
PRESETS = {
    "F16_F16_F16 float32 float32 None": ("f16 f16 f16", "f16 f16 f16", 1, False),
    "F16_F16_F32 float32 float32 None": ("f16 f16 f32", "f16 f16 f32", 1, False),
    "F16_F16_F32 int32 int32 float16": ("f16 f16 f16", "f16 f16 f32", 1, False),
    "F16_F16_F32 float16 float16 bfloat16": ("f16 f16 f32", "f16 f16 f32", 1, False),
    "BF16_BF16_BF16 float32 bfloat16 float16": ("f32 bf16 bf16", "bf16 bf16 bf16", 1, False),
    "BF16_BF16_F32 float32 float32 bfloat16": ("f32 f32 f32", "bf16 bf16 f32", 1, False),
    "BF16_BF16_F32 float16 float16 bfloat16": ("bf16 bf16 bf16", "bf16 bf16 f32", 1, False),
    "BF16_BF16_F32 bfloat16 bfloat16 float16": ("bf16 bf16 f32", "bf16 bf16 f32", 1, False),
    "BF16_BF16_F32_X9 bfloat16 float8_e5m2 None": ("f32 f32 f32", "bf16 bf16 f32", 9, False),
    "TF32_TF32_F32_X3 float16 int32 float16": ("f32 f32 f32", "tf32 tf32 f32", 3, False),
    "F32_F32_F32 float8_e5m2 bool bfloat16": ("f32 f32 f32", "f32 f32 f32", 1, False),
    "ANY_F8_ANY_F8_F32 float8_e4m3fn float8_e5m2 None": ("f8E4M3FN f8E5M2 f8E5M2", "f8E4M3FN f8E5M2 f32", 1, False),
    "ANY_F8_ANY_F8_F32_FAST_ACCUM float8_e5m2 float8_e5m2 float32": ("f8E5M2 f8E5M2 f32", "f8E5M2 f8E5M2 f32", 1, True),
    "ANY_F8_ANY_F8_ANY float8_e4m3fn float8_e4m3fn bfloat16": ("f8E4M3FN f8E4M3FN bf16", "f8E4M3FN f8E4M3FN f32", 1, False),
}


@pytest.mark.parametrize("product", PRESETS)
def test_dtypes_of_named_algorithms(product):
    name, a, b, preferred = product.split()
    text = lowered(a, b, name, None if preferred == "None" else preferred, "cuda")
    assert (multiplied(text), *algorithm(text)) == PRESETS[product]


@pytest.mark.cpu_only
def test_named_algorithms():
    x = np.array([[1.0, 1 / 3], [3.0, 1e-5]], np.float32)  # which float16 rounds
    half = x.astype(np.float16).astype(np.float32)
    got = lax.dot(x, x, precision="F16_F16_F16")
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, half @ half, rtol=2e-3)
    assert float(got[0, 1]) == float(np.float16(got[0, 1]))
    ints = lax.dot(np.array([[3, 2]]), np.array([[5], [7]]), precision="F32_F32_F32", preferred_element_type="int8")
    assert ints.dtype == np.int8 and ints.tolist() == [[29]]
    with pytest.raises(ValueError, match="8-bit floats.*float32"):
        lowered("float32", "float32", "ANY_F8_ANY_F8_F32", None, "cuda")


@pytest.mark.parametrize("a, b, preferred, types", [
    ("int8", "int8", "int32", "i8 i8 i32"), ("int8", "int8", None, "i32 i32 i32"), ("int8", "uint8", "int16", "i16 i16 i16"),
    ("uint8", "uint8", "uint32", "ui32 ui32 ui32"), ("int8", "int8", "bfloat16", "f32 f32 f32"), ("int4", "int8", "int32", "i32 i32 i32"),
    ("int16", "int16", None, "i16 i16 i16"), ("bool", "bool", None, "i1 i1 i1")])
def test_products_of_8_bit_integers_on_gpus(a, b, preferred, types):
    """XLA's kernels return twice the product of int8 (see the option below), and crash the process for other results."""
    text = lowered(a, b, None, preferred, "cuda")
    assert multiplied(text) == types
    result = {"None": "i" + a[3:] if a != "bool" else "i1", "uint32": "ui32", "bfloat16": "bf16"}.get(str(preferred), f"i{str(preferred)[3:]}")
    assert f"-> (tensor<2x2x{result}>" in text
    assert multiplied(lowered("int8", "int8", None, None, "cpu")) == "i8 i8 i8"


def test_kernels_for_products_of_8_bit_integers():
    assert for_products_of_bytes({"a": 1}) == {"a": 1, "xla_gpu_enable_triton_gemm": False}
    options = {"xla_gpu_enable_triton_gemm": True}
    assert for_products_of_bytes(options) is options


@pytest.mark.parametrize("dims, words", [
    ((((0, 0), (0, 0)), ((), ())), "twice"), ((((0,), (0,)), ((0,), (0,))), "disjoint"), ((((-1,), (-1,)), ((), ())), "negative"),
    ((((2,), (0,)), ((), ())), "between 0 and 1"), ((((0,), (1,)), ((), ())), "incompatible"), ((((0, 1), (0,)), ((), ())), "as many")])
def test_invalid_dimensions_raise(dims, words):
    with pytest.raises(TypeError, match=words):
        lax.dot_general(np.ones((2, 3)), np.ones((2, 3)), dims)


PRODUCTS = {
    "dot": (xnp.dot, np.dot, (2, 3), (3,)),
    "matmul": (xnp.matmul, np.matmul, (2, 3), (3, 2)),
    "vdot": (xnp.vdot, np.vdot, (3,), (3,)),
    "inner": (xnp.inner, np.inner, (2, 3), (2, 3)),
    "tensordot": (lambda x, y: xnp.tensordot(x, y, 1), lambda x, y: np.tensordot(x, y, 1), (2, 3), (3, 2)),
    "einsum": (lambda x, y: xnp.einsum("ij,j->i", x, y), lambda x, y: np.einsum("ij,j->i", x, y), (2, 3), (3,)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_numpy(name, rng):
    """One operation without conversions, in the dtype that NumPy promotes to; derivatives have the dtypes of the arguments."""
    ours, theirs, a, b = PRODUCTS[name]
    for first, second, expected in (("bfloat16", "float32", "float32"), ("float16", "bfloat16", "float32"),
                                  ("int8", "float32", "float32"), ("int32", "int8", "int32")):
        x, y = (rng.integers(-3, 4, shape).astype(getattr(ml_dtypes, d, d)) for shape, d in ((a, first), (b, second)))
        names = [e.primitive.name for e in xf.make_jaxpr(ours)(x, y).eqns]
        assert names.count("dot_general") == 1 and "convert_element_type" not in names, names
        got = ours(x, y)
        assert (str(got.dtype), got.weak_type) == (expected, False)
        np.testing.assert_array_equal(np.asarray(got), theirs(x.astype(np.float32), y.astype(np.float32)))
    x, y = rng.integers(-3, 4, a).astype(ml_dtypes.bfloat16), rng.integers(-3, 4, b).astype(np.float32)
    dx, dy = xf.grad(lambda x, y: ours(x, y).sum(), (0, 1))(x, y)
    assert (str(dx.dtype), str(dy.dtype)) == ("bfloat16", "float32")
    wide = xf.grad(lambda x, y: ours(x, y).sum(), (0, 1))(x.astype(np.float32), y)
    for g, w in zip((dx, dy), wide):
        np.testing.assert_array_equal(np.asarray(g).astype(np.float32), np.asarray(w))


def test_numpy_promotion_is_unchanged():
    with pytest.raises(ValueError, match="promotion"), xf.numpy_dtype_promotion("strict"):
        xnp.dot(np.ones(3, np.float32), np.ones(3, np.int32))
    x = np.full((2, 200), 100, np.int8)  # its sums do not fit its dtype
    np.testing.assert_array_equal(np.asarray(xnp.einsum("ij,k->i", x, np.ones(1, np.float32))), [20000.0, 20000.0])
    weak = xnp.dot(xnp.asarray(2), xnp.asarray(3.0))
    assert weak.weak_type and str(weak.dtype) == "float32"


def test_types_of_algorithms():
    types = {p.name: (p.supported_lhs_types, p.accumulation_type) for p in lax.DotAlgorithmPreset}
    assert types["DEFAULT"] == types["ANY_F8_ANY_F8_ANY"] == (None, None) and types["ANY_F8_ANY_F8_F32"] == (None, np.float32)
    assert types["F16_F16_F32"] == ((np.float16,), np.float32) and types["F64_F64_F64"] == ((np.float64,), np.float64)
    assert types["BF16_BF16_F32"] == ((ml_dtypes.bfloat16, np.float32), np.float32)
    assert types["BF16_BF16_F32_X3"] == types["TF32_TF32_F32"] == ((np.float32,), np.float32)
    half = lax.DotAlgorithmPreset.F16_F16_F32
    assert half.supported_rhs_types == (np.float16,)
    assert half.supported_output_types("float16", "float16") == (np.float32, np.float16)
    assert half.supported_output_types("float32", "float16") == (np.float32,)
    assert np.float16 in lax.DotAlgorithmPreset.ANY_F8_ANY_F8_F32.supported_output_types("float8_e5m2", "float8_e5m2")
    assert lax.DotAlgorithmPreset.DEFAULT.supported_output_types("float32", "float32") is None
