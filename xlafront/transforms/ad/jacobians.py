"""Jacobians and Hessians: the derivative at a point, applied to all unit vectors at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.elementwise import eq, to_dtype
from xlafront.lax.shapes import iota_p, reshape
from xlafront.lax.zeros import instantiate, zeros_array
from xlafront.staging import signatures
from xlafront.staging.library import library
from xlafront.transforms.ad.arguments import (
    FlatFunction,
    argument_path,
    check_arrays,
    check_input,
    checked_argnums,
    dressed,
    of_positions,
    positions_of,
    without_tracers,
)
from xlafront.transforms.ad.linearize import linearize_flat
from xlafront.transforms.ad.transpose import transpose_linear
from xlafront.transforms.batching.vmap import vmap


@library(static=("shape", "dtype"))
def _unit_vectors(shape, dtype):
    """The unit vectors of a type, stacked along a new first dimension."""
    size = math.prod(shape)
    row, column = [iota_p.bind(dtype=np.dtype(np.int32), shape=(size, size), dimension=d, sharding=None) for d in (0, 1)]
    return reshape(to_dtype(eq(row, column), dtype), (size, *shape))


def jacfwd(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable:
    """The Jacobian by forward mode, a column for each input: best when there are more results than inputs."""
    return _jacobian("jacfwd", fun, argnums, has_aux, holomorphic, False)


def jacrev(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
           allow_int: bool = False) -> Callable:
    """The Jacobian by reverse mode, a row for each result: best when there are more inputs than results."""
    return _jacobian("jacrev", fun, argnums, has_aux, holomorphic, allow_int)


jacobian = jacrev


def _jacobian(transform, fun, argnums, has_aux, holomorphic, allow_int):
    if not callable(fun):
        raise errors.not_callable(transform, fun)
    chosen = checked_argnums(transform, argnums)
    name = signatures.function_name(fun)

    @boundary
    def jac(*args, **kwargs):
        positions = positions_of(transform, name, chosen, args)
        dynamic = tuple(args[i] for i in positions)
        values = check_arrays(transform, fun, dynamic)
        for i, x in enumerate(values):
            check_input(transform, name, x, lambda i=i: argument_path(positions, dynamic, i), holomorphic, allow_int)
            d = tracing.aval_of(x).dtype
            if transform == "jacfwd" and not holomorphic and dtypes.is_complex(d):
                raise TypeError(f"jacfwd of {name} needs real-valued inputs (of a floating dtype), but argument "
                                f"{argument_path(positions, dynamic, i)} has dtype {d}. For the complex derivative of a "
                                "holomorphic function pass holomorphic=True; otherwise use jvp.")

        in_tree = tree.structure(dynamic)
        flat = FlatFunction(of_positions(fun, name, positions, args, kwargs), in_tree, has_aux)
        results, program = linearize_flat(flat, values, [True] * len(values))
        for x in results:
            d = tracing.aval_of(x).dtype
            if holomorphic and not dtypes.is_complex(d):
                raise TypeError(f"{transform} with holomorphic=True needs complex outputs, but {name} returned dtype {d}.")
            if transform == "jacrev" and not holomorphic and not dtypes.is_float(d):
                raise TypeError(f"jacrev needs real-valued outputs (of a floating dtype), but {name} returned dtype {d}. For "
                                "the complex derivative of a holomorphic function pass holomorphic=True; otherwise use vjp.")
        out_shapes = [np.shape(x) for x in results]
        in_avals, out_avals = program.in_avals, program.out_avals
        blocks: list[list] = [[None] * len(values) for _ in results]
        if transform == "jacfwd":
            for j, aval in enumerate(in_avals):
                def column(t, j=j):
                    tangents = [t if i == j else Zero(a) for i, a in enumerate(in_avals)]
                    results = program.apply([instantiate(t) for t in tangents])
                    return [None if x.aval.dtype == dtypes.float0 else instantiate(x) for x in results]

                columns = vmap(column, out_axes=-1)(_unit_vectors(aval.shape, aval.dtype))
                for i, block in enumerate(columns):
                    shape = (*out_shapes[i], *aval.shape)
                    if block is None:  # integers do not change
                        blocks[i][j] = zeros_array(tracing.aval_of(results[i]).update(shape=shape))
                    else:
                        blocks[i][j] = reshape(block, shape)
        else:
            for i, aval in enumerate(out_avals):
                def row(ct, i=i):
                    cts = [ct if k == i else zeros_array(a) for k, a in enumerate(out_avals)]
                    found = transpose_linear(program, cts)
                    return [None if x.aval.dtype == dtypes.float0 else instantiate(x) for x in found]

                rows = vmap(row)(_unit_vectors(aval.shape, aval.dtype))
                for j, block in enumerate(rows):
                    shape = (*aval.shape, *in_avals[j].shape)
                    if block is None:  # integers
                        blocks[i][j] = zeros_array(tracing.aval_of(values[j]).update(shape=shape))
                    else:
                        blocks[i][j] = reshape(block, shape)
        single = hasattr(argnums, "__index__")
        nested = [in_tree.unflatten(row) for row in blocks]
        result = flat.out_tree.unflatten([row[0] if single else row for row in nested])
        return (result, without_tracers(flat.aux)) if has_aux else result

    return dressed(jac, fun, transform)


def hessian(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable:
    """The matrix of second derivatives, by forward over reverse mode."""
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
