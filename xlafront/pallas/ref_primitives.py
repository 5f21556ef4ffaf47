"""Primitives that read and update a part of a reference, made from a function of the value that the reference holds.

Compilers of kernels have rules of their own for them. Everything else (interpretation, derivatives, `vmap`) follows from the
function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import tracing
from xlafront.core.basic_primitives import get_p, move_dim, swap_p
from xlafront.core.ir import ReadEffect, WriteEffect
from xlafront.core.primitive import MeshRules, Primitive, Structured, Traits
from xlafront.core.refs import AbstractRef
from xlafront.core.zeros import Zero
from xlafront.lax.ref_indexing import selected_shape
from xlafront.lax.shapes import broadcast_batch
from xlafront.transforms.ad.jvp import jvp_flat


def selected_aval(caller: str, ref: Any, indexers: Sequence[Any], indices: Sequence[Any]) -> Any:
    """Return the type of the part of a reference that indexers select."""
    if type(ref) is not AbstractRef:
        raise TypeError(f"{caller} takes a reference, got an array of type {ref}.")
    return ref.inner_aval.update(shape=selected_shape(ref.inner_aval.shape, indexers, [i.shape for i in indices]))


def ref_primitive(name: str, function: Callable, abstract: Callable, writes: bool, printed_as: Callable | None = None
                  ) -> Primitive:
    """Make a primitive whose first operand is a reference and which has one result.

    Args:
        name: Name of the primitive.
        function: `(value, *operands, **params)` returns the result and the new value of the reference, or a function that
            computes the result if it is used; the new value is ignored for an operation that only reads.
        abstract: `(ref, *avals, **params)` returns the type of the result.
        writes: True if the operation writes to the reference.
        printed_as: Text of an equation.

    Returns:
        The primitive.
    """
    def on_values(value: Any, *operands: Any, **params: Any) -> list[Any]:
        result, new = function(value, *operands, **params)
        return [result() if callable(result) else result, *[new] * writes]

    def impl(ref: Any, *operands: Any, **params: Any) -> Any:
        result, *new = on_values(get_p.bind(ref, tree=()), *operands, **params)
        if writes:
            swap_p.bind(ref, *new, tree=())
        return result

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> tuple[Any, Any]:
        ref, cell = primals[0], tangents[0]
        value = get_p.bind(ref, tree=())
        answer = primitive.bind(*primals, **params)
        if type(cell) is Zero or type(cell.value) is Zero and all([type(t) is Zero for t in tangents[1:]]):
            if any([type(t) is not Zero for t in tangents[1:]]):
                raise ValueError(f"{name} writes a differentiated value to a reference that is not differentiated. Write "
                                 f"lax.stop_gradient(value), or make the reference from a differentiated value.")
            return answer, Zero(tracing.aval_of(answer).to_tangent_aval())
        values = [value, *primals[1:]]
        jaxpr = tracing.trace_to_closed_jaxpr(lambda *xs: on_values(*xs, **params), tuple(map(tracing.aval_of, values)))
        _, (tangent, *new) = jvp_flat(jaxpr, values, [cell.value, *tangents[1:]])
        if writes:
            [cell.value] = new
        return answer, tangent

    def batch(trace: Any, operands: Sequence[Any], dims: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        ref, dim = operands[0], dims[0]
        if writes and dim is None:
            raise ValueError(f"inside of vmap, {name} writes to a reference of type {tracing.aval_of(ref)} that is not "
                             f"batched, which leaves it undefined which element remains. Pass the reference as a "
                             f"batched argument.")
        values = [get_p.bind(ref, tree=()), *operands[1:]]
        with tracing.current_trace(trace):
            results = on_values(*[trace.wrap(x, d) for x, d in zip(values, dims)], **params)
            (result, result_dim), *new = [trace.unwrap(x) for x in results]
        for x, d in new:
            swap_p.bind(ref, move_dim(broadcast_batch(x, d, trace.size), 0, dim), tree=())
        return result, result_dim

    def discharge(primitive: Primitive, refs: Sequence[Any], operands: Sequence[Any], params: Any, keep_rules: bool
                  ) -> tuple[list[Any], dict[int, Any]]:
        result, new = function(*operands, **params)
        return [result], {0: new} if writes else {}

    effect = WriteEffect(0) if writes else ReadEffect(0)
    primitive = Primitive(
        name, abstract=abstract, impl=impl, jvp=jvp, batch_with_axis=batch, effects=lambda *_, **params: frozenset([effect]),
        stage=(lambda trace, args, params: None) if writes else None,  # (so that vmap calls `batch` for any operands)
        printed_as=printed_as, mesh=MeshRules(states_mesh_types=True), traits=Traits(takes_refs=True),
        structured=Structured(discharge=discharge))
    return primitive
