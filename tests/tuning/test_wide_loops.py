"""Functions of random numbers as arithmetic: the same bits as XLA's own."""

import numpy as np
import pytest
from scipy import special

import xlafront as xf
from xlafront import lax, random
from xlafront.tuning import wide_loops

FLOAT = np.float32
SPECIAL = np.array([np.inf, -np.inf, np.nan, -1, 1, 0, -0.0, 1e-40, -1e-40, 3e38, -2, 2, 1e-20, 1e10], FLOAT)


def numbers():
    """All that `random.normal` takes the inverse of `erf` of, bit patterns at random, and what is special."""
    low = np.nextafter(FLOAT(-1), FLOAT(0))
    mantissas = (np.arange(2**23, dtype=np.uint32) | np.uint32(0x3F800000)).view(FLOAT) - FLOAT(1)
    patterns = np.random.default_rng(0).integers(0, 2**32, 2**18, dtype=np.uint32).view(FLOAT)
    return np.concatenate([np.maximum(mantissas * FLOAT(2) + low, low), patterns, SPECIAL])


@pytest.mark.cpu_only
def test_all_bits_are_those_of_the_compilers_functions():
    x = numbers()
    both = {}
    for is_random in (True, False):  # with random numbers, functions are expanded
        lowered = xf.jit(lambda key, x: (random.bits(key, (2048 if is_random else 2,)), lax.log1p(x), lax.erf_inv(x))).lower(
            random.key(0), x)
        assert ("chlo.erf_inv" in lowered.as_text()) != is_random
        both[is_random] = [np.asarray(r).view(np.uint32) for r in lowered.compile()(random.key(0), x)[1:]]
    for written_out, own in zip(both[True], both[False]):
        np.testing.assert_array_equal(written_out, own)
    with np.errstate(all="ignore"):
        expected = special.erfinv(x[:2**23:512].astype(np.float64))
    np.testing.assert_allclose(both[True][1].view(FLOAT)[:2**23:512], expected, rtol=1e-5)


# Sums of the words of 5,000 samples, as facts of the reference.
@pytest.mark.cpu_only
@pytest.mark.parametrize("name, parameters, total", [
    ("normal", (), 10710742111043),
    ("exponential", (), 5288714540041),
    ("laplace", (), 10602615439080),
    ("logistic", (), 10741596040036),
    ("truncated_normal", (-1.5, 2.0), 10451569970120),
    ("gumbel", (), 9317430133154),
    ("rayleigh", (2.0,), 5370191356279),
])
def test_samples_of_long_arrays_are_the_references(name, parameters, total):
    samples = np.asarray(xf.jit(lambda key: getattr(random, name)(key, *parameters, shape=(5000,)))(random.key(11)))
    assert int(samples.view(np.uint32).astype(np.uint64).sum()) == total


def test_only_programs_of_one_cpu_that_draw_much_are_changed():
    assert wide_loops._MIN_SIZE > 256  # whose texts stay short
    short = xf.jit(lambda key: random.normal(key, (256,))).lower(random.key(0)).as_text()
    assert "chlo.erf_inv" in short
