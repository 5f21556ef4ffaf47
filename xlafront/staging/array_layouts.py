"""Layouts in memory that users request for arguments and results (`Format`), and those of the arrays that they pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.base.layouts import Format, Layout, use as layouts_in_use
from xlafront.core import tree
from xlafront.core.ir import Jaxpr, any_equation
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.runtime import keys
from xlafront.staging import sharding_arguments
from xlafront.staging.call_tracing import TracedCall
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.staging.signatures import Call, Options


def requested_layouts(options: Options, in_tree, out_tree) -> tuple[list, list] | None:
    """Return the layouts that `jit` requests for arguments and results, by leaf; None if it requests none."""
    given = options.in_shardings, options.out_shardings
    if not any([sharding_arguments.requests_layouts(g) for g in given]):
        return None
    args, kwargs = tree.leaf_indices(in_tree)
    found = []
    for g, full in zip(given, (args, tree.leaf_indices(out_tree))):
        count = tree.structure(full).num_leaves
        found.append([None] * count if g is UNSPECIFIED else sharding_arguments.flatten_layouts(g, full))
    layouts_in_use.others = True
    return found[0] + [None] * tree.structure(kwargs).num_leaves, found[1]


def check_argument_layouts(name: str, options: Options, traced: TracedCall, call: Call) -> None:
    """Raise for a committed array whose layout is not the requested one: it is not copied silently."""
    if options.in_shardings is UNSPECIFIED or not sharding_arguments.requests_layouts(options.in_shardings):
        return
    requested = requested_layouts(options, call.in_tree, traced.out_tree)
    for x, layout, argument in zip(call.leaves, requested[0] if requested else (), traced.debug_info.arg_names):
        if layout is not None and type(x) is ArrayImpl and x._committed and not x.is_deleted():
            own = Layout.from_pjrt_layout(x._pjrt_layout)
            if layout is Layout.AUTO or not layout.fits(own):
                raise ValueError(f"in_shardings of {name} has the layout {layout} for its argument {argument}, which does "
                                 f"not match the layout of the array, {own}. Transfer it with device_put(x, Format(layout, "
                                 f"sharding)), or request the layout that it has, x.format.")


def module_layouts(options: Options, traced: TracedCall, call: Call) -> tuple[list, list] | None:
    """Return the layouts of a module's arguments and results; None if all of them have the default one."""
    layouts = requested_layouts(options, call.in_tree, traced.out_tree)
    described = [x._layout if type(x) is ShapeDtypeStruct else None for x in call.leaves]
    if any(described):  # the layouts of arrays that are to be passed
        requested, results = layouts or ([None] * len(described), [None] * len(traced.closed.out_avals))
        layouts = [own if layout is None else layout for layout, own in zip(requested, described)], results
        layouts_in_use.others = True
    if layouts is None:
        if layouts_in_use.others and _sets_layout(traced.closed.structure):
            return [None] * len(traced.in_avals), [Layout.AUTO] * len(traced.closed.out_avals)
        return None
    arguments, results = layouts
    return ([_physical(layout, aval) for layout, aval in zip(arguments, traced.in_avals)],
            [_physical(layout, aval) for layout, aval in zip(results, traced.closed.out_avals)])


def with_own_layout(x: Any) -> Any:
    """Return the type of a committed array that has a layout of its own, with that layout; other values as they are."""
    if type(x) is not ArrayImpl or not x._committed or x.is_deleted():
        return x
    layout = Layout.from_pjrt_layout(x._pjrt_layout)
    if layout.major_to_minor == tuple(range(x.ndim)):
        return x
    return ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type, sharding=Format(layout, x.sharding))


def _sets_layout(jaxpr: Jaxpr) -> bool:
    """True if an equation sets the layout of a value."""
    return any_equation(jaxpr, "sets_layout", lambda eqn: eqn.primitive.traits.sets_layout)


def _physical(layout, aval):
    """Return a layout of the array that holds a value: a key array is stored as rows of words."""
    if not isinstance(layout, Layout):
        return layout
    layout.check_compatible_aval(aval.shape)
    return layout if isinstance(aval.dtype, np.dtype) else layout.of_rank(keys.physical(aval).ndim)
