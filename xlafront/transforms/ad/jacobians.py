"""Jacobians and Hessians: the derivative at a point, applied to all unit vectors at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, source, tracing, tree
from xlafront.core.avals import with_entry
from xlafront.core.traceback_filter import boundary
from xlafront.lax.device_put import reshard_p
from xlafront.lax.elementwise import add, eq, to_dtype
from xlafront.lax.shapes import counting, place_axis, reshape
from xlafront.lax.slicing import slice_in_dim
from xlafront.lax.zeros import instantiate, zeros_array
from xlafront.staging import signatures
from xlafront.staging.library import library
from xlafront.transforms.ad.arguments import (
    FlatFunction,
    argument_path,
    as_array,
    check_arrays,
    check_input,
    checked_argnums,
    of_positions,
    positions_of,
    weakly_typed_as,
    without_tracers,
)
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.ad.linearize import linearize_flat
from xlafront.transforms.ad.transpose import transpose_linear
from xlafront.transforms.batching.vmap import batch_flat, vmap


@library(static=("shape", "dtype", "before", "total"))
def _unit_vectors(shape, dtype, before=0, total=None):
    """The unit vectors of a type, stacked along a new first dimension; zeros for others with `before`, and `total`."""
    size = math.prod(shape)
    rows = (size if total is None else total, size)
    row, column = [counting(dtypes.int32, rows, d) for d in (0, 1)]
    if before:
        column = add(column, np.int32(before))
    return reshape(to_dtype(eq(row, column), dtype), (rows[0], *shape))


def jacfwd(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable:
    """The Jacobian by forward mode, a column for each input: best when there are more results than inputs.

    It has the dimensions of the results, then those of the argument.

    - `fun`, `argnums`, `has_aux`, `holomorphic`: as of `grad`; `fun` may return an array.

    >>> xf.jacfwd(lambda x: x ** 2)(xnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    return _jacobian("jacfwd", fun, argnums, has_aux, holomorphic, False)


def jacrev(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
           allow_int: bool = False) -> Callable:
    """The Jacobian by reverse mode, a row for each result: best when there are more inputs than results. `jacobian` is this.

    It has the dimensions of the results, then those of the argument.

    - `fun`, `argnums`, `has_aux`, `holomorphic`, `allow_int`: as of `grad`; `fun` may return an array.

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
        flat = FlatFunction(of_positions(fun, name, positions, args, kwargs), in_tree, has_aux,
                            ValueError if forward else TypeError)
        blocks = (_columns if forward else _rows)(flat, values, lambda d: _check_result(transform, name, d, holomorphic))
        if has_aux and forward:
            check_arrays("the auxiliary data of jacfwd", fun, flat.aux)
        single = hasattr(argnums, "__index__")
        nested = [in_tree.unflatten(row) for row in blocks]
        result = flat.out_tree.unflatten([row[0] if single else row for row in nested])
        return (result, without_tracers(flat.aux)) if has_aux else result

    name = signatures.function_name(fun)
    return signatures.dress(jac, fun, f"The Jacobian of {name} in its argument(s) {argnums}, as {transform} makes it: takes "
                                      f"what {name} takes, and returns its derivatives in place of its values.")


def _check_result(transform: str, name: str, d, holomorphic: bool) -> None:
    if holomorphic and not dtypes.is_complex(d):
        raise TypeError(f"{transform} with holomorphic=True needs complex outputs, but {name} returned dtype {d}.")
    if transform == "jacfwd" and d == dtypes.bool_:
        raise TypeError(f"jacfwd needs outputs that are numbers, but {name} returned dtype bool, which has no derivative.")
    if transform == "jacrev" and not holomorphic and not dtypes.is_float(d):
        raise TypeError(f"jacrev needs real-valued outputs (of a floating dtype), but {name} returned dtype {d}. For the "
                        "complex derivative of a holomorphic function pass holomorphic=True; otherwise use vjp.")


def _columns(flat: FlatFunction, values: Sequence[Any], check: Callable[[Any], None]) -> list[list[Any]]:
    """Forward mode on the unit vectors of all arguments: for each result its derivative in each argument.

    The function runs on values that are no batches, its tangents are.
    """
    in_avals = [tracing.aval_of(x).to_tangent_aval() for x in values]
    sizes = [a.size for a in in_avals]
    before, total = [0, *itertools.accumulate(sizes)], sum(sizes)
    out_avals: list[Any] = []

    def push(*tangents):
        results, out_tangents = jvp_flat(flat, values, tangents)
        out_avals[:] = [tracing.aval_of(x) for x in results]
        return [_block(t, a.to_tangent_aval()) for t, a in zip(out_tangents, out_avals)
                if a.to_tangent_aval().dtype != dtypes.float0]

    units = [_split_as(weakly_typed_as(_unit_vectors(a.shape, a.dtype, start, total), a), a)
             for a, start in zip(in_avals, before)]
    with source.transformed("vmap"):
        found, dims = batch_flat(push, units, [0] * len(units), total)
    columns = iter([place_axis(x, d, np.ndim(x) - (d is not None), total) for x, d in zip(found, dims)])
    blocks = []
    for aval in out_avals:
        check(aval.dtype)
        if aval.to_tangent_aval().dtype == dtypes.float0:  # integers do not change
            blocks.append([_zeros(aval, (*aval.shape, *a.shape)) for a in in_avals])
            continue
        column, axis = next(columns), len(aval.shape)
        parts = [column] if len(sizes) == 1 else [
            slice_in_dim(column, start, start + n, axis=axis) for start, n in zip(before, sizes)]
        blocks.append([reshape(part, (*aval.shape, *a.shape)) for part, a in zip(parts, in_avals)])
    return blocks


def _rows(flat: FlatFunction, values: Sequence[Any], check: Callable[[Any], None]) -> list[list[Any]]:
    """Reverse mode on the unit vectors of each result: for each result its derivative in each argument."""
    results, program = linearize_flat(flat, values, [True] * len(values))
    for x in results:
        check(tracing.aval_of(x).dtype)
    in_avals, out_avals = program.in_avals, program.out_avals
    blocks = []
    for i, aval in enumerate(out_avals):
        def row(ct, i=i):
            cts = [ct if k == i else zeros_array(a) for k, a in enumerate(out_avals)]
            found = transpose_linear(program, cts)
            return [None if a.dtype == dtypes.float0 else _block(x, a) for x, a in zip(found, in_avals)]

        rows = vmap(row)(weakly_typed_as(_unit_vectors(aval.shape, aval.dtype), aval))
        blocks.append([_zeros(tracing.aval_of(x), (*aval.shape, *a.shape)) if block is None  # integers
                       else reshape(block, (*aval.shape, *a.shape)) for block, x, a in zip(rows, values, in_avals)])
    return blocks


def _split_as(units, aval):
    """Unit vectors, each split over explicit mesh axes as its type is."""
    split = aval.explicit_sharding
    return units if split is None else reshard_p.bind(units, dst_sharding=with_entry(split, 0, None))


def _block(derivative, aval):
    """A row or column as an array, as weakly typed as what changes by it."""
    return weakly_typed_as(instantiate(derivative), aval)


def _zeros(aval, shape):
    aval = aval.update(shape=shape)
    return weakly_typed_as(as_array(zeros_array(aval)), aval)


def hessian(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable:
    """The matrix of second derivatives, by forward over reverse mode.

    - `fun`, `argnums`, `has_aux`, `holomorphic`: as of `grad`; `fun` may return an array.

    >>> xf.hessian(lambda x: xnp.sum(x ** 3))(xnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
