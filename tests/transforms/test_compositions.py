"""Random compositions of the transformations against the oracle of `compositions`.

`XLAFRONT_COMPOSITIONS=seed:count` runs that many programs from another seed.
"""

import os
import random

import compositions
import numpy as np
import pytest

import xlafront as xf

GROUPS = 6
FIRST, COUNT = map(int, os.environ.get("XLAFRONT_COMPOSITIONS", "0:40").split(":"))

AT = [[0.3, -0.8, 1.1], [-0.4, 0.9, 0.2]]
DIRECTION = [0.6, -0.3, 0.9]

# How the whole program is used: (keyword for generation, xlafront, oracle), on functions of two vectors.
USES = {
    "value": ({}, lambda f: f, lambda f: f),
    "jvp": ({"forward": True}, lambda f: lambda x, y: xf.jvp(f, (x, y), (np.array(DIRECTION), x))[1],
            lambda f: lambda x, y: compositions.plus(
                compositions.tangents_of(lambda x: f(x, y), x, DIRECTION), compositions.tangents_of(lambda y: f(x, y), y, x))),
    "grad": ({"reverse": True}, lambda f: xf.grad(lambda x, y: f(x, y).sum()),
             lambda f: lambda x, y: compositions.pull(lambda x: f(x, y), x, [1.0] * 3)),
    "hvp": ({"forward": True, "reverse": True, "derivatives": 1},
            lambda f: lambda x, y: xf.jvp(xf.grad(lambda x: f(x, y).sum()), (x,), (np.array(DIRECTION),))[1],
            lambda f: lambda x, y: compositions.tangents_of(
                lambda x: compositions.pull(lambda x: f(x, y), x, [1.0] * 3), x, DIRECTION)),
    "vmap": ({}, lambda f: lambda x, y: xf.vmap(f, (0, None))(compositions.matrix_of(x), y).sum(0),
             lambda f: lambda x, y: [compositions.total(column) for column in zip(
                 *[f(row, y) for row in compositions.rows_of(x)])]),
}


def random_case(rng):
    use = rng.choice(sorted(USES))
    around = compositions.Surroundings(variables=2, depth=rng.randint(2, 5), **USES[use][0])
    return use, rng.random() < 0.5, compositions.random_program(rng, around)


def difference(case):
    """Return the first difference that a program shows, or None."""
    use, compiled, program = case
    _, transform, by_hand = USES[use]
    expected = np.array(by_hand(lambda x, y: compositions.oracle(program, [x, y]))(*AT))
    if not np.all(np.abs(expected) < 1e6):
        return None
    with xf.enable_x64(True):
        f = transform(lambda x, y: compositions.ours(program, [x, y]))
        try:
            found = (xf.jit(f) if compiled else f)(*map(np.array, AT))
        except Exception as e:
            return f"{type(e).__name__}: {e}"
    scale = 1 + np.max(np.abs(expected))
    same = found.dtype == np.float64 and np.max(np.abs(np.asarray(found) - expected)) <= 1e-8 * scale
    return None if same else f"{found}, not {expected}"


def smallest(case, problem):
    """A small program that has a problem of the same kind."""
    def kind(problem):
        return None if problem is None else problem.split(":")[0] if "not [" not in problem else "value"

    use, compiled, program = case
    changed = True
    while changed:
        changed = False
        for other in compositions.simpler(program):
            found = difference((use, compiled, other))
            if kind(found) == kind(problem):
                program, problem, changed = other, found, True
                break
    return f"{use} of {'jit of ' * compiled}{program}: {problem}"


@pytest.mark.parametrize("part", range(GROUPS))
def test_random_compositions(part):
    rng = random.Random(FIRST * GROUPS + part)
    wrong = []
    for _ in range(COUNT):
        case = random_case(rng)
        problem = difference(case)
        if problem is not None:
            wrong.append(smallest(case, problem))
    assert not wrong, "\n".join(wrong)


def test_the_oracle_by_differences():
    """The oracle's own derivatives, and one program in plain Python."""
    program = ("scan", ("mul", ("sin", ("var", 1)), ("var", 2)), ("bell", ("var", 1)), ("tanh", ("var", 0)), ("var", 0),
               True, 1)
    x = np.array(AT[0])

    def by_hand(x):
        c, extra = np.tanh(x), np.zeros(3)
        for i, row in reversed(list(enumerate([x, np.roll(x, 1), 0.5 * x]))):
            y = 1 / (1 + c**2)
            extra[i] = y[0] + (i + 1) * y[1]
            c = np.sin(c) * row
        return c + extra

    np.testing.assert_allclose(compositions.oracle(program, [x.tolist()]), by_hand(x))
    step = 1e-6
    d = np.array(DIRECTION)
    numeric = (by_hand(x + step * d) - by_hand(x - step * d)) / (2 * step)
    np.testing.assert_allclose(compositions.tangents_of(lambda x: compositions.oracle(program, [x]), AT[0], DIRECTION), numeric,
                               rtol=1e-7)
    second = compositions.tangents_of(lambda x: compositions.tangents_of(
        lambda x: compositions.oracle(program, [x]), x, DIRECTION), AT[0], DIRECTION)
    step = 1e-4
    numeric = (by_hand(x + step * d) - 2 * by_hand(x) + by_hand(x - step * d)) / step**2
    np.testing.assert_allclose(second, numeric, rtol=1e-5)
