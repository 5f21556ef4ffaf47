"""Shared contents of the tables of functions over all dtypes: dtypes, rules for result dtypes, numbers, comparisons.

`numpy/test_all_dtypes.py` and `lax/test_every_function.py` are the tables.
"""

import ml_dtypes
import numpy as np

import xlafront as xf
from xlafront import dtypes

NARROW = ("bool", "uint8", "uint32", "int8", "int32", "bfloat16", "float16", "float32", "complex64")
WIDE = ("uint64", "int64", "float64", "complex128")
SETTINGS = [(d, False) for d in NARROW] + [(d, True) for d in ("bool", "uint16", "int16", "float32", *WIDE)]

# The dtype of a result: that of the operand; of it as a number that is no integer; of its real part; of truth; of positions;
# of places in an array, 32 bits; of sums, which integers widen; of running sums, which only booleans do; of numbers below 256.
SAME, INEXACT, REAL, TRUTH, INDEX, POSITION = "same inexact real truth index position".split()
SUM, TRUE_COUNT, BYTE = "sum true_count byte".split()



def calls_of(text: str) -> list[str]:
    """The calls of a table of them: one a line, or several with bars between."""
    return [call.strip() for line in text.strip().split("\n") for call in line.split(" | ")]


def kind_of(d) -> str:
    return "b" if d == np.bool_ else "f" if dtypes.issubdtype(d, np.floating) else d.kind


def numbers(d, shape, start=0):
    """Numbers of a dtype that begin somewhere in a short list, with zeros of both signs and repetitions among them."""
    kind = kind_of(d)
    values = {"b": [True, False, True, True, False], "u": [3, 0, 7, 1, 2, 100], "i": [-3, 0, 7, -1, 2, 100],
              "f": [0.5, -1.25, 0.75, -0.0, 2.5, 1.0], "c": [0.5 - 1j, -1.25 + 0.5j, 0.25j, 1 + 2j, 2.5]}[kind]
    count = int(np.prod(shape))
    return np.array([values[(start + i) % len(values)] for i in range(count)]).astype(d).reshape(shape)


def result_dtype(rule: str, d):
    """Return the result dtype that a rule gives for an operand's dtype, under the current setting for 64 bits."""
    for part in rule.split():
        kind = kind_of(d)
        if part == INEXACT and kind in "bui":
            d = np.dtype(np.float64) if d.itemsize == 8 else np.dtype(np.float32)
        elif part == REAL and kind == "c":
            d = np.dtype(np.float32) if d.itemsize == 8 else np.dtype(np.float64)
        elif part == TRUTH:
            d = np.dtype(np.bool_)
        elif part == INDEX or part == SUM and kind in "bi":
            d = np.dtype(np.int64 if xf.config.enable_x64 else np.int32)
        elif part == SUM and kind == "u":
            d = np.dtype(np.uint64 if xf.config.enable_x64 else np.uint32)
        elif part == TRUE_COUNT and kind == "b":
            d = result_dtype(INDEX, d)
        elif part == POSITION:
            d = np.dtype(np.int32)
        elif part == BYTE:
            d = np.dtype(np.uint8)
    return d


def as_numpy_computes(x, exact: bool):
    """Floats and what becomes floats in 64 bits; booleans and integers as they are where the result is exact."""
    if not isinstance(x, np.ndarray):
        return x
    if x.dtype.kind == "c":
        return x.astype(np.complex128)
    return x.astype(np.float64) if kind_of(x.dtype) == "f" or not exact else x


def agrees(ours, numpys, d, ulps=24) -> str:
    """Return the difference of a result from the expected one, or nothing."""
    weak, ours = ours.weak_type, np.asarray(ours)
    if weak:
        return "a weak type"
    if ours.dtype != d:
        return f"dtype {ours.dtype}, not {d}"
    if ours.shape != np.shape(numpys):
        return f"shape {ours.shape}, not {np.shape(numpys)}"
    if kind_of(d) not in "fc":
        return "" if np.array_equal(ours, np.asarray(numpys).astype(d)) else f"{ours.tolist()}, not {np.asarray(numpys).tolist()}"
    wide = np.complex128 if d.kind == "c" else np.float64
    eps = float(ml_dtypes.finfo(d).eps)
    close = np.allclose(ours.astype(wide), np.asarray(numpys).astype(d).astype(wide), ulps * eps, ulps * eps, equal_nan=True)
    return "" if close else f"{ours.tolist()}, not {np.asarray(numpys).tolist()}"


def rows_for(table, d):
    """`(function's name, rule)` of the rows for a kind of numbers."""
    return [(name, rule) for kinds, rule, names in table if kind_of(d) in kinds for name in names.split()]
