"""In which order the elements of a value lie in memory, inside of a program."""

from __future__ import annotations

from typing import Any

from xlafront import lowering
from xlafront.core import tracing, tree
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.shapes import linear_jvp
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.layouts import Layout, use as layouts_in_use
from xlafront.staging.moves import relayout


@boundary
def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """The same arrays, with their elements in a certain order in memory from here on.

    Results of a compiled function in which this happens lie as the compiler finds best, rather than row by row.

    - `x`: an array, or a pytree of arrays.
    - `layouts`: a `Layout` for all of them, or a pytree of them that is a prefix of `x`.

    >>> from xlafront.experimental.layout import Layout, with_layout_constraint
    >>> columns = with_layout_constraint(xnp.ones((2, 3)), Layout((1, 0)))
    >>> columns.format.layout.major_to_minor
    (1, 0)
    """
    leaves, structure = tree.flatten(x)
    found = tree.leaves_by_prefix("layouts", layouts, x, lambda leaf: leaf is None)
    layouts_in_use.others = True
    results = []
    for i, (leaf, layout) in enumerate(zip(leaves, found)):
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
    return structure.unflatten(results)


def _impl(x, *, layout):
    if not isinstance(x, ArrayImpl):
        raise ValueError(f"with_layout_constraint outside of compiled functions takes arrays on a device, got "
                         f"{type(x).__name__}. Make one with xlafront.numpy.asarray.")
    return x if layout.fits(x.format.layout) else relayout(x, layout)


def _lower(ctx, x, *, layout):
    order = layout.major_to_minor[::-1]
    return ctx.op("stablehlo.custom_call", [x], **lowering.custom_calls.attributes_of_call(
        "LayoutConstraint", 1, 1, operand_layouts=[order], result_layouts=[order]))


def _batch(size, operands, dims, *, layout):
    [x], [d] = operands, dims
    order = (d, *[i + (i >= d) for i in layout.major_to_minor])  # the batch is the slowest
    return layout_constraint_p.bind(x, layout=layout.update(major_to_minor=order)), d


layout_constraint_p = Primitive(
    "layout_constraint", abstract=lambda x, *, layout: x, lower=_lower, impl=_impl, batch=_batch,
    transpose=lambda ct, x, **params: [Zero(x.aval) if type(ct) is Zero else layout_constraint_p.bind(ct, **params)])
layout_constraint_p.jvp = linear_jvp(layout_constraint_p)
layout_constraint_p.own_types = layout_constraint_p.lays_out = True
