"""Reads and updates by every kind of key that NumPy allows in brackets, against NumPy."""

import itertools
import re

import numpy as np
import pytest
from laws import signatures_seen

import xlafront as xf
import xlafront.numpy as xnp

A = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
i = np.array([1, 2])
KEYS = {
    "int": 1,
    "negative": -1,
    "ints": (1, 2, 3),
    "mixed": (1, slice(None), -1),
    "slice": slice(1, 3),
    "open slice": slice(1, None),
    "empty slice": slice(2, 1),
    "step": slice(None, None, 2),
    "reverse": slice(None, None, -1),
    "reverse step": (slice(None), slice(3, 0, -2)),
    "ellipsis": Ellipsis,
    "ellipsis last": (Ellipsis, 0),
    "newaxis": None,
    "newaxes": (None, 1, None, Ellipsis),
    "empty": (),
    "array": i,
    "array 2d": np.array([[0, 1], [2, 0]]),
    "negative array": np.array([-1, 0, -2]),
    "repeated array": np.array([-1, 0, -3]),
    "array and slice": (slice(None), i),
    "apart": (i, slice(None), i),
    "adjacent": (slice(None), i, i),
    "apart by int": (0, slice(None), i),
    "int and array": (slice(None), i, 0),
    "with newaxis": (i, None, i),
    "newaxis apart": (0, None, i),
    "outer": (i[:, None], i[None]),
    "three": (i, i, i),
    "step and array": (slice(None, None, 2), i),
    "reverse and array": (slice(None, None, -1), slice(1, 3), i),
    "slice and array": (i, slice(1, 3)),
    "mask": A > 30,
    "mask rows": np.array([True, False, True]),
    "mask 2d": np.ones((3, 4), bool),
    "slice and mask": (slice(1, 3), A[0, :, 0] > 3),
    "mask and array": (np.array([True, False, True]), i),
    "true": True,
    "false": False,
    "two booleans": (True, False),
    "booleans apart": (True, slice(None), True),
    "boolean and array apart": (True, slice(None), i),
    "no positions": np.zeros(0, int),
    "np int": np.int64(1),
    "uint8": np.array([1, 2], np.uint8),
    "list in tuple": (slice(None), [1, 2]),
    "scalar array": np.array(1),
}
UPDATES = {
    "set": None,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "divide": np.divide,
    "power": np.power,
}


@pytest.mark.parametrize("name", KEYS)
def test_reads(name):
    key = KEYS[name]
    expected = A[key]
    x = xnp.asarray(A)
    for ours in (x[key], xf.jit(lambda x: x[key])(x), x.at[key].get()):
        np.testing.assert_array_equal(np.asarray(ours), expected)


def test_scalar_booleans_beside_other_indices():
    """Scalar booleans beside arrays, integers and each other are index arrays of length 1 or 0."""
    items = [True, False, 0, slice(None), None, Ellipsis, np.array([0, 1]), np.array([True, False, True]), np.array([1])]
    for key in itertools.product(items, repeat=2):
        try:
            expected = A[key]
        except IndexError:
            with pytest.raises((IndexError, ValueError)):
                xf.eval_shape(lambda x: x[key], A)
        else:
            assert xf.eval_shape(lambda x: x[key], A).shape == expected.shape, key


@pytest.mark.parametrize("name", [  # which of two writes to one element wins is defined only on CPUs
    pytest.param(name, marks=pytest.mark.cpu_only) if name in ("array 2d", "repeated array") else name for name in KEYS])
def test_updates(name, rng):
    key = KEYS[name]
    x = xnp.asarray(A)
    values = np.asarray(rng.integers(1, 9, A[key].shape), np.float32)
    for method in ("set", "add", "min"):
        expected = A.copy()
        if method == "set":
            expected[key] = values
        else:
            UPDATES[method].at(expected, key, values)
        np.testing.assert_array_equal(np.asarray(getattr(x.at[key], method)(values)), expected)
        np.testing.assert_array_equal(np.asarray(xf.jit(lambda x, v: getattr(x.at[key], method)(v))(x, values)), expected)
    expected = A.copy()
    expected[key] = 7
    np.testing.assert_array_equal(np.asarray(x.at[key].set(7)), expected)


@pytest.mark.parametrize("method", [m for m in UPDATES if m != "set"])
def test_repeated_positions(method):
    x = np.array([2.0, 3.0, 4.0], np.float32)
    expected = x.copy()
    UPDATES[method].at(expected, [0, 0, 2], np.float32(2))
    np.testing.assert_allclose(
        np.asarray(getattr(xnp.asarray(x).at[xnp.array([0, 0, 2])], method)(2)), expected, rtol=1e-6
    )


def test_positions_out_of_bounds():
    """By default, reads clamp positions out of bounds and updates drop them, as in JAX."""
    x = xnp.arange(5.0)
    for get in (
        lambda k: x[k],
        lambda k: xf.jit(lambda x: x[k])(x),
        lambda k: x[xnp.array(k)],
        lambda k: xf.jit(lambda x, k: x[k])(x, k),
    ):
        assert get(7) == 4 and get(-7) == 0
    for k in (7, -7, xnp.array([7, -7])):
        assert x.at[k].set(9.0).tolist() == x.tolist()
        assert xf.jit(lambda x: x.at[k].add(9.0))(x).tolist() == x.tolist()  # noqa: B023
    assert x.at[7].set(1.0, mode="clip").tolist() == [0, 1, 2, 3, 1]
    assert np.isnan(x.at[xnp.array([7, 1])].get(mode="fill")).tolist() == [True, False]
    assert x.at[7].get(mode="fill", fill_value=3) == 3
    assert xnp.arange(5).at[xnp.array([7])].get(mode="fill").tolist() == [np.iinfo(np.int32).min]
    assert xnp.array([1], "uint8").at[5].get(mode="fill") == 255
    assert x.at[-1].set(5.0, wrap_negative_indices=False).tolist() == x.tolist()
    assert x.at[-1].get(wrap_negative_indices=False) == 0
    assert np.isnan(xnp.take(x, 7)) and xnp.take(x, 7, mode="clip") == 4


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_constant_index_arrays_are_folded_while_tracing(dtype):
    """NumPy index arrays are processed while tracing: the jaxpr has one gather, with the same result as for traced
    indices."""
    rows, columns = np.array([2, 0, 1]).astype(dtype), np.array([1, 3, 0]).astype(dtype)
    if rows.dtype.kind == "i":
        rows, columns = rows - 3, columns - 4
    program = xf.make_jaxpr(lambda x: x[rows, columns])(A)
    assert [e.primitive.name for e in program.eqns] == ["gather"]
    np.testing.assert_array_equal(xf.jit(lambda x: x[rows, columns])(A), A[rows, columns])
    np.testing.assert_array_equal(xf.jit(lambda x: x[:, columns])(A), A[:, columns])
    far = np.array([np.iinfo(dtype).max]).astype(dtype)
    np.testing.assert_array_equal(xf.jit(lambda x: x[far])(A), xnp.asarray(A)[xnp.asarray(far)])


def test_transformed_reads_out_of_bounds():
    """The fill value of a position out of bounds is constant, so its derivative is 0."""
    x, i = np.arange(1.0, 6.0, dtype=np.float32), np.array([[1, 9], [-2, -20]])
    inside, clipped = (i < 5) & (i >= -5), np.where(i < 0, i + 5, i).clip(0, 4)

    def read(x, i):
        return xnp.asarray(x).at[i].get(mode="fill", fill_value=7)

    expected = np.where(inside, x[clipped], 7)
    np.testing.assert_array_equal(xf.jit(read)(x, i), expected)
    np.testing.assert_array_equal(xf.vmap(read, (None, 0))(xnp.asarray(x), i), expected)
    two = np.stack([x, 2 * x])
    np.testing.assert_array_equal(xf.vmap(read)(two, i), np.where(inside, two[[[0], [1]], clipped], 7))
    jacobian = inside[..., None] * np.eye(5)[clipped]
    np.testing.assert_array_equal(xf.jacrev(read)(xnp.asarray(x), i), jacobian)
    np.testing.assert_array_equal(xf.jacfwd(read)(xnp.asarray(x), i), jacobian)


def test_apply_calls_the_function_once_for_each_repetition():
    x = xnp.arange(4.0)
    assert x.at[1:3].apply(xnp.square).tolist() == [0, 1, 4, 3]
    # the function is applied once for each repetition, as by ufunc.at
    assert xnp.zeros(3).at[xnp.array([0, 0])].apply(lambda v: v + 1).tolist() == [2, 0, 0]
    assert x.at[7].apply(lambda v: v + 1).tolist() == x.tolist()


def test_updates_preserve_integer_dtype():
    x = xnp.arange(3)
    assert x.at[1].divide(2).tolist() == [0, 0.5, 2] and x.at[0].power(2).dtype == x.dtype
    with pytest.warns(FutureWarning, match="cannot safely cast .* float32"):
        assert x.at[0].set(1.5).tolist() == [1, 1, 2]
    assert xnp.zeros(2, "int8").at[0].set(300).tolist() == [44, 0]


@pytest.mark.parametrize("replace", [
    lambda x: xnp.put(x, xnp.array([0]), 1.5, inplace=False), lambda x: xnp.place(x, x > 8, 1.5, inplace=False),
    lambda x: xnp.put_along_axis(x, xnp.array([[0]]), 1.5, 1, inplace=False), lambda x: xnp.fill_diagonal(x, 1.5, inplace=False)])
def test_replacements_warn_of_unsafe_casts(replace):
    matrix = xnp.array([[9]])
    with pytest.warns(FutureWarning, match="numpy.* cannot safely cast .* float32"):
        assert replace(matrix).tolist() == [[1]]
    assert replace(matrix.astype(xnp.float32)).tolist() == [[1.5]]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::numpy.exceptions.ComplexWarning")
def test_updates_of_real_arrays_discard_imaginary_components():
    mask, n = xnp.array([True, False, False]), xnp.zeros(3, int)
    assert mask.at[:].set(1j).tolist() == [False] * 3
    assert mask.at[xnp.array([0, 1])].set(xnp.array([1j, 2 + 1j])).tolist() == [False, True, False]
    assert mask.at[:2].add(1j).tolist() == [True, False, False]
    assert n.at[1].set(2.5 + 1j).tolist() == [0, 2, 0]


@pytest.mark.parametrize("key", [slice(2, 2), np.zeros(0, int), False, np.zeros((3, 4), bool), (slice(None), slice(3, 0))])
def test_updates_of_empty_selections_ignore_value_shapes(key):
    x = xnp.arange(12.0).reshape(3, 4)
    for method in ("set", "add", "multiply", "divide", "power", "min", "max"):
        assert (getattr(x.at[key], method)(xnp.ones((5, 7))) == x).all()
        assert (xf.jit(lambda x, v: getattr(x.at[key], method)(v))(x, xnp.ones(9)) == x).all()  # noqa: B023
    assert xf.grad(lambda x: x.at[key].multiply(xnp.ones(9)).sum())(x).tolist() == [[1.0] * 4] * 3


def test_basic_keys_imply_unique_indices():
    """Products have derivatives in the factors, since no element is selected twice."""
    x = xnp.arange(12.0).reshape(3, 4)
    steps = (slice(None, None, 2), 1), slice(None, None, -1), (1, slice(None, None, -2))
    for key in (1, np.uint8(1), xnp.uint32(1), xnp.array(1), *steps):
        numpy_key = tuple(map(_known, key)) if type(key) is tuple else _known(key)
        assert xf.grad(lambda y: x.at[key].multiply(y).sum())(2.0) == np.asarray(x)[numpy_key].sum()  # noqa: B023
    assert xf.jit(xf.grad(lambda y, i: x.at[i, 1:].divide(y).sum()))(2.0, 1) == -18 / 4
    assert xf.grad(lambda y: x.at[xnp.array([1])].multiply(y).sum())(2.0) == 4 + 5 + 6 + 7  # one position is unique
    with pytest.raises(NotImplementedError, match="unique"):
        xf.grad(lambda y: x.at[xnp.array([1, 2])].multiply(y).sum())(2.0)


def _known(index):
    return index if type(index) is slice else int(index)


def test_one_hot_mode_of_updates():
    x = xnp.arange(3.0)
    assert xf.lax.GatherScatterMode.from_any("one_hot") is xf.lax.GatherScatterMode.ONE_HOT
    assert x.at[xnp.array([1, 1, 7])].add(9.0, mode="one_hot").tolist() == [0, 19, 2]
    assert x.at[-1].set(9.0, mode="one_hot").tolist() == [0, 1, 9]
    with pytest.raises(ValueError, match="one_hot"):
        x.at[xnp.array([1])].get(mode="one_hot")


def test_traced_masks_raise():
    x = xnp.arange(4.0)
    assert x.at[x > 1].set(0.0).tolist() == [0, 1, 0, 0]
    for f in (lambda x: x[x > 1], lambda x: x.at[x > 1].set(0.0), lambda x: x.at[x > 1].add(x[:2]), lambda x: x.at[x > 1].get()):
        with pytest.raises(xf.errors.NonConcreteBooleanIndexError, match="where"):
            xf.jit(f)(x)


@pytest.mark.parametrize("size", [3, 40, 70])
def test_sized_nonzero_of_a_long_vector(size):
    """Few positions are found by search, many by scatter."""
    x = np.random.default_rng(0).random((2, 50)) < 0.3
    expected = np.full((2, size), 99)
    for row, mask in zip(expected, x):
        found = np.flatnonzero(mask)[:size]
        row[:len(found)] = found
    assert (xf.jit(xf.vmap(lambda x: xnp.nonzero(x, size=size, fill_value=99)[0]))(x) == expected).all()


def test_sized_nonzero():
    x = xnp.array([0, 1, 0, 2])
    [found] = xf.jit(lambda x: xnp.nonzero(x, size=3, fill_value=9))(x)
    assert found.tolist() == [1, 3, 9]
    rows, columns = xnp.nonzero(xnp.array([[0, 1], [1, 1]]), size=2)
    assert rows.tolist() == [0, 1] and columns.tolist() == [1, 0]
    assert xnp.where(x > 0, size=5, fill_value=-1)[0].tolist() == [1, 3, -1, -1, -1]


@pytest.mark.parametrize(
    "key, error, words",
    [
        ([0, 1], TypeError, "numpy.array"),
        ("a", TypeError, "string"),
        (1.0, TypeError, "integers"),
        (np.array([1.0]), TypeError, "integers"),
        ((0, 0, 0, 0), IndexError, "too many"),
        ({}, IndexError, "dict"),
        (object(), IndexError, "object"),
        (xf.ShapeDtypeStruct((2,), "int32"), IndexError, "ShapeDtypeStruct"),
        (np.array([True, False]), IndexError, "shape"),
        (slice(None, None, 0), ValueError, "zero"),
        ((Ellipsis, Ellipsis), IndexError, "ellipsis"),
        (slice(1.5, 2), TypeError, "integer|index"),
    ],
)
def test_bad_keys_raise(key, error, words):
    x = xnp.asarray(A)
    with pytest.raises(error, match=words):
        x[key]
    with pytest.raises(error):
        x.at[key].set(0)


def test_invalid_operations_raise():
    x = xnp.arange(4.0)
    with pytest.raises(TypeError, match=r"x\.at\[0\]\.set"):
        x[0] = 1
    with pytest.raises(AttributeError, match="deleted"):
        del x[0]
    with pytest.raises(IndexError, match="size 0"):
        xnp.zeros((0, 3))[0]
    with pytest.raises(IndexError, match="size 0"):
        xf.jit(lambda i: xnp.zeros((0, 3)).at[i].set(1.0))(0)
    for x_of_none, indices in ((xnp.zeros((0, 3)), [0]), (xnp.zeros(0), [[0]])):
        with pytest.raises(TypeError, match="size 0"):
            x_of_none[xnp.array(indices)]
    with pytest.raises(IndexError, match="dynamic_slice"):
        xf.jit(lambda x, k: x[k:])(x, 1)
    with pytest.raises(ValueError, match=r"\(3,\).*\(2,\)"):
        x.at[:2].set(xnp.ones(3))
    with pytest.raises(ValueError, match="mode"):
        x.at[0].get(mode="bogus")
    with pytest.raises(xf.errors.ConcretizationTypeError, match="size"):
        xf.jit(xnp.nonzero)(x)


def test_integer_positions_share_one_kernel():
    """Integers are run-time values: a second position compiles nothing."""
    x = xnp.arange(50.0)
    x[3]
    with signatures_seen() as seen:
        assert [float(x[k]) for k in (0, 7, -1, 49)] == [0, 7, 49, 49]
    assert not seen


NOTHING = np.zeros(0, np.int32)
EMPTY = {
    "rows": ((0, 3), (NOTHING,)),
    "columns": ((3, 0), (slice(None), NOTHING)),
    "elements": ((0, 0), (NOTHING, NOTHING)),
    "mask": ((0, 3), (np.zeros(0, bool),)),
    "of rows without elements": ((5, 0), (np.array([4, 0]),)),
    "of one axis": ((2, 0, 3), (slice(None), NOTHING, 1)),
}


@pytest.mark.parametrize("shape, key", EMPTY.values(), ids=EMPTY)
def test_empty_reads_of_empty_arrays(shape, key):
    x = np.zeros(shape, np.float32)
    want = x[key].shape
    assert xnp.asarray(x)[key].shape == want
    assert xf.jit(lambda x: x[key])(x).shape == want
    assert xf.grad(lambda x: x[key].sum())(xnp.asarray(x)).shape == shape
    assert xf.vmap(lambda x: x[key])(np.zeros((2, *shape), np.float32)).shape == (2, *want)
    assert xnp.asarray(x).at[key].get(mode="fill").shape == want


def test_functions_of_empty_arrays():
    x = np.zeros((0, 3), np.float32)
    assert xnp.take(x, NOTHING, axis=0).shape == (0, 3)
    assert xnp.take_along_axis(x, np.zeros((0, 3), np.int32), 0).shape == (0, 3)
    assert xnp.diagonal(x).shape == (0,)
    assert float(xnp.trace(x)) == 0
    assert xf.vmap(lambda x, i: x[i])(x, NOTHING).shape == (0,)
    assert xf.random.split(xf.random.key(0), 0)[NOTHING].shape == (0,)


def test_gradients_flow_through_indexing():
    x = xnp.arange(1.0, 6.0)
    assert xf.grad(lambda x: (x[1:3] ** 2).sum())(x).tolist() == [0, 4, 6, 0, 0]
    assert xf.grad(lambda x: (x[xnp.array([1, 1, 0])] ** 2).sum())(x).tolist() == [2, 8, 0, 0, 0]
    assert xf.grad(lambda x: (x.at[2].set(7.0) ** 2).sum())(x).tolist() == [2, 4, 0, 8, 10]
    assert xf.grad(lambda v: (x.at[xnp.array([0, 4])].add(v) * x).sum())(xnp.ones(2)).tolist() == [1, 5]
    assert xf.grad(lambda x: x[::-2][0] * 3)(x).tolist() == [0, 0, 0, 0, 3]
    # a position out of bounds is clamped and has no gradient
    assert xf.grad(lambda x: x[xnp.array([9, 0])].sum())(x).tolist() == [1, 0, 0, 0, 0]


def test_64_bit_indices_while_x64_is_disabled():
    with xf.enable_x64(True):
        wide = xnp.array([2, 0, 7])
    x = np.array([3.0, 4.0, 5.0], np.float32)
    np.testing.assert_array_equal(xnp.take(x, wide), [5, 3, np.nan])
    np.testing.assert_array_equal(xnp.take_along_axis(xnp.asarray(x), wide, 0), [5, 3, np.nan])


@pytest.mark.parametrize("mode", ["clip", "promise_in_bounds"])
def test_take_raises_for_masks_in_unchecked_modes(mode):
    for mask in (True, np.array([True, False])):
        with pytest.raises(ValueError, match="booleans.*compress"):
            xnp.take(xnp.arange(4.0), mask, mode=mode)


def test_updates_raise_for_mixed_keys_and_numbers():
    keys = xf.random.split(xf.random.key(0), 2)
    with pytest.raises(ValueError, match="same dtypes.*key"):
        xnp.zeros(2).at[0].set(keys[0])
    with pytest.raises(TypeError, match="same dtypes.*key"):
        keys.at[0].set(1)
    with pytest.raises(ValueError, match="elementwise"):
        xnp.zeros(2).at[0].apply(lambda x: xnp.ones(2))


@pytest.mark.cpu_only
@pytest.mark.parametrize("method", ["add", "subtract"])
def test_windows_of_large_arrays_are_added_to_in_place(method, rng):
    x, v = (rng.normal(size=n).astype(np.float32) for n in ((60, 100), (3, 40)))
    sign = 1 if method == "add" else -1

    def f(x, v):
        return getattr(xnp.asarray(x).at[4:7, 5:45], method)(v)

    expected = x.copy()
    expected[4:7, 5:45] += sign * v
    for found in (f(x, v), xf.jit(f)(x, v), xf.jit(xf.vmap(f, (0, None)))(x[None], v)[0], xf.vmap(f)(x[None], v[None])[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    compiled = xf.jit(f, donate_argnums=0).lower(x, v).compile()
    assert re.search(r"call\(.*to_apply=%updated", compiled.as_text()) and compiled.memory_analysis().temp_size_in_bytes < 4 * 1000
    ct = rng.normal(size=x.shape).astype(np.float32)
    of_x, of_v = xf.vjp(f, x, v)[1](ct)
    np.testing.assert_array_equal(of_x, ct)
    np.testing.assert_array_equal(of_v, sign * ct[4:7, 5:45])
    np.testing.assert_allclose(xf.jvp(f, (x, v), (ct, v))[1] - ct, expected - x, rtol=1e-5, atol=1e-5)
    reading = xf.jit(xf.grad(lambda x, v: (f(x, v) * ct).sum(), (0, 1))).lower(x, v).as_text()
    assert "dynamic_update_slice" not in reading and "scatter" not in reading


@pytest.mark.parametrize("mode, outside", [(None, np.nan), ("fill", np.nan), ("clip", 0), ("promise_in_bounds", 0), ("one_hot", 0)])
def test_negative_positions_of_take_along_axis(mode, outside):
    """They count from the end, also where the mode promises bounds, or are out of bounds."""
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    i = np.array([[-1, -4], [0, 1], [3, -2]])
    np.testing.assert_array_equal(xnp.take_along_axis(x, i, 1, mode=mode), np.take_along_axis(x, i, 1))
    first = x[:, :1] if mode in ("clip", "promise_in_bounds") else np.full((3, 1), outside)
    expected = np.where(i < 0, first, np.take_along_axis(x, i, 1))
    np.testing.assert_array_equal(xnp.take_along_axis(x, i, 1, mode=mode, wrap_negative_indices=False), expected)


@pytest.mark.parametrize(("shape", "mask", "result"), [
    ((3,), (0,), (0,)), ((2, 3), (0,), (0, 3)), ((3, 4), (0, 4), (0,)), ((3, 4), (3, 0), (0,)), ((3, 4), (0, 0), (0,))])
def test_masks_without_elements(shape, mask, result):
    x, mask = xnp.ones(shape), np.zeros(mask, bool)
    assert x[mask].shape == result and (x.at[mask].set(0) == 1).all()
    if shape == mask.shape[:1]:
        return
    with pytest.raises(IndexError, match="boolean"):
        xnp.ones((5, 5))[np.zeros((2, 0), bool)]


def test_nested_tuples_of_traced_positions():
    x = np.arange(42).reshape(2, 3, 7)
    key = (((1, 1), (1, 0)), 2)
    np.testing.assert_array_equal(xf.jit(lambda x, key: x[key])(x, key), x[np.array(key[0]), 2])


def test_integers_that_only_the_dtype_of_the_array_holds():
    x, largest = xnp.zeros(2, np.uint32), 2**32 - 1
    assert x.at[0].set(largest).tolist() == [largest, 0] and xf.jit(lambda x: x.at[1].max(largest))(x).tolist() == [0, largest]
    with pytest.raises(OverflowError):
        x.at[0].set(2**32)
    with pytest.raises(OverflowError):
        xnp.zeros(2, np.int32).at[0].set(2**31)


def test_new_dimensions_are_one_broadcast():
    """As in JAX; a reshape would lose explicit shardings that it cannot follow."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for index in (np.s_[None], np.s_[:, None], np.s_[..., None], np.s_[None, :, None, :, None]):
        [equation] = xf.make_jaxpr(lambda x, index=index: x[index])(x).eqns
        assert equation.primitive.name == "broadcast_in_dim"
        np.testing.assert_array_equal(xnp.asarray(x)[index], x[index])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_positions_of_small_and_unsigned_dtypes(dtype):
    """The size of the array, and its negative, need not fit the dtype of the positions."""
    x, positions = np.arange(1000.0, dtype=np.float32), np.array([120, 3])
    given = xnp.asarray(positions.astype(dtype))
    put, updated = x.copy(), x.copy()
    put[positions], updated[120:122] = -1, -1
    for mode in (None, "clip", "wrap"):
        np.testing.assert_array_equal(xnp.put(x, given, -1.0, mode, inplace=False), put)
        if mode is not None:
            np.testing.assert_array_equal(xnp.take(x, given, mode=mode), x[positions])
    np.testing.assert_array_equal(xnp.insert(x, given, -1.0), np.insert(x, positions, -1))
    np.testing.assert_array_equal(xnp.delete(x, given), np.delete(x, positions))
    for transform in (lambda f: f, xf.jit):
        start = transform(lambda i: xf.lax.dynamic_update_slice(xnp.asarray(x), -xnp.ones(2), (i,)))
        np.testing.assert_array_equal(start(given[0]), updated)
    rows = xf.vmap(lambda i: xf.lax.dynamic_update_slice(xnp.asarray(x), -xnp.ones(2), (i,)))(given)
    np.testing.assert_array_equal(rows[0], updated)


@pytest.mark.parametrize("method", ["set", "add", "subtract", "multiply", "max", "min"])
@pytest.mark.parametrize("shape, key", [
    ((), ...), ((), ()), ((), None), ((3,), ...), ((3,), 0), ((3,), slice(2)), ((3,), np.array([0, 2]))])
@pytest.mark.filterwarnings("ignore:scatter inputs:FutureWarning")  # weak int32 and int8 are computed in int8
def test_updates_keep_the_weak_type(method, shape, key):
    """The value is a Python scalar or has another dtype; arrays that are not weak stay so."""
    weak = xnp.broadcast_to(xnp.asarray(1), shape)
    assert weak.weak_type
    for value in (2, np.int8(2), np.int32(2)):
        for x in (weak, xnp.ones(shape, int)):
            updated = getattr(x.at[key], method)(value)
            assert (updated.weak_type, updated.dtype) == (x.weak_type, x.dtype)
