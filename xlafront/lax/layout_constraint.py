"""`with_layout_constraint`: the layout in memory of values in jaxprs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xlafront import lowering
from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.layouts import Layout, use as layouts_in_use
from xlafront.core import tracing, tree
from xlafront.core.primitive import MeshRules, Primitive, Traits
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.shapes import linear_jvp
from xlafront.staging.array_transfers import relayout

if TYPE_CHECKING:
    from xlafront.core.typing import Dims
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


@boundary
def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """Constrain the layout of arrays in memory.

    The results of a compiled function that uses this have the layout that the compiler chooses, instead of row-major order.

    Args:
        x: An array, or a pytree of arrays.
        layouts: A `Layout` for all arrays, or a pytree prefix of `x` with layouts.

    Returns:
        A pytree like `x`, with the given layouts.

    Example:
        >>> from xlafront.experimental.layout import Layout, with_layout_constraint
        >>> columns = with_layout_constraint(xnp.ones((2, 3)), Layout((1, 0)))
        >>> columns.format.layout.major_to_minor
        (1, 0)
    """
    leaves, treedef = tree.flatten(x)
    layout_leaves = tree.leaves_by_prefix("layouts", layouts, x, lambda leaf: leaf is None)
    layouts_in_use.others = True
    results = []
    for i, (leaf, layout) in enumerate(zip(leaves, layout_leaves)):
        path = f"x{tree.path_of(x, i)}"
        aval = tracing.aval_of(leaf, "with_layout_constraint")
        if not isinstance(layout, Layout):
            raise ValueError(f"with_layout_constraint takes a Layout for each array, got {layout!r:.80} of type "
                             f"{type(layout).__name__} for {path}.")
        try:
            layout.check_compatible_aval(aval.shape)
        except ValueError as e:
            raise ValueError(f"with_layout_constraint of {path}: {e}") from None
        results.append(layout_constraint_p.bind(leaf, layout=layout))
    return treedef.unflatten(results)


def _impl(x: Any, *, layout: Layout) -> ArrayImpl:
    if not isinstance(x, ArrayImpl):
        raise ValueError(f"with_layout_constraint outside of compiled functions takes arrays on a device, got "
                         f"{type(x).__name__}. Make one with xlafront.numpy.asarray.")
    return x if layout.fits(x.format.layout) else relayout(x, layout)


def _lower(ctx: RuleContext, x: ir.Value, *, layout: Layout) -> ir.Value:
    order = layout.major_to_minor[::-1]
    return ctx.op("stablehlo.custom_call", [x], **lowering.custom_calls.attributes_of_call(
        "LayoutConstraint", 1, 1, operand_layouts=[order], result_layouts=[order]))


def _batch(size: int, operands: Sequence[Any], dims: Dims, *, layout: Layout) -> tuple[Any, Any]:
    [x], [d] = operands, dims
    major_to_minor = (d, *[i + (i >= d) for i in layout.major_to_minor])  # the batch is the major dimension
    return layout_constraint_p.bind(x, layout=layout.update(major_to_minor=major_to_minor)), d


layout_constraint_p = Primitive(
    "layout_constraint", abstract=lambda x, *, layout: x, lower=_lower, impl=_impl, batch=_batch,
    transpose=lambda ct, x, **params: [Zero(x.aval) if type(ct) is Zero else layout_constraint_p.bind(ct, **params)],
    jvp=linear_jvp, mesh=MeshRules(states_mesh_types=True), traits=Traits(sets_layout=True))
