"""What a program tells the compiler of how its values are spread."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xlafront.core import tracing, tree
from xlafront.core.avals import explicit_part
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import check_devices, lower_put, over_devices, put_leaf
from xlafront.lax.shapes import linear_jvp
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.sharding import AbstractMesh, PartitionSpec, active, axes_of
from xlafront.staging.jit import jit
from xlafront.staging.sharding_arguments import UNSPECIFIED, flatten_shardings, of_batches


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The same arrays, of which the compiler is told how they are to be spread at this point.

    Over mesh axes of type Explicit, where types say it, it checks that they do.

    - `x`: a pytree of arrays.
    - `shardings`: a sharding or spec for all of them, or a pytree prefix.

    >>> mesh = xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Auto,))
    >>> rows = xf.NamedSharding(mesh, xf.P("x"))
    >>> xf.jit(lambda x: lax.with_sharding_constraint(x * 2, rows))(xnp.arange(4)).sharding.spec
    P()
    """
    leaves, treedef = tree.flatten(x)
    flat = flatten_shardings("with_sharding_constraint", shardings, x, partly=True, entered=True)
    results = []
    for i, (leaf, sharding) in enumerate(zip(leaves, flat)):
        path = f"x{tree.path_of(x, i)}"
        if sharding is UNSPECIFIED:
            raise ValueError(f"with_sharding_constraint got None as the sharding of {path}: it takes one for each array. Leave "
                             f"arrays out that are not to be constrained.")
        tracing.aval_of(leaf, "with_sharding_constraint")
        if isinstance(sharding, NamedSharding):
            try:
                sharding.check_compatible_aval(np.shape(leaf))
                if not (isinstance(leaf, tracing.Tracer) or tracing.is_tracing()):
                    sharding.shard_shape(np.shape(leaf))  # a program may divide a dimension unevenly
            except ValueError as e:
                raise type(e)(f"with_sharding_constraint of {path}: {e}") from None
            if isinstance(shardings, PartitionSpec) and isinstance(leaf, tracing.Tracer) and active.mesh is not None:
                sharding = sharding.update(mesh=sharding.mesh.abstract_mesh)  # whatever devices the program runs on
            if _is_for_types(sharding, shardings, path):
                _check_types(leaf, sharding, path)
                results.append(leaf)
                continue
        results.append(constrained(leaf, sharding))
    return treedef.unflatten(results)


def constrained(x, sharding):
    """A value that is spread so from here on."""
    free: frozenset = frozenset()
    if isinstance(sharding, NamedSharding):
        explicit = tracing.aval_of(x).explicit_sharding
        if explicit is not None and isinstance(x, tracing.Tracer):  # along Explicit axes it stays as it is
            spec = PartitionSpec(*sharding.spec.padded(np.ndim(x)))
            joint = [p if own is None else (*axes_of(own), *axes_of(p))
                     for own, p in zip(explicit.spec.partitions, spec.partitions)]
            sharding = sharding.update(spec=PartitionSpec(*joint))
        free = frozenset([i for i, p in enumerate(sharding.spec.partitions) if p is PartitionSpec.UNCONSTRAINED])
    return sharding_constraint_p.bind(x, sharding=sharding, layout=None, context_mesh=active.abstract_mesh(),
                                      unconstrained_dims=free)


def _is_for_types(sharding: NamedSharding, given, path: str) -> bool:
    """Whether a constraint only checks types, as a spec over a mesh in force does that is Explicit throughout. Others are for
    the compiler, and so only about axes of type Auto."""
    mesh = sharding.mesh.abstract_mesh
    if mesh.are_all_axes_explicit and (isinstance(given, PartitionSpec) or active.abstract_mesh().are_all_axes_explicit):
        return True
    inside = active.abstract
    if inside is not None and inside.manual_axes and mesh.axis_types != inside.axis_types:
        raise ValueError(f"with_sharding_constraint of {path} got a sharding over {mesh}, but the mesh in force, of the "
                         f"shard_map around it, is {inside}: the axes {inside.manual_axes} are Manual here. Give the spec "
                         f"alone, {sharding.spec}, without those axes.")
    other = [a for p in sharding.spec.partitions for a in axes_of(p) if a not in mesh.auto_axes]
    if other:
        raise ValueError(f"with_sharding_constraint of {path} got {sharding.spec} over {mesh}: it can only refer to Auto axes, "
                         f"and {other[0]!r} is {mesh.axis_types[mesh.axis_names.index(other[0])]!r}. Use reshard for Explicit "
                         f"axes.")
    return False


def _check_types(x, sharding: NamedSharding, path: str) -> None:
    """Types say how values are split over explicit axes; a constraint cannot change that."""
    wanted = explicit_part(sharding, np.ndim(x))
    found = tracing.aval_of(x).explicit_sharding
    if wanted != found and (wanted is None or found is None or wanted.spec != found.spec):
        raise AssertionError(
            f"with_sharding_constraint to {sharding.spec} over {sharding.mesh} of {path}, whose type is {tracing.aval_of(x)}: "
            f"over axes of type Explicit it only checks how a value is split. Use reshard to change it.")


def _impl(x, *, sharding, **_):
    check_devices(x, sharding, "with_sharding_constraint")
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        if active.mesh is None and not isinstance(getattr(x, "sharding", None), NamedSharding):
            raise TypeError(f"with_sharding_constraint outside of jit to {sharding.spec} over {sharding.mesh}, which has no "
                            f"devices, takes those of the array, which is not split over a mesh. Give a sharding over a Mesh, "
                            f"or put one in force with set_mesh.")
        sharding = sharding.update(mesh=over_devices(x, sharding.mesh))
    if isinstance(sharding, NamedSharding) and PartitionSpec.UNCONSTRAINED in sharding.spec:
        return _compiled(sharding)(x)
    return put_leaf(x, sharding)


@functools.lru_cache(256)
def _compiled(sharding: NamedSharding):
    """What leaves dimensions to the compiler: only a program can."""
    return jit(lambda x: constrained(x, sharding))


def _batch(trace, xs, dims, *, sharding, **_):
    [x], [d] = xs, dims
    over = axes_of(trace.spmd_axis_name)
    if over and not set(over).isdisjoint([a for p in getattr(sharding, "spec", ()) for a in axes_of(p)]):
        raise ValueError(f"vmap with spmd_axis_name={trace.spmd_axis_name!r} spreads its elements over that axis, which "
                         f"cannot appear in the spec of a with_sharding_constraint inside of it, as it does in "
                         f"{sharding.spec}. Leave it out of one.")
    return constrained(x, of_batches(sharding, d, trace.spmd_axis_name)), d


sharding_constraint_p = Primitive(
    "sharding_constraint", abstract=lambda x, **_: x,
    lower=lambda ctx, x, *, sharding, **_: lower_put(ctx, x, sharding=sharding), impl=_impl,
    transpose=lambda ct, x, **params: [Zero(x.aval) if type(ct) is Zero else sharding_constraint_p.bind(ct, **params)])
sharding_constraint_p.key_use = "hands on"
sharding_constraint_p.moves = sharding_constraint_p.own_types = True
sharding_constraint_p.jvp = linear_jvp(sharding_constraint_p)
sharding_constraint_p.batch_with_axis = _batch
