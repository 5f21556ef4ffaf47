"""Segment reductions against loops."""

import numpy as np
import pytest
from laws import check_batching, check_derivatives

import xlafront as xf
from xlafront import ops

DATA = np.array([4.0, 1.0, 2.0, 5.0, 3.0, 7.0], np.float32)
IDS = np.array([0, 0, 1, 5, -1, 1])
KINDS = {"segment_sum": (np.sum, 0.0), "segment_prod": (np.prod, 1.0), "segment_max": (np.max, -np.inf), "segment_min": (np.min, np.inf)}


def reduce_by_loops(name, data, ids, count):
    reduction, start = KINDS[name]
    rows = [data[ids == i] for i in range(count)]
    return np.stack([reduction(r, 0) if len(r) else np.full(data.shape[1:], start) for r in rows]) if count else np.zeros((0, *data.shape[1:]))


@pytest.mark.parametrize("name", KINDS)
def test_segment_reductions(name, rng):
    f = getattr(ops, name)
    for count in (None, 0, 3, 8):
        expected = reduce_by_loops(name, DATA, IDS, 6 if count is None else count)
        np.testing.assert_array_equal(f(DATA, IDS, count), expected)
        for bucket in (1, 4, 6, 9):
            np.testing.assert_array_equal(f(DATA, IDS, count, bucket_size=bucket), expected)
    rows = np.stack([DATA, DATA[::-1]], 1)
    np.testing.assert_array_equal(f(rows, IDS, 3), reduce_by_loops(name, rows, IDS, 3))
    np.testing.assert_array_equal(f(DATA, IDS, 3, mode="clip"), reduce_by_loops(name, DATA, np.clip(IDS, 0, 2), 3))
    ordered = np.arange(6)
    np.testing.assert_array_equal(f(DATA, ordered, 6, indices_are_sorted=True, unique_indices=True), DATA)
    check_batching(lambda d: f(d, IDS, 3), [DATA])
    check_derivatives(lambda d: f(d, np.array([2, 0, 1, 3, 5, 4]), 6, unique_indices=True), [DATA], rng)
    if name != "segment_prod":
        check_derivatives(lambda d: f(d, np.maximum(IDS, 0), 6)[:2], [DATA], rng)
    for dtype in ("int32", "uint8", "bfloat16"):
        assert f(DATA.astype(dtype), IDS, 2).tolist() == reduce_by_loops(name, DATA, IDS, 2).tolist()
        assert f(DATA.astype(dtype), IDS, 2, bucket_size=2).dtype == dtype


BAD = [((DATA, IDS, -1), {}, ValueError, "non-negative"), ((DATA, IDS, 2.0), {}, TypeError, "integer"), ((DATA, IDS[:3], 2), {}, ValueError, "broadcast"),
       ((DATA, IDS.astype(float), 2), {}, TypeError, "integer"), (([1.0], [0]), {}, TypeError, "list"), ((DATA, IDS, 3), {"mode": "foo"}, ValueError, "foo"),
       ((DATA, IDS, 3), {"bucket_size": 0}, ZeroDivisionError, "zero"), ((DATA[:0], IDS[:0]), {}, ValueError, "zero-size"), ((DATA > 1, IDS, 3), {}, TypeError, "dtype")]


@pytest.mark.parametrize("args, options, kind, words", BAD)
def test_bad_input_raises(args, options, kind, words):
    with pytest.raises(kind, match=words):
        ops.segment_sum(*args, **options)


def test_jit_requires_num_segments():
    with pytest.raises(xf.errors.ConcretizationTypeError, match="num_segments"):
        xf.jit(ops.segment_sum)(DATA, IDS)
    np.testing.assert_array_equal(xf.jit(ops.segment_sum, static_argnums=2)(DATA, IDS, 3), reduce_by_loops("segment_sum", DATA, IDS, 3))


def test_a_scalar_belongs_to_each_segment():
    ids = np.array([0, 1, 1])
    for name, expected in (("sum", [2, 4, 0]), ("prod", [2, 4, 1]), ("max", [2, 2, -np.inf]), ("min", [2, 2, np.inf])):
        np.testing.assert_array_equal(getattr(ops, f"segment_{name}")(2.0, ids, 3), expected)
