"""Random programs against NumPy in float64: values in several dtypes, gradients in both modes.

`python -m tests.fuzz --cases 10000 --seed 7` runs any number; each failure prints the program, which `--only CASE` runs again.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp

# Relative to the largest value; sums of products of few small numbers.
TOLERANCES = {"float64": 1e-10, "float32": 2e-4, "bfloat16": 0.1, "int32": 0.0}
SHAPES = ((), (1,), (3,), (2, 3), (3, 1), (2, 1, 3), (0, 3), (4, 4))


class Operation(NamedTuple):
    """`call(n, *arrays)` in a namespace `n`; `fits(*shapes)` says of which it is; `smooth`: whether it has derivatives, `exact`:
    whether it is one of integers too."""

    text: str
    call: Callable[..., Any]
    fits: Callable[..., bool]
    count: int = 1
    smooth: bool = True
    exact: bool = False


def _broadcast(*shapes) -> bool:
    try:
        np.broadcast_shapes(*shapes)
        return True
    except ValueError:
        return False


def _any(*_) -> bool:
    return True


def _filled(shape, *_) -> bool:
    return len(shape) > 0 and 0 not in shape


def _operation(text: str, fits: Callable[..., bool] = _any, count: int = 1, **kind) -> Operation:
    return Operation(text, eval(f"lambda n, x, y=None: {text}"), fits, count, **kind)


def _rank(least: int) -> Callable[..., bool]:
    return lambda shape, *_: len(shape) >= least


OPERATIONS = [
    *[_operation(f"n.{name}(x)") for name in ("sin", "cos", "tanh", "arctan", "arcsinh")],
    _operation("n.exp(-x * x)"), _operation("n.sqrt(1 + x * x)"), _operation("n.log1p(x * x)"), _operation("x / (2 + n.cos(x))"),
    _operation("1 / (1 + n.exp(-x))"), _operation("n.hypot(x, 1.5)"), _operation("n.power(1 + x * x, 0.3)"),
    _operation("n.where(x > 0.1, x, 0.5 * x)", smooth=False, exact=False), _operation("n.abs(x)", smooth=False, exact=True),
    _operation("n.clip(x, -1, 1)", smooth=False, exact=True), _operation("n.sign(x)", smooth=False, exact=True),
    _operation("-x", exact=True), _operation("x + 1", exact=True), _operation("x * 2", exact=True),
    _operation("x + y", _broadcast, 2, exact=True), _operation("x - y", _broadcast, 2, exact=True),
    _operation("x * y", _broadcast, 2, exact=True), _operation("x / (3 + n.sin(y))", _broadcast, 2),
    _operation("n.arctan2(x, 2 + n.cos(y))", _broadcast, 2),
    _operation("n.maximum(x, y)", _broadcast, 2, smooth=False, exact=True),
    _operation("n.sum(x)", exact=True), _operation("n.sum(x, axis=0)", _rank(1), exact=True),
    _operation("n.sum(x, axis=-1, keepdims=True)", _rank(1), exact=True), _operation("n.mean(x, axis=-1)", _filled),
    _operation("n.var(x, axis=0)", _filled), _operation("n.max(x, axis=-1)", _filled, smooth=False, exact=True),
    _operation("n.prod(n.cos(x), axis=0)", _rank(1)), _operation("n.cumsum(x, axis=-1)", _rank(1), exact=True),
    _operation("n.cumprod(1 + 0.1 * n.sin(x), axis=0)", _rank(1)), _operation("n.sort(x, axis=-1)", _rank(1), smooth=False, exact=True),
    _operation("n.argsort(x, axis=0, stable=True)", _rank(1), smooth=False, exact=True),
    _operation("n.flip(x)", exact=True), _operation("n.transpose(x)", exact=True), _operation("n.ravel(x)", exact=True),
    _operation("n.expand_dims(x, 0)", lambda s: len(s) < 4, exact=True), _operation("x[::-1]", _rank(1), exact=True),
    _operation("x[..., 1:]", _rank(1), exact=True), _operation("x[0]", _filled, exact=True), _operation("x[..., -1]", _filled, exact=True),
    _operation("x[n.array([0, 0])]", _filled, exact=True), _operation("n.take(x, n.array([0, 0]), axis=-1)", _filled, exact=True),
    _operation("n.roll(x, 1, -1)", _rank(1), exact=True), _operation("n.pad(x, 1)", lambda s: 0 < len(s) < 3, exact=True),
    _operation("n.repeat(x, 2, axis=0)", lambda s: len(s) > 0 and s[0] < 5, exact=True),
    _operation("n.tile(x, 2)", lambda s: 0 < len(s) and s[-1] < 5, exact=True), _operation("n.diff(x)", _filled, exact=True),
    _operation("n.concatenate([x, x], 0)", lambda s: len(s) > 0 and s[0] < 5, exact=True), _operation("n.stack([x, x], -1)", lambda s: len(s) < 3, exact=True),
    _operation("n.concatenate([x, y], 0)", lambda a, b: len(a) > 0 and len(a) == len(b) and a[1:] == b[1:] and a[0] + b[0] < 9, 2, exact=True),
    _operation("n.outer(x, y)", lambda a, b: 0 < np.prod(a) < 5 and 0 < np.prod(b) < 5, 2, exact=True),
    _operation("n.matmul(x, y)", lambda a, b: 0 < len(a) < 3 and len(b) == 2 and a[-1] == b[0], 2, exact=True),
    _operation("n.einsum('...i,...i->...', x, y)", lambda a, b: a == b and len(a) > 0, 2, exact=True),
    _operation("n.tensordot(x, y, 0)", lambda a, b: len(a) + len(b) < 4, 2, exact=True),
    _operation("n.tril(x)", _rank(2), exact=True), _operation("n.trace(x)", lambda s: len(s) == 2, exact=True),
    _operation("n.diagonal(x)", lambda s: len(s) == 2, exact=True), _operation("n.squeeze(x)", exact=True),
    _operation("n.broadcast_to(x, (2,) + n.shape(x))", lambda s: len(s) < 4, exact=True),
    _operation("n.reshape(x, (-1, 1))", lambda s: 0 not in s, exact=True), _operation("n.swapaxes(x, 0, -1)", _rank(1), exact=True),
    _operation("n.interp(x, n.linspace(-2, 2, 5), n.linspace(0, 1, 5) ** 2)", smooth=False), _operation("n.trapezoid(x)", _filled),
    _operation("n.median(x, axis=-1)", _filled, smooth=False), _operation("n.linalg.norm(x + 2)", lambda s: 0 < len(s) < 3 and 0 not in s),
]


class Program(NamedTuple):
    """Steps on arrays: each is an operation and the places of its operands among those made so far."""

    dtype: str
    arguments: tuple[np.ndarray, ...]
    steps: tuple[tuple[Operation, tuple[int, ...]], ...]

    def run(self, n, *arguments):
        values = list(arguments)
        for operation, indices in self.steps:
            values.append(operation.call(n, *[values[i] for i in indices]))
        return values[-1]

    def __str__(self):
        names = [f"a{i}{x.shape}" for i, x in enumerate(self.arguments)]
        lines = [f"arguments: {', '.join(names)} of {self.dtype}"]
        for k, (operation, indices) in enumerate(self.steps):
            lines.append(f"  v{k + len(names)} = {operation.text}  # of {indices}")
        return "\n".join(lines)


def make(case: int, seed: int) -> Program:
    chance = random.Random(f"{seed}/{case}")
    rng = np.random.default_rng([seed, case])
    dtype = chance.choice(("float32", "float32", "float64", "float64", "bfloat16", "int32"))
    shapes = [chance.choice(SHAPES) for _ in range(chance.randrange(1, 4))]
    arguments = tuple(rng.integers(-3, 4, s).astype(np.float64) if dtype == "int32" else
                      rng.normal(size=s).astype(np.float32).astype(np.float64) for s in shapes)
    values, steps = list(arguments), []
    expected = chance.randrange(2, 9)
    for _ in range(100):
        if len(steps) == expected:
            break
        operation = chance.choice(OPERATIONS)
        if dtype == "int32" and not operation.exact:
            continue
        # The last value is used, so that most of the program matters.
        indices = tuple(len(values) - 1 if k == 0 else chance.randrange(len(values)) for k in range(operation.count))
        if chance.random() < 0.3:
            indices = indices[::-1]
        if not operation.fits(*[np.shape(values[i]) for i in indices]):
            continue
        with np.errstate(all="ignore"):
            value = np.asarray(operation.call(np, *[values[i] for i in indices]), np.float64)
        if value.size > 400 or not np.isfinite(value).all() or np.abs(value).max(initial=0) > 1e4:
            continue
        values.append(value)
        steps.append((operation, indices))
    return Program(dtype, arguments, tuple(steps))


def check(program: Program) -> str:
    """Return the first difference in this context, or nothing."""
    wide = program.dtype == "float64"
    smooth = wide and all(operation.smooth for operation, _ in program.steps)
    with xf.enable_x64(wide):
        arguments = [xnp.asarray(x, program.dtype) for x in program.arguments]
        exact = [np.asarray(x).astype(np.float64) for x in arguments]  # (bfloat16 has rounded them)
        expected = np.asarray(program.run(np, *exact), np.float64)
        rng = np.random.default_rng(0)
        tangents = [rng.normal(size=x.shape) for x in exact]
        ct = rng.normal(size=expected.shape)

        def everything(arguments, tangents, ct):
            f = lambda *xs: program.run(xnp, *xs)
            if not smooth:
                return f(*arguments)
            value, pull = xf.vjp(f, *arguments)
            return value, xf.jvp(f, tuple(arguments), tuple(tangents))[1], pull(ct)

        found = xf.jit(everything)(arguments, tangents, ct)
    value = np.asarray(found[0] if smooth else found).astype(np.float64)
    if value.shape != expected.shape:
        return f"shape {value.shape}, not {expected.shape}"
    # Roundings in between are of the size of the largest number there is on the way.
    size = max([1.0, *[np.abs(np.asarray(x)).max(initial=0) for x in _values(program, exact)]])
    error = np.abs(value - expected).max(initial=0)
    if not error <= TOLERANCES[program.dtype] * size ** 2 and not (program.dtype == "bfloat16" and _is_chaotic(program)):
        return f"value differs by {error}: {value.tolist()}, not {expected.tolist()}"
    if smooth:
        step = 1e-6
        ahead, behind = (np.asarray(program.run(np, *[x + s * t for x, t in zip(exact, tangents)])) for s in (step, -step))
        numeric = (ahead - behind) / (2 * step)
        forward, reverse = found[1:]
        scale = 1 + np.abs(numeric).max(initial=0) + size
        if not np.abs(np.asarray(forward) - numeric).max(initial=0) <= 1e-5 * scale ** 2:
            return f"forward derivative {np.asarray(forward).tolist()}, not {numeric.tolist()}"
        left, right = np.vdot(ct, forward), sum(np.vdot(r, t) for r, t in zip(reverse, tangents))
        if not abs(left - right) <= 1e-9 * scale ** 2 * max(1, expected.size):
            return f"reverse derivative: {right}, not {left}"
    return ""


def _values(program: Program, arguments):
    values = list(arguments)
    for operation, indices in program.steps:
        values.append(np.asarray(operation.call(np, *[values[i] for i in indices]), np.float64))
    return values


def _is_chaotic(program: Program) -> bool:
    """True if it orders or truncates numbers, which rounding to few bits exchanges."""
    return any("argsort" in operation.text or "sign" in operation.text or "where" in operation.text for operation, _ in program.steps)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    args = parser.parse_args()
    cases = range(args.first, args.first + args.cases) if args.only is None else [args.only]
    failures = 0
    for case in cases:
        program = make(case, args.seed)
        try:
            wrong = check(program)
        except Exception as e:
            wrong = f"{type(e).__name__}: {e}"
        if wrong:
            failures += 1
            print(f"case {case} of seed {args.seed}\n{program}\n{wrong}\n", flush=True)
    print(f"{len(cases)} programs, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
