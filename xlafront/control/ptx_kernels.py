"""Calls of GPU kernels that users give as PTX text, without a library in C++.

XLA's plugin for CUDA makes the text part of the program that calls it. The driver of the GPU compiles it when the program is
loaded, so that errors in the text show up only there; `ptxas` finds them before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from xlafront import lowering
from xlafront.control import vmap_methods
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Dims, Tangent

TARGET = "__gpu$xla.gpu.ptx"
MAX_THREADS = 1024  # of a block
MAX_GRID = (2**31 - 1, 65535, 65535)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)", re.ASCII)

# The primitive


def _lower(ctx: Any, *operands: Any, ptx: str, name: str, grid: tuple[int, ...], block: tuple[int, ...], shared_memory: int,
           input_output_aliases: Sequence[tuple[int, int]], result_avals: Sequence[Aval]) -> list[Any]:
    if ctx.platform != "cuda":
        raise NotImplementedError(f"ptx_call of {name} runs on NVIDIA GPUs only, and cannot be compiled for {ctx.platform}. "
                                  f"Choose by platform with lax.platform_dependent.")
    mlir = lowering.mlir
    config = {"name": mlir.string(name), "kernel_type": mlir.string("ptx"), "kernel_data": mlir.string(ptx),
              "shared_mem_bytes": mlir.i32(shared_memory), **{f"grid_{d}": mlir.i32(n) for d, n in zip("xyz", grid)},
              **{f"block_{d}": mlir.i32(n) for d, n in zip("xyz", block)}}
    layouts = [[tuple(range(a.ndim))[::-1] for a in avals] for avals in (ctx.avals_in, result_avals)]
    call = lowering.custom_calls.custom_call(
        TARGET, result_types=[mlir.type_of(a) for a in result_avals], operands=operands, api_version=1,
        operand_output_aliases=dict(input_output_aliases), operand_layouts=layouts[0], result_layouts=layouts[1],
        extra_attributes={"mhlo.backend_config": mlir.dictionary(config)})
    return list(call.results)


def _jvp(primals: Sequence[Any], tangents: Sequence[Tangent], *, name: str, **params: Any) -> NoReturn:
    raise ValueError(f"ptx_call of {name} cannot be differentiated. Define its derivative with custom_jvp or custom_vjp, or "
                     f"hold its arguments constant with lax.stop_gradient.")


def _batch(size: int, operands: Sequence[Any], dims: Dims, **params: Any) -> tuple[list[Any], list[int | None]]:
    def bind(*elements: Any) -> list[Any]:
        return ptx_call_p.bind(*elements, **params)

    return vmap_methods.one_by_one(bind, size, operands, dims, params["result_avals"], False)


ptx_call_p = Primitive("ptx_call", multiple_results=True, lower=_lower, jvp=_jvp, batch=_batch,
                       abstract=lambda *operands, result_avals, **params: list(result_avals))

# The function


def _sizes(argument: str, value: Any, limits: Sequence[int]) -> tuple[int, ...]:
    """Return three sizes, with 1 for those left out."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(given) > 3 or not all([type(n) is int and 1 <= n <= limit for n, limit in zip(given, limits)]):
        raise ValueError(f"{argument} of ptx_call takes up to three positive integers, at most {', '.join(map(str, limits))}; "
                         f"got {errors.short(value)}.")
    return (*given, 1, 1, 1)[:3]


def _entry(ptx: Any, name: str | None) -> tuple[str, int]:
    """Return the name of a kernel in PTX text, and the number of its parameters."""
    if not isinstance(ptx, str):
        raise TypeError(f"ptx_call takes the text of a PTX module, got {errors.short(ptx)}.")
    if not ptx.isascii():
        raise ValueError("ptx_call takes PTX text of ASCII characters.")
    found = {entry: parameters.count(".param") for entry, parameters in _ENTRY.findall(ptx)}
    if name is None and len(found) == 1:
        [name] = found
    if name is None or name not in found:
        known = ", ".join(found) or "which has none"
        raise ValueError(f"ptx_call takes the name of one of the kernels in the PTX text, {known}; "
                         f"got name={name!r}.")
    return name, found[name]


@boundary
def ptx_call(ptx: str, result_shape_dtypes: Any, *, grid: Any, block: Any, name: str | None = None, shared_memory: int = 0,
             input_output_aliases: Mapping[int, int] = {}) -> Callable[..., Any]:  # noqa: B006
    """Make a function of arrays that runs a GPU kernel given as PTX text.

    The kernel gets a pointer to each argument, then to each result; arrays are row-major. `nvcc -ptx` makes the text from CUDA
    C++. The driver of the GPU compiles it; check the text with `ptxas` on a machine without a GPU.

    Args:
        ptx: The text of a PTX module.
        result_shape_dtypes: Pytree of the shapes and dtypes of the results, such as `ShapeDtypeStruct`.
        grid: Numbers of blocks of threads along x, y and z.
        block: Numbers of threads of a block along x, y and z.
        name: Name of the kernel, if the module has several.
        shared_memory: Bytes of dynamic shared memory of a block.
        input_output_aliases: Indices of results by those of the arguments whose memory they share.

    Returns:
        A function of the arguments, which returns the results.

    Example:
        >>> ptx = ".visible .entry scale(.param .u64 x, .param .u64 y) { ret; }"
        >>> scale = ffi.ptx_call(ptx, xf.ShapeDtypeStruct((256,), "float32"), grid=2, block=128)
    """
    name, num_parameters = _entry(ptx, name)
    sizes = {"grid": _sizes("grid", grid, MAX_GRID), "block": _sizes("block", block, (1024, 1024, 64))}
    if math.prod(sizes["block"]) > MAX_THREADS:
        raise ValueError(f"ptx_call of {name} takes at most {MAX_THREADS} threads per block, got block={block}.")
    if type(shared_memory) is not int or not 0 <= shared_memory < 1 << 20:
        raise ValueError(f"shared_memory of ptx_call is a number of bytes, got {shared_memory!r}.")
    types, structure = tree.flatten(result_shape_dtypes)
    for t in types:
        if not hasattr(t, "shape") or not hasattr(t, "dtype"):
            raise ValueError(f"ptx_call of {name} takes objects with shape and dtype as result_shape_dtypes, got "
                             f"{errors.short(t)}.")
    avals = tuple([ShapedArray(tuple(t.shape), dtypes.canonicalize_dtype(t.dtype)) for t in types])

    @boundary
    def call(*args: Any) -> Any:
        for i, x in enumerate(args):
            if not tracing.is_arraylike(x):
                raise errors.not_an_array(x, f"ptx_call of {name}", f"[{i}]")
        if num_parameters != len(args) + len(avals):  # (otherwise the kernel would access other memory)
            raise TypeError(f"the kernel {name} has {num_parameters} parameters, but ptx_call passes it {len(args)} "
                            f"argument(s) and {len(avals)} result(s). Pass each pointer that it takes; constants belong into "
                            f"the PTX text.")
        args = [to_dtype(x, tracing.aval_of(x).dtype) for x in args]
        in_types = [(tracing.aval_of(x).shape, tracing.aval_of(x).dtype) for x in args]
        for i, o in input_output_aliases.items():
            if not 0 <= i < len(args) or not 0 <= o < len(avals) or in_types[i] != (avals[o].shape, avals[o].dtype):
                raise ValueError(f"input_output_aliases of ptx_call of {name} maps argument {i} to result {o}: both must exist "
                                 f"and have one shape and dtype.")
        return structure.unflatten(ptx_call_p.bind(
            *args, ptx=ptx, name=name, **sizes, shared_memory=shared_memory, result_avals=avals,
            input_output_aliases=tuple(sorted(input_output_aliases.items()))))

    return call
