"""Calls of the kernels that come with jaxlib and its plugins: LAPACK on the CPU, cuSOLVER and its kin on CUDA.

Algorithms are Python functions of arrays in which `call` stands for a kernel; `factorization` makes the record of an
operation from one such function for each platform. A kernel works on matrices stored by columns, in the two
last dimensions, and repeats over the dimensions before them, along which programs for many devices split it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

import xlafront.numpy as xnp
from xlafront import lowering
from xlafront.control.foreign_calls import ffi_call_p, split_like_batch
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.lax.arguments import check_dtype
from xlafront.lax.dot_products import Precision
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.numpy.promotion import check_arraylike
from xlafront.runtime.foreign_functions import TYPED

LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d", np.dtype(np.complex64): "c", np.dtype(np.complex128): "z"}


def lapack(name: str, dtype) -> str:
    """The name of a LAPACK kernel for a dtype: `("potrf", float32)` is `lapack_spotrf_ffi`."""
    if dtypes.is_complex(dtype):
        name = {"syevd": "heevd", "orgqr": "ungqr", "ormqr": "unmqr", "sytrd": "hetrd"}.get(name, name)
    return f"lapack_{LETTERS[dtype]}{name}_ffi"


def call(target: str, results: Sequence[tuple], *operands, batch: int | None = None, aliases: Sequence[tuple[int, int]] = (),
         by_columns: bool = True, **attributes) -> list:
    """The results of a kernel, of the given shapes and dtypes; `batch` counts the leading dimensions of the first operand,
    a matrix if it is left out. Attributes are numbers of 32 bits, booleans, texts and letters (numpy.uint8)."""
    batch = np.ndim(operands[0]) - 2 if batch is None else batch
    avals = tuple([ShapedArray(tuple(s), np.dtype(d)) for s, d in results])

    def orders(of) -> tuple[tuple[int, ...], ...]:
        return tuple([_order(np.ndim(x), batch, by_columns) for x in of])

    with lowering.mlir.context:
        typed = tuple([(name, lowering.custom_calls.attribute_of(np.int32(value) if type(value) is int else value))
                       for name, value in attributes.items()])
    return ffi_call_p.bind(
        *operands, target_name=target, result_avals=avals, attributes=typed, input_layouts=orders(operands),
        output_layouts=orders(avals), input_output_aliases=tuple(aliases), has_side_effect=False, vmap_method="broadcast_all",
        custom_call_api_version=TYPED, legacy_backend_config=None, num_batch_dims=batch if by_columns else None)


def _order(rank: int, batch: int, by_columns: bool) -> tuple[int, ...]:
    """Dimensions from the fastest to the slowest."""
    order = list(reversed(range(rank)))
    if rank - batch == 2 and by_columns:
        order[:2] = order[1::-1]
    return tuple(order)


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
                          sharding_rule=functools.partial(split_like_batch, ranks))
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


def operand(name: str, x):
    """What a user gave as an array, which lists are not taken for."""
    check_arraylike(f"lax.linalg.{name}", x)
    return xnp.asarray(x)


def floating(name: str, x):
    """An array of floats or complex numbers, from one of integers too."""
    x = operand(name, x)
    return x if dtypes.is_inexact(x.dtype) else x.astype(dtypes.to_inexact(x.dtype))
