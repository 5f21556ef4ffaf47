"""Functions of large arrays as arithmetic: remainders to the bit, the others within 0.501 units in the last place."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

FLOAT = np.float32
SPECIAL = np.array([np.inf, -np.inf, np.nan, -1, 1, 0, -0.0, 3e38, -2, 2, 1e-20, -1e10, 0.5, 1.1754944e-38], FLOAT)
SIZE = 2**17
pytestmark = pytest.mark.cpu_only


def random_numbers(kind):
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        return {"patterns": lambda: rng.integers(0, 2**32, SIZE, dtype=np.uint32).view(FLOAT),
                "normal": lambda: (rng.normal(size=SIZE) * 5).astype(FLOAT),
                "to one": lambda: rng.uniform(-1, 1, SIZE).astype(FLOAT),
                "near one": lambda: (1 - 2.0 ** rng.uniform(-24, 0, SIZE)).astype(FLOAT),
                "small": lambda: (2.0 ** rng.uniform(-100, 1, SIZE)).astype(FLOAT),
                "large angles": lambda: rng.uniform(-2.0**20, 2.0**20, SIZE).astype(FLOAT),
                "multiples": lambda: (np.arange(SIZE) * np.pi / 2).astype(FLOAT)}[kind]()


def errors(value, expected):
    """Return errors in units of the last place, of normal results."""
    is_normal = np.isfinite(expected) & (np.abs(expected) > 2.0**-125)
    np.testing.assert_array_equal(np.isnan(value), np.isnan(expected))
    unit = np.spacing(np.abs(expected[is_normal]).astype(FLOAT)).astype(np.float64)
    return np.abs(value[is_normal].astype(np.float64) - expected[is_normal]) / unit


@pytest.mark.parametrize("function, exact, kinds", [
    (lax.sin, np.sin, ["normal", "small", "large angles", "multiples"]),
    (lax.cos, np.cos, ["normal", "small", "large angles", "multiples"]),
    (lax.asin, np.arcsin, ["to one", "near one", "small", "patterns"]),
    (lax.acos, np.arccos, ["to one", "near one", "small", "patterns"]),
], ids=["sin", "cos", "asin", "acos"])
def test_functions_are_rounded_from_more_digits(function, exact, kinds):
    for kind in kinds:
        x = random_numbers(kind)
        with np.errstate(invalid="ignore"):
            assert errors(np.asarray(xf.jit(function)(x)), exact(x.astype(np.float64))).max() < 0.501, kind


def test_angles_of_points():
    rng = np.random.default_rng(1)
    for y, x in ((random_numbers("normal"), rng.permutation(random_numbers("normal"))),
                 (random_numbers("normal"), np.tile(FLOAT([np.inf, -np.inf, 0.0, -0.0]), SIZE // 4)),
                 (random_numbers("normal"), random_numbers("normal"))):
        assert errors(np.asarray(xf.jit(lax.atan2)(y, x)), np.arctan2(y.astype(np.float64), x.astype(np.float64))).max() < 0.501
    y, x = [np.tile(a.ravel(), 32) for a in np.meshgrid(SPECIAL, SPECIAL)]
    value, expected = np.asarray(xf.jit(lax.atan2)(y, x)), np.arctan2(y, x)
    np.testing.assert_allclose(value, expected, rtol=2e-7, atol=2.0**-126)  # smaller numbers are zeros
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(value[is_number]), np.signbit(expected[is_number]))


def test_remainders_are_exact():
    rng = np.random.default_rng(2)
    numbers = random_numbers("normal")
    ratio = (2.0 ** rng.uniform(-90, 100, SIZE)).astype(FLOAT)
    tiny = (2.0 ** rng.uniform(-126, -90, SIZE)).astype(FLOAT)
    special = [np.tile(a.ravel(), 400) for a in np.meshgrid(SPECIAL, SPECIAL)]
    for x, y in ((numbers, rng.permutation(numbers)), (ratio, (ratio / 2.0 ** rng.uniform(0, 28.9, SIZE)).astype(FLOAT)),
                 (ratio, rng.permutation(ratio)), (tiny * FLOAT(1000), tiny), special,
                 (random_numbers("patterns"), numbers)):
        with np.errstate(invalid="ignore"):
            expected = np.fmod(x, y)
        value = np.array(xf.jit(lax.rem)(x, y))
        is_subnormal = (np.abs(x) < 2.0**-126) & (x != 0)  # operands that XLA's CPU code takes for zeros
        for a in (value, expected):
            a[np.isnan(a) | is_subnormal] = 0
        np.testing.assert_array_equal(value.view(np.uint32), expected.view(np.uint32))
    np.testing.assert_array_equal(xnp.mod(numbers, FLOAT(0.3)), np.mod(numbers, FLOAT(0.3)))


@pytest.mark.parametrize("function", [lax.sin, lax.cos])
def test_special_angles_and_those_too_large(function):
    exact = {lax.sin: np.sin, lax.cos: np.cos}[function]
    for others in (np.zeros(0, FLOAT), FLOAT([1e10, 3e38]), FLOAT([np.inf])):
        x = np.concatenate([random_numbers("normal"), FLOAT([0, -0.0, np.nan, 2.0**20]), others])
        with np.errstate(invalid="ignore"):
            expected = exact(x.astype(np.float64))
        value = np.asarray(xf.jit(function)(x))
        assert errors(value, expected).max() < 0.6
        np.testing.assert_array_equal(np.signbit(value[SIZE:SIZE + 2]), np.signbit(expected[SIZE:SIZE + 2]))


def test_very_large_arrays():
    x = np.tile(random_numbers("normal"), 32)
    program = xf.jit(lax.sin).lower(x).compile()
    assert errors(np.asarray(program(x)), np.sin(x.astype(np.float64))).max() < 0.501
    assert program.memory_analysis().temp_size_in_bytes < 2 * x.nbytes


def test_derivatives_and_batches():
    x = random_numbers("to one").reshape(2, -1)
    for function, derivative in ((xnp.sin, np.cos), (xnp.arcsin, lambda x: 1 / np.sqrt(1 - x * x)),
                                 (lambda x: xnp.mod(x, 0.3), np.ones_like)):
        slope = xf.jit(xf.grad(lambda x, f=function: xf.vmap(f)(x).sum()))(x)
        np.testing.assert_allclose(slope, derivative(x.astype(np.float64)), rtol=1e-4)


@pytest.mark.parametrize("program", [
    lambda: xf.jit(lax.sin).lower(np.ones(2**16 - 1, FLOAT)),
    lambda: xf.jit(lax.sin).lower(np.ones(2**16, np.float16)),
    lambda: xf.jit(lambda x: lax.sin(x, accuracy=lax.AccuracyMode.HIGHEST)).lower(np.ones(2**16, FLOAT)),
    lambda: xf.jit(lax.sin).trace(np.ones(2**16, FLOAT)).lower(lowering_platforms=("cuda",)),
], ids=["small", "float16", "accuracy", "cuda"])
def test_other_arrays_are_left_to_the_compiler(program):
    text = program().as_text()
    assert "stablehlo.sine" in text and "stablehlo.case" not in text
    assert "stablehlo.case" in xf.jit(lax.sin).lower(np.ones(2**16, FLOAT)).as_text()
