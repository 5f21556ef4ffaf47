"""`reshard`, and the transformations `auto_axes` and `explicit_axes`, which change the types of mesh axes in a function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable
from typing import TYPE_CHECKING, Any

from xlafront.base.collective_guard import no_collectives
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.meshes import AbstractMesh, AxisType, active
from xlafront.base.specs import PartitionSpec, axes_of
from xlafront.checks.collectives import check_operation
from xlafront.core import tracing, tree
from xlafront.core.basic_primitives import reshard_p
from xlafront.core.sharding_types import auto_sharding
from xlafront.core.traceback_filter import boundary
from xlafront.core.wrapping import wraps
from xlafront.lax.arguments import named_sharding
from xlafront.lax.device_put import check_devices, put_leaf
from xlafront.staging.jit import jit
from xlafront.staging.meshes import get_abstract_mesh, use_abstract_mesh

if TYPE_CHECKING:
    from xlafront.core.typing import ArrayLike


@boundary
def reshard(xs: Any, out_shardings: Any) -> Any:
    """Reshard arrays over explicit mesh axes, inside or outside of compiled functions.

    Args:
        xs: A pytree of arrays.
        out_shardings: A pytree prefix of `NamedSharding`s, or of `PartitionSpec`s over the active mesh.

    Returns:
        A pytree like `xs`, with the new shardings.

    Example:
        >>> mesh = xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Explicit,))
        >>> xf.reshard(xnp.arange(4.0), xf.NamedSharding(mesh, xf.P("x"))).sharding.spec
        P('x',)
    """
    leaves, treedef = tree.flatten(xs)

    def is_leaf(x: Any) -> bool:
        return x is None or isinstance(x, (PartitionSpec, NamedSharding))

    results: list[Any] = []
    targets = tree.leaves_by_prefix("reshard: out_shardings", out_shardings, xs, is_leaf)
    for i, (x, out_sharding) in enumerate(zip(leaves, targets)):
        target = named_sharding(out_sharding, "reshard", matches_context=False)
        if target is None:
            raise ValueError(f"reshard got {out_sharding} as the sharding of xs{tree.path_of(xs, i)}. Pass a NamedSharding "
                             f"over a mesh with axes, or a spec over the active mesh, for each array.")
        check_devices(x, target, "reshard")
        try:
            _check_fits(target, tracing.aval_of(x, "reshard").shape)
        except ValueError as e:
            raise type(e)(f"reshard{tree.path_of(xs, i) if len(leaves) > 1 else ''}: {e}") from None
        results.append(reshard_p.bind(x, dst_sharding=target))
    return treedef.unflatten(results)


def _check_fits(target: NamedSharding, shape: tuple[int, ...]) -> None:
    """Raise an error if a spec has more entries than dimensions, or shards one that it does not divide."""
    target.shard_shape(shape)
    target.check_compatible_aval(shape)


def resolve_out_sharding(caller: str, out_sharding: Any, shape: tuple[int, ...]) -> NamedSharding | None:
    """Return the sharding of a new array of this shape by an `out_sharding`, with an entry for each dimension."""
    target = named_sharding(out_sharding, caller)
    if target is None:
        return None
    _check_fits(target, shape)
    mesh = target.mesh
    if isinstance(mesh, AbstractMesh) and not tracing.is_tracing():
        mesh = active.concrete() or mesh
    return NamedSharding(mesh, target.spec.update(partitions=target.spec.padded(len(shape))))


def with_out_sharding(caller: str, out_sharding: Any, kernel: Callable, arrays: tuple, *static: Any) -> Any:
    """Compute `kernel(*arrays, *static)` with the result sharded by `out_sharding`.

    The kernel must not close over arrays: they would belong to the outer mesh. Other leaves of the pytrees `arrays` are passed
    unchanged.
    """
    target = named_sharding(out_sharding, caller)
    if target is None:
        return kernel(*arrays, *static)
    leaves, treedef = tree.flatten(arrays)
    explicit = [tracing.aval_of(x).explicit_sharding for x in leaves if tracing.is_arraylike(x)]
    sharding = next((s for s in explicit if s is not None), None)
    if sharding is None:
        result = kernel(*arrays, *static)
    else:
        if no_collectives.value:
            check_operation(caller, [tracing.aval_of(x) for x in leaves if tracing.is_arraylike(x)], [target])

        def over_auto_axes(*xs: ArrayLike) -> Any:
            traced = iter(xs)
            operands = treedef.unflatten([as_auto(next(traced)) if tracing.is_arraylike(x) else x for x in leaves])
            with use_abstract_mesh(auto_sharding(sharding).mesh.abstract_mesh):
                return kernel(*operands, *static)

        operands_auto = [_put_over_auto_axes(x) for x in leaves if tracing.is_arraylike(x)]
        # Operands of an outer derivative or vmap make this one jitted call: the active mesh is another when derivatives run.
        eager = any([isinstance(x, tracing.Tracer) and not isinstance(x, tracing.StagedTracer) for x in operands_auto])
        result = (jit(over_auto_axes) if eager else over_auto_axes)(*operands_auto)
    _check_fits(target, tracing.aval_of(result).shape)
    return reshard_p.bind(result, dst_sharding=target)


def _put_over_auto_axes(x: Any) -> Any:
    """Replicate an array over its mesh with explicit axes made automatic, unless its type has a sharding."""
    sharding = getattr(x, "sharding", None)
    if isinstance(x, tracing.Tracer) or not isinstance(sharding, NamedSharding) or not sharding.mesh.explicit or (
            tracing.aval_of(x).explicit_sharding is not None):
        return x
    return put_leaf(x, sharding.update(mesh=auto_sharding(sharding).mesh))


def as_auto(x: Any) -> Any:
    """Remove the sharding from the type of a value."""
    explicit = tracing.aval_of(x).explicit_sharding
    return x if explicit is None else reshard_p.bind(x, dst_sharding=auto_sharding(explicit))


def _resolve_axes(axes: Any, mesh: AbstractMesh) -> tuple:
    names = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    unknown = [a for a in names if a not in mesh.axis_names]
    if unknown:
        raise KeyError(f"{mesh} has no axis {unknown[0]!r}; its axes are {mesh.axis_names}.")
    return names


def _find_mesh(shardings: Any) -> AbstractMesh:
    """Return the active mesh, else the mesh of the given shardings, else an empty mesh."""
    mesh = get_abstract_mesh()
    if not mesh.empty:
        return mesh
    for x in tree.leaves(shardings, lambda s: isinstance(s, NamedSharding)):
        if isinstance(x, NamedSharding):
            return x.mesh.abstract_mesh
    return mesh


def _drop_axes(spec: PartitionSpec, axes: Collection[Hashable]) -> PartitionSpec:
    return spec.update([tuple(a for a in axes_of(p) if a not in axes) for p in spec.partitions],
                       unreduced=spec.unreduced - set(axes), reduced=spec.reduced - set(axes))


def auto_axes(f: Callable | None = None, *, axes: Any = None, out_sharding: Any = None) -> Callable:
    """Make explicit mesh axes automatic in a function: the compiler chooses how its values are sharded.

    Args:
        f: The function.
        axes: Names of the axes. Default: all.
        out_sharding: Sharding of the result, a pytree prefix. It may also be passed in the call.

    Returns:
        The transformed function.

    Example:
        >>> mesh = xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Explicit,))
        >>> with xf.set_mesh(mesh):
        ...     xf.sharding.auto_axes(lambda x: x @ x.T)(xnp.ones((2, 2)), out_sharding=xf.P("x")).sharding.spec
        P('x', None)
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)

    @boundary
    def function(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out_sharding", out_sharding)
        if out is None:
            raise TypeError(f"{_name_of(f)} is a function of auto_axes and needs out_sharding, the sharding of its result.")
        leaves, treedef = tree.flatten((args, kwargs))
        mesh = _find_mesh(out)
        names = _resolve_axes(axes, mesh)
        inner = mesh.update_axis_types({a: AxisType.Auto for a in names})
        operands = []
        for x in leaves:
            explicit = tracing.aval_of(x).explicit_sharding
            operands.append(x if explicit is None else reshard_p.bind(x, dst_sharding=NamedSharding(
                inner, _drop_axes(explicit.spec, names))))
        with use_abstract_mesh(inner):
            args, kwargs = treedef.unflatten(operands)
            results = f(*args, **kwargs)
        with use_abstract_mesh(mesh):
            return reshard(results, out)

    compiled = _cached_call(f, function, "auto_axes", "out_sharding", out_sharding)

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        mesh = _find_mesh(kwargs.get("out_sharding", out_sharding))
        if mesh.explicit:
            return compiled(*args, **kwargs)
        _resolve_axes(axes, mesh)
        kwargs.pop("out_sharding", None)
        return f(*args, **kwargs)  # all axes are automatic already

    return call


def explicit_axes(f: Callable | None = None, *, axes: Any = None, in_sharding: Any = None) -> Callable:
    """Make automatic mesh axes explicit in a function: the types of its values have shardings.

    Args:
        f: The function.
        axes: Names of the axes. Default: all.
        in_sharding: Shardings of the arguments, a pytree prefix. They may also be passed in the call.

    Returns:
        The transformed function.

    Example:
        >>> with xf.set_mesh(xf.make_mesh((1,), ("x",), (xf.sharding.AxisType.Auto,))):
        ...     xf.sharding.explicit_axes(lambda x: x * 2)(xnp.ones(2), in_sharding=xf.P("x"))
        Array([2., 2.], dtype=float32)
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)

    @boundary
    def function(*args: Any, **kwargs: Any) -> Any:
        shardings = kwargs.pop("in_sharding", in_sharding)
        if shardings is None:
            raise TypeError(f"{_name_of(f)} is a function of explicit_axes and needs in_sharding, the shardings of its "
                            "arguments.")
        mesh = _find_mesh(())
        if mesh.empty:
            raise ValueError(f"explicit_axes({_name_of(f)}) needs a mesh. Set one with set_mesh(mesh).")
        inner = mesh.update_axis_types({a: AxisType.Explicit for a in _resolve_axes(axes, mesh)})
        with use_abstract_mesh(inner):
            args = reshard(args, shardings if isinstance(shardings, (tuple, PartitionSpec, NamedSharding)) else (shardings,))
            results = f(*args, **kwargs)
        leaves, treedef = tree.flatten(results)
        auto_names = [a for a in mesh.axis_names if a not in mesh.explicit]
        result_shardings = [tracing.aval_of(x).explicit_sharding for x in leaves]
        return treedef.unflatten([reshard_p.bind(x, dst_sharding=NamedSharding(
            mesh, PartitionSpec() if s is None else _drop_axes(s.spec, auto_names))) for x, s in zip(leaves, result_shardings)])

    return _cached_call(f, function, "explicit_axes", "in_sharding", in_sharding)


def _name_of(f: Callable) -> str:
    return getattr(f, "__name__", repr(f))


def _cached_call(f: Callable, function: Callable, kind: str, option: str, default: Any) -> Callable:
    """Compile the function once per sharding: the types of mesh axes can change only inside of jaxprs."""
    compiled: dict = {}

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        shardings = kwargs.pop(option, default)
        leaves, treedef = tree.flatten(shardings, lambda x: isinstance(x, (PartitionSpec, NamedSharding)))
        key = (treedef, tuple(leaves))
        run = compiled.get(key)
        if run is None:
            def run(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs, **{option: shardings})

            run.__name__ = run.__qualname__ = f"{kind}_{_name_of(f)}"
            run = compiled[key] = jit(run)
        return run(*args, **kwargs)

    return call
