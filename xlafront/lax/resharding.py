"""Types that say how values are split: bringing values to another sharding, and functions in which the compiler decides."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xlafront.core import tracing, tree
from xlafront.core.avals import entry_of, with_entry
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import put_leaf
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.meshes import AbstractMesh, AxisType, Mesh, active, check_spec, concrete_meshes
from xlafront.runtime.sharding import open_sums
from xlafront.runtime.specs import PartitionSpec, axes_of
from xlafront.staging import module_shardings
from xlafront.staging.meshes import get_abstract_mesh, use_abstract_mesh
from xlafront.transforms.ad.core import linear_jvp

# The primitive


def _batch(axis_size, xs, ds, *, target):
    [x], [d] = xs, ds
    entry = entry_of(tracing.aval_of(x), d)
    if entry is not None and not target.mesh.explicit:  # the elements are freed of their axes, the batch is not
        mesh = target.mesh.abstract_mesh.update_axis_types({a: AxisType.Explicit for a in axes_of(entry)})
        target = NamedSharding(mesh, target.spec)
    return reshard_p.bind(x, target=with_entry(target, d, entry)), d


def _lower(ctx, x, *, target):
    context = ctx.module_context.sharding_context
    if context is None or not context.partitioned:
        return x
    if not target.mesh.explicit:
        explicit = ctx.avals_in[0].explicit_sharding
        if explicit is None or not explicit.spec.unreduced & explicit.mesh.explicit:
            return x
        target = explicit.update(spec=explicit.spec.update(unreduced=frozenset()))  # what has no type has no open sums
    spec, [aval] = target.spec, ctx.avals_in
    unreduced = frozenset() if aval.explicit_sharding is None else aval.explicit_sharding.spec.unreduced
    if spec.unreduced - unreduced and unreduced - spec.unreduced:  # the compiler only makes sums, or opens them
        between = aval.explicit_sharding.update(spec=aval.explicit_sharding.spec.update(unreduced=unreduced & spec.unreduced))
        [x] = module_shardings.constrain(ctx, [x], [aval], [between])
    elif spec.unreduced and not unreduced:
        # As a whole first: else the compiler takes what each device has for its summand.
        [x] = module_shardings.constrain(ctx, [x], [aval], [target.update(spec=spec.update(unreduced=frozenset()))])
    return module_shardings.constrain(ctx, [x], [ctx.aval_out], [target])[0]


def _impl(x, *, target):
    mesh = target.mesh
    own = getattr(x, "sharding", None)
    if not mesh.explicit and isinstance(own, NamedSharding) and own.mesh.shape_tuple == mesh.shape_tuple:
        spec = own.spec.update(unreduced=frozenset(), reduced=frozenset())
        x = x if not open_sums(own) else _compiled(own.update(spec=spec))(x)
        return put_leaf(x, NamedSharding(own.mesh.update(axis_types=mesh.axis_types), spec))
    if isinstance(mesh, AbstractMesh):
        mesh = _concrete(x, mesh)
    sharding = NamedSharding(mesh, target.spec.update(partitions=target.spec.padded(tracing.aval_of(x).ndim)))
    if open_sums(own):
        return x if own == sharding else _compiled(sharding)(x)
    if open_sums(sharding):
        return _compiled(sharding)(put_leaf(x, sharding.update(spec=sharding.spec.update(unreduced=frozenset()))))
    return put_leaf(x, sharding)


@functools.lru_cache(256)
def _compiled(target: NamedSharding) -> Callable:
    """What moves arrays whose sums are still to be made: only a program makes or opens them."""
    from xlafront.staging.jit import jit

    return jit(lambda x: reshard_p.bind(x, target=target))


def _concrete(x, mesh: AbstractMesh) -> Mesh:
    """The devices of a mesh that only has a shape: those of the array, or of the mesh in force."""
    own = getattr(x, "sharding", None)
    for found in (own.mesh if isinstance(own, NamedSharding) else None, active.mesh, concrete_meshes.get(mesh)):
        if isinstance(found, Mesh) and found.shape_tuple == mesh.shape_tuple:
            return found if found.axis_types == mesh.axis_types else found.update(axis_types=mesh.axis_types)
    raise ValueError(f"an array of type {tracing.aval_of(x)} was to be spread over {mesh}, which has no devices. Use a Mesh, "
                     f"or put one in force with set_mesh.")


reshard_p = Primitive(
    "reshard", abstract=lambda x, *, target: x.update(sharding=target), lower=_lower, impl=_impl,
    transpose=lambda ct, x, *, target: [Zero(x.aval) if type(ct) is Zero else ct], batch=_batch)
reshard_p.jvp = linear_jvp(reshard_p)
reshard_p.own_types = True


# Public


def named(where: Any, user: str, explicit: bool = True) -> NamedSharding:
    """What a user gave as the sharding of a result: a `NamedSharding`, or a spec over the mesh in force."""
    if isinstance(where, PartitionSpec):
        mesh = get_abstract_mesh()
        if mesh.empty:
            raise ValueError(f"{user} got {where}, but there is no mesh in force that it could refer to. Use "
                             f"NamedSharding(mesh, {where}), or set one with set_mesh(mesh).")
        where = NamedSharding(mesh, where)
    if not isinstance(where, NamedSharding):
        raise TypeError(f"{user} takes a NamedSharding or a PartitionSpec for out_sharding, got {type(where).__name__}: "
                        f"{where!r}.")
    check_spec(where.mesh, where.spec)
    other = [a for p in where.spec for a in axes_of(p) if a not in where.mesh.explicit]
    if explicit and other:
        kind = where.mesh.axis_types[where.mesh.axis_names.index(other[0])]
        raise ValueError(f"{user} got {where.spec} over {where.mesh}, but the axis {other[0]!r} is of type {kind.name}: it is "
                         f"not part of types. Use an axis of type Explicit, or with_sharding_constraint for Auto axes.")
    return where


@boundary
def reshard(xs: Any, out_shardings: Any) -> Any:
    """Bring the arrays of a pytree to other shardings over explicit mesh axes, outside of and inside compiled functions.

    `out_shardings` is a pytree prefix of `NamedSharding`s, or of specs over the mesh in force.

    >>> mesh = make_mesh((1,), ("x",), (sharding.AxisType.Explicit,))
    >>> reshard(xnp.arange(4.0), NamedSharding(mesh, P("x"))).sharding.spec
    P('x',)
    """
    leaves, treedef = tree.flatten(xs)

    def is_leaf(x):
        return x is None or isinstance(x, (PartitionSpec, NamedSharding))

    results = []
    for i, (x, where) in enumerate(zip(leaves, tree.leaves_by_prefix("reshard: out_shardings", out_shardings, xs, is_leaf))):
        target = named(where, "reshard")
        x = tracing.as_operand(x)
        try:
            target.shard_shape(tracing.aval_of(x, "reshard").shape)
        except ValueError as e:
            raise type(e)(f"reshard{tree.path_of(xs, i) if len(leaves) > 1 else ''}: {e}") from None
        results.append(reshard_p.bind(x, target=target))
    return treedef.unflatten(results)


def with_out_sharding(user: str, out_sharding: Any, kernel: Callable, arrays: tuple, *static: Any) -> Any:
    """`kernel(*arrays, *static)` with the result split as a user says by `out_sharding`."""
    if out_sharding is None:
        return kernel(*arrays, *static)
    target = named(out_sharding, user)
    leaves, treedef = tree.flatten(arrays)
    result = kernel(*treedef.unflatten([freed(tracing.as_operand(x)) for x in leaves]), *static)
    target.shard_shape(tracing.aval_of(result).shape)
    return reshard_p.bind(result, target=target)


def freed(x: Any) -> Any:
    """The value as one whose type does not say how it is split."""
    explicit = tracing.aval_of(x).explicit_sharding
    return x if explicit is None else reshard_p.bind(x, target=unsplit(explicit))


def unsplit(explicit: NamedSharding) -> NamedSharding:
    """The sharding of types that leave it to the compiler how values over this mesh are split."""
    mesh = explicit.mesh
    return NamedSharding(mesh.update(axis_types=tuple([AxisType.Auto] * len(mesh.axis_names))), PartitionSpec())


def _names(axes, mesh) -> tuple:
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    unknown = [a for a in names if a not in mesh.axis_names]
    if unknown:
        raise KeyError(f"{mesh} has no axis {unknown[0]!r}; its axes are {mesh.axis_names}.")
    return names


def _mesh_of(arrays, given, user: str) -> AbstractMesh:
    """The mesh that a call is about: that in force, of the sharding it was given, or of its arguments' types."""
    found = get_abstract_mesh()
    if not found.empty:
        return found
    for x in tree.leaves(given, lambda s: isinstance(s, NamedSharding)):
        if isinstance(x, NamedSharding):
            return x.mesh.abstract_mesh
    for x in arrays:
        explicit = tracing.aval_of(x).explicit_sharding
        if explicit is not None:
            return explicit.mesh
    raise ValueError(f"{user} has no mesh whose axes it could change: set one with set_mesh(mesh), or give it a NamedSharding.")


def _without(spec: PartitionSpec, axes) -> PartitionSpec:
    return PartitionSpec(*[tuple(a for a in axes_of(p) if a not in axes) for p in spec.partitions],
                         unreduced=spec.unreduced - set(axes), reduced=spec.reduced - set(axes))


def auto_axes(f: Callable | None = None, *, axes: Any = None, out_sharding: Any = None) -> Callable:
    """A function in which the compiler decides how values are split over mesh axes (all, or `axes`) that are explicit outside.

    Its result has the sharding `out_sharding` (a pytree prefix), which may also be given in the call.

    >>> mesh = make_mesh((1,), ("x",), (sharding.AxisType.Explicit,))
    >>> with set_mesh(mesh):
    ...     sharding.auto_axes(lambda x: x @ x.T)(xnp.ones((2, 2)), out_sharding=P("x")).sharding.spec
    P('x', None)
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    @boundary
    def function(*args, **kwargs):
        out = kwargs.pop("out_sharding", out_sharding)
        if out is None:
            raise TypeError(f"{_name(f)} is a function of auto_axes and needs out_sharding: how its result is split.")
        leaves, treedef = tree.flatten((args, kwargs))
        mesh = _mesh_of(leaves, out, f"auto_axes({_name(f)})")
        names = _names(axes, mesh)
        inner = mesh.update_axis_types({a: AxisType.Auto for a in names})
        inside = []
        for x in leaves:
            x = tracing.as_operand(x)
            explicit = tracing.aval_of(x).explicit_sharding
            inside.append(x if explicit is None else reshard_p.bind(x, target=NamedSharding(inner, _without(explicit.spec,
                                                                                                            names))))
        with use_abstract_mesh(inner):
            args, kwargs = treedef.unflatten(inside)
            results = f(*args, **kwargs)
        with use_abstract_mesh(mesh):
            return reshard(results, out)

    return _whole_call(f, function, "auto_axes", "out_sharding", out_sharding)


def explicit_axes(f: Callable | None = None, *, axes: Any = None, in_sharding: Any = None) -> Callable:
    """A function in whose types mesh axes (all, or `axes`) are explicit that outside are left to the compiler.

    Its arguments come in the shardings `in_sharding` (a pytree prefix), which may also be given in the call.

    >>> with set_mesh(make_mesh((1,), ("x",), (sharding.AxisType.Auto,))):
    ...     sharding.explicit_axes(lambda x: x * 2)(xnp.ones(2), in_sharding=P("x"))
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @boundary
    def function(*args, **kwargs):
        given = kwargs.pop("in_sharding", in_sharding)
        if given is None:
            raise TypeError(f"{_name(f)} is a function of explicit_axes and needs in_sharding: how its arguments are split.")
        mesh = _mesh_of((), (), f"explicit_axes({_name(f)})")
        inner = mesh.update_axis_types({a: AxisType.Explicit for a in _names(axes, mesh)})
        with use_abstract_mesh(inner):
            args = reshard(args, given if isinstance(given, (tuple, PartitionSpec, NamedSharding)) else (given,))
            results = f(*args, **kwargs)
        leaves, treedef = tree.flatten(results)
        other = [a for a in mesh.axis_names if a not in mesh.explicit]
        spreads = [tracing.aval_of(x).explicit_sharding for x in leaves]
        return treedef.unflatten([reshard_p.bind(x, target=NamedSharding(
            mesh, PartitionSpec() if s is None else _without(s.spec, other))) for x, s in zip(leaves, spreads)])

    return _whole_call(f, function, "explicit_axes", "in_sharding", in_sharding)


def _name(f) -> str:
    return getattr(f, "__name__", repr(f))


def _whole_call(f, function, kind: str, option: str, default):
    """Such functions are compiled: types change inside of them, where arrays cannot."""
    from xlafront.staging.jit import jit

    compiled: dict = {}

    @functools.wraps(f)
    def call(*args, **kwargs):
        given = kwargs.pop(option, default)
        leaves, treedef = tree.flatten(given, lambda x: isinstance(x, (PartitionSpec, NamedSharding)))
        key = (treedef, tuple(leaves))
        run = compiled.get(key)
        if run is None:
            def run(*args, **kwargs):
                return function(*args, **kwargs, **{option: given})

            run.__name__ = run.__qualname__ = f"{kind}_{_name(f)}"
            run = compiled[key] = jit(run)
        return run(*args, **kwargs)

    return call

