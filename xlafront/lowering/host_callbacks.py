"""Calls of Python functions from compiled programs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.core.avals import ShapedArray
from xlafront.lowering import custom_calls, mlir
from xlafront.lowering.mlir import ir
from xlafront.runtime import effects
from xlafront.runtime.foreign_functions import TYPED

_PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "rocm": "gpu"}


def call_python(ctx, function: Callable[..., tuple], operands: Sequence[ir.Value], *, has_side_effect: bool,
                effect: Any = None, device_index: int = 0, partitioned: bool = False, kind: str = "ffi",
                recordable: bool = False, aliases: Mapping[int, int] | None = None) -> list[ir.Value]:
    """Emit an operation that calls `function` with its operands as NumPy arrays, and return the values of its results.

    The `kind` "buffer" passes the memory of operands and results instead. A `recordable` call can be recorded into a CUDA
    graph. `aliases` maps operands to the results that share their memory.

    With an ordered `effect`, the function gets None for the token as its first argument and must return None for it first. In a
    program for several devices the function runs on the device number `device_index`, or on each device with its shard if
    `partitioned`.
    """
    module = ctx.module_context
    platform = _PLATFORMS.get(module.platform)
    if platform is None:
        raise NotImplementedError(
            f"{ctx.primitive} cannot run on {module.platform}: compiled programs call Python on CPUs and GPUs. Return "
            f"the value from the compiled function and use it on the host, or run this function on the CPU: "
            f"jit(..., backend='cpu').")
    ordered = [effect] if effect is not None and effect.ordered else []
    callback_avals = ctx.avals_out
    if platform == "gpu" and kind == "ffi":
        function, operands, callback_avals = _with_byte_elements(ctx, function, operands, len(ordered))
    operands = [*ctx.tokens(ordered), *operands]
    types = [mlir.token_type()] * len(ordered) + [mlir.type_of(aval) for aval in callback_avals]
    recorded = "_cmd_buffer" if recordable and platform == "gpu" else ""
    attributes = custom_calls.attributes_of_call(
        f"xla_{kind}_{'partitioned_' if partitioned else ''}python_{platform}_callback{recorded}", len(operands), len(types),
        has_side_effect=has_side_effect, api_version=TYPED, operand_output_aliases=aliases,
        operand_layouts=[_row_major(x.type) for x in operands], result_layouts=[_row_major(t) for t in types])
    attributes["backend_config"] = mlir.attribute(f"{{index = {len(module.host_callbacks)} : ui64}}")
    context = module.sharding_context
    partitioned_program = context is not None and context.partitioned
    if partitioned_program:
        device_sharding = f"<@{context.one_device_symbol(device_index)}, []>"
        shardings = ", ".join([device_sharding] * max(len(types), 1))
        attributes["sdy.sharding"] = mlir.attribute(f"#sdy.sharding_per_value<[{shardings}]>")
    if platform == "cpu" and module.num_devices > 1:
        module.callback_failures = module.callback_failures or []
        function = DeferredErrorCallback(function, module.callback_failures, has_side_effect, (None,) * len(ordered),
                        ctx.avals_out if kind == "ffi" else None)
    module.host_callbacks.append(function)
    operation = mlir.create("stablehlo.custom_call", results=types, operands=operands, attributes=attributes, loc=ctx.loc)
    results: list[ir.Value] = list(operation.results)
    ctx.set_tokens(ordered, results[:len(ordered)])
    results = [x if callback_aval is aval else ctx.convert(x, aval.shape, aval.dtype)
               for x, callback_aval, aval in zip(results[len(ordered):], callback_avals, ctx.avals_out)]
    if partitioned_program:  # broadcast the results of one device to all
        replicated = context.assignment.replicated()
        results = [ctx.op("sdy.sharding_constraint", [x], [aval], sharding=context.attribute(replicated, aval.ndim))
                   for x, aval in zip(results, ctx.avals_out)]
    return results


# Dtypes with elements of less than a byte, and the byte-sized dtypes that hold their values.
_BYTE_DTYPES = {
    np.dtype(getattr(ml_dtypes, f"{sign}int{bits}")): np.dtype(f"{sign}int8") for sign in ("", "u") for bits in (2, 4)}
_BYTE_DTYPES[np.dtype(ml_dtypes.float4_e2m1fn)] = np.dtype(ml_dtypes.float8_e4m3fn)


def _with_byte_elements(ctx, function, operands, skipped: int):
    """Convert elements of less than a byte to bytes around the call.

    GPUs pack such elements, but the callback treats each as a byte. `skipped` is the number of leading arguments that are not
    arrays. Return the function, the operands, and the types that the callback returns.
    """
    small = {mlir.element_type(dtype): dtype for dtype in _BYTE_DTYPES}
    types = [ir.RankedTensorType(x.type) for x in operands]
    narrow = [small.get(kind.element_type) for kind in types]
    callback_avals = [ShapedArray(aval.shape, _BYTE_DTYPES[aval.dtype]) if aval.dtype in _BYTE_DTYPES else aval
                      for aval in ctx.avals_out]
    if not any(narrow) and all(map(operator.is_, callback_avals, ctx.avals_out)):
        return function, operands, ctx.avals_out

    def call(*args):
        results = function(*args[:skipped], *[x if d is None else x.astype(d) for x, d in zip(args[skipped:], narrow)])
        return (*results[:skipped], *[np.asarray(x).astype(aval.dtype) for x, aval in zip(results[skipped:], callback_avals)])

    operands = [x if d is None else ctx.convert(x, tuple(kind.shape), _BYTE_DTYPES[d])
                for x, d, kind in zip(operands, narrow, types)]
    return call, operands, callback_avals


class DeferredErrorCallback:
    """A callback of a program over several CPUs, which stores errors for the end of the run and returns zeros in their place.

    If one device failed, the others would wait in the next collective until XLA aborts the process.
    """

    __slots__ = ("function", "failures", "has_side_effect", "tokens", "types")

    def __init__(self, function: Callable[..., tuple], failures: list[Exception], has_side_effect: bool, tokens: tuple,
                 types: Sequence[Any] | None):
        """Initialize. `types` are those of the results; None if the callback writes results to memory."""
        self.function, self.failures, self.has_side_effect = function, failures, has_side_effect
        self.tokens, self.types = tokens, types

    def __call__(self, *args) -> tuple | None:
        try:
            return self.function(*args)
        except BaseException as e:
            import traceback  # start-up: for a message

            failure = JaxRuntimeError("a function that the program called on the host raised an error:\n"
                                      f"{''.join(traceback.format_exception(e))}")
            self.failures.append(failure)
            if self.has_side_effect:
                effects.failures.append(failure)
            return None if self.types is None else (*self.tokens, *[np.zeros(aval.shape, aval.dtype) for aval in self.types])


def _row_major(kind: ir.Type) -> range:
    """Return the dimensions from minor to major; empty for tokens."""
    return range(kind.rank if isinstance(kind, ir.RankedTensorType) else 0)[::-1]
