"""Jacobians and Hessians: the linearized function applied to all unit vectors at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from xlafront.api.arguments import (
    FlatFunction,
    argument_path,
    as_array,
    check_arrays,
    check_input,
    checked_argnums,
    is_one_position,
    positions_of,
    restricted_to,
)
from xlafront.api.vmap import vmap
from xlafront.core import dtypes, errors, source, tracing, tree
from xlafront.core.avals import with_entry
from xlafront.core.basic_primitives import place_axis, reshard_p, to_dtype
from xlafront.core.tangents import instantiate, weakly_typed_as, zeros_array
from xlafront.core.traceback_filter import boundary
from xlafront.lax.elementwise import add, eq
from xlafront.lax.shapes import counting, reshape
from xlafront.lax.slicing import slice_in_dim
from xlafront.staging import signatures
from xlafront.staging.library import library
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.ad.linearize import linearize_flat
from xlafront.transforms.ad.transpose import transpose_linear
from xlafront.transforms.batching.vmap import batch_flat

_P = ParamSpec("_P")


@library(static=("shape", "dtype", "before", "total"))
def _unit_vectors(shape, dtype, before=0, total=None):
    """Return the unit vectors of a type, stacked along a new first dimension. `before` zero rows precede them, of `total`
    rows."""
    size = math.prod(shape)
    rows = (size if total is None else total, size)
    row, column = [counting(dtypes.int32, rows, d) for d in (0, 1)]
    if before:
        column = add(column, np.int32(before))
    return reshape(to_dtype(eq(row, column), dtype), (rows[0], *shape))


def jacfwd(fun: Callable[_P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
           holomorphic: bool = False) -> Callable[_P, Any]:
    """Compute the Jacobian in forward mode, column by column.

    This is efficient if there are more outputs than inputs.

    Args:
        fun: Function to differentiate; it may return arrays of any shape.
        argnums: Position or positions of the arguments to differentiate with respect to.
        has_aux: If True, `fun` returns a pair of the output to differentiate and auxiliary data.
        holomorphic: If True, `fun` is holomorphic, with complex inputs and outputs.

    Returns:
        A function that returns the Jacobian. Each array of the output of `fun` is replaced by its derivative, with the
        dimensions of the
        array followed by those of the argument (a tuple of derivatives for several arguments). If `has_aux` is True, it
        returns a
        pair with the auxiliary data.

    Example:
        >>> xf.jacfwd(lambda x: x ** 2)(xnp.array([1.0, 2.0]))
        Array([[2., 0.],
               [0., 4.]], dtype=float32)
    """
    return _jacobian("jacfwd", fun, argnums, has_aux, holomorphic, False)


def jacrev(fun: Callable[_P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
           allow_int: bool = False) -> Callable[_P, Any]:
    """Compute the Jacobian in reverse mode, row by row. Also called `jacobian`.

    This is efficient if there are more inputs than outputs.

    Args:
        fun: Function to differentiate; it may return arrays of any shape.
        argnums: Position or positions of the arguments to differentiate with respect to.
        has_aux: If True, `fun` returns a pair of the output to differentiate and auxiliary data.
        holomorphic: If True, `fun` is holomorphic, with complex inputs and outputs.
        allow_int: If True, integer arguments are allowed; their derivatives have dtype float0.

    Returns:
        A function that returns the Jacobian. Each array of the output of `fun` is replaced by its derivative, with the
        dimensions of the
        array followed by those of the argument (a tuple of derivatives for several arguments). If `has_aux` is True, it
        returns a
        pair with the auxiliary data.

    Example:
        >>> xf.jacrev(lambda x: x ** 2)(xnp.array([1.0, 2.0]))
        Array([[2., 0.],
               [0., 4.]], dtype=float32)
    """
    return _jacobian("jacrev", fun, argnums, has_aux, holomorphic, allow_int)


jacobian = jacrev


def _jacobian(transform, fun, argnums, has_aux, holomorphic, allow_int):
    if not callable(fun):
        raise errors.not_callable(transform, fun)
    chosen = checked_argnums(transform, argnums)
    name, forward = signatures.function_name(fun), transform == "jacfwd"

    @boundary
    def jac(*args, **kwargs):
        positions = positions_of(transform, name, chosen, args)
        dynamic = tuple(args[i] for i in positions)
        values = check_arrays(transform, fun, dynamic)
        for i, x in enumerate(values):
            check_input(transform, name, x, positions, dynamic, i, holomorphic, allow_int)
            d = tracing.aval_of(x).dtype
            if forward and not holomorphic and dtypes.is_complex(d):
                raise TypeError(f"jacfwd of {name} needs real-valued inputs (of a floating dtype), but argument "
                                f"{argument_path(positions, dynamic, i)} has dtype {d}. For the complex derivative of a "
                                "holomorphic function pass holomorphic=True; otherwise use jvp.")

        in_tree = tree.structure(dynamic)
        flat = FlatFunction(restricted_to(fun, name, positions, args, kwargs), in_tree, has_aux,
                            ValueError if forward else TypeError)
        blocks = (_columns if forward else _rows)(flat, values, lambda d: _check_result(transform, name, d, holomorphic))
        if has_aux and forward:
            check_arrays("the auxiliary data of jacfwd", fun, flat.aux)
        single = is_one_position(argnums)
        nested = [in_tree.unflatten(row) for row in blocks]
        result = flat.out_tree.unflatten([row[0] if single else row for row in nested])
        return (result, flat.aux) if has_aux else result

    name = signatures.function_name(fun)
    return signatures.copy_metadata(
        jac, fun, f"Return the Jacobian of {name} with respect to argument(s) {argnums}, computed by {transform}. It takes "
                                      f"the arguments of {name}.")


def _check_result(transform: str, name: str, d, holomorphic: bool) -> None:
    if holomorphic and not dtypes.is_complex(d):
        raise TypeError(f"{transform} with holomorphic=True needs complex outputs, but {name} returned dtype {d}.")
    if transform == "jacfwd" and d == dtypes.bool_:
        raise TypeError(f"jacfwd needs outputs that are numbers, but {name} returned dtype bool, which has no derivative.")
    if transform == "jacrev" and not holomorphic and not dtypes.is_float(d):
        raise TypeError(f"jacrev needs real-valued outputs (of a floating dtype), but {name} returned dtype {d}. For the "
                        "complex derivative of a holomorphic function pass holomorphic=True; otherwise use vjp.")


def _columns(flat: FlatFunction, values: Sequence[Any], check: Callable[[Any], None]) -> list[list[Any]]:
    """Push the unit vectors of all arguments forward: return the derivatives of each output in each argument. The function
    runs on unbatched values; only its tangents are batched."""
    in_avals = [tracing.aval_of(x).to_tangent_aval() for x in values]
    sizes = [a.size for a in in_avals]
    offsets, total = [0, *itertools.accumulate(sizes)], sum(sizes)
    out_avals: list[Any] = []

    def pushforward(*tangents):
        results, out_tangents = jvp_flat(flat, values, tangents)
        out_avals[:] = [tracing.aval_of(x) for x in results]
        return [_block(t, a.to_tangent_aval()) for t, a in zip(out_tangents, out_avals)
                if a.to_tangent_aval().dtype != dtypes.float0]

    units = [_shard_like(weakly_typed_as(_unit_vectors(a.shape, a.dtype, start, total), a), a)
             for a, start in zip(in_avals, offsets)]
    with source.transformed("vmap"):
        batched, dims = batch_flat(pushforward, units, [0] * len(units), total)
    columns = iter([place_axis(x, d, np.ndim(x) - (d is not None), total) for x, d in zip(batched, dims)])
    blocks = []
    for aval in out_avals:
        check(aval.dtype)
        if aval.to_tangent_aval().dtype == dtypes.float0:  # integers have no derivative
            blocks.append([_zeros(aval, (*aval.shape, *a.shape)) for a in in_avals])
            continue
        columns_of_output, axis = next(columns), len(aval.shape)
        column_blocks = [columns_of_output] if len(sizes) == 1 else [
            slice_in_dim(columns_of_output, start, start + n, axis=axis) for start, n in zip(offsets, sizes)]
        blocks.append([reshape(column_block, (*aval.shape, *a.shape)) for column_block, a in zip(column_blocks, in_avals)])
    return blocks


def _rows(flat: FlatFunction, values: Sequence[Any], check: Callable[[Any], None]) -> list[list[Any]]:
    """Pull the unit vectors of each output back: return the derivatives of each output in each argument."""
    results, linearized = linearize_flat(flat, values, [True] * len(values))
    for x in results:
        check(tracing.aval_of(x).dtype)
    in_avals, out_avals = linearized.in_avals, linearized.out_avals
    blocks = []
    for i, aval in enumerate(out_avals):
        def row(ct, i=i):
            cts = [ct if k == i else zeros_array(a) for k, a in enumerate(out_avals)]
            in_cts = transpose_linear(linearized, cts)
            return [None if a.dtype == dtypes.float0 else _block(x, a) for x, a in zip(in_cts, in_avals)]

        rows = vmap(row)(weakly_typed_as(_unit_vectors(aval.shape, aval.dtype), aval))
        blocks.append([_zeros(tracing.aval_of(x), (*aval.shape, *a.shape)) if block is None  # integers
                       else reshape(block, (*aval.shape, *a.shape)) for block, x, a in zip(rows, values, in_avals)])
    return blocks


def _shard_like(units, aval):
    """Give unit vectors the explicit sharding of their type."""
    sharding = aval.explicit_sharding
    return units if sharding is None else reshard_p.bind(units, dst_sharding=with_entry(sharding, 0, None))


def _block(derivative, aval):
    """Instantiate a row or column, with the weak type of the differentiated value."""
    return weakly_typed_as(instantiate(derivative), aval)


def _zeros(aval, shape):
    aval = aval.update(shape=shape)
    return weakly_typed_as(as_array(zeros_array(aval)), aval)


def hessian(fun: Callable[_P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
            holomorphic: bool = False) -> Callable[_P, Any]:
    """Compute the matrix of second derivatives, in forward over reverse mode.

    Args:
        fun: Function to differentiate; it may return arrays of any shape.
        argnums: Position or positions of the arguments to differentiate with respect to.
        has_aux: If True, `fun` returns a pair of the output to differentiate and auxiliary data.
        holomorphic: If True, `fun` is holomorphic, with complex inputs and outputs.

    Returns:
        A function that returns the Hessian. Each array of the output of `fun` is replaced by its second derivative, with the
        dimensions
        of the array followed twice by those of the argument. If `has_aux` is True, it returns a pair with the auxiliary data.

    Example:
        >>> xf.hessian(lambda x: xnp.sum(x ** 3))(xnp.array([1.0, 2.0]))
        Array([[ 6.,  0.],
               [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
