"""Differentiation: `jvp`, `linearize`, `vjp`, `grad`, `value_and_grad`, `fwd_and_bwd` and `linear_transpose`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from xlafront.api.arguments import (
    FlatFunction,
    as_array,
    as_results,
    check_arrays,
    check_input,
    checked_argnums,
    flags_by_prefix,
    is_one_position,
    positions_of,
    restricted_to,
)
from xlafront.api.eager_pullback import pull_back
from xlafront.api.linear_maps import Derivative, Pullback, Transpose, checked_tangent
from xlafront.core import avals, dtypes, errors, tracing, tree
from xlafront.core.basic_primitives import convert_element_type_p
from xlafront.core.refs import RefTangent
from xlafront.core.tangents import instantiate, weakly_typed_as
from xlafront.core.traceback_filter import boundary, guarded
from xlafront.core.zeros import Zero
from xlafront.staging import signatures
from xlafront.staging.jit import jit
from xlafront.staging.library import exact
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.ad.linearize import linearize_flat
from xlafront.transforms.ad.transpose import evaluate_known
from xlafront.transforms.calls import policy_override
from xlafront.transforms.calls.checkpoint import checkpoint
from xlafront.transforms.calls.recomputation import in_checkpoint

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Forward mode


@boundary
def jvp(fun: Callable, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> tuple[Any, ...]:
    """Compute a function and its Jacobian-vector product (forward-mode differentiation).

    Args:
        fun: Function of arrays or pytrees of arrays.
        primals: Its arguments, a tuple or list.
        tangents: Tangents of the arguments, with the structure, shapes and dtypes of `primals` (float0 for integers).
        has_aux: If True, `fun` returns a pair of the result and auxiliary data, which is not differentiated.

    Returns:
        `(fun(*primals), tangent of the result)`, followed by the auxiliary data with `has_aux`.

    Example:
        >>> xf.jvp(lambda x: x ** 2, (xnp.float32(3.0),), (xnp.float32(1.0),))
        (Array(9., dtype=float32), Array(6., dtype=float32))
    """
    if not isinstance(primals, (tuple, list)) or type(primals) is not type(tangents):
        raise TypeError(f"jvp takes primals and tangents as two tuples of arguments, of the same structure, got "
                        f"{type(primals).__name__} and {type(tangents).__name__}.")
    values = check_arrays("jvp", fun, tuple(primals))
    in_tree, tangent_tree = tree.structure(tuple(primals)), tree.structure(tuple(tangents))
    if in_tree != tangent_tree:
        raise TypeError(f"jvp needs primals and tangents of the same tree structure: "
                        f"{tree.first_difference(tuple(primals), tuple(tangents))}")
    directions = tree.leaves(tuple(tangents))
    checked = [checked_tangent(tracing.aval_of(p), t, lambda i=i: tree.path_of(tuple(primals), i))
               for i, (p, t) in enumerate(zip(values, directions))]
    flat = FlatFunction(fun, in_tree, has_aux, ValueError)
    typed = [_typed_as(p, t) for p, t in zip(values, checked)]
    results, out_tangents = jvp_flat(flat, values, typed)
    for direction, t in zip(directions, checked):
        if type(t) is RefTangent:
            from xlafront.lax import refs  # start-up: 1.2 ms, only for references

            refs.set(direction, ..., instantiate(t.value))
    out = (flat.out_tree.unflatten(as_results(results)),
           flat.out_tree.unflatten([_tangent_of(x, t, values, typed, checked) for x, t in zip(results, out_tangents)]))
    return (*out, flat.aux) if has_aux else out


@boundary
def linearize(fun: Callable, *primals: Any, has_aux: bool = False, in_nzs: Any = None) -> tuple[Any, ...]:
    """Compute a function and its derivative at the primals as a linear function of tangents.

    The linear function can be applied to many tangents without evaluating `fun` again.

    Args:
        fun: Function of arrays or pytrees of arrays.
        primals: Its arguments.
        has_aux: If True, `fun` returns a pair of the result and auxiliary data, which is not differentiated.
        in_nzs: Arguments with nonzero tangents: a tree of bools, a prefix of the tuple of arguments up to the types of
            containers. The tangents of others are zero; the function is linearized without them. Default: all.

    Returns:
        `(fun(*primals), f_jvp)`, where `f_jvp(*tangents)` is the tangent of the result; followed by the auxiliary data with
        `has_aux`. The attribute `f_jvp.out_nzs` is the tree of bools that are True for results with nonzero tangents.

    Example:
        >>> y, derivative = xf.linearize(lambda x: x ** 2, 3.0)
        >>> float(derivative(1.0))
        6.0
        >>> y, derivative = xf.linearize(lambda x, y: (2 * x, 3 * y), 1.0, 1.0, in_nzs=(True, False))
        >>> derivative.out_nzs
        (True, False)
    """
    values = check_arrays("linearize", fun, primals)
    in_tree = tree.structure(primals)
    active = flags_by_prefix("linearize: in_nzs", True if in_nzs is None else in_nzs, in_tree)
    flat = FlatFunction(fun, in_tree, has_aux)
    results, program = linearize_flat(flat, values, active)
    derivative = Derivative(program, in_tree, flat.out_tree, signatures.function_name(fun))
    out = flat.out_tree.unflatten(as_results(results))
    return (out, derivative, flat.aux) if has_aux else (out, derivative)


# Reverse mode


def _refuse_reduce_axes(user: str, reduce_axes: Sequence[Any]) -> None:
    if reduce_axes:
        raise NotImplementedError(f"{user} no longer takes reduce_axes, got {reduce_axes!r}. Sum over named axes with "
                                  f"lax.psum.")


@boundary
def vjp(fun: Callable, *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Any] = (), saveable_args: Any = True,
        in_nzs: Any = None) -> tuple[Any, ...]:
    """Compute a function and its vector-Jacobian product as a function of cotangents (reverse-mode differentiation).

    Args:
        fun: Function of arrays or pytrees of arrays.
        primals: Its arguments.
        has_aux: If True, `fun` returns a pair of the result and auxiliary data, which is not differentiated.
        reduce_axes: Must be empty.
        saveable_args: Arguments that may be saved for the backward pass: a tree of bools like `in_nzs`. The values of others
            are `NotSaveable()` in `f_vjp.args_res`, where they must be restored before `f_vjp` is called. Values that are
            computed from them are saved. Default: all.
        in_nzs: Arguments with nonzero tangents: a tree of bools, a prefix of the tuple of arguments up to the types of
            containers. The tangents of others are zero; the function is linearized without them. Default: all.

    Returns:
        `(fun(*primals), f_vjp)`, where `f_vjp(ct)` is a tuple with a cotangent for each argument; followed by the auxiliary
        data with `has_aux`. The attribute `f_vjp.out_nzs` is the tree of bools that are True for results with nonzero tangents.

    Example:
        >>> y, pullback = xf.vjp(lambda x, y: x * y, 3.0, 4.0)
        >>> [float(ct) for ct in pullback(1.0)]
        [4.0, 3.0]
        >>> y, pullback = xf.vjp(lambda x, y: x * y, xnp.array(3.0), xnp.array(4.0), saveable_args=(True, False))
        >>> pullback.args_res[1]
        NotSaveable()
        >>> pullback.args_res[1] = xnp.array(4.0)
        >>> float(pullback(1.0)[0])
        4.0
    """
    _refuse_reduce_axes("vjp", reduce_axes)
    values = check_arrays("vjp", fun, primals)
    in_tree = tree.structure(primals)
    active = flags_by_prefix("vjp: in_nzs", True if in_nzs is None else in_nzs, in_tree)
    saveable = flags_by_prefix("vjp: saveable_args", saveable_args, in_tree)
    flat = FlatFunction(fun, in_tree, has_aux)
    results, program = linearize_flat(flat, values, active)
    pullback = Pullback.at_primals(program, values, in_tree, flat.out_tree, signatures.function_name(fun), saveable)
    out = flat.out_tree.unflatten(as_results(results))
    return (out, pullback, flat.aux) if has_aux else (out, pullback)


def grad(fun: Callable[_P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
         allow_int: bool = False, reduce_axes: Sequence[Any] = ()) -> Callable[_P, Any]:
    """Return a function that computes the gradient of a scalar function.

    Args:
        fun: Function that returns a scalar.
        argnums: Position of the argument to differentiate with respect to, or several positions.
        has_aux: If True, `fun` returns a pair of the scalar and auxiliary data, which is not differentiated.
        holomorphic: If True, compute the complex derivative of a holomorphic function.
        allow_int: If True, integer arguments have gradients of dtype float0. Otherwise they raise.
        reduce_axes: Must be empty.

    Returns:
        A function of the arguments of `fun` that returns the gradient, a tuple of gradients if `argnums` is a sequence. With
        `has_aux` it returns `(gradient, auxiliary data)`.

    Example:
        >>> xf.grad(lambda x, w: xnp.sum((w * x) ** 2))(xnp.arange(3.0), 2.0)
        Array([ 0.,  8., 16.], dtype=float32)
    """
    _refuse_reduce_axes("grad", reduce_axes)
    gradient = _with_gradient(fun, argnums, has_aux, holomorphic, allow_int, with_value=False)
    name = signatures.function_name(fun)
    return signatures.copy_metadata(
        gradient, fun, f"Compute the gradient of {name} with respect to argument(s) {argnums}. Takes the arguments of {name}.")


def value_and_grad(fun: Callable[_P, _R], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
                   allow_int: bool = False, reduce_axes: Sequence[Any] = ()) -> Callable[_P, tuple[_R, Any]]:
    """Return a function that computes a scalar function and its gradient.

    Args:
        fun: Function that returns a scalar.
        argnums: Position of the argument to differentiate with respect to, or several positions.
        has_aux: If True, `fun` returns a pair of the scalar and auxiliary data, which is not differentiated.
        holomorphic: If True, compute the complex derivative of a holomorphic function.
        allow_int: If True, integer arguments have gradients of dtype float0. Otherwise they raise.
        reduce_axes: Must be empty.

    Returns:
        A function of the arguments of `fun` that returns `(value, gradient)`, and `((value, auxiliary data), gradient)` with
        `has_aux`.

    Example:
        >>> value, gradient = xf.value_and_grad(lambda x: x ** 2)(3.0)
        >>> float(value), float(gradient)
        (9.0, 6.0)
    """
    _refuse_reduce_axes("value_and_grad", reduce_axes)
    name = signatures.function_name(fun)
    return signatures.copy_metadata(
        _with_gradient(fun, argnums, has_aux, holomorphic, allow_int, with_value=True), fun,
        f"Compute {name} and its gradient with respect to argument(s) {argnums}. Takes the arguments of {name}.")


def _with_gradient(fun: Callable, argnums, has_aux: bool, holomorphic: bool, allow_int: bool,
                   with_value: bool) -> Callable:
    if not callable(fun):
        raise errors.not_callable("grad", fun)
    checked = checked_argnums("grad", argnums)
    name = signatures.function_name(fun)

    @guarded
    def with_gradient(*args, **kwargs):
        positions = positions_of("grad", name, checked, args)
        dynamic = tuple(args[i] for i in positions)
        values = check_arrays("grad", fun, dynamic)
        for i, x in enumerate(values):
            check_input("grad", name, x, positions, dynamic, i, holomorphic, allow_int)

        restricted = restricted_to(fun, name, positions, args, kwargs)
        policy = policy_override.policy_at(policy_override.Place.LOSSES)
        if policy is not None and not in_checkpoint():
            restricted = checkpoint(restricted, policy=policy)
        flat = FlatFunction(restricted, tree.structure(dynamic), has_aux)
        results, program = linearize_flat(flat, values, [True] * len(values))
        value = flat.out_tree.unflatten(as_results(results))
        _check_scalar(name, value, results, flat.out_tree, holomorphic)
        aval = tracing.aval_of(results[0])
        gradient = flat.in_tree.unflatten([as_array(ct) for ct in pull_back(program, [_one(aval)])])
        if is_one_position(argnums):
            gradient = gradient[0]
        if not with_value:
            return (gradient, flat.aux) if has_aux else gradient
        return ((value, flat.aux) if has_aux else value), gradient

    return with_gradient


def _tangent_of(x, tangent, primals, typed, given):
    """Return the tangent of a result: of a result that is an argument, the tangent that the user gave."""
    if type(tangent) is Zero:
        return as_array(weakly_typed_as(instantiate(tangent), tracing.aval_of(x)))
    for p, t, as_given in zip(primals, typed, given):
        if tangent is t and x is p:
            return as_results([as_given])[0]
    return as_results([tangent])[0] if isinstance(x, (int, float, complex)) else as_array(tangent)


def _typed_as(primal, tangent):
    """Return a tangent with the weak type of its primal."""
    if type(tangent) in (Zero, RefTangent):
        return tangent
    given, weak = tracing.aval_of(tangent), tracing.aval_of(primal).weak_type
    if given.weak_type == weak or given.dtype == dtypes.float0:
        return tangent
    if type(tangent) in dtypes.python_scalar_dtypes:
        return given.dtype.type(tangent)
    return convert_element_type_p.bind(tangent, new_dtype=given.dtype, weak_type=weak, sharding=None)


def _one(aval):
    """Return the cotangent 1 of a scalar, with its weak type."""
    one = aval.dtype.type(1)
    return one.item() if aval.weak_type and aval.dtype in map(dtypes.default_dtype, (float, complex)) else exact(one)


def fwd_and_bwd(fun: Callable, argnums: int | Sequence[int], has_aux: bool = False,
                jitted: bool = True) -> tuple[Callable, Callable]:
    """Return the forward and the backward pass of reverse-mode differentiation as two functions.

    The residuals are a pytree of arrays, so that the passes can be compiled and run separately.

    Args:
        fun: Function of arrays or pytrees of arrays.
        argnums: Position of the argument to differentiate with respect to, or several positions.
        has_aux: If True, `fun` returns a pair of the result and auxiliary data, which `fwd` returns as a third result.
        jitted: If True, compile both.

    Returns:
        `fwd(*args)`, which returns `(value, residuals)`, and `bwd(residuals, ct)`, which returns the cotangent of the argument,
        a tuple if `argnums` is a sequence.

    Example:
        >>> fwd, bwd = xf.fwd_and_bwd(lambda x: x ** 2, 0)
        >>> y, residuals = fwd(3.0)
        >>> float(bwd(residuals, 1.0))
        6.0
    """
    checked = checked_argnums("fwd_and_bwd", argnums)
    name = signatures.function_name(fun)

    def fwd(*args, **kwargs):
        positions = positions_of("fwd_and_bwd", name, checked, args)
        return vjp(restricted_to(fun, name, positions, args, kwargs), *[args[i] for i in positions], has_aux=has_aux)

    def bwd(residuals, cotangent):
        found = residuals(cotangent)
        return found[0] if is_one_position(argnums) else found

    if jitted:
        return jit(fwd), jit(bwd)
    return fwd, bwd


def _check_scalar(name, value, results, out_tree, holomorphic):
    if out_tree.num_leaves != 1 or out_tree.num_nodes != 1:
        raise TypeError(f"grad, the gradient, is defined for scalar-output functions, but {name} returned a pytree {out_tree}. "
                        f"Return the loss alone, or (loss, aux) with has_aux=True.")
    aval = tracing.aval_of(results[0])
    if aval.shape:
        raise TypeError(f"grad, the gradient, is defined for scalar-output functions, but {name} returned an output of shape "
                        f"{aval.shape}. Reduce it (numpy.sum, numpy.mean), or use jacrev or vjp.")
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(f"grad with holomorphic=True needs complex outputs, but {name} returned dtype {aval.dtype}.")
    elif dtypes.is_complex(aval.dtype):
        raise TypeError(f"grad needs real-valued outputs (of a floating dtype), but {name} returned dtype {aval.dtype}. For "
                        "the complex derivative of a holomorphic function pass holomorphic=True; otherwise use vjp.")
    elif not dtypes.is_float(aval.dtype):
        raise TypeError(f"grad needs real-valued outputs (of a floating dtype), but {name} returned dtype {aval.dtype}: an "
                        "integer or boolean has no derivative. Leave out the rounding or comparison at the end, or use vjp.")


@boundary
def linear_transpose(fun: Callable, *primals: Any, reduce_axes: Sequence[Any] = ()) -> Callable:
    """Return the transpose of a linear function.

    Args:
        fun: Linear function.
        primals: Its arguments, of which only shapes and dtypes are used.
        reduce_axes: Must be empty.

    Returns:
        A function that maps a cotangent of the result to a tuple of cotangents of the arguments.

    Example:
        >>> transposed = xf.linear_transpose(lambda x: 3.0 * x, 0.0)
        >>> float(transposed(2.0)[0])
        6.0
    """
    _refuse_reduce_axes("linear_transpose", reduce_axes)
    leaves, in_tree = tree.flatten(primals)
    for i, x in enumerate(leaves):
        if not hasattr(x, "shape") and not tracing.is_arraylike(x):
            raise errors.not_an_array(x, f"linear_transpose of {signatures.function_name(fun)}", tree.path_of(primals, i))
    in_avals = [tracing.aval_of(x) if tracing.is_arraylike(x) else avals.ShapedArray(
        x.shape, x.dtype, bool(getattr(x, "weak_type", False))) for x in leaves]
    flat = FlatFunction(fun, in_tree)

    def traced(*tracers: tracing.StagedTracer) -> list[Any]:
        tracing.thread.trace.becomes_program = False
        return flat.apply(*tracers)

    jaxpr, consts = tracing.trace_to_jaxpr(traced, in_avals)
    if len({(dtypes.is_inexact(a.dtype), a.dtype == dtypes.bool_) for a in (*in_avals, *[v.aval for v in jaxpr.outvars])
            if not a.is_high}) > 1:
        raise TypeError(f"linear_transpose only supports functions of float or complex arrays with such results, and of "
                        f"integers with integer results: {signatures.function_name(fun)} takes "
                        f"{', '.join(map(str, in_avals))} and returns {', '.join(str(v.aval) for v in jaxpr.outvars)}.")
    linear, values = evaluate_known(jaxpr, consts)
    return Transpose(linear, values, in_avals, in_tree, flat.out_tree, signatures.function_name(fun))
