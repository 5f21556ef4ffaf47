"""Operations of kernels: primitives that compilers of kernels see, and that everything else computes by other operations.

Each has a Python function of references and values, its interpretation. Discharge, derivatives, batching and plain lowering
follow from it, so that interpreted kernels compute what the function computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlafront.core import tracing
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import Effect, ReadEffect, WriteEffect, internal_refs
from xlafront.core.primitive import MeshRules, Primitive, Structured, Traits
from xlafront.core.refs import AbstractRef, is_ref
from xlafront.core.tracing import current_trace
from xlafront.lax import refs as ref_operations
from xlafront.lax.lower_fun import lower_fun
from xlafront.transforms.ad.jvp import jvp_flat


class KernelEffect(Effect):
    """The effect of an operation on the core that runs the kernel. It keeps the operation alive within the kernel."""

    def __repr__(self) -> str:
        return "KernelEffect()"


kernel_effect = KernelEffect()
# With the second, operations are discharged although they take no reference, which removes the effect.
on_core = frozenset([kernel_effect, internal_refs])


def kernel_operation(name: str, run: Callable, *, abstract: Callable | None = None, effects: Callable | None = None,
                     **fields: Any) -> Primitive:
    """Return the primitive of an operation of kernels.

    Args:
        name: Name in jaxprs.
        run: `(*operands, **params)` computes the operation by others. It returns the result, or a list without `abstract`.
        abstract: The type of the result. Default: there are no results.
        effects: Effects of the operation, by position of the operand for those on references.
        fields: Further fields of the record, in place of what follows from `run`.
    """
    multiple = abstract is None or fields.get("multiple_results", False)

    def results(*operands, **params):
        found = run(*operands, **params)
        return list(found or ()) if multiple else [found]

    def jvp(primals, tangents, **params):
        values, derivatives = jvp_flat(lambda *xs: results(*xs, **params), primals, tangents)
        return (values, derivatives) if multiple else (values[0], derivatives[0])

    def batch(trace, operands, dims, **params):
        with current_trace(trace):
            pairs = [trace.unwrap(x) for x in results(*[trace.wrap(x, d) for x, d in zip(operands, dims)], **params)]
        return ([x for x, _ in pairs], [d for _, d in pairs]) if multiple else pairs[0]

    def discharge(primitive, refs, operands, params, keep_rules):
        avals = [tracing.aval_of(x) if r is None else AbstractRef(tracing.aval_of(x)) for x, r in zip(operands, refs)]
        program = tracing.trace_to_closed_jaxpr(lambda *xs: results(*xs, **params), avals)
        on_values, written = discharge_program(program, keep_rules=keep_rules)
        found = on_values(*operands)
        count = len(program.out_avals)
        return found[:count], dict(zip(written, found[count:]))

    defaults: dict[str, Any] = {
        "multiple_results": multiple, "abstract": abstract or (lambda *_, **params: []), "effects": effects, "jvp": jvp}
    if effects is None:
        defaults |= {"lower": lower_fun(run, multiple_results=multiple)}
    else:
        defaults |= {"impl": (lambda *xs, **params: results(*xs, **params) if multiple else results(*xs, **params)[0]),
                     "mesh": MeshRules(states_mesh_types=True), "structured": Structured(discharge=discharge),
                     "traits": Traits(takes_refs=True, allows_ref_aliasing=True, memoise=False)}
    if "batch" not in fields:
        defaults["batch_with_axis"] = batch
    return Primitive(name, **(defaults | fields))


# Views of references as operands


class View(NamedTuple):
    """A parameter that describes a view among the operands: the reference is followed by `count` operands of its indexers."""

    indexers: tuple
    count: int


def flatten_views(views: Sequence[Any]) -> tuple[list[Any], tuple[View, ...]]:
    """Return the operands of references and of views of references, and their descriptions."""
    operands: list[Any] = []
    described = []
    for x in views:
        view = x if isinstance(x, ref_operations.RefView) else ref_operations.RefView(x, (), ())
        operands += [view.ref, *view.operands]
        described.append(View(view.indexers, len(view.operands)))
    return operands, tuple(described)


def split_views(operands: Sequence[Any], views: Sequence[View]) -> tuple[list[tuple[Any, tuple, list[Any]]], list[Any]]:
    """Return `(reference, indexers, operands of the indexers)` of each view, and the remaining operands."""
    found, start = [], 0
    for view in views:
        found.append((operands[start], view.indexers, list(operands[start + 1:start + 1 + view.count])))
        start += 1 + view.count
    return found, list(operands[start:])


def views_of(operands: Sequence[Any], views: Sequence[View]) -> tuple[list[Any], list[Any]]:
    """Return the views, and the remaining operands."""
    found, rest = split_views(operands, views)
    return [ref_operations.RefView(ref, indexers, tuple(indices)) for ref, indexers, indices in found], rest


def view_effects(kinds: str) -> Callable:
    """Return the rule for the effects of an operation that reads ("r") and writes ("w") its views."""
    def effects(*_, views, **params):
        found, start = [], 0
        for kind, view in zip(kinds, views):
            found.append((WriteEffect if kind == "w" else ReadEffect)(start))
            start += 1 + view.count
        return frozenset(found)

    return effects


def is_ref_or_view(x: Any) -> bool:
    """True if a value is a reference or a view of one."""
    return isinstance(x, ref_operations.RefView) or is_ref(x)
