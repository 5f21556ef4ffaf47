"""`vmap`: one function on one element becomes a function on whole batches.

A `BatchTracer` stands for one element and holds all of them, with the dimension that counts them. Each operation is
replaced by the one that works on the batch, as its record's `batch` rule says.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from xlafront.core import errors, source, tracing, tree
from xlafront.core.avals import entry_of, with_dimension, without_dimension
from xlafront.core.discharge import touched_operands
from xlafront.core.ir import ClosedJaxpr, Jaxpr, jaxpr_as_fun, subprograms
from xlafront.core.program_call import ProgramCall
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import StagingTrace, Trace, Tracer, current_trace
from xlafront.lax.device_put import reshard_p
from xlafront.lax.elementwise import as_array
from xlafront.lax.shapes import place_axis
from xlafront.runtime import config
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.specs import PartitionSpec, axes_of
from xlafront.staging import signatures
from xlafront.staging.library import inlined_p
from xlafront.transforms.batching import vmappable_types


class BatchTracer(Tracer):
    """One element of a batch: the batch, and its dimension that counts elements."""

    __slots__ = ("value", "dim")

    def __init__(self, trace, value, dim: int):
        self._trace = trace
        self.value = value
        self.dim = dim
        self.aval = without_dimension(value.aval if isinstance(value, Tracer) else tracing.aval_of(value), dim)

    # By the names that programs look inside with.
    val, batch_dim = property(lambda self: self.value), property(lambda self: self.dim)

    def _origin(self):
        return self.value._origin() if isinstance(self.value, Tracer) else None

    def __repr__(self):
        return f"VmapTracer(aval={self.aval}, batched={tracing.aval_of(self.value)})"


class BatchTrace(Trace):
    """Processes operations on elements as operations on batches."""

    __slots__ = ("size", "axis_name", "spmd_axis_name", "outer_axes", "alive")

    composes = True

    def __init__(self, parent: Trace, size: int, axis_name=None, spmd_axis_name=None):
        self.parent = parent
        self.size = size
        self.axis_name = axis_name
        self.spmd_axis_name = spmd_axis_name  # the axes of a mesh over which the elements are spread
        self.outer_axes = tracing.thread.axes
        self.alive = True

    def process(self, primitive, args, params):
        if primitive.discharge is not None and primitive is not inlined_p and (touched := touched_operands(primitive, params)):
            from xlafront.lax.refs import bind_on_values  # start-up: 1.2 ms, for programs with references

            return bind_on_values(self, primitive, args, params, touched)
        values, dims, batched = [], [], False
        for x in args:
            if type(x) is BatchTracer and x._trace is self:
                values.append(x.value)
                dims.append(x.dim)
                batched = True
            else:
                values.append(x)
                dims.append(None)
        thread = tracing.thread
        if primitive is inlined_p and batched and type(self.parent) is StagingTrace and not thread.axes and all(
                [tracing.aval_of(x).plain for x in values]):
            program, out_dims = batch_program(params["jaxpr"], tuple(dims), self)
            return [self.wrap(x, d) for x, d in zip(self.parent.write_down(program, values), out_dims)]
        axes, thread.axes = thread.axes, self.outer_axes
        try:
            with current_trace(self.parent):
                if primitive.over_axis is not None and self.axis_name in named_axes(params):
                    results, out_dims = primitive.over_axis(self, values, dims, **params)
                elif not batched and primitive.stage is None and not self.is_named_in(params):
                    # (primitives that stage contain a Python function, which may close over elements)
                    return self.parent.process(primitive, tuple(values), params)
                elif primitive.batch is not None:
                    results, out_dims = primitive.batch(self.size, values, dims, **params)
                elif primitive.batch_with_axis is not None:
                    results, out_dims = primitive.batch_with_axis(self, values, dims, **params)
                elif isinstance(primitive, ProgramCall):
                    results, out_dims = batch_of_call(primitive, self, values, dims, **params)
                else:
                    raise NotImplementedError(
                        f"{primitive.shown_as} cannot be mapped by vmap: give the primitive {primitive.name} a rule with "
                        f"xlafront.interpreters.batching.primitive_batchers[primitive] = rule.")
        finally:
            thread.axes = axes
        if not primitive.multiple_results:
            return self.wrap(results, out_dims)
        return [self.wrap(x, d) for x, d in zip(results, out_dims)]

    def make_ref(self, primitive, args, params):
        """What is written to a reference may differ between elements, even where its first value does not."""
        value, dim = self.unwrap(args[0])
        with current_trace(self.parent):
            if dim is None:
                value, dim = place_axis(value, None, 0, self.size), 0
            return BatchTracer(self, self.parent.make_ref(primitive, (value,), params), dim)

    def is_named_in(self, params) -> bool:
        """Whether a program among the parameters has a collective over the mapped axis."""
        return self.axis_name is not None and any([works_over(jaxpr, self.axis_name) for jaxpr in subprograms(params)])

    def map(self, fun, values, dims, size: int, axis_name=None) -> tuple[list, list]:
        """`batch_flat`, for the rules of collectives over the mapped axis, which map parts of it."""
        return batch_flat(fun, values, dims, size, axis_name)

    def wrap(self, value, dim):
        return value if dim is None else BatchTracer(self, value, dim)

    def unwrap(self, x) -> tuple[Any, int | None]:
        return (x.value, x.dim) if type(x) is BatchTracer and x._trace is self else (x, None)


def works_over(jaxpr: Jaxpr, axis_name) -> bool:
    """Whether a program has a collective over the axis."""
    def look():
        return any([eqn.primitive.over_axis is not None and axis_name in named_axes(eqn.params)
                    or any([works_over(inner, axis_name) for inner in subprograms(eqn.params)]) for eqn in jaxpr.eqns])

    return jaxpr.memoised(("works_over", axis_name), look)


def named_axes(params: dict[str, Any]) -> tuple:
    """The axes that a collective works over."""
    names = params["axes"] if "axes" in params else params["axis_name"]
    return names if isinstance(names, tuple) else (names,)


def batch_flat(fun: Callable[..., Sequence[Any]], values: Sequence[Any], dims: Sequence[int | None], size: int,
               axis_name=None, spmd_axis_name=None) -> tuple[list[Any], list[int | None]]:
    """Apply a function of flat elements to batches."""
    trace = BatchTrace(tracing.thread.trace, size, axis_name, spmd_axis_name)
    saved = tracing.thread.axes
    if axis_name is not None:
        tracing.thread.axes = (*saved, (axis_name, size))
    try:
        with current_trace(trace):
            results = fun(*[trace.wrap(x, d) for x, d in zip(values, dims)])
            pairs = [trace.unwrap(x) for x in results]
    finally:
        tracing.thread.axes = saved
        trace.end()
    if config.check_tracer_leaks.value:
        ended = weakref.ref(trace)
        results = trace = None  # type: ignore[assignment]
        tracing.check_leaks(ended, "the function given to vmap")
    return [x for x, _ in pairs], [d for _, d in pairs]


def _is_axis(x) -> bool:
    return x is None


def _is_number(x) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


@boundary
def vmap(fun: Callable, in_axes: int | None | Sequence[Any] = 0, out_axes: Any = 0, axis_name: Hashable | None = None,
         axis_size: int | None = None, spmd_axis_name: Hashable | Sequence[Hashable] | None = None,
         sum_match: bool = False) -> Callable:
    """A function that applies another to each element along axes of its arguments, as one batched computation.

    - `fun`: the other.
    - `in_axes`: for each positional argument (or parts of it, as a pytree prefix) the axis to map over, None for arguments
      that are the same for all elements. Keyword arguments are mapped over their first axis.
    - `out_axes`: where the mapped axis goes in each result; None for results that do not depend on the element.
    - `axis_name`: a name under which collectives inside `fun` refer to the axis.
    - `axis_size`: the number of elements, needed only where no argument tells.
    - `spmd_axis_name`: mesh axes over which constraints on shardings inside `fun` split the mapped axis.
    - `sum_match`: where `out_axes` is None, sum over the elements what differs between them, which is otherwise an error.

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
        leaves, in_tree = tree.flatten((args, kwargs))
        axes = _flat_axes(name, in_axes, args) + [0] * tree.structure(kwargs).num_leaves
        specs = {}  # of what has types that users registered, which are taken apart within

        def argument(i: int) -> str:
            return signatures.argument_names(fun, signatures.Selection(), in_tree)[i]

        for i, x in enumerate(leaves):
            if vmappable_types.is_mapped_type(x):
                vmappable_types.check_spec(name, x, axes[i], "in_axes")
                if axes[i] is not None:
                    specs[i], axes[i] = axes[i], None
            elif axes[i] is not None and not tracing.is_arraylike(x):
                raise errors.not_an_array(x, f"vmap of {name}", argument(i))
        hash(axis_name)  # which programs are kept by
        size = _axis_size(name, leaves, axes, axis_size, argument)
        dims = [None if a is None else a % np.ndim(x) for a, x in zip(axes, leaves)]
        split = _check_split(name, leaves, dims, spmd_axis_name)
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
            results, out_tree = tree.flatten(out)
            return _batches_of_vmappable_types(fun, name, results, _flat_out_axes(name, out_axes, out_tree))

        with source.transformed("vmap"):
            results, result_dims = batch_flat(flat, leaves, dims, size, axis_name, spmd_axis_name)
        wanted = _flat_out_axes(name, out_axes, out_tree)
        if None in wanted and not sum_match:
            _check_equal_for_all(name, results, result_dims, wanted, out_tree)
        placed = out_tree.unflatten([x if vmappable_types.is_mapped_type(x) else _place(name, x, d, w, size, split, sum_match)
                                     for x, d, w in zip(results, result_dims, wanted)])
        return vmappable_types.batches_of_nodes(placed, wanted, size)

    return signatures.dress(mapped, fun, f"A version of {name} for batches: takes what {name} takes, with an additional axis "
                                         f"over whose elements it is mapped.")


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
    """Results of types that users registered are made of batches while their elements are still known."""
    trace = tracing.thread.trace

    def place(x, axis):
        value, dim = trace.unwrap(x)
        with current_trace(trace.parent):
            return _place(name, value, dim, axis, trace.size, None)

    batches = []
    for x, spec in zip(results, specs):
        if vmappable_types.is_mapped_type(x):
            vmappable_types.check_spec(name, x, spec, "out_axes")
            batches.append(x if spec is None else vmappable_types.batch(trace, x, spec, place))
        else:
            batches += signatures.check_results(fun, x)[0]
    return batches


def _flat_axes(name, in_axes, args) -> list:
    if not isinstance(in_axes, tuple):
        return [in_axes] * tree.structure(args).num_leaves
    return tree.leaves_by_prefix(f"vmap of {name}: in_axes", in_axes, args, _is_axis)


def _flat_out_axes(name, out_axes, out_tree) -> list:
    if out_axes is None or isinstance(out_axes, (int, np.integer)) or vmappable_types.is_spec(out_axes):
        return [out_axes] * out_tree.num_leaves
    return tree.leaves_by_prefix(f"vmap of {name}: "
                                 "out_axes", out_axes, tree.numbered(out_tree), _is_axis)


def sizes_along_axes(user: str, leaves: Sequence[Any], axes: Sequence[int | None], names: Callable[[int], str], alike: str,
                     remedy: str = "") -> dict[int, Callable[[], str]]:
    """The size of the mapped axes, with a function that says which argument has it; an error if there are several.

    `alike` ends the sentence that says which arguments are not to be mapped.
    """
    sizes: dict[int, list[int]] = {}

    def who(i: int) -> str:
        return f"argument {names(i)} of type {tracing.aval_of(leaves[i])} has it as axis {axes[i]}"

    for i, (x, a) in enumerate(zip(leaves, axes)):
        if a is None:
            continue
        shape = np.shape(x)
        if not -len(shape) <= a < len(shape):
            raise ValueError(f"{user} was requested to map the argument {names(i)} over axis {a}, which needs a rank of at "
                             f"least {a + 1 if a >= 0 else -a}, but it has shape {shape}. Give it None in in_axes if it is "
                             f"the same {alike}.")
        sizes.setdefault(shape[a], []).append(i)
    if len(sizes) > 1:
        lines = [f"size {n}: {'; '.join(map(who, have[:3]))}{' and others' if len(have) > 3 else ''}"
                 for n, have in sizes.items()]
        kind, _, of = user.partition(" ")
        raise ValueError(f"{kind} got inconsistent sizes for array axes to be mapped{of and ' ' + of}. {'. '.join(lines)}."
                         f"{remedy}")
    return {n: functools.partial(who, have[0]) for n, have in sizes.items()}


def _check_split(name: str, values, dims, spmd_axis_name) -> NamedSharding | None:
    """How types say that elements are spread; an error where mapped dimensions are split in several ways, or otherwise than
    `spmd_axis_name` says."""
    entries = [entry_of(tracing.aval_of(x), d) for x, d in zip(values, dims) if d is not None]
    found = next((e for e in entries if e is not None), None)
    if found is None:
        return None
    other = [e for e in entries if e != found]
    if other:
        raise ValueError(f"vmap of {name}: the mapped dimension must be split in the same way in all arguments, but it is "
                         f"over {found!r} in one and over {other[0]!r} in another: inconsistent axis specs. Bring them to one "
                         "sharding with reshard.")
    for x, d in zip(values, dims):
        own = None if d is not None or not tracing.is_arraylike(x) else tracing.aval_of(x).explicit_sharding
        if own is not None and not set(axes_of(found)).isdisjoint([a for entry in own.spec.partitions for a in axes_of(entry)]):
            raise ValueError(f"vmap of {name} spreads the elements over {found!r}, over which an unmapped argument (None in "
                             f"in_axes) of type {tracing.aval_of(x)} is split: each element would need all of it. Bring that "
                             "argument to another sharding with reshard.")
    if spmd_axis_name is not None and axes_of(spmd_axis_name) != axes_of(found):
        raise ValueError(f"vmap of {name} has spmd_axis_name={spmd_axis_name!r}, but its arguments' types say that the "
                         f"elements are spread over {found!r}, of type Explicit: only one of the two can say it. Leave "
                         "spmd_axis_name out.")
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


def _check_equal_for_all(name, results, dims, wanted, out_tree) -> None:
    for i, (dim, axis) in enumerate(zip(dims, wanted)):
        if axis is None and dim is not None:
            raise _differs(name, dim, tree.keystr(tree.flatten_with_path(out_tree.unflatten(results))[0][i][0]))


def _differs(name, dim: int, path: str = "") -> ValueError:
    """The error for a result that `out_axes` say is the same for all elements; libraries look for some of its words."""
    return ValueError(f"vmap of {name} has a result that depends on the mapped arguments where none may: at vmap "
                      f"out_axes{path}, got axis spec None but output was batched on axis {dim}. Give the axis that the mapped "
                      "axis becomes, or reduce over it with psum.")


def _place(name, x, dim, wanted, size, split, sum_match=False):
    """A result with the mapped axis where it is wanted, summed over it where it is not and `sum_match` says so; what is the
    same for all elements is spread as they are."""
    rank = np.ndim(x) - (dim is not None)
    if wanted is None:
        if dim is not None and sum_match:
            return as_array(x).sum(axis=dim)
        if dim is not None:
            raise _differs(name, dim)
        return x
    if not -rank - 1 <= wanted <= rank:
        raise ValueError(f"vmap of {name} has axis {wanted} in out_axes, which is out of bounds for a result of dimension "
                         f"{rank} (shape of all: {np.shape(x)}).")
    wanted %= rank + 1
    result = place_axis(x, dim, wanted, size)
    if split is None or dim is not None or tracing.aval_of(result).explicit_sharding is not None:
        return result
    spec = PartitionSpec(*[None] * wanted, *split.spec, *[None] * (rank - wanted))
    return reshard_p.bind(result, dst_sharding=split.update(spec=spec))


# Programs


def batch_program(closed: ClosedJaxpr, dims: tuple, mapped: BatchTrace, batched: tuple[bool, ...] = (), splits: tuple = (),
                  at: int = 0) -> tuple[ClosedJaxpr, list]:
    """The program on the batches of a trace, and the dimension that counts elements in each result.

    Results marked in `batched` are batches along dimension `at`, even when they are the same for all elements. `splits` says
    how types split the batches over mesh axes, where they do.
    """
    size, names = mapped.size, (mapped.axis_name, mapped.spmd_axis_name)

    def make():
        out_dims: list = []

        def run(*xs):
            results, found = batch_flat(jaxpr_as_fun(closed), xs, dims, size, *names)
            for i, wanted in enumerate(batched):
                if wanted:
                    results[i], found[i] = place_axis(results[i], found[i], at, size), at
            out_dims[:] = found
            return results

        in_avals = [a if d is None else with_dimension(a, d, size) for a, d in zip(closed.in_avals, dims)]
        if splits:
            in_avals = [a if d is None or s is None else a.update(sharding=s) for a, d, s in zip(in_avals, dims, splits)]
        return tracing.trace_to_closed_jaxpr(run, in_avals, closed.debug_info.with_unknown_results()), out_dims

    return closed.jaxpr.memoised(("batch", dims, size, names, batched, tracing.thread.axes, splits, at), make)


def batch_of_call(call: ProgramCall, trace: BatchTrace, operands: Sequence[Any], dims: Sequence[int | None], /, **params
                  ) -> tuple[list[Any], list[int | None]]:
    """The rule of all operations that call a program."""
    splits = tuple([tracing.aval_of(x).explicit_sharding for x in operands])
    program, out_dims = batch_program(params[call.parameter], tuple(dims), trace, (), splits if any(splits) else ())
    return call.bind(*operands, **call.batched(params, program, dims, out_dims, trace.spmd_axis_name)), out_dims
