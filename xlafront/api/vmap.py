"""`vmap`: checks arguments, maps a function over batches, and moves the mapped axes of results to `out_axes`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np

from xlafront.api import vmappable_types
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.specs import PartitionSpec, axes_of
from xlafront.core import errors, source, tracing, tree
from xlafront.core.avals import entry_of
from xlafront.core.basic_primitives import place_axis, reshard_p
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import current_trace
from xlafront.lax.elementwise import as_array
from xlafront.staging import signatures
from xlafront.transforms.batching.vmap import batch_flat

_F = TypeVar("_F", bound=Callable)


def _is_axis(x) -> bool:
    return x is None


def _is_number(x) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


@boundary
def vmap(fun: _F, in_axes: int | None | Sequence[Any] = 0, out_axes: Any = 0, axis_name: Hashable | None = None,
         axis_size: int | None = None, spmd_axis_name: Hashable | Sequence[Hashable] | None = None,
         sum_match: bool = False) -> _F:
    """Return a function that maps another over axes of its arguments, as one batched computation.

    Args:
        fun: Function of single elements.
        in_axes: Axis to map over, for each positional argument or as a pytree prefix of the arguments; None for arguments that
            are not mapped. Keyword arguments are mapped over axis 0.
        out_axes: Position of the mapped axis in each result, an int or a pytree prefix; None for results that are not mapped.
        axis_name: Name of the mapped axis, for collectives inside `fun`.
        axis_size: Size of the mapped axis. Needed only if no argument is mapped.
        spmd_axis_name: Mesh axes over which sharding constraints inside `fun` shard the mapped axis.
        sum_match: If True, sum results over the mapped axis where `out_axes` is None. Otherwise such results raise unless they
            are the same for all elements.

    Returns:
        A function of batches.

    Example:
        >>> xf.vmap(xnp.dot, in_axes=(0, None))(xnp.array([[1, 2], [3, 4]]), xnp.array([1, 10]))
        Array([21, 43], dtype=int32)
    """
    if not callable(fun):
        raise errors.not_callable("vmap", fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    _check_axes(in_axes, out_axes)
    name = signatures.function_name(fun)

    @boundary
    def mapped(*args, **kwargs):
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(f"vmap of {name} was given in_axes with entries for {len(in_axes)} positional argument(s), "
                             f"{in_axes}, and called with {len(args)}. It must be an int, None or a tuple with an entry for "
                             "each of them.")
        leaves, in_tree = vmappable_types.flatten((args, kwargs))
        axes = _flat_axes(name, in_axes, vmappable_types.flatten(args)[1]) + [0] * tree.structure(kwargs).num_leaves
        specs = {}  # axes of values of registered types, which are unpacked inside of the trace

        def argument(i: int) -> str:
            return signatures.argument_names(fun, signatures.Selection(), in_tree)[i]

        for i, x in enumerate(leaves):
            if vmappable_types.is_mapped_type(x):
                vmappable_types.check_spec(name, x, axes[i], "in_axes")
                if axes[i] is not None:
                    specs[i], axes[i] = axes[i], None
            elif axes[i] is not None and not tracing.is_arraylike(x):
                raise errors.not_an_array(x, f"vmap of {name}", argument(i))
        hash(axis_name)  # raises if it cannot be a cache key
        size = _axis_size(name, leaves, axes, axis_size, argument)
        dims = [None if a is None else a % np.ndim(x) for a, x in zip(axes, leaves)]
        sharding = _elements_sharding(name, leaves, dims, spmd_axis_name)
        out_tree = None

        def flat(*tracers):
            nonlocal out_tree
            if specs:
                trace = tracing.thread.trace
                tracers = [vmappable_types.element(trace, x, specs[i]) if i in specs else x for i, x in enumerate(tracers)]
            inner_args, inner_kwargs = vmappable_types.elements_of_nodes(in_tree.unflatten(tracers), axes)
            out = fun(*inner_args, **inner_kwargs)
            if not specs:
                results, out_tree = signatures.check_results(fun, out)
                return results
            results, out_tree = vmappable_types.flatten(out)
            return _batches_of_vmappable_types(fun, name, results, _flat_out_axes(name, out_axes, out_tree))

        with source.transformed("vmap"):
            results, result_dims = batch_flat(flat, leaves, dims, size, axis_name, spmd_axis_name)
        flat_out_axes = _flat_out_axes(name, out_axes, out_tree)
        if None in flat_out_axes and not sum_match:
            _check_equal_for_all(name, results, result_dims, flat_out_axes, out_tree)
        placed = out_tree.unflatten([x if vmappable_types.is_mapped_type(x)
                                     else _move_axis(name, x, d, axis, size, sharding, sum_match)
                                     for x, d, axis in zip(results, result_dims, flat_out_axes)])
        return vmappable_types.batches_of_nodes(placed, flat_out_axes, size)

    return signatures.copy_metadata(
        mapped, fun, f"Map {name} over batches. Takes the arguments of {name} with an additional axis, which is mapped.")


def _check_axes(in_axes, out_axes) -> None:
    if not (in_axes is None or isinstance(in_axes, tuple) or _is_number(in_axes) or vmappable_types.is_spec(in_axes)):
        raise TypeError("vmap takes in_axes that must be an int, None or a tuple with entries for the positional arguments, "
                        f"got {in_axes!r}.")
    for axes, which in ((in_axes, "in_axes"), (out_axes, "out_axes")):
        for a in tree.leaves(axes):
            if not _is_number(a) and not vmappable_types.is_spec(a):
                raise TypeError(f"vmap takes {which} that must be an int, None or a container (pytree) with those as leaves, "
                                f"got {a!r} in {axes!r}.")


def _batches_of_vmappable_types(fun, name, results, specs) -> list:
    """Return the leaves of results, with batches in place of elements of registered types."""
    trace = tracing.thread.trace

    def place(x, axis):
        value, dim = trace.unwrap(x)
        with current_trace(trace.parent):
            return _move_axis(name, value, dim, axis, trace.size, None)

    batches = []
    for x, spec in zip(results, specs):
        if vmappable_types.is_mapped_type(x):
            vmappable_types.check_spec(name, x, spec, "out_axes")
            batches.append(x if spec is None else vmappable_types.batch(trace, x, spec, place))
        else:
            batches += signatures.check_results(fun, x)[0]
    return batches


def _flat_axes(name, in_axes, args_tree) -> list:
    if not isinstance(in_axes, tuple):
        return [in_axes] * args_tree.num_leaves
    return tree.leaves_by_prefix(f"vmap of {name}: in_axes", in_axes, tree.leaf_indices(args_tree), _is_axis)


def _flat_out_axes(name, out_axes, out_tree) -> list:
    if out_axes is None or isinstance(out_axes, (int, np.integer)) or vmappable_types.is_spec(out_axes):
        return [out_axes] * out_tree.num_leaves
    return tree.leaves_by_prefix(f"vmap of {name}: "
                                 "out_axes", out_axes, tree.leaf_indices(out_tree), _is_axis)


def sizes_along_axes(caller: str, leaves: Sequence[Any], axes: Sequence[int | None], names: Callable[[int], str], alike: str,
                     remedy: str = "") -> dict[int, Callable[[], str]]:
    """Return the size of the mapped axes, with a function that describes an argument of that size; raise if sizes differ.

    `alike` completes the remedy for arguments that should not be mapped: "if it is the same ...".
    """
    sizes: dict[int, list[int]] = {}

    def describe(i: int) -> str:
        return f"argument {names(i)} of type {tracing.aval_of(leaves[i])} has it as axis {axes[i]}"

    for i, (x, a) in enumerate(zip(leaves, axes)):
        if a is None:
            continue
        shape = np.shape(x)
        if not -len(shape) <= a < len(shape):
            raise ValueError(f"{caller} was requested to map the argument {names(i)} over axis {a}, which needs a rank of at "
                             f"least {a + 1 if a >= 0 else -a}, but it has shape {shape}. Give it None in in_axes if it is "
                             f"the same {alike}.")
        sizes.setdefault(shape[a], []).append(i)
    if len(sizes) > 1:
        lines = [f"size {n}: {'; '.join(map(describe, have[:3]))}{' and others' if len(have) > 3 else ''}"
                 for n, have in sizes.items()]
        kind, _, of = caller.partition(" ")
        raise ValueError(f"{kind} got inconsistent sizes for array axes to be mapped{of and ' ' + of}. {'. '.join(lines)}."
                         f"{remedy}")
    return {n: functools.partial(describe, have[0]) for n, have in sizes.items()}


def _elements_sharding(name: str, values, dims, spmd_axis_name) -> NamedSharding | None:
    """Return the sharding of the mapped axis over explicit mesh axes; raise if arguments disagree."""
    entries = [entry_of(tracing.aval_of(x), d) for x, d in zip(values, dims) if d is not None]
    found = next((e for e in entries if e is not None), None)
    if found is None:
        return None
    other = [e for e in entries if e != found]
    if other:
        raise ValueError(f"vmap of {name}: the mapped dimension must be sharded in the same way in all arguments, but it is "
                         f"over {found!r} in one and over {other[0]!r} in another: inconsistent axis specs. Bring them to one "
                         "sharding with reshard.")
    for x, d in zip(values, dims):
        own = None if d is not None or not tracing.is_arraylike(x) else tracing.aval_of(x).explicit_sharding
        if own is not None and not set(axes_of(found)).isdisjoint([a for entry in own.spec.partitions for a in axes_of(entry)]):
            raise ValueError(f"vmap of {name} shards the elements over {found!r}, over which an unmapped argument (None in "
                             f"in_axes) of type {tracing.aval_of(x)} is sharded too, though each element needs all of it. "
                             "Bring that argument to another sharding with reshard.")
    if spmd_axis_name is not None and axes_of(spmd_axis_name) != axes_of(found):
        raise ValueError(f"vmap of {name} has spmd_axis_name={spmd_axis_name!r}, but the types of its arguments "
                         f"already shard the elements over {found!r}, of type Explicit. Leave spmd_axis_name out.")
    mesh = next(s.mesh for x in values if (s := tracing.aval_of(x).explicit_sharding) is not None)
    return NamedSharding(mesh, PartitionSpec(found))


def _axis_size(name, values, axes, given, argument) -> int:
    sizes = sizes_along_axes(f"vmap of {name}", values, axes, argument, "for all elements")
    if not sizes:
        if given is None:
            raise ValueError(f"vmap of {name} has no argument to map: in_axes must have at least one non-None value, for an "
                             "argument that contains an array, or axis_size must be specified.")
        return given
    [size] = sizes
    if given is not None and given != size:
        raise ValueError(f"vmap got inconsistent sizes for array axes to be mapped of {name}: axis_size={given} was given, "
                         f"but the size is {size}: {sizes[size]()}.")
    return size


def _check_equal_for_all(name, results, dims, axes, out_tree) -> None:
    for i, (dim, axis) in enumerate(zip(dims, axes)):
        if axis is None and dim is not None:
            raise _differs(name, dim, tree.keystr(tree.flatten_with_path(out_tree.unflatten(results))[0][i][0]))


def _differs(name, dim: int, path: str = "") -> ValueError:
    """Return the error for a mapped result whose `out_axes` is None; libraries match some of its words."""
    return ValueError(f"vmap of {name} has a result that depends on the mapped arguments where none may: at vmap "
                      f"out_axes{path}, got axis spec None but output was batched on axis {dim}. Give the axis that the mapped "
                      "axis becomes, or reduce over it with psum.")


def _move_axis(name, x, dim, axis, size, sharding, sum_match=False):
    """Return a result with the mapped axis at position `axis`, or summed over it if `axis` is None.

    A result that is the same for all elements is broadcast, with the sharding of the elements.
    """
    rank = np.ndim(x) - (dim is not None)
    if axis is None:
        if dim is not None and sum_match:
            return as_array(x).sum(axis=dim)
        if dim is not None:
            raise _differs(name, dim)
        return x
    if not -rank - 1 <= axis <= rank:
        raise ValueError(f"vmap of {name} has axis {axis} in out_axes, which is out of bounds for a result of dimension "
                         f"{rank} (shape of all: {np.shape(x)}).")
    axis %= rank + 1
    result = place_axis(x, dim, axis, size)
    if sharding is None or dim is not None or tracing.aval_of(result).explicit_sharding is not None:
        return result
    spec = PartitionSpec(*[None] * axis, *sharding.spec, *[None] * (rank - axis))
    return reshard_p.bind(result, dst_sharding=sharding.update(spec=spec))
