"""Comparison of derivatives with finite differences in random directions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.api.derivatives import jvp, vjp
from xlafront.core import dtypes, tree

# Tolerances by dtype, and steps of finite differences: first the step at which rounding and truncation errors balance for
# functions of magnitude 1, then shorter steps for steep functions. The derivative must agree at one of them.
_TOLERANCES = {"float64": 1e-5, "float32": 2e-3, "float16": 1e-2, "bfloat16": 1e-1}
_STEPS = {"float64": (1e-5, 1e-7), "float32": (1e-2, 1e-3, 1e-4), "float16": (1e-1,), "bfloat16": (2.5e-1,)}
_REAL = {"complex64": "float32", "complex128": "float64"}


def _dtype(x):
    return dtypes.canonicalize_dtype(dtypes.operand_type(x)[0])


def _lowest_precision(*trees) -> str:
    """Return the floating dtype of lowest precision among the leaves."""
    names = {_dtype(x).name for x in tree.leaves(trees)}
    names = {_REAL.get(name, name) for name in names}
    return next((name for name in reversed(_TOLERANCES) if name in names), "float64")


def _random_like(rng, x):
    """Return a random direction without small elements, so that a wrong derivative is visible."""
    dtype, shape = _dtype(x), np.shape(x)
    direction = rng.choice([-1, 1], size=shape) * rng.uniform(0.5, 1.5, size=shape)
    if dtypes.is_complex(dtype):
        direction = direction * np.exp(2j * np.pi * rng.uniform(size=shape))
    return np.asarray(direction, dtype)


def _to_64_bits(x):
    """Convert to NumPy's 64-bit floating or complex dtype."""
    x = np.asarray(x)
    return x.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64)


def _compare(actual, expected, atol: float, rtol: float, message: str) -> None:
    actual_leaves, actual_tree = tree.flatten(actual)
    leaves, treedef = tree.flatten(expected)
    if actual_tree != treedef:
        raise AssertionError(f"{message}: got a pytree {actual_tree}, expected {treedef}.")
    for x, y in zip(actual_leaves, leaves):
        norm = np.linalg.norm(_to_64_bits(y)) / max(np.size(y), 1) ** 0.5  # rounding errors scale with the larger elements
        np.testing.assert_allclose(_to_64_bits(x), _to_64_bits(y), rtol=rtol, atol=max(atol, rtol * norm), err_msg=message)


def _central_differences(f: Callable, args, tangents, eps: float):
    """Compute a directional derivative by central differences."""
    def f_at(sign):
        return f(*tree.map(lambda x, t: (_to_64_bits(x) + sign * eps * _to_64_bits(t)).astype(_dtype(x)), args, tangents))

    return tree.map(lambda ahead, behind: (_to_64_bits(ahead) - _to_64_bits(behind)) / (2 * eps), f_at(1), f_at(-1))


def _arrays_and_tolerances(args, atol, rtol) -> tuple[Any, float, float]:
    """Convert arguments to arrays of a fixed dtype; return them and the tolerances."""
    args = tree.map(lambda x: np.asarray(x, _dtype(x)), tuple(args))
    lowest = _lowest_precision(args)
    default = _TOLERANCES[lowest]
    atol, rtol = (_of_dtype(tolerance, lowest) if isinstance(tolerance, dict) else tolerance for tolerance in (atol, rtol))
    return args, default if atol is None else atol, default if rtol is None else rtol


def _of_dtype(tolerances, name: str) -> float | None:
    """Return the tolerance of a dtype from a dict of dtypes; None if it has none."""
    return {np.dtype(d).name: tolerance for d, tolerance in tolerances.items()}.get(name)


def check_jvp(f: Callable, f_jvp: Callable, args: Sequence[Any], atol: float | None = None, rtol: float | None = None,
              eps: float = 1e-4, err_msg: str = "") -> None:
    """Raise AssertionError unless the derivative in a random direction agrees with finite differences.

    Args:
        f: Function to differentiate.
        f_jvp: Function to check: `f_jvp(args, tangents)` returns `f(*args)` and the output tangent.
        args: Arguments of `f`, a sequence of pytrees of arrays.
        atol: Absolute tolerance. Default: chosen by the dtypes of `args`.
        rtol: Relative tolerance. Default: chosen by the dtypes of `args`.
        eps: Step of the finite differences.
        err_msg: Prefix of the error message.

    Example:
        >>> check_jvp(xnp.sin, lambda args, tangents: xf.jvp(xnp.sin, args, tangents), (1.0,))
    """
    args, atol, rtol = _arrays_and_tolerances(args, atol, rtol)
    tangents = tree.map(functools.partial(_random_like, np.random.default_rng(0)), args)
    value, tangent = f_jvp(args, tangents)
    prefix = f"{err_msg} " if err_msg else ""
    _compare(value, f(*args), atol, rtol, f"{prefix}the value that f_jvp returns, and that of f")
    _compare(tangent, _central_differences(f, args, tangents, eps), atol, rtol, f"{prefix}the tangent, and finite differences")


def check_vjp(f: Callable, f_vjp: Callable, args: Sequence[Any], atol: float | None = None, rtol: float | None = None,
              eps: float = 1e-4, err_msg: str = "") -> None:
    """Raise AssertionError unless a random cotangent is pulled back in agreement with finite differences.

    Args:
        f: Function to differentiate.
        f_vjp: Function to check: `f_vjp(*args)` returns `f(*args)` and the pullback.
        args: Arguments of `f`, a sequence of pytrees of arrays.
        atol: Absolute tolerance. Default: chosen by the dtypes of `args`.
        rtol: Relative tolerance. Default: chosen by the dtypes of `args`.
        eps: Step of the finite differences.
        err_msg: Prefix of the error message.

    Example:
        >>> check_vjp(xnp.sin, lambda x: xf.vjp(xnp.sin, x), (1.0,))
    """
    args, atol, rtol = _arrays_and_tolerances(args, atol, rtol)
    rng = np.random.default_rng(0)
    tangents = tree.map(functools.partial(_random_like, rng), args)
    value, pullback = f_vjp(*args)
    prefix = f"{err_msg} " if err_msg else ""
    _compare(value, f(*args), atol, rtol, f"{prefix}the value that f_vjp returns, and that of f")
    cotangents = tree.map(functools.partial(_random_like, rng), value)
    in_cts, out_tangents = pullback(cotangents), _central_differences(f, args, tangents, eps)

    def product(xs, ys):
        return sum([np.sum(_to_64_bits(x) * _to_64_bits(y)) for x, y in zip(tree.leaves(xs), tree.leaves(ys))])

    _compare(np.real(product(in_cts, tangents)), np.real(product(cotangents, out_tangents)), atol, rtol,
             f"{prefix}the cotangents along a direction, and finite differences")


def _check_any_step(check: Callable, f: Callable, derivative: Callable, args, atol: float, rtol: float, steps: Sequence[float],
                    err_msg: str) -> None:
    for step in steps[:-1]:
        try:
            return check(f, derivative, args, atol, rtol, step, err_msg)
        except AssertionError:
            pass
    check(f, derivative, args, atol, rtol, steps[-1], err_msg)


def check_grads(f: Callable, args: Sequence[Any], order: int, modes: Sequence[str] = ("fwd", "rev"), atol: Any = None,
                rtol: Any = None, eps: float | None = None) -> None:
    """Raise AssertionError unless derivatives up to an order agree with finite differences in random directions.

    Args:
        f: Function to differentiate.
        args: Arguments of `f`, a sequence of pytrees of arrays.
        order: Highest order of the derivatives.
        modes: Modes to check, "fwd" and "rev".
        atol: Absolute tolerance, or a dict of tolerances by dtype. Default: chosen by the dtypes of `args`.
        rtol: Relative tolerance, or a dict of tolerances by dtype. Default: chosen by the dtypes of `args`.
        eps: Step of the finite differences. Default: chosen by the dtypes of `args`.

    Example:
        >>> check_grads(xnp.sin, (1.0,), order=2)
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if set(modes) - {"fwd", "rev"}:
        raise ValueError(f"check_grads takes modes among 'fwd' and 'rev', got {modes}.")
    args, atol, rtol = _arrays_and_tolerances(args, atol, rtol)
    steps = _STEPS[_lowest_precision(args)] if eps is None else (eps,)
    rng = np.random.default_rng(order)
    if order < 1:
        return
    if "fwd" in modes:
        tangents = tree.map(functools.partial(_random_like, rng), args)
        _check_any_step(check_jvp, f, functools.partial(jvp, f), args, atol, rtol, steps,
                        f"forward mode, {order} derivatives to go:")
        check_grads(lambda *args: jvp(f, args, tangents)[1], args, order - 1, modes, atol, rtol, eps)
    if "rev" in modes:
        _check_any_step(check_vjp, f, functools.partial(vjp, f), args, atol, rtol, steps,
                        f"reverse mode, {order} derivatives to go:")
        value = f(*args)
        cotangents = tree.map(functools.partial(_random_like, rng), value)
        check_grads(lambda *args: vjp(f, *args)[1](cotangents), args, order - 1, modes, atol, rtol, eps)
