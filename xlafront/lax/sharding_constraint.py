"""`with_sharding_constraint`: shardings of values inside of jaxprs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.core import tracing, tree
from xlafront.core.avals import explicit_part
from xlafront.core.primitive import KeyUse, MeshRules, Primitive, Traits
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import check_devices, concrete_mesh, lower_put, put_leaf
from xlafront.lax.shapes import linear_jvp
from xlafront.runtime.sharding import AbstractMesh, PartitionSpec, active, axes_of
from xlafront.staging.jit import jit
from xlafront.staging.sharding_arguments import UNSPECIFIED, flatten_shardings, of_batches

if TYPE_CHECKING:
    from xlafront.base.jaxlib_compat import Sharding
    from xlafront.core.typing import Array, ArrayLike, Dims
    from xlafront.transforms.batching.vmap import BatchTrace


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Constrain the sharding of arrays at this point of a computation.

    Over mesh axes of type Explicit, whose shardings are in the types, the constraint is only checked.

    Args:
        x: A pytree of arrays.
        shardings: A sharding or `PartitionSpec` for all arrays, or a pytree prefix of them.

    Returns:
        A pytree like `x`, with the constrained arrays.

    Example:
        >>> mesh = xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Auto,))
        >>> rows = xf.NamedSharding(mesh, xf.P("x"))
        >>> xf.jit(lambda x: lax.with_sharding_constraint(x * 2, rows))(xnp.arange(4)).sharding.spec
        P()
    """
    leaves, treedef = tree.flatten(x)
    flat = flatten_shardings("with_sharding_constraint", shardings, x, partly=True, allow_mesh_context=True)
    results = []
    for i, (leaf, sharding) in enumerate(zip(leaves, flat)):
        path = f"x{tree.path_of(x, i)}"
        if sharding is UNSPECIFIED:
            raise ValueError(f"with_sharding_constraint got None as the sharding of {path}: it takes one for each array. Leave "
                             f"out arrays without constraint.")
        tracing.aval_of(leaf, "with_sharding_constraint")
        if isinstance(sharding, NamedSharding):
            try:
                sharding.check_compatible_aval(np.shape(leaf))
                if not (isinstance(leaf, tracing.Tracer) or tracing.is_tracing()):
                    sharding.shard_shape(np.shape(leaf))  # jitted functions may shard a dimension unevenly
            except ValueError as e:
                raise type(e)(f"with_sharding_constraint of {path}: {e}") from None
            if isinstance(shardings, PartitionSpec) and isinstance(leaf, tracing.Tracer) and active.mesh is not None:
                sharding = sharding.update(mesh=sharding.mesh.abstract_mesh)  # independent of the devices that it runs on
            sharding = _over_unchecked_axes(sharding)
            if _only_checks_types(sharding, shardings, path):
                _check_types(leaf, sharding, path)
                results.append(leaf)
                continue
        results.append(constrain(leaf, sharding))
    return treedef.unflatten(results)


def constrain(x: Array, sharding: Sharding) -> Array:
    """Bind the constraint of a value."""
    unconstrained: frozenset = frozenset()
    if isinstance(sharding, NamedSharding):
        explicit = tracing.aval_of(x).explicit_sharding
        if explicit is not None and isinstance(x, tracing.Tracer):  # keep the sharding over Explicit axes
            spec = PartitionSpec(*sharding.spec.padded(np.ndim(x)))
            joined = [p if type_axes is None else (*axes_of(type_axes), *axes_of(p))
                     for type_axes, p in zip(explicit.spec.partitions, spec.partitions)]
            sharding = sharding.update(spec=PartitionSpec(*joined))
        unconstrained = frozenset([i for i, p in enumerate(sharding.spec.partitions) if p is PartitionSpec.UNCONSTRAINED])
    return sharding_constraint_p.bind(x, sharding=sharding, layout=None, context_mesh=active.abstract_mesh(),
                                      unconstrained_dims=unconstrained)


def _over_unchecked_axes(sharding: NamedSharding) -> NamedSharding:
    """Return a sharding over the mesh around a `shard_map` as one inside; its spec must not name the Manual axes.

    Only for a `shard_map` that does not check which values vary: otherwise the types of values name the Manual axes.
    """
    inside, mesh = active.abstract, sharding.mesh
    if inside is None or not inside.manual_axes or mesh.shape_tuple != inside.shape_tuple or mesh.manual_axes:
        return sharding
    named = {a for p in sharding.spec.partitions for a in axes_of(p)}
    if named & set(inside.manual_axes) or tracing.checked_axes() & set(inside.manual_axes):
        return sharding
    return sharding.update(mesh=inside)


def _only_checks_types(sharding: NamedSharding, shardings: Any, path: str) -> bool:
    """True if a constraint only checks types: a spec over an active mesh whose axes are all Explicit. Other constraints are for
    the compiler, and may name only axes of type Auto.
    """
    mesh = sharding.mesh.abstract_mesh
    if mesh.are_all_axes_explicit and (isinstance(shardings, PartitionSpec) or active.abstract_mesh().are_all_axes_explicit):
        return True
    active_mesh = active.abstract
    if active_mesh is not None and active_mesh.manual_axes and mesh.axis_types != active_mesh.axis_types:
        raise ValueError(f"with_sharding_constraint of {path} got a sharding over {mesh}, but the active mesh, of the "
                         f"shard_map around it, is {active_mesh}: the axes {active_mesh.manual_axes} are Manual here. "
                         f"Pass only the spec, {sharding.spec}, without those axes.")
    invalid = [a for p in sharding.spec.partitions for a in axes_of(p) if a not in mesh.auto_axes]
    if invalid:
        raise ValueError(f"with_sharding_constraint of {path} got {sharding.spec} over {mesh}: it can only refer to Auto axes, "
                         f"and {invalid[0]!r} is {mesh.axis_types[mesh.axis_names.index(invalid[0])]!r}. Use reshard for "
                         f"Explicit axes.")
    return False


def _check_types(x: Array, sharding: NamedSharding, path: str) -> None:
    """Raise an error if a constraint over Explicit axes differs from the type of the value."""
    expected = explicit_part(sharding, np.ndim(x))
    actual = tracing.aval_of(x).explicit_sharding
    if expected != actual and (expected is None or actual is None or expected.spec != actual.spec):
        raise AssertionError(
            f"with_sharding_constraint to {sharding.spec} over {sharding.mesh} of {path}, whose type is {tracing.aval_of(x)}: "
            f"over axes of type Explicit it only checks the sharding of a value. Use reshard to change it.")


def _check_mesh_of_array(x: ArrayLike, sharding: NamedSharding) -> None:
    """Raise unless an array outside of jit, or the context if it has none, has a mesh of the shape of an abstract mesh."""
    source, attempt = getattr(x, "sharding", None), f"with_sharding_constraint outside of jit to {sharding.spec} over "
    if isinstance(source, NamedSharding):
        if source.mesh.shape_tuple != sharding.mesh.shape_tuple:
            raise ValueError(f"{attempt}a mesh of shape {sharding.mesh.shape_tuple} got an array of type "
                             f"{tracing.aval_of(x)} over a mesh of another shape, {source.mesh.shape_tuple}. Pass a sharding "
                             f"over a Mesh, or transfer the array with device_put.")
    elif active.mesh is None or active.mesh.shape_tuple != sharding.mesh.shape_tuple:
        raise (ValueError if source is None else TypeError)(
            f"{attempt}{sharding.mesh}, which has no devices, takes those of the array, which is not sharded over a mesh. Pass "
            f"a sharding over a Mesh, or an array over one, or activate a mesh of this shape with set_mesh.")


def _impl(x: Array, *, sharding: Sharding, **_: Any) -> Array:
    check_devices(x, sharding, "with_sharding_constraint")
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
        _check_mesh_of_array(x, sharding)
        sharding = sharding.update(mesh=concrete_mesh(x, sharding.mesh))
    if isinstance(sharding, NamedSharding) and PartitionSpec.UNCONSTRAINED in sharding.spec:
        return _constraint_call(sharding)(x)
    return put_leaf(x, sharding)


@functools.lru_cache(256)
def _constraint_call(sharding: NamedSharding) -> Callable:
    """Return a compiled function that applies the constraint: only executables can leave dimensions to the compiler."""
    return jit(lambda x: constrain(x, sharding))


def _batch(trace: BatchTrace, xs: Sequence[Any], dims: Dims, *, sharding: Any, **_: Any) -> tuple[Any, Any]:
    [x], [d] = xs, dims
    batch_axes = axes_of(trace.spmd_axis_name)
    if batch_axes and not set(batch_axes).isdisjoint([a for p in getattr(sharding, "spec", ()) for a in axes_of(p)]):
        raise ValueError(f"vmap with spmd_axis_name={trace.spmd_axis_name!r} shards its elements over that axis, which "
                         f"cannot appear in the spec of a with_sharding_constraint inside of it, as it does in "
                         f"{sharding.spec}. Leave it out of one of the two.")
    return constrain(x, of_batches(sharding, d, trace.spmd_axis_name)), d


sharding_constraint_p = Primitive(
    "sharding_constraint", abstract=lambda x, **_: x,
    lower=lambda ctx, x, *, sharding, **_: lower_put(ctx, x, sharding=sharding), impl=_impl,
    transpose=lambda ct, x, **params: [Zero(x.aval) if type(ct) is Zero else sharding_constraint_p.bind(ct, **params)],
    jvp=linear_jvp, batch_with_axis=_batch, mesh=MeshRules(states_mesh_types=True),
    traits=Traits(key_use=KeyUse.FORWARDS, is_reshard=True))
