"""Calls of Python functions from inside compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.lowering import mlir
from xlafront.lowering.mlir import ir

_TARGETS = {"cpu": "xla_ffi_{}python_cpu_callback", "cuda": "xla_ffi_{}python_gpu_callback",
            "rocm": "xla_ffi_{}python_gpu_callback"}


def call_python(ctx, function: Callable[..., tuple], operands: Sequence[ir.Value], *, has_side_effect: bool,
                effect: Any = None, device_index: int = 0, partitioned: bool = False) -> list[ir.Value]:
    """An operation that calls `function` with its operands as NumPy arrays; the values of the arrays it returns.

    With an ordered `effect` its token comes first: None among the arguments, and None is to be returned. In a program over
    several devices it runs on the one numbered `device_index`, or on each with its own part when `partitioned`.
    """
    module = ctx.module_context
    target = _TARGETS.get(module.platform)
    if target is None:
        raise NotImplementedError(
            f"{ctx.primitive} cannot run on {module.platform}: compiled programs call Python on CPUs and GPUs. Return "
            f"the value from the compiled function and use it on the host, or run this function on the CPU: "
            f"jit(..., backend='cpu').")
    effects = [effect] if effect is not None and effect.ordered else []
    operands = [*ctx.tokens(effects), *operands]
    types = [mlir.token_type()] * len(effects) + [mlir.type_of(aval) for aval in ctx.avals_out]
    attributes = {
        "call_target_name": mlir.string(target.format("partitioned_" if partitioned else "")),
        "api_version": mlir.i32(4),
        "backend_config": mlir.attribute(f"{{index = {len(module.host_callbacks)} : ui64}}"),
        "has_side_effect": mlir.boolean(has_side_effect),
        "operand_layouts": mlir.array(_row_major(x.type) for x in operands),
        "result_layouts": mlir.array(_row_major(t) for t in types),
    }
    context = module.sharding_context
    several = context is not None and context.partitioned
    if several:
        one = f"<@{context.one_device_symbol(device_index)}, []>"
        attributes["sdy.sharding"] = mlir.attribute(f"#sdy.sharding_per_value<[{', '.join([one] * max(len(types), 1))}]>")
    module.host_callbacks.append(function)
    operation = mlir.create("stablehlo.custom_call", results=types, operands=operands, attributes=attributes, loc=ctx.loc)
    results: list[ir.Value] = list(operation.results)
    ctx.set_tokens(effects, results[:len(effects)])
    results = results[len(effects):]
    if several:  # what one device has got goes to all of them
        everywhere = context.assignment.replicated()
        results = [ctx.op("sdy.sharding_constraint", [x], [aval], sharding=context.attribute(everywhere, aval.ndim))
                   for x, aval in zip(results, ctx.avals_out)]
    return results


def _row_major(kind: ir.Type) -> ir.Attribute:
    rank = kind.rank if isinstance(kind, ir.RankedTensorType) else 0  # tokens have none
    text = f"dense<[{', '.join(map(str, reversed(range(rank))))}]>" if rank else "dense<>"
    return mlir.attribute(f"{text} : tensor<{rank}xindex>")
