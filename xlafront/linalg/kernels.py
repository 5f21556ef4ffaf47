"""Calls of the kernels that come with jaxlib and its plugins: LAPACK on the CPU, cuSOLVER and its kin on CUDA.

Algorithms are Python functions of arrays in which `call` stands for a kernel; `factorization` makes the record of an
operation from one such function for each platform. A kernel works on matrices stored by columns, in the two
last dimensions, and repeats over the dimensions before them, along which programs for many devices split it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lowering
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray, str_short
from xlafront.core.errors import ShardingTypeError
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.lax.arguments import check_dtype
from xlafront.lax.dot_products import Precision
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.runtime import kernel_libraries

LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d", np.dtype(np.complex64): "c", np.dtype(np.complex128): "z"}


def lapack(name: str, dtype) -> str:
    """The name of a LAPACK kernel for a dtype: `("potrf", float32)` is `lapack_spotrf_ffi`."""
    if dtypes.is_complex(dtype):
        name = {"syevd": "heevd", "orgqr": "ungqr", "ormqr": "unmqr", "sytrd": "hetrd"}.get(name, name)
    return f"lapack_{LETTERS[dtype]}{name}_ffi"


# The operation. `batch` is the number of leading dimensions; operand i is overwritten by result j for (i, j) in
# `aliases`; `attributes` are pairs of a name and a number, a boolean, a text or a letter (numpy.uint8).


def _attribute(mlir, value):
    if isinstance(value, bool):
        return mlir.boolean(value)
    if isinstance(value, str):
        return mlir.string(value)
    if isinstance(value, np.uint8):
        return mlir.attribute(f"{value} : ui8")
    return mlir.i32(value)


def _layout(rank: int, batch: int, by_columns: bool) -> str:
    """Dimensions from the fastest to the slowest."""
    order = list(reversed(range(rank)))
    if rank - batch == 2 and by_columns:
        order[:2] = order[1::-1]
    return f"dense<{order}> : tensor<{rank}xindex>"


def _splits(operands: Sequence[ShapedArray], results: Sequence[ShapedArray], batch: int) -> str:
    """For Shardy: which dimensions may be split alike. Those of the batch, and no others."""
    names: list[str] = []
    sizes: list[int] = []

    def new(size: int) -> str:
        i = len(names)
        names.append(chr(ord("i") + i) if i < 18 else f"z_{i - 17}")
        sizes.append(size)
        return names[-1]

    shared = [new(n) for n in operands[0].shape[:batch]]
    sides = [", ".join(f"[{', '.join((shared if a.ndim else []) + [new(n) for n in a.shape[batch:]])}]" for a in side)
             for side in (operands, results)]
    return (f"#sdy.op_sharding_rule<({sides[0]})->({sides[1]}) "
            f"{{{', '.join(f'{n}={s}' for n, s in zip(names, sizes))}}}, custom>")


def _lower(ctx, *operands, target, results, batch, aliases, attributes, by_columns):
    mlir = lowering.mlir
    if ctx.platform == "cpu":
        kernel_libraries.register_lapack()
    elif target.startswith("cuhybrid"):
        kernel_libraries.register_hybrid()

    def order(aval):
        return mlir.attribute(_layout(aval.ndim, batch, by_columns))

    config = mlir.ir.DictAttr.get({name: _attribute(mlir, value) for name, value in attributes})
    more: dict[str, Any] = {}
    if aliases:
        several = len(results) > 1
        more["output_operand_aliases"] = mlir.array(mlir.attribute(
            f"#stablehlo.output_operand_alias<output_tuple_indices = [{j if several else ''}], operand_index = {i}, "
            f"operand_tuple_indices = []>") for i, j in aliases)
    if by_columns:
        more["mhlo.frontend_attributes"] = mlir.ir.DictAttr.get({"num_batch_dims": mlir.string(str(batch))})
        if not ctx.computes(*[a.shape for a in (*ctx.avals_in, *results)]):
            more["sdy.sharding_rule"] = mlir.attribute(_splits(ctx.avals_in, results, batch))
    shapes, marks = ctx.shape_operands(results, len(operands))
    orders = [*map(order, ctx.avals_in), *[mlir.attribute(_layout(1, 0, False))] * len(shapes)]
    found = ctx.op("stablehlo.custom_call", [*operands, *shapes], results, call_target_name=mlir.string(target),
                   api_version=mlir.i32(4), backend_config=config, operand_layouts=mlir.array(orders),
                   result_layouts=mlir.array(map(order, results)), **more, **marks)
    return found if isinstance(found, list) else [found]


def _batch(size, operands, dims, *, results, batch, **params):
    operands = [broadcast_batch(x, d, size) for x, d in zip(operands, dims)]
    grown = tuple([r.update(shape=(size, *r.shape)) for r in results])
    found = kernel_p.bind(*operands, results=grown, batch=batch + 1, **params)
    return found, [0] * len(found)


kernel_p = Primitive("ffi_call", multiple_results=True, lower=_lower, batch=_batch,
                     abstract=lambda *operands, results, **params: list(results),
                     sharding_rule=lambda name, operands, result, params: _split_like_batch(
                         [a.ndim - params["batch"] for a, _ in operands], params["target"], operands, result, params))


def call(target: str, results: Sequence[tuple], *operands, batch: int | None = None, aliases: Sequence[tuple[int, int]] = (),
         by_columns: bool = True, **attributes) -> list:
    """The results of a kernel, of the given shapes and dtypes; `batch` counts the leading dimensions of the first operand,
    a matrix if it is left out."""
    batch = np.ndim(operands[0]) - 2 if batch is None else batch
    return kernel_p.bind(*operands, target=target, results=tuple([ShapedArray(tuple(s), np.dtype(d)) for s, d in results]),
                         batch=batch, aliases=tuple(aliases), attributes=tuple(attributes.items()), by_columns=by_columns)


def letter(text: str) -> np.uint8:
    """A character as the kernels take it: `U` or `L`, `T` or `N`."""
    return np.uint8(ord(text))


# Records of operations


def factorization(name: str, abstract: Callable, *, jvp: Callable | None = None, transpose: Callable | None = None,
                  accepts: str = "float complex", ranks: Sequence[int] = (2,), multiple_results: bool = True,
                  kernel: bool = True, **algorithms: Callable) -> Primitive:
    """A record for an operation on matrices, repeated over leading dimensions.

    - `abstract(*avals, **params)`: the shape and the dtype of each result.
    - `ranks`: the dimensions of each operand that belong to one matrix or vector.
    - `kernel`: whether dtypes are only those for which there are kernels.
    - `algorithms`: a function of arrays `(*operands, **params)` for each platform, by its name; `default` for all others.
    """
    def types(*avals, **params):
        for aval, rank in zip(avals, ranks):
            check_dtype(name, accepts, aval.dtype)
            check_rank(name, aval, rank)
        leading = {aval.shape[:aval.ndim - rank] for aval, rank in zip(avals, ranks)}
        if len({len(shape) for shape in leading}) > 1:
            raise apart(TypeError, avals)
        found = [ShapedArray(tuple(shape), np.dtype(dtype)) for shape, dtype in abstract(*avals, **params)]
        of = [aval.dtype for aval, _ in zip(avals, ranks)]
        if len(set(of)) > 1:
            raise errors.incompatible_dtypes(name, of, "Convert them to one with x.astype(...).")
        if len(leading) > 1:
            raise apart(ValueError, avals)
        if kernel and of[0] not in LETTERS:
            raise NotImplementedError(f"{name} of {of[0]} is computed by none of the libraries: convert with "
                                      f"x.astype(float32), and back afterwards.")
        return found if multiple_results else found[0]

    def apart(error: type[Exception], avals):
        return error(f"{name} takes arrays with the same leading dimensions, got shapes "
                     f"{', '.join(str(a.shape) for a in avals)}.")

    def batch(size, operands, dims, **params):
        found = primitive.bind(*[broadcast_batch(x, d, size) for x, d in zip(operands, dims)], **params)
        return found, [0] * len(found) if multiple_results else 0

    primitive = Primitive(name, abstract=types, batch=batch, jvp=jvp, transpose=transpose, multiple_results=multiple_results,
                          sharding_rule=functools.partial(_split_like_batch, ranks))
    for platform, algorithm in algorithms.items():
        primitive.lowerings[None if platform == "default" else platform] = lower_fun(algorithm, multiple_results)
    return primitive


def on_tpu(target: str, primitive: Primitive) -> Callable:
    """The rule that calls an operation of the TPU compiler. On several devices that fails for complex numbers, which
    therefore go the way of platforms without kernels."""
    def rule(ctx, *operands, **params):
        if dtypes.is_complex(ctx.avals_in[0].dtype):
            return primitive.lowerings[None](ctx, *operands, **params)
        return ctx.op("stablehlo.custom_call", operands, call_target_name=lowering.mlir.string(target))

    return rule


def _split_like_batch(ranks, name, operands, result, params):
    """Types of results are split along the leading dimensions; matrices must be whole."""
    parts = []
    for (aval, entries), rank in zip(operands, ranks):
        lead = aval.ndim - rank
        if any(e is not None for e in entries[lead:]):
            raise ShardingTypeError(f"{name} works on whole matrices, got {str_short(aval)}. Bring it to a sharding that "
                                    f"splits only the leading dimensions, with reshard.")
        parts.append(entries[:lead])
    joint = [next((e for e in of if e is not None), None) for of in zip(*parts)]
    if any(list(part) != joint for part in parts):
        raise ShardingTypeError(f"{name} got operands whose leading dimensions are split differently: "
                                f"{', '.join(str_short(a) for a, _ in operands)}. Bring one to the sharding of the other with "
                                f"reshard.")
    return [*joint, *[None] * (result.ndim - len(joint))]


def check_rank(name: str, aval, rank: int = 2, error: type[Exception] = TypeError) -> None:
    if len(aval.shape) < rank:
        raise error(f"{name} takes {'a matrix' if rank == 2 else 'a vector'} in the last "
                    f"{'two dimensions' if rank == 2 else 'dimension'}, got an array of shape {aval.shape}.")


def square(name: str, aval, error: type[Exception] = ValueError) -> int:
    """The size of a square matrix."""
    check_rank(name, aval)
    if aval.shape[-1] != aval.shape[-2]:
        raise error(f"{name} takes square matrices, got an array of shape {aval.shape}.")
    return aval.shape[-1]


def adjoint(x):
    """The conjugate transpose."""
    return xnp.conj(x.mT) if dtypes.is_complex(x.dtype) else x.mT


product = functools.partial(xnp.matmul, precision=Precision.HIGHEST)


def succeeded(info, x, bad=np.nan):
    """`x`, with NaN for each matrix for which a kernel says that it could not do it."""
    return where_each(info == 0, x, bad)


def where_each(keep, x, other):
    """`x` for each matrix, or vector, that the booleans of the leading dimensions keep, else the other value."""
    if x.dtype.kind == "c" and other is np.nan:
        other = np.complex64(complex(np.nan, np.nan))
    return xnp.where(keep.reshape(keep.shape + (1,) * (x.ndim - keep.ndim)), x, np.asarray(other).astype(x.dtype)[()])


def zero_tangent(x) -> Zero:
    return Zero(tracing.aval_of(x).to_tangent_aval())


def floating(x):
    """An array of floats or complex numbers, from one of integers too."""
    x = xnp.asarray(x)
    return x if dtypes.is_inexact(x.dtype) else x.astype(dtypes.to_inexact(x.dtype))
