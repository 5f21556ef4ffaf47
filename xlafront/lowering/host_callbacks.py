"""Calls of Python functions from inside compiled programs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xlafront.core.avals import ShapedArray
from xlafront.lowering import custom_calls, mlir
from xlafront.lowering.mlir import ir
from xlafront.runtime import effects
from xlafront.runtime.foreign_functions import TYPED
from xlafront.runtime.jaxlib_compat import JaxRuntimeError

_PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "rocm": "gpu"}


def call_python(ctx, function: Callable[..., tuple], operands: Sequence[ir.Value], *, has_side_effect: bool,
                effect: Any = None, device_index: int = 0, partitioned: bool = False, kind: str = "ffi",
                recordable: bool = False, aliases: Mapping[int, int] | None = None) -> list[ir.Value]:
    """An operation that calls `function` with its operands as NumPy arrays; the values of the arrays it returns.

    One of the `kind` "buffer" calls it with the memory of its operands and results; `recordable` ones may become part of what
    GPUs repeat alone, and `aliases` says which operands lie where which results do.

    With an ordered `effect` its token comes first: None among the arguments, and None is to be returned. In a program over
    several devices it runs on the one numbered `device_index`, or on each with its own part when `partitioned`.
    """
    module = ctx.module_context
    platform = _PLATFORMS.get(module.platform)
    if platform is None:
        raise NotImplementedError(
            f"{ctx.primitive} cannot run on {module.platform}: compiled programs call Python on CPUs and GPUs. Return "
            f"the value from the compiled function and use it on the host, or run this function on the CPU: "
            f"jit(..., backend='cpu').")
    ordered = [effect] if effect is not None and effect.ordered else []
    results_are = ctx.avals_out
    if platform == "gpu" and kind == "ffi":
        function, operands, results_are = _with_whole_bytes(ctx, function, operands, len(ordered))
    operands = [*ctx.tokens(ordered), *operands]
    types = [mlir.token_type()] * len(ordered) + [mlir.type_of(aval) for aval in results_are]
    recorded = "_cmd_buffer" if recordable and platform == "gpu" else ""
    attributes = custom_calls.attributes_of_call(
        f"xla_{kind}_{'partitioned_' if partitioned else ''}python_{platform}_callback{recorded}", len(operands), len(types),
        has_side_effect=has_side_effect, api_version=TYPED, operand_output_aliases=aliases,
        operand_layouts=[_row_major(x.type) for x in operands], result_layouts=[_row_major(t) for t in types])
    attributes["backend_config"] = mlir.attribute(f"{{index = {len(module.host_callbacks)} : ui64}}")
    context = module.sharding_context
    several = context is not None and context.partitioned
    if several:
        one = f"<@{context.one_device_symbol(device_index)}, []>"
        attributes["sdy.sharding"] = mlir.attribute(f"#sdy.sharding_per_value<[{', '.join([one] * max(len(types), 1))}]>")
    if platform == "cpu" and module.num_devices > 1:
        module.callback_failures = module.callback_failures or []
        function = Kept(function, module.callback_failures, has_side_effect, (None,) * len(ordered),
                        ctx.avals_out if kind == "ffi" else None)
    module.host_callbacks.append(function)
    operation = mlir.create("stablehlo.custom_call", results=types, operands=operands, attributes=attributes, loc=ctx.loc)
    results: list[ir.Value] = list(operation.results)
    ctx.set_tokens(ordered, results[:len(ordered)])
    results = [x if as_called is aval else ctx.convert(x, aval.shape, aval.dtype)
               for x, as_called, aval in zip(results[len(ordered):], results_are, ctx.avals_out)]
    if several:  # what one device has got goes to all of them
        everywhere = context.assignment.replicated()
        results = [ctx.op("sdy.sharding_constraint", [x], [aval], sharding=context.attribute(everywhere, aval.ndim))
                   for x, aval in zip(results, ctx.avals_out)]
    return results


# Dtypes of less than a byte, and those of bytes that have their values.
_WHOLE = {np.dtype(getattr(ml_dtypes, f"{sign}int{bits}")): np.dtype(f"{sign}int8") for sign in ("", "u") for bits in (2, 4)}
_WHOLE[np.dtype(ml_dtypes.float4_e2m1fn)] = np.dtype(ml_dtypes.float8_e4m3fn)


def _with_whole_bytes(ctx, function, operands, skipped: int):
    """Elements of less than a byte lie side by side on GPUs, where a call takes each for a byte: they are bytes on the way.

    `skipped` is how many arguments are no arrays. Gives the function, the operands, and the types that the call returns.
    """
    small = {mlir.element_type(dtype): dtype for dtype in _WHOLE}
    given = [ir.RankedTensorType(x.type) for x in operands]
    narrow = [small.get(kind.element_type) for kind in given]
    results_are = [ShapedArray(aval.shape, _WHOLE[aval.dtype]) if aval.dtype in _WHOLE else aval for aval in ctx.avals_out]
    if not any(narrow) and all(map(operator.is_, results_are, ctx.avals_out)):
        return function, operands, ctx.avals_out

    def call(*args):
        found = function(*args[:skipped], *[x if d is None else x.astype(d) for x, d in zip(args[skipped:], narrow)])
        return (*found[:skipped], *[np.asarray(x).astype(aval.dtype) for x, aval in zip(found[skipped:], results_are)])

    operands = [x if d is None else ctx.convert(x, tuple(kind.shape), _WHOLE[d]) for x, d, kind in zip(operands, narrow, given)]
    return call, operands, results_are


class Kept:
    """A function that a program over several CPUs calls. What it raises is kept for the end of the run, and it returns zeros:
    an operation that failed on one device would leave the others waiting in the next collective, until XLA ends the process."""

    __slots__ = ("function", "failures", "has_side_effect", "tokens", "types")

    def __init__(self, function: Callable[..., tuple], failures: list[Exception], has_side_effect: bool, tokens: tuple,
                 types: Sequence[Any] | None):
        """`types` are those of the results, None where they are written to memory and not returned."""
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
    """The dimensions from the fastest to the slowest. Tokens have none."""
    return range(kind.rank if isinstance(kind, ir.RankedTensorType) else 0)[::-1]
