"""What a program tells the compiler of how its values are spread."""

from __future__ import annotations

import functools

import numpy as np

from xlafront.core import tracing, tree
from xlafront.core.avals import ShapedArray, explicit_part
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.lax import sharding_rules
from xlafront.lax.device_put import lower_put, put_leaf
from xlafront.lax.shapes import linear_jvp
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.sharding import PartitionSpec
from xlafront.runtime.specs import axes_of
from xlafront.staging.jit import jit
from xlafront.staging.sharding_arguments import UNSPECIFIED, flatten_shardings, of_batches


def with_sharding_constraint(x, shardings):
    """Tell the compiler how the arrays of a pytree are to be spread at this point of a compiled function.

    Over mesh axes of type Explicit, where types say it, it checks that they do.

    >>> mesh = make_mesh((1,), ("x",), (sharding.AxisType.Auto,))
    >>> jit(lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("x"))))(xnp.arange(4.0))
    """
    leaves, treedef = tree.flatten(x)
    flat = flatten_shardings("with_sharding_constraint", shardings, x, partly=True)
    results = []
    for i, (leaf, sharding) in enumerate(zip(leaves, flat)):
        if sharding is UNSPECIFIED:
            raise ValueError(f"with_sharding_constraint got None as the sharding of x{tree.path_of(x, i)}: it takes one for "
                             f"each array. Leave arrays out that are not to be constrained.")
        tracing.aval_of(tracing.as_operand(leaf), "with_sharding_constraint")
        if isinstance(sharding, NamedSharding):
            try:
                sharding.shard_shape(np.shape(leaf))
            except ValueError as e:
                raise type(e)(f"with_sharding_constraint of x{tree.path_of(x, i)}: {e}") from None
            if sharding.mesh.explicit:
                _check_types(leaf, sharding, shardings, f"x{tree.path_of(x, i)}")
                if sharding.mesh.are_all_axes_explicit:
                    results.append(leaf)
                    continue
        results.append(sharding_constraint_p.bind(leaf, sharding=sharding))
    return treedef.unflatten(results)


def _check_types(x, sharding: NamedSharding, given, path: str) -> None:
    """Types say how values are split over explicit axes; a constraint cannot change that."""
    wanted = explicit_part(sharding, np.ndim(x))
    found = tracing.aval_of(x).explicit_sharding
    if wanted == found or wanted is not None and found is not None and wanted.spec == found.spec:
        return
    text = (f"with_sharding_constraint to {sharding.spec} over {sharding.mesh} of {path}, whose type is {tracing.aval_of(x)}: "
            f"over axes of type Explicit it only checks how a value is split. Use reshard to change it.")
    raise AssertionError(text) if isinstance(given, PartitionSpec) and sharding.mesh.are_all_axes_explicit else ValueError(text)


def _impl(x, *, sharding):
    if isinstance(sharding, NamedSharding) and PartitionSpec.UNCONSTRAINED in sharding.spec:
        return _compiled(sharding)(x)
    return put_leaf(x, sharding)


@functools.lru_cache(256)
def _compiled(sharding: NamedSharding):
    """What leaves dimensions to the compiler: only a program can."""
    return jit(lambda x: sharding_constraint_p.bind(x, sharding=sharding))


def _batch(trace, xs, dims, *, sharding):
    [x], [d] = xs, dims
    over = axes_of(trace.spmd_axis_name)
    if over and not set(over).isdisjoint([a for p in getattr(sharding, "spec", ()) for a in axes_of(p)]):
        raise ValueError(f"vmap with spmd_axis_name={trace.spmd_axis_name!r} spreads its elements over that axis, which "
                         "cannot appear in the spec of a with_sharding_constraint inside of it, as it does in "
                         f"{sharding.spec}. Leave it out of one.")
    return sharding_constraint_p.bind(x, sharding=of_batches(sharding, d, trace.spmd_axis_name)), d


sharding_constraint_p = Primitive(
    "sharding_constraint", abstract=lambda x, *, sharding: ShapedArray(x.shape, x.dtype, x.weak_type, vma=x.vma),
    lower=lower_put, impl=_impl,
    transpose=lambda ct, x, *, sharding: [
        Zero(x.aval) if type(ct) is Zero else sharding_constraint_p.bind(ct, sharding=sharding)],
    sharding_rule=sharding_rules.same)
sharding_constraint_p.moves = True
sharding_constraint_p.jvp = linear_jvp(sharding_constraint_p)
sharding_constraint_p.batch_with_axis = _batch
