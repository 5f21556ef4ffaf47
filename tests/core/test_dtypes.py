"""Promotion as in JAX's documented table, canonicalization, limits, strict mode."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.core import dtypes

# The table of the reference's documentation; i*, f*, c* are Python scalars.
NAMES = dict(
    zip(
        "b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c4 c8".split(),
        """bool uint8 uint16 uint32 uint64 int8 int16 int32 int64
    bfloat16 float16 float32 float64 complex64 complex128""".split(),
    )
)
COLUMNS = "b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c4 c8 i* f* c*".split()
TABLE = {
    "b1": "b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c4 c8 i* f* c*",
    "u1": "u1 u1 u2 u4 u8 i2 i2 i4 i8 bf f2 f4 f8 c4 c8 u1 f* c*",
    "u2": "u2 u2 u2 u4 u8 i4 i4 i4 i8 bf f2 f4 f8 c4 c8 u2 f* c*",
    "u4": "u4 u4 u4 u4 u8 i8 i8 i8 i8 bf f2 f4 f8 c4 c8 u4 f* c*",
    "u8": "u8 u8 u8 u8 u8 f* f* f* f* bf f2 f4 f8 c4 c8 u8 f* c*",
    "i1": "i1 i2 i4 i8 f* i1 i2 i4 i8 bf f2 f4 f8 c4 c8 i1 f* c*",
    "i2": "i2 i2 i4 i8 f* i2 i2 i4 i8 bf f2 f4 f8 c4 c8 i2 f* c*",
    "i4": "i4 i4 i4 i8 f* i4 i4 i4 i8 bf f2 f4 f8 c4 c8 i4 f* c*",
    "i8": "i8 i8 i8 i8 f* i8 i8 i8 i8 bf f2 f4 f8 c4 c8 i8 f* c*",
    "bf": "bf bf bf bf bf bf bf bf bf bf f4 f4 f8 c4 c8 bf bf c4",
    "f2": "f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f2 f4 f8 c4 c8 f2 f2 c4",
    "f4": "f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c4 c8 f4 f4 c4",
    "f8": "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c8 c8 f8 f8 c8",
    "c4": "c4 c4 c4 c4 c4 c4 c4 c4 c4 c4 c4 c4 c8 c4 c8 c4 c4 c4",
    "c8": "c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8",
    "i*": "i* u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c4 c8 i* f* c*",
    "f*": "f* f* f* f* f* f* f* f* f* bf f2 f4 f8 c4 c8 f* f* c*",
    "c*": "c* c* c* c* c* c* c* c* c* c4 c4 c4 c8 c4 c8 c* c* c*",
}
SCALARS = {"i*": 1, "f*": 1.0, "c*": 1j}
WEAK = {"i*": dtypes.int64, "f*": dtypes.float64, "c*": dtypes.complex128}


def operand(code):
    return SCALARS[code] if code in SCALARS else dtypes.dtype(NAMES[code])


def test_promotion_table():
    with xf.enable_x64(True):
        for row, entries in TABLE.items():
            for column, expected in zip(COLUMNS, entries.split()):
                d, weak = dtypes.lattice_result_type(operand(row), operand(column))
                assert (d, weak) == (
                    (WEAK[expected], True) if expected in WEAK else (dtypes.dtype(NAMES[expected]), False)
                ), (row, column)


def test_promotion_in_32_bits():
    for (row, entries), (i, column) in itertools.product(TABLE.items(), enumerate(COLUMNS)):
        expected = entries.split()[i]
        d, weak = dtypes.lattice_result_type(operand(row), operand(column))
        full = WEAK[expected] if expected in WEAK else dtypes.dtype(NAMES[expected])
        # 64-bit operands are made 32-bit ones first, so that only the size of the result is checked here
        assert d.itemsize <= 8 and (d.kind == full.kind or row in ("u8", "i8", "u4") or column in ("u8", "i8", "u4"))


def test_promotion_is_a_lattice():
    """Promotion is commutative and associative, for every triple of dtypes of up to 32 bits."""
    kinds = [operand(c) for c in COLUMNS if c not in ("u4", "u8", "i8", "f8", "c8")]
    for a, b in itertools.product(kinds, repeat=2):
        assert dtypes.lattice_result_type(a, b) == dtypes.lattice_result_type(b, a)
    for a, b, c in itertools.product(kinds, repeat=3):
        assert xnp.result_type(a, b, c) == xnp.result_type(a, c, b) == xnp.result_type(c, b, a)


def test_results_have_the_promoted_dtype():
    for a, b in (
        ("int8", "uint8"),
        ("bfloat16", "float16"),
        ("int32", "float16"),
        ("bool", "int8"),
        ("float32", "complex64"),
    ):
        result = xnp.ones((), a) + xnp.ones((), b)
        assert result.dtype == xnp.promote_types(getattr(xnp, a), getattr(xnp, b))
    x = xnp.ones(2, "bfloat16")
    assert (x * 2.5).dtype == x.dtype and (x + 1).dtype == x.dtype and (x * 1j).dtype == np.complex64
    assert (xnp.ones(2, "int8") * 2).dtype == np.int8 and (xnp.ones(2, "int8") * 2.0).dtype == np.float32
    assert xnp.asarray(1).weak_type and not xnp.asarray(1, "int32").weak_type and (xnp.asarray(1) + 1).weak_type


def test_small_dtypes_do_not_promote():
    for a, b in (("float8_e4m3fn", "float8_e5m2"), ("int4", "int8"), ("float8_e4m3fn", "bfloat16")):
        with pytest.raises(xf.dtypes.TypePromotionError, match="astype"):
            xnp.ones(2, a) + xnp.ones(2, b)
    assert (xnp.ones(2, "float8_e4m3fn") * 2).dtype == ml_dtypes.float8_e4m3fn
    x = xnp.array([1, -3, 7], "int4")
    assert (x + x).astype("int32").tolist() == [2, -6, -2]  # wraps in 4 bits
    assert repr(x) == "Array([1, -3, 7], dtype=int4)"


def test_strict_mode():
    with xf.numpy_dtype_promotion("strict"):
        assert (xnp.ones(2, "float16") * 2).dtype == np.float16
        with pytest.raises(xf.dtypes.TypePromotionError, match="strict"):
            xnp.ones(2, "int32") + xnp.ones(2, "float32")


def test_rank_promotion():
    a, b = xnp.ones((2, 3)), xnp.ones(3)
    with xf.numpy_rank_promotion("raise"), pytest.raises(ValueError, match=r"\(2, 3\) \(3,\)"):
        a + b
    with xf.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank"):
        xnp.ones((3, 2)) + xnp.ones(2)


def test_enable_x64():
    assert xnp.arange(3).dtype == np.int32 and xnp.asarray(np.ones(2)).dtype == np.float32
    with pytest.warns(UserWarning, match="enable_x64"):
        assert xnp.ones(2, "float64").dtype == np.float32
    with xf.enable_x64(True):
        assert xnp.arange(3).dtype == np.int64 and (xnp.ones(2) / 3).dtype == np.float64
        assert xf.jit(lambda x: x * 2)(np.ones(2)).dtype == np.float64
    assert xf.jit(lambda x: x * 2)(np.ones(2)).dtype == np.float32
    with pytest.raises(OverflowError, match="2147483648"):
        xnp.asarray(1) + 2**31


def test_limits_and_kinds():
    assert xnp.finfo("bfloat16").bits == 16 and float(xnp.finfo(xnp.float8_e4m3fn).max) == 448
    assert xnp.iinfo("int4").max == 7 and xnp.iinfo(np.uint8).max == 255
    assert (
        xnp.issubdtype(xnp.bfloat16, np.floating)
        and xnp.issubdtype("int4", np.integer)
        and not xnp.issubdtype("int4", np.floating)
    )
    assert (
        xnp.isdtype(np.int8, "signed integer")
        and xnp.isdtype(xnp.bfloat16, "real floating")
        and xnp.isdtype(np.bool_, ("bool", "integral"))
    )
    assert xf.dtypes.itemsize_bits("int4") == 4 and xf.dtypes.scalar_type_of(np.int8(1)) is int
    assert xf.dtypes.canonicalize_dtype("int64") == np.int32


def test_scalar_types():
    assert xnp.float32(2).dtype == np.float32 and xnp.int8 == np.int8 and np.dtype(xnp.bfloat16).name == "bfloat16"
    assert isinstance(np.float32(1), xnp.float32) and xnp.float32 != np.float64 and {xnp.int8: 1}[xnp.int8] == 1
    assert xnp.zeros(2, xnp.complex64).dtype == np.complex64 and xnp.bool_(3).tolist() is True


@pytest.mark.parametrize("bad", ["S3", "U2", "M8[s]", "O"])
def test_unsupported_dtypes_raise(bad):
    with pytest.raises((TypeError, ValueError)):
        xnp.zeros(2, bad)


def test_64_bit_arrays_keep_their_dtype_while_x64_is_off():
    with xf.enable_x64(True):
        wide, integers = xnp.arange(1.0, 4.0), xnp.arange(3)
    two = {"matmul": np.matmul, "dot": np.dot, "arctan2": np.arctan2, "power": np.power, "true_divide": np.true_divide,
           "append": np.append, "outer": np.outer}
    for name, expected in two.items():
        found = xf.eval_shape(getattr(xnp, name), wide, wide)
        assert found.dtype == np.float64 and found.shape == expected(np.ones(3), np.ones(3)).shape, name
    for name in ("stack", "concatenate", "hstack", "vstack", "column_stack", "dstack", "block"):
        assert xf.eval_shape(lambda x: getattr(xnp, name)([x, x]), wide).dtype == np.float64, name
    assert xf.eval_shape(lambda x: xnp.einsum("i,i", x, x), wide).dtype == np.float64
    np.testing.assert_array_equal(np.asarray(xnp.stack([wide, wide])), [[1.0, 2.0, 3.0]] * 2)
    for name in ("zeros_like", "ones_like", "empty_like"):
        assert getattr(xnp, name)(wide).dtype == np.float64, name
    assert xnp.full_like(wide, 2).tolist() == [2.0] * 3 and xnp.full_like(integers, 2).dtype == np.int64
    assert xnp.zeros_like(xf.ShapeDtypeStruct((2,), "float64")).dtype == xnp.zeros_like(np.ones(2)).dtype == np.float32
    # With anything else they are as narrow as what is made now; dtypes that are named are those of now.
    assert (wide + 1).dtype == (wide * xnp.float32(2)).dtype == (wide + integers).dtype == np.float32
    with pytest.warns(UserWarning, match="truncated to float32"):
        assert xnp.result_type("float64") == xnp.result_type(np.float64, np.float64) == np.float32


def test_invalid_dtype_arguments_raise():
    key = xf.random.key(0)
    for kind in (key.dtype, xf.dtypes.prng_key, xf.dtypes.extended):
        assert not xnp.issubdtype(kind, object) and xnp.issubdtype(kind, xf.dtypes.extended)
    for x in (None, "S3", object, xf.dtypes.float0, key.dtype):
        with pytest.raises(ValueError, match="itemsize_bits"):
            xf.dtypes.itemsize_bits(x)
    with pytest.raises(ValueError, match="None"):
        xf.dtypes.scalar_type_of(None)
    with pytest.raises(TypeError, match="result_type"):
        xnp.result_type(key.dtype)
    for given in ((1, "int8"), (2.5, "int8"), ("int8", 1), ("int8", None), (None, "int8"), ("int8", np.ones(1))):
        with pytest.raises(TypeError, match="can_cast"):
            xnp.can_cast(*given)
    assert xf.dtypes.prng_key.__module__ == "xlafront.dtypes"
