"""Derivatives compared with finite differences, in random directions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, tree
from xlafront.transforms.ad.derivatives import jvp, vjp

# What a dtype's rounding allows, and steps of differences: the first at which rounding and curvature are alike for functions of
# size 1, then shorter ones for steep functions. The derivative has to agree at one of them.
_TOLERANCES = {"float64": 1e-5, "float32": 2e-3, "float16": 1e-2, "bfloat16": 1e-1}
_STEPS = {"float64": (1e-5, 1e-7), "float32": (1e-2, 1e-3, 1e-4), "float16": (1e-1,), "bfloat16": (2.5e-1,)}
_REAL = {"complex64": "float32", "complex128": "float64"}


def _dtype(x):
    return dtypes.canonicalize_dtype(dtypes.operand_type(x)[0])


def _coarsest(*trees) -> str:
    """The dtype of fewest bits among the leaves."""
    names = {_dtype(x).name for x in tree.leaves(trees)}
    names = {_REAL.get(name, name) for name in names}
    return next((name for name in reversed(_TOLERANCES) if name in names), "float64")


def _random_like(rng, x):
    """A direction in which no element is small, where a wrong derivative would be hard to see."""
    dtype, shape = _dtype(x), np.shape(x)
    found = rng.choice([-1, 1], size=shape) * rng.uniform(0.5, 1.5, size=shape)
    if dtypes.is_complex(dtype):
        found = found * np.exp(2j * np.pi * rng.uniform(size=shape))
    return np.asarray(found, dtype)


def _exact(x):
    """As NumPy's 64-bit numbers."""
    x = np.asarray(x)
    return x.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64)


def _compare(found, expected, atol: float, rtol: float, what: str) -> None:
    found_leaves, found_tree = tree.flatten(found)
    leaves, treedef = tree.flatten(expected)
    if found_tree != treedef:
        raise AssertionError(f"{what}: got a pytree {found_tree}, expected {treedef}.")
    for x, y in zip(found_leaves, leaves):
        norm = np.linalg.norm(_exact(y)) / max(np.size(y), 1) ** 0.5  # rounding is that of the larger elements
        np.testing.assert_allclose(_exact(x), _exact(y), rtol=rtol, atol=max(atol, rtol * norm), err_msg=what)


def _differences(f: Callable, args, tangents, eps: float):
    """The derivative in a direction, by central differences."""
    def moved(sign):
        return f(*tree.map(lambda x, t: (_exact(x) + sign * eps * _exact(t)).astype(_dtype(x)), args, tangents))

    return tree.map(lambda ahead, behind: (_exact(ahead) - _exact(behind)) / (2 * eps), moved(1), moved(-1))


def _settings(args, atol, rtol) -> tuple[Any, float, float]:
    """Arguments as arrays, whose dtypes stay when they are moved, and tolerances."""
    args = tree.map(lambda x: np.asarray(x, _dtype(x)), tuple(args))
    default = _TOLERANCES[_coarsest(args)]
    return args, default if atol is None else atol, default if rtol is None else rtol


def check_jvp(f: Callable, f_jvp: Callable, args: Sequence[Any], atol: float | None = None, rtol: float | None = None,
              eps: float = 1e-4, err_msg: str = "") -> None:
    """Raises AssertionError unless a derivative in a random direction is that of finite differences.

    - `f`: the function.
    - `f_jvp`: what is to be checked: `f_jvp(args, tangents)` returns `f(*args)` and its derivative.
    - `args`: where, a sequence of pytrees of arrays.
    - `atol`, `rtol`: the difference that is allowed; None: by the dtypes of `args`.
    - `eps`: the step of the differences.
    - `err_msg`: what the error begins with.

    >>> check_jvp(xnp.sin, lambda args, tangents: xf.jvp(xnp.sin, args, tangents), (1.0,))
    """
    args, atol, rtol = _settings(args, atol, rtol)
    tangents = tree.map(functools.partial(_random_like, np.random.default_rng(0)), args)
    value, tangent = f_jvp(args, tangents)
    what = f"{err_msg} " if err_msg else ""
    _compare(value, f(*args), atol, rtol, f"{what}the value that f_jvp returns, and that of f")
    _compare(tangent, _differences(f, args, tangents, eps), atol, rtol, f"{what}the tangent, and finite differences")


def check_vjp(f: Callable, f_vjp: Callable, args: Sequence[Any], atol: float | None = None, rtol: float | None = None,
              eps: float = 1e-4, err_msg: str = "") -> None:
    """Raises AssertionError unless a random cotangent is pulled back to what finite differences say.

    - `f`: the function.
    - `f_vjp`: what is to be checked: `f_vjp(*args)` returns `f(*args)` and the function that pulls cotangents back.
    - `args`: where, a sequence of pytrees of arrays.
    - `atol`, `rtol`: the difference that is allowed; None: by the dtypes of `args`.
    - `eps`: the step of the differences.
    - `err_msg`: what the error begins with.

    >>> check_vjp(xnp.sin, lambda x: xf.vjp(xnp.sin, x), (1.0,))
    """
    args, atol, rtol = _settings(args, atol, rtol)
    rng = np.random.default_rng(0)
    tangents = tree.map(functools.partial(_random_like, rng), args)
    value, pull = f_vjp(*args)
    what = f"{err_msg} " if err_msg else ""
    _compare(value, f(*args), atol, rtol, f"{what}the value that f_vjp returns, and that of f")
    cotangents = tree.map(functools.partial(_random_like, rng), value)
    pulled, moved = pull(cotangents), _differences(f, args, tangents, eps)

    def product(xs, ys):
        return sum([np.sum(_exact(x) * _exact(y)) for x, y in zip(tree.leaves(xs), tree.leaves(ys))])

    _compare(np.real(product(pulled, tangents)), np.real(product(cotangents, moved)), atol, rtol,
             f"{what}the cotangents along a direction, and finite differences")


def _at_one_step(check: Callable, f: Callable, derivative: Callable, args, atol: float, rtol: float, steps: Sequence[float],
                 err_msg: str) -> None:
    for step in steps[:-1]:
        try:
            return check(f, derivative, args, atol, rtol, step, err_msg)
        except AssertionError:
            pass
    check(f, derivative, args, atol, rtol, steps[-1], err_msg)


def check_grads(f: Callable, args: Sequence[Any], order: int, modes: Sequence[str] = ("fwd", "rev"), atol: float | None = None,
                rtol: float | None = None, eps: float | None = None) -> None:
    """Raises AssertionError unless derivatives up to an order are those of finite differences, in random directions.

    - `f`: the function.
    - `args`: where, a sequence of pytrees of arrays.
    - `order`: the highest order of derivatives.
    - `modes`: of "fwd" and "rev", forward and reverse mode.
    - `atol`, `rtol`: the difference that is allowed; None: by the dtypes of `args`.
    - `eps`: the step of the differences; None: by the dtypes of `args`.

    >>> check_grads(xnp.sin, (1.0,), order=2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if set(modes) - {"fwd", "rev"}:
        raise ValueError(f"check_grads takes as modes of 'fwd' and 'rev', got {modes}.")
    args, atol, rtol = _settings(args, atol, rtol)
    steps = _STEPS[_coarsest(args)] if eps is None else (eps,)
    rng = np.random.default_rng(order)
    if order < 1:
        return
    if "fwd" in modes:
        tangents = tree.map(functools.partial(_random_like, rng), args)
        _at_one_step(check_jvp, f, functools.partial(jvp, f), args, atol, rtol, steps,
                     f"forward mode, {order} derivatives to go:")
        check_grads(lambda *args: jvp(f, args, tangents)[1], args, order - 1, modes, atol, rtol, eps)
    if "rev" in modes:
        _at_one_step(check_vjp, f, functools.partial(vjp, f), args, atol, rtol, steps,
                     f"reverse mode, {order} derivatives to go:")
        value = f(*args)
        cotangents = tree.map(functools.partial(_random_like, rng), value)
        check_grads(lambda *args: vjp(f, *args)[1](cotangents), args, order - 1, modes, atol, rtol, eps)
