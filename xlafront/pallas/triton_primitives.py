"""Primitives for GPU kernels that take no references: hints, approximations, inline assembly, barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.core.effects import Effect
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.lax.elementwise import mul, one_minus_square_, tanh_
from xlafront.lax.families import elementwise
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.shapes import broadcast_batch


class _BarrierEffect(Effect):
    """The threads of a program of the grid wait for each other."""

    repeatable = True


barrier_effect = _BarrierEffect()

debug_barrier_p = Primitive(
    "debug_barrier", multiple_results=True, abstract=lambda: [], effects=lambda: frozenset([barrier_effect]),
    impl=lambda: [], lower=lambda ctx: [], jvp=lambda primals, tangents: (debug_barrier_p.bind(), []),
    batch=lambda size, operands, dims: (debug_barrier_p.bind(), []))

approx_tanh_p = elementwise("approx_tanh", lower_fun(lambda x: tanh_(x)), "float",
                            derivatives=(lambda g, y, x: mul(g, one_minus_square_(y)),))

max_contiguous_p = Primitive(
    "max_contiguous", abstract=lambda x, *, values: x, lower=lambda ctx, x, *, values: x,
    jvp=lambda primals, tangents, *, values: (max_contiguous_p.bind(*primals, values=values), tangents[0]),
    transpose=lambda ct, x, *, values: [ct],
    batch=lambda size, operands, dims, *, values: (max_contiguous_p.bind(*operands, values=_batched_values(
        values, operands[0], dims[0])), dims[0]))


def _batched_values(values: tuple[int, ...], x: Any, dim: int) -> tuple[int, ...]:
    return values if len(values) > x.ndim - 1 else (*values[:dim], 1, *values[dim:])


def _assembly_needs_gpu(ctx: Any, *operands: Any, **params: Any) -> Any:
    raise NotImplementedError("elementwise_inline_asm is for kernels that are compiled for GPUs: it is not available with "
                              "interpret=True, on other platforms, or outside of kernels. Write the function with array "
                              "operations.")


def _batch_assembly(size: int, operands: Sequence[Any], dims: Sequence[Any], *, result_shape_dtypes: tuple, **params: Any
                    ) -> tuple[Any, Any]:
    operands = [broadcast_batch(x, d, size) for x, d in zip(operands, dims)]
    results = elementwise_inline_asm_p.bind(*operands, result_shape_dtypes=tuple(
        [a.update(shape=(size, *a.shape)) for a in result_shape_dtypes]), **params)
    return results, [0] * len(results)


def _assembly_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    if any([type(t) is not Zero for t in tangents]):
        raise NotImplementedError("elementwise_inline_asm has no derivative. Give the function that uses it one with "
                                  "custom_jvp.")
    results = elementwise_inline_asm_p.bind(*primals, **params)
    return results, [Zero(a.to_tangent_aval()) for a in params["result_shape_dtypes"]]


elementwise_inline_asm_p = Primitive(
    "elementwise_inline_asm", multiple_results=True, lower=_assembly_needs_gpu,
    abstract=lambda *_, result_shape_dtypes, **params: list(result_shape_dtypes),
    jvp=_assembly_jvp, batch=_batch_assembly)
