"""Calls of the linear algebra kernels of jaxlib and its plugins: LAPACK on CPUs, cuSOLVER and related libraries on GPUs.

Algorithms are Python functions of arrays that run kernels with `call`; `factorization` builds a primitive from one such
function per platform. A kernel takes matrices in column-major order in the last two dimensions and repeats over the
dimensions before them, along which programs for several devices shard it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar

import numpy as np

import xlafront.numpy as xnp
from xlafront import lowering
from xlafront.control.foreign_calls import ffi_call_p, split_like_batch
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.primitive import MeshRules, OwnRule, Primitive
from xlafront.core.zeros import Zero
from xlafront.lax.arguments import check_dtype
from xlafront.lax.dot_products import Precision
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch
from xlafront.numpy.promotion import check_arraylike, promotes_freely
from xlafront.runtime.foreign_functions import TYPED

LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d", np.dtype(np.complex64): "c", np.dtype(np.complex128): "z"}


def lapack(name: str, dtype) -> str:
    """Return the name of a LAPACK kernel for a dtype: `("potrf", float32)` gives `lapack_spotrf_ffi`."""
    if dtypes.is_complex(dtype):
        name = {"syevd": "heevd", "orgqr": "ungqr", "ormqr": "unmqr", "sytrd": "hetrd"}.get(name, name)
    return f"lapack_{LETTERS[dtype]}{name}_ffi"


# Kernels for CUDA have names that begin with "cu", the same kernels for ROCm with "hip".
_gpu_prefix: ContextVar[str] = ContextVar("gpu_prefix", default="cu")


def is_on_rocm() -> bool:
    """True while the algorithm of a primitive for GPUs is traced for ROCm."""
    return _gpu_prefix.get() == "hip"


def _on_rocm(algorithm: Callable) -> Callable:
    def run(*operands, **params):
        saved = _gpu_prefix.set("hip")
        try:
            return algorithm(*operands, **params)
        finally:
            _gpu_prefix.reset(saved)

    return run


def call(target: str, results: Sequence[tuple], *operands, batch: int | None = None, aliases: Sequence[tuple[int, int]] = (),
         by_columns: bool = True, **attributes) -> list:
    """Call a kernel and return its results, given their shapes and dtypes.

    Args:
        target: Name of the kernel; of one for GPUs, that for CUDA.
        results: Shape and dtype of each result.
        operands: Arrays.
        batch: Number of leading batch dimensions of the first operand. Default: all but the last two.
        aliases: Pairs of operand and result that share memory.
        by_columns: If True, matrices are passed in column-major order.
        attributes: Attributes of the kernel: 32-bit integers, booleans, strings, and characters as numpy.uint8.
    """
    batch = np.ndim(operands[0]) - 2 if batch is None else batch
    if target.startswith("cu"):
        target = _gpu_prefix.get() + target.removeprefix("cu")
    avals = tuple([ShapedArray(tuple(s), np.dtype(d)) for s, d in results])

    def layouts(arrays) -> tuple[tuple[int, ...], ...]:
        return tuple([_minor_to_major(np.ndim(x), batch, by_columns) for x in arrays])

    with lowering.mlir.context:
        attribute_values = tuple([(name, lowering.custom_calls.attribute_of(np.int32(value) if type(value) is int else value))
                       for name, value in attributes.items()])
    return ffi_call_p.bind(
        *operands, target_name=target, result_avals=avals, attributes=attribute_values, input_layouts=layouts(operands),
        output_layouts=layouts(avals), input_output_aliases=tuple(aliases), has_side_effect=False, vmap_method="broadcast_all",
        custom_call_api_version=TYPED, legacy_backend_config=None, num_batch_dims=batch if by_columns else None)


def _minor_to_major(rank: int, batch: int, by_columns: bool) -> tuple[int, ...]:
    """Return the layout of an array, as dimensions from minor to major."""
    order = list(reversed(range(rank)))
    if rank - batch == 2 and by_columns:
        order[:2] = order[1::-1]
    return tuple(order)


def letter(text: str) -> np.uint8:
    """Encode a character as kernels take it: `U` or `L`, `T` or `N`."""
    return np.uint8(ord(text))


# Primitives


def factorization(name: str, abstract: Callable, *, jvp: Callable | None = None, transpose: Callable | None = None,
                  accepts: str = "float complex", ranks: Sequence[int] = (2,), multiple_results: bool = True,
                  kernel: bool = True, batch: Callable | None = None, lower: Mapping[str | None, Callable] | None = None,
                  shown_as: str | None = None, **algorithms: Callable) -> Primitive:
    """A record for an operation on matrices, repeated over leading dimensions.

    - `abstract(*avals, **params)`: the shape and the dtype of each result.

    Args:
        name: Name of the primitive.
        abstract: Function `(*avals, **params)` that returns the shape and dtype of each result.
        jvp, transpose: Differentiation rules.
        accepts: Kinds of dtypes that are accepted.
        ranks: Number of trailing dimensions of each operand that belong to one matrix or vector.
        multiple_results: True if the primitive returns a list.
        kernel: If True, accept only dtypes for which there are kernels.
        algorithms: Function of arrays `(*operands, **params)` for each platform, by its name; `gpu` for CUDA and ROCm,
            `default` for all others.
    """
    if gpu := algorithms.pop("gpu", None):
        algorithms |= {"cuda": gpu, "rocm": _on_rocm(gpu)}

    def types(*avals, **params):
        for aval, rank in zip(avals, ranks):
            check_dtype(name, accepts, aval.dtype)
            check_rank(name, aval, rank)
        leading = {aval.shape[:aval.ndim - rank] for aval, rank in zip(avals, ranks)}
        if len({len(shape) for shape in leading}) > 1:
            raise batch_error(TypeError, avals)
        results = [ShapedArray(tuple(shape), np.dtype(dtype)) for shape, dtype in abstract(*avals, **params)]
        operand_dtypes = [aval.dtype for aval, _ in zip(avals, ranks)]
        if len(set(operand_dtypes)) > 1:
            raise errors.incompatible_dtypes(name, operand_dtypes, "Convert them to one with x.astype(...).")
        if len(leading) > 1:
            raise batch_error(ValueError, avals)
        if kernel and operand_dtypes[0] not in LETTERS:
            raise TypeError(f"{name} of {operand_dtypes[0]} is not supported by the libraries: convert with "
                            f"x.astype(float32), and back afterwards.")
        return results if multiple_results else results[0]

    def batch_error(error: type[Exception], avals):
        return error(f"{name} takes arrays with the same leading dimensions, got shapes "
                     f"{', '.join(str(a.shape) for a in avals)}.")

    def over_leading_dimension(size, operands, dims, **params):
        found = primitive.bind(*[broadcast_batch(x, d, size) for x, d in zip(operands, dims)], **params)
        return found, [0] * len(found) if multiple_results else 0

    primitive = Primitive(
        name, abstract=types, batch=batch or over_leading_dimension,
        jvp=jvp and promotes_freely(jvp), transpose=transpose and promotes_freely(transpose),
        multiple_results=multiple_results,
        lower={None if platform == "default" else platform: lower_fun(algorithm, multiple_results)
               for platform, algorithm in algorithms.items()} | (lower or {}),
        shown_as=shown_as, mesh=MeshRules(functools.partial(split_like_batch, ranks)))
    return primitive


def on_tpu(target: str) -> OwnRule:
    """The rule that calls an operation of the TPU compiler. On several devices that fails for complex numbers, which
    therefore go the way of platforms without kernels."""
    def make(primitive: Primitive) -> Callable:
        def rule(ctx, *operands, **params):
            if dtypes.is_complex(ctx.avals_in[0].dtype):
                return primitive.lowerings[None](ctx, *operands, **params)
            return ctx.op("stablehlo.custom_call", operands, call_target_name=lowering.mlir.string(target))

        return rule

    return OwnRule(make)


def check_rank(name: str, aval, rank: int = 2, error: type[Exception] = TypeError) -> None:
    if len(aval.shape) < rank:
        raise error(f"{name} takes {'a matrix' if rank == 2 else 'a vector'} in the last "
                    f"{'two dimensions' if rank == 2 else 'dimension'}, got an array of shape {aval.shape}.")


def square(name: str, aval, rank_error: type[Exception] = TypeError, error: type[Exception] = ValueError) -> int:
    """Return the size of a square matrix; raise `error` if it is not square, and `rank_error` if it is no matrix."""
    check_rank(name, aval, error=rank_error)
    if aval.shape[-1] != aval.shape[-2]:
        raise error(f"{name} takes square matrices, got an array of shape {aval.shape}.")
    return aval.shape[-1]


def adjoint(x):
    """Return the conjugate transpose."""
    return xnp.conj(x.mT) if dtypes.is_complex(x.dtype) else x.mT


product = functools.partial(xnp.matmul, precision=Precision.HIGHEST)


def succeeded(info, x, bad=np.nan):
    """Return `x`, with NaN (or `bad`) for each matrix for which a kernel reports failure."""
    return where_each(info == 0, x, bad)


def where_each(mask, x, other):
    """Return `x` for each matrix or vector for which `mask`, over the leading dimensions, is True, otherwise `other`."""
    if x.dtype.kind == "c" and other is np.nan:
        other = np.complex64(complex(np.nan, np.nan))
    return xnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), x, np.asarray(other).astype(x.dtype)[()])


def zero_tangent(x) -> Zero:
    return Zero(tracing.aval_of(x).to_tangent_aval())


def operand(name: str, x):
    """Convert an array-like argument to an array; reject lists."""
    check_arraylike(f"lax.linalg.{name}", x)
    return xnp.asarray(x)


def floating(name: str, x):
    """Convert an array-like argument to an array of a floating or complex dtype."""
    x = operand(name, x)
    return x if dtypes.is_inexact(x.dtype) else x.astype(dtypes.to_inexact(x.dtype))


def hermitian(name: str, x, symmetrizes: bool):
    """Convert an argument to the Hermitian matrices `(x + x.conj().T) / 2`, or only check it: the kernels read one triangle."""
    x = floating(name, x) if symmetrizes else operand(name, x)
    square(name, x, ValueError)
    if not dtypes.is_inexact(x.dtype):
        raise TypeError(f"{name} with symmetrize_input=False takes matrices of a float or complex dtype, got dtype {x.dtype}. "
                        f"Convert them with x.astype(float).")
    return (x + adjoint(x)) / 2 if symmetrizes else x
