"""Random programs of a fixed seed; `python -m tests.fuzz` runs others."""

import numpy as np
import pytest

import xlafront as xf
from tests import fuzz

CASES, CHUNK = 2000, 100


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, CASES, CHUNK))
def test_random_programs(first):
    wrong = {}
    for case in range(first, first + CHUNK):
        program = fuzz.make(case, seed=0)
        if found := fuzz.check(program):
            wrong[case] = f"{program}\n{found}"
    assert not wrong, "\n".join(wrong.values())


def test_the_check_finds_mistakes():
    def program(ours, numpys, dtype="float64"):
        operation = fuzz.Operation("", lambda n, x: numpys(x) if n is np else ours(x), lambda shape: True)
        return fuzz.Program(dtype, (np.array([1.0, 2.0]),), ((operation, (0,)),))

    assert not fuzz.check(program(lambda x: 2 * x, lambda x: x + x))
    assert "value differs" in fuzz.check(program(lambda x: 3 * x, lambda x: 2 * x))
    assert "forward derivative" in fuzz.check(program(lambda x: 2 * xf.lax.stop_gradient(x), lambda x: 2 * x))
    assert "shape" in fuzz.check(program(lambda x: x[:1], lambda x: x, "float32"))
