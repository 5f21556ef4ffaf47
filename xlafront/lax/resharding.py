"""Types that say how values are split: bringing values to another sharding, and functions in which the compiler decides."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from xlafront.core import tracing, tree
from xlafront.core.avals import str_short
from xlafront.core.errors import ShardingTypeError
from xlafront.core.traceback_filter import boundary
from xlafront.core.wrapping import wraps
from xlafront.lax.arguments import named_sharding
from xlafront.lax.device_put import check_devices, put_leaf, reshard_p
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.meshes import AbstractMesh, AxisType, active
from xlafront.runtime.specs import PartitionSpec, axes_of
from xlafront.staging.jit import jit
from xlafront.staging.meshes import get_abstract_mesh, use_abstract_mesh


@boundary
def reshard(xs: Any, out_shardings: Any) -> Any:
    """Bring arrays to other shardings over explicit mesh axes, outside of and inside compiled functions.

    - `xs`: a pytree of arrays.
    - `out_shardings`: a pytree prefix of `NamedSharding`s, or of specs over the mesh in force.

    >>> mesh = xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Explicit,))
    >>> xf.reshard(xnp.arange(4.0), xf.NamedSharding(mesh, xf.P("x"))).sharding.spec
    P('x',)
    """
    leaves, treedef = tree.flatten(xs)

    def is_leaf(x):
        return x is None or isinstance(x, (PartitionSpec, NamedSharding))

    results = []
    for i, (x, where) in enumerate(zip(leaves, tree.leaves_by_prefix("reshard: out_shardings", out_shardings, xs, is_leaf))):
        target = named_sharding(where, "reshard")
        if target is None:
            raise ValueError(f"reshard got {where} as the sharding of xs{tree.path_of(xs, i)}: it takes a NamedSharding over a "
                             f"mesh with axes, or a spec over the mesh in force, for each array.")
        check_devices(x, target, "reshard")
        try:
            target.shard_shape(tracing.aval_of(x, "reshard").shape)
        except ValueError as e:
            raise type(e)(f"reshard{tree.path_of(xs, i) if len(leaves) > 1 else ''}: {e}") from None
        results.append(reshard_p.bind(x, dst_sharding=target))
    return treedef.unflatten(results)


def target_of(user: str, out_sharding: Any, shape: tuple[int, ...]) -> NamedSharding | None:
    """Where a new array of this shape goes by its `out_sharding`, with an entry for each dimension."""
    target = named_sharding(out_sharding, user)
    if target is None:
        return None
    target.shard_shape(shape)
    mesh = target.mesh
    if isinstance(mesh, AbstractMesh) and not tracing.is_tracing() and active.mesh is not None:
        mesh = active.mesh
    return NamedSharding(mesh, target.spec.update(partitions=target.spec.padded(len(shape))[:len(shape)]))


def with_out_sharding(user: str, out_sharding: Any, kernel: Callable, arrays: tuple, *static: Any) -> Any:
    """`kernel(*arrays, *static)` with the result split as a user says by `out_sharding`. The kernel takes no other arrays:
    those that it closed over would be of the mesh in force outside. In the pytrees `arrays`, other leaves stay as they are."""
    target = named_sharding(out_sharding, user)
    if target is None:
        return kernel(*arrays, *static)
    leaves, treedef = tree.flatten(arrays)
    explicit = [tracing.aval_of(x).explicit_sharding for x in leaves if tracing.is_arraylike(x)]
    split = next((s for s in explicit if s is not None), None)
    if split is None:
        result = kernel(*arrays, *static)
    else:
        def over_auto_axes(*xs):
            inside = iter(xs)
            operands = treedef.unflatten([freed(next(inside)) if tracing.is_arraylike(x) else x for x in leaves])
            with use_abstract_mesh(unsplit(split).mesh.abstract_mesh):
                return kernel(*operands, *static)

        own = [_over_auto_axes(x) for x in leaves if tracing.is_arraylike(x)]
        # What is differentiated or mapped from outside is one call, as the mesh in force is another when derivatives run.
        eager = any([isinstance(x, tracing.Tracer) and not isinstance(x, tracing.StagedTracer) for x in own])
        result = (jit(over_auto_axes) if eager else over_auto_axes)(*own)
    target.shard_shape(tracing.aval_of(result).shape)
    return reshard_p.bind(result, dst_sharding=target)


def _over_auto_axes(x: Any) -> Any:
    """An array that is split over nothing, over a mesh whose axes types do not have."""
    own = getattr(x, "sharding", None)
    if isinstance(x, tracing.Tracer) or not isinstance(own, NamedSharding) or not own.mesh.explicit or (
            tracing.aval_of(x).explicit_sharding is not None):
        return x
    return put_leaf(x, own.update(mesh=unsplit(own).mesh))


def freed(x: Any) -> Any:
    """The value as one whose type does not say how it is split."""
    explicit = tracing.aval_of(x).explicit_sharding
    return x if explicit is None else reshard_p.bind(x, dst_sharding=unsplit(explicit))


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


def _mesh_of(given) -> AbstractMesh:
    """The mesh that a call is about: that in force, or of the sharding it was given; else one without axes."""
    found = get_abstract_mesh()
    if not found.empty:
        return found
    for x in tree.leaves(given, lambda s: isinstance(s, NamedSharding)):
        if isinstance(x, NamedSharding):
            return x.mesh.abstract_mesh
    return found


def _without(spec: PartitionSpec, axes) -> PartitionSpec:
    return PartitionSpec(*[tuple(a for a in axes_of(p) if a not in axes) for p in spec.partitions],
                         unreduced=spec.unreduced - set(axes), reduced=spec.reduced - set(axes))


def auto_axes(f: Callable | None = None, *, axes: Any = None, out_sharding: Any = None) -> Callable:
    """A function in which the compiler decides how values are split over mesh axes that are explicit outside.

    - `f`: the function.
    - `axes`: the names of the axes, all when left out.
    - `out_sharding`: how the result is split, a pytree prefix; it may also be given in the call.

    >>> mesh = xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Explicit,))
    >>> with xf.set_mesh(mesh):
    ...     xf.sharding.auto_axes(lambda x: x @ x.T)(xnp.ones((2, 2)), out_sharding=xf.P("x")).sharding.spec
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
        mesh = _mesh_of(out)
        names = _names(axes, mesh)
        inner = mesh.update_axis_types({a: AxisType.Auto for a in names})
        inside = []
        for x in leaves:
            explicit = tracing.aval_of(x).explicit_sharding
            inside.append(x if explicit is None else reshard_p.bind(x, dst_sharding=NamedSharding(inner, _without(explicit.spec,
                                                                                                            names))))
        with use_abstract_mesh(inner):
            args, kwargs = treedef.unflatten(inside)
            results = f(*args, **kwargs)
        with use_abstract_mesh(mesh):
            return reshard(results, out)

    compiled = _whole_call(f, function, "auto_axes", "out_sharding", out_sharding)

    @wraps(f)
    def call(*args, **kwargs):
        mesh = _mesh_of(kwargs.get("out_sharding", out_sharding))
        if mesh.explicit:
            return compiled(*args, **kwargs)
        _names(axes, mesh)
        kwargs.pop("out_sharding", None)
        return f(*args, **kwargs)  # nothing is left to leave to the compiler

    return call


def explicit_axes(f: Callable | None = None, *, axes: Any = None, in_sharding: Any = None) -> Callable:
    """A function in whose types mesh axes are explicit that outside are left to the compiler.

    - `f`: the function.
    - `axes`: the names of the axes, all when left out.
    - `in_sharding`: how its arguments come split, a pytree prefix; it may also be given in the call.

    >>> with xf.set_mesh(xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Auto,))):
    ...     xf.sharding.explicit_axes(lambda x: x * 2)(xnp.ones(2), in_sharding=xf.P("x"))
    Array([2., 2.], dtype=float32)
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @boundary
    def function(*args, **kwargs):
        given = kwargs.pop("in_sharding", in_sharding)
        if given is None:
            raise TypeError(f"{_name(f)} is a function of explicit_axes and needs in_sharding: how its arguments are split.")
        mesh = _mesh_of(())
        if mesh.empty:
            raise ValueError(f"explicit_axes({_name(f)}) has no mesh whose axes it could change: set one with set_mesh(mesh).")
        inner = mesh.update_axis_types({a: AxisType.Explicit for a in _names(axes, mesh)})
        with use_abstract_mesh(inner):
            args = reshard(args, given if isinstance(given, (tuple, PartitionSpec, NamedSharding)) else (given,))
            results = f(*args, **kwargs)
        leaves, treedef = tree.flatten(results)
        other = [a for a in mesh.axis_names if a not in mesh.explicit]
        spreads = [tracing.aval_of(x).explicit_sharding for x in leaves]
        return treedef.unflatten([reshard_p.bind(x, dst_sharding=NamedSharding(
            mesh, PartitionSpec() if s is None else _without(s.spec, other))) for x, s in zip(leaves, spreads)])

    return _whole_call(f, function, "explicit_axes", "in_sharding", in_sharding)


def _name(f) -> str:
    return getattr(f, "__name__", repr(f))


def _whole_call(f, function, kind: str, option: str, default):
    """Such functions are compiled: types change inside of them, where arrays cannot."""
    compiled: dict = {}

    @wraps(f)
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


def whole_operands(trace, atoms):
    """Operands as values that are not split, written down as such: for derivatives, which nobody can tell `out_sharding`."""
    made = []
    for v in atoms:
        if v.aval.explicit_sharding is None:
            made.append(v)
            continue
        if v.aval.explicit_sharding.spec.unreduced - v.aval.explicit_sharding.mesh.explicit:
            raise ShardingTypeError(f"a derivative would need the sum of a value of type {str_short(v.aval)}, which is still "
                                    f"to be made. Sum it with psum before it is used so.")
        value = trace.process(reshard_p, (tracing.StagedTracer(trace, v.aval, v),),
                              {"dst_sharding": unsplit(v.aval.explicit_sharding)})
        made.append(value._var)
    return made
