"""`custom_partitioning`: functions with a user-defined partitioning over devices.

A call is one equation with the function's jaxpr. Compiled for several devices, it becomes a custom call with a sharding rule,
which the compiler uses to propagate shardings; the compiler then calls `_PartitionedCall` for the computation of one device.
In all
other cases the function is inlined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront import lowering
from xlafront.base.jaxlib_compat import GSPMDSharding, HloSharding, NamedSharding, Sharding
from xlafront.base.meshes import active
from xlafront.core import errors, tracing, tree
from xlafront.core.avals import ShapedArray, with_entry, without_dimension
from xlafront.core.ir import DebugInfo, keeps_alive
from xlafront.core.program_key import Keyed
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.wrapping import update_wrapper
from xlafront.lax.manual_computation import ManualMesh
from xlafront.lax.shapes import broadcast_batch
from xlafront.parallel import partitioning_rules
from xlafront.parallel.partitioning_rules import SdyShardingRule, SizedRule
from xlafront.parallel.shard_map_types import axes_in_scope
from xlafront.runtime import keys, partitioners
from xlafront.runtime.sharding import AbstractMesh, AxisType, Mesh, PartitionSpec, axes_of, named_from_hlo
from xlafront.staging import signatures
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.batching.vmap import batch_flat
from xlafront.transforms.calls import programs
from xlafront.transforms.calls.custom_calls import CustomCall, positional_arguments


class custom_partitioning:
    """A function whose partitioning over devices is user-defined.

    Decorate the function, then define its partitioning with `def_partition`.

    Args:
        fun: Function to partition.
        static_argnums: Positions of static arguments: Python values, which callbacks take first.

    Example:
        >>> @custom_partitioning
        ... def centred(x):
        ...     return x - x.mean(axis=1, keepdims=True)
        >>> def partition(mesh, args, result):
        ...     rows = sharding.NamedSharding(mesh, P(args[0].sharding.spec[0]))
        ...     return mesh, lambda x: x - x.mean(axis=1, keepdims=True), rows, (rows,)
        >>> _ = centred.def_partition(partition, sharding_rule="i j -> i j", need_replication_factors=("j",))
        >>> jit(centred)(xnp.eye(4)).sum(axis=1)
    """

    def __init__(self, fun: Callable, static_argnums: int | Sequence[int] = ()):
        if not callable(fun):
            raise errors.not_callable("custom_partitioning", fun)
        update_wrapper(self, fun)
        self.fun = fun
        self.static_argnums = signatures.select_arguments(fun, "static", static_argnums, None).nums
        self.partition: Callable | None = None
        self.infer_sharding_from_operands: Callable | None = None
        self.propagate_user_sharding: Callable | None = None
        self.sharding_rule: SdyShardingRule | Callable | None = None
        self.decode_shardings = True

    def def_partition(self, partition: Callable, infer_sharding_from_operands: Callable | None = None,
                      propagate_user_sharding: Callable | None = None, decode_shardings: bool = True,
                      sharding_rule: str | SdyShardingRule | Callable | None = None, *,
                      reduction_factors: tuple[str, ...] = (), need_replication_factors: tuple[str, ...] = (),
                      permutation_factors: tuple[str, ...] = (), **factor_sizes: int) -> Callable:
        """Define the partitioning.

        Args:
            partition: Function `partition(mesh, args, results)`. It takes the arguments and results as global
                `ShapeDtypeStruct`s with the
                shardings that the compiler proposes. It returns `(mesh, function, result_shardings, arg_shardings)`: the
                function of one
                device's shards, which may use collectives over mesh axes, and the shardings that it requires.
            infer_sharding_from_operands: Callback of another partitioner, which is not supported; use `sharding_rule`.
            propagate_user_sharding: Callback of another partitioner, which is not supported; use `sharding_rule`.
            decode_shardings: If True, callbacks take `NamedSharding`s over the mesh, otherwise the compiler's shardings.
            sharding_rule: Rule of which dimensions are sharded together: a string ("i j, j k -> i k"), an `SdyShardingRule`,
                or a function
                of the mesh and the operand and result types that returns one. Default: results are unsharded.
            reduction_factors, need_replication_factors, permutation_factors: Kinds of factors, as for `SdyShardingRule`, if
                the rule is a
                string.
            factor_sizes: Sizes of factors, as for `SdyShardingRule`, if the rule is a string.

        Returns:
            `partition`.

        Example:
            >>> double = custom_partitioning(lambda x: 2 * x)
            >>> _ = double.def_partition(lambda mesh, args, out: (mesh, lambda x: 2 * x, out.sharding, (args[0].sharding,)),
            ...                          sharding_rule="... -> ...")
            >>> double(xnp.ones(2))
        """
        kinds = (reduction_factors, need_replication_factors, permutation_factors)
        options: dict[str, Any] = {name: factors for name, factors in zip(partitioning_rules.KINDS, kinds) if factors != ()}
        options |= factor_sizes
        if not callable(partition):
            raise TypeError(f"def_partition of {self._name} takes a function as partition, got {partition!r}.")
        if options and not isinstance(sharding_rule, str):
            raise ValueError(f"def_partition of {self._name} has {', '.join(options)}, which require a sharding_rule "
                             f"that is text, not {sharding_rule!r}. Pass them to the SdyShardingRule.")
        if sharding_rule is not None and not callable(sharding_rule) and not isinstance(sharding_rule, SdyShardingRule):
            sharding_rule = partitioning_rules.parse(sharding_rule, **options)
        self.partition, self.sharding_rule, self.decode_shardings = partition, sharding_rule, decode_shardings
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.propagate_user_sharding = propagate_user_sharding
        return partition

    @property
    def _name(self) -> str:
        return signatures.function_name(self.fun)

    def __call__(self, *args, **kwargs):
        if self.partition is None:
            raise AttributeError(f"the custom_partitioning function {self._name} has no partition yet: give it one with "
                                 f"{self._name}.def_partition(partition, sharding_rule=...) before it is called.")
        args = positional_arguments("custom_partitioning", self.fun, args, kwargs)
        statics = tuple((i, _static(x, i, self._name)) for i, x in enumerate(args) if i in self.static_argnums)
        dynamic = tuple(x for i, x in enumerate(args) if i not in self.static_argnums)
        leaves, in_tree = tree.flatten(dynamic)
        operands = programs.operands_of(leaves, f"the custom_partitioning function {self._name}", dynamic)
        fun = _WithStatics(self.fun, tuple((i, x if x.is_hashable else [x]) for i, x in statics), [x for _, x in statics])
        in_avals = [tracing.aval_of(x) for x in operands]
        closed, consts, out_tree = programs.trace_function(fun, in_tree, in_avals, "custom_partitioning")
        if any([isinstance(c, tracing.Tracer) for c in consts]):
            raise errors.UnexpectedTracerError(
                f"the custom_partitioning function {self._name} closes over a traced value, which its partition does not get. "
                f"Pass the value as an argument.")
        results = custom_partitioning_p.bind(
            *consts, *operands, call=closed, num_consts=len(consts), in_tree=in_tree, out_tree=out_tree,
            static_args=tuple([x for _, x in statics]), partition=self.partition, sharding_rule=self.sharding_rule,
            infer_sharding_from_operands=self.infer_sharding_from_operands,
            propagate_user_sharding=self.propagate_user_sharding, decode_shardings=self.decode_shardings, batches=())
        return out_tree.unflatten(results)


def _static(value, position: int, name: str) -> Keyed:
    if any([isinstance(x, tracing.Tracer) for x in tree.leaves(value)]):
        raise errors.UnexpectedTracerError(
            f"the custom_partitioning function {name} got a traced value as argument {position}, which is static. "
            f"Remove {position} from static_argnums, or pass a concrete value.")
    return Keyed(value)


class _WithStatics(programs.DerivedFunction):
    """The function with its static arguments filled in. Unhashable ones (in lists) prevent caching of the trace."""

    __slots__ = ("statics",)

    def __init__(self, f: Callable, static_items: tuple, statics: list[Keyed]):
        super().__init__(f, static_items)
        self.statics = {i: static.value for (i, _), static in zip(static_items, statics)}

    def __call__(self, *dynamic):
        next_dynamic = iter(dynamic)
        return self.f(*[self.statics[i] if i in self.statics else next(next_dynamic)
                        for i in range(len(dynamic) + len(self.statics))])

    @staticmethod
    def names(parameters, key, in_tree):
        static = signatures.Selection(tuple([i for i, _ in key]))
        return signatures.leaf_names(parameters, static, tree.structure((tree.leaf_indices(in_tree), {})))


# The primitive


class _Batch(NamedTuple):
    """A `vmap` of the call: the size of the batch, the batch dimension of each operand (0 for results), and the mesh axes
    that shard the batch."""

    size: int
    dims: tuple
    spmd_axis_name: Any


class _CustomPartitioningCall(CustomCall):
    __slots__ = ()

    parameter = "call"

    @staticmethod
    def batched(mapped, dims, params):
        return {"batches": (_Batch(mapped.size, dims, mapped.spmd_axis_name), *params["batches"])}

    def _impl(self, *args, **params):
        closed = params.get("call")
        if closed is None:
            return self.callable_of(params)(*args)
        return programs.evaluate(self, args, params, closed.structure)

    def _dce(self, used: list[bool], eqn):
        """Keep all results, because the rule and the partition cover all of them."""
        return eqn if any(used) or keeps_alive(eqn.effects) else None

    def _lower(self, ctx, *operands, call, num_consts, **params):
        module = ctx.module_context
        shardings = module.sharding_context
        if shardings is None or not shardings.partitioned or module.manual_mesh is not None or not call.out_avals:
            return ctx.inline(call, operands)
        partitioned = _PartitionedCall(call.in_avals[num_consts:], call.out_avals, shardings, module.platform,
                                       name=call.debug_info.function_name, **params)
        attributes = {}
        rule = partitioned.rule_text()
        mlir = lowering.mlir
        if rule is not None:
            attributes["sdy.sharding_rule"] = mlir.attribute(f"#sdy.op_sharding_rule<{rule}, custom>")
        partitioner = partitioners.Partitioner(partitioned.answer)
        partitioners.install()
        module.partitioners.append(partitioner)
        module.add_keepalive(partitioner)
        module.cacheable = False  # the module does not contain the partition function
        results = ctx.op("stablehlo.custom_call", operands[num_consts:], None,
                         call_target_name=mlir.string(partitioners.TARGET),
                         backend_config=mlir.ir.StringAttr.get(partitioner.number), api_version=mlir.i32(2), **attributes)
        return results if isinstance(results, list) else [results]


def _jvp(primals, tangents, **params):
    """Differentiate the operations of the function."""
    return custom_partitioning_p.bind(*primals, **params), jvp_flat(custom_partitioning_p.callable_of(params), primals,
                                                                    tangents)[1]


custom_partitioning_p = _CustomPartitioningCall("custom_partitioning", "custom_partitioning", jvp=_jvp)


# Callbacks of the compiler


class _PartitionedCall:
    """A call in a computation for several devices."""

    def __init__(self, in_avals, out_avals, shardings, platform: str, *, name, in_tree, out_tree, static_args, partition,
                 sharding_rule, infer_sharding_from_operands, propagate_user_sharding, decode_shardings, batches):
        self.in_avals, self.out_avals, self.platform, self.name = in_avals, out_avals, platform, name
        self.in_tree, self.out_tree = in_tree, out_tree
        self.statics = [static.value for static in static_args]
        self.partition, self.rule, self.decode, self.batches = partition, sharding_rule, decode_shardings, batches
        self.devices = shardings.assignment.devices
        mesh = shardings.assignment.replicated().mesh
        self.mesh = mesh.update(axis_types=(AxisType.Auto,) * len(mesh.axis_names))
        if sharding_rule is None and (infer_sharding_from_operands or propagate_user_sharding):
            raise NotImplementedError(
                f"the custom_partitioning function {name} has callbacks that propagate shardings, but no sharding_rule, which "
                f"the partitioner requires: def_partition(..., sharding_rule='i j -> i j').")
        self.title = f"the partition {signatures.function_name(partition)} of the custom_partitioning function {name}"
        # Element types, without batch dimensions.
        elements, results = [_plain(aval) for aval in in_avals], [_plain(aval) for aval in out_avals]
        for batch in batches:
            elements = [without_dimension(aval, d) for aval, d in zip(elements, batch.dims)]
            results = [without_dimension(aval, 0) for aval in results]
        self.elements, self.results = elements, results

    def rule_text(self) -> str | None:
        rule = self.rule
        title = f"the sharding_rule of the custom_partitioning function {self.name}"
        if callable(rule):
            types = [[lowering.mlir.type_of(aval) for aval in avals] for avals in (self.elements, self.results)]
            rule = rule(*self.statics, self.mesh, *types)
            if isinstance(rule, str):
                rule = partitioning_rules.parse(rule)
            elif not isinstance(rule, SdyShardingRule):
                raise ValueError(f"{title} is a function, {signatures.function_name(self.rule)}, that must return text or an "
                                 f"SdyShardingRule, got {rule!r}.")
        if rule is None:
            return None
        operands, results = [[aval.shape for aval in avals] for avals in (self.elements, self.results)]
        sized = SizedRule(rule, operands, results, title)
        sized.check_compounds(operands, results, title)
        for batch in reversed(self.batches):
            sized.add_batch(batch.size, batch.dims, (0,) * len(results))
        sized.add_unsharded([_trailing_shape(aval) for aval in self.in_avals],
                            [_trailing_shape(aval) for aval in self.out_avals])
        return sized.text()

    def answer(self, arguments: Sequence[HloSharding], results: Sequence[HloSharding]):
        """Return the computation of one device and the shardings of its arguments and results. Called by the compiler."""
        thread = tracing.thread
        saved = thread.trace, thread.axes, active.mesh, active.abstract
        thread.trace, thread.axes, active.mesh, active.abstract = tracing.eval_trace, (), None, None
        try:
            return self._answer(arguments, results)
        finally:
            thread.trace, thread.axes, active.mesh, active.abstract = saved

    def _answer(self, arguments, results):
        proposed = [[self._decoded(hlo, aval) for hlo, aval in zip(hlos, avals)] for hlos, avals in (
            (arguments, self.in_avals), (results, self.out_avals))]
        batch_axes = []  # for each vmap, the axes that shard its batch in the first array where any do
        for batch in self.batches:
            dims = (batch.dims, (0,) * len(results))
            entries = [s.spec[d] for group, batch_dims in zip(proposed, dims) for s, d in zip(group, batch_dims)
                       if d is not None and isinstance(s, NamedSharding)]
            batch_axes.append(next((axes_of(entry) for entry in entries if entry), ()))
            proposed = [[s if d is None else _without_entry(s, d) for s, d in zip(group, batch_dims)]
                        for group, batch_dims in zip(proposed, dims)]
        structs = [[ShapeDtypeStruct(aval.shape, aval.dtype, sharding=s) for aval, s in zip(avals, group)] for avals, group in (
            (self.elements, proposed[0]), (self.results, proposed[1]))]
        try:
            answer = self.partition(*self.statics, self.mesh, self.in_tree.unflatten(structs[0]),
                                    self.out_tree.unflatten(structs[1]))
        except Exception as e:
            e.add_note(f"(in {self.title} while a function that calls it was compiled)")
            raise
        mesh, function, result_shardings, arg_shardings = self._checked(answer)
        expected_args = self._shardings(arg_shardings, self.in_tree, self.elements, mesh, "arguments")
        expected_results = self._shardings(result_shardings, self.out_tree, self.results, mesh, "results")
        batch_axes = _unused_axes(batch_axes, self.mesh, [*expected_args, *expected_results])
        for batch, axes in zip(reversed(self.batches), reversed(batch_axes)):
            expected_args = [s if d is None else _with_entry(s, d, axes) for s, d in zip(expected_args, batch.dims)]
            expected_results = [_with_entry(s, 0, axes) for s in expected_results]
        sizes = [-(-batch.size // math.prod([self.mesh.shape[a] for a in axes])) for batch, axes in zip(self.batches,
                                                                                                        batch_axes)]
        module = self._module(mesh, function, expected_args, expected_results, sizes)
        hlo = [[s._to_xla_hlo_sharding(keys.physical(aval).ndim) for s, aval in zip(shardings, avals)] for shardings, avals in (
            (expected_args, self.in_avals), (expected_results, self.out_avals))]
        return lowering.module_text.module_bytecode(module), *hlo

    def _decoded(self, hlo: HloSharding, aval) -> Any:
        if self.decode:
            named = named_from_hlo(hlo, self.mesh, keys.physical(aval).ndim)
            if named is not None:
                return named.update(spec=PartitionSpec(*named.spec.padded(aval.ndim)[:aval.ndim]))
        return GSPMDSharding(self.devices, hlo)

    def _checked(self, answer) -> tuple:
        if not isinstance(answer, (tuple, list)) or len(answer) != 4:
            got = f"{len(answer)} values" if isinstance(answer, (tuple, list)) else type(answer).__name__
            raise ValueError(f"{self.title} must return (mesh, function, result_shardings, arg_shardings), got {got}.")
        mesh, function, result_shardings, arg_shardings = answer
        if mesh is None:
            mesh = self.mesh
        if not isinstance(mesh, Mesh):
            raise ValueError(f"{self.title} must return a Mesh first, got {mesh!r}.")
        self._check_devices(mesh._internal_device_list, mesh)
        if not callable(function):
            raise TypeError(f"{self.title} must return the function of one device's shards second, got {function!r}.")
        return mesh, function, result_shardings, tuple(arg_shardings) if isinstance(arg_shardings, list) else arg_shardings

    def _check_devices(self, devices, value) -> None:
        if tuple(devices) != self.devices:
            raise ValueError(f"{self.title} returned {value}, over the devices {[d.id for d in devices]}, but the computation "
                             f"is for {[d.id for d in self.devices]}. Use the given mesh, or one with the same devices in the "
                             f"same order.")

    def _shardings(self, returned, expected_tree, avals, mesh, kind: str) -> list:
        def is_leaf(x):
            return isinstance(x, (Sharding, PartitionSpec))

        flat, returned_tree = tree.flatten(returned, is_leaf)
        requirement = (f"{self.title} must return a sharding for each of the {kind} of {self.name}, with their structure "
                       f"{expected_tree}")
        if returned_tree != expected_tree:
            raise ValueError(f"{requirement}, got {returned!r}.")
        for i, (s, aval) in enumerate(zip(flat, avals)):
            if isinstance(s, PartitionSpec):
                s = flat[i] = NamedSharding(mesh, s)
            elif isinstance(s, NamedSharding) and isinstance(s.mesh, AbstractMesh):
                s = flat[i] = NamedSharding(mesh, s.spec)
            if not isinstance(s, Sharding):
                raise ValueError(f"{requirement}, got {s!r} among them: {returned!r}.")
            self._check_devices(s._internal_device_list, s)
            if isinstance(s, NamedSharding):
                s.check_compatible_aval(aval.shape)
        return flat

    def _module(self, mesh, function, expected_args, expected_results, sizes):
        """Lower the computation of one device."""
        local_avals = [_local_type(aval, s) for aval, s in zip(self.in_avals, expected_args)]
        title = signatures.function_name(function)

        def run(*elements):
            try:
                value = function(*self.in_tree.unflatten(elements))
            except Exception as e:
                e.add_note(f"(in {title}, which {self.title} returned as the function of one device's shards)")
                raise
            results, out_tree = signatures.check_results(function, value)
            if out_tree != self.out_tree:
                raise ValueError(
                    f"{title}, which {self.title} returned, must return a result like that of {self.name}, with structure "
                                 f"{self.out_tree}; it returned {out_tree}.")
            return results

        for batch, size in zip(reversed(self.batches), reversed(sizes)):
            run = _batch_function(run, batch.dims, size)
        with axes_in_scope(mesh, frozenset(mesh.axis_names), False):
            jaxpr, consts = tracing.trace_to_jaxpr(run, local_avals, DebugInfo("custom_partitioning", title))
        for i, (aval, global_aval, s) in enumerate(zip(jaxpr.out_avals, self.out_avals, expected_results)):
            expected = _local_type(global_aval, s)
            if (aval.shape, aval.dtype) != (expected.shape, expected.dtype):
                path = tree.path_of(tree.leaf_indices(self.out_tree), i)
                raise ValueError(f"{title}, which {self.title} returned, must return the shard of one device, {expected} "
                                 f"of {global_aval} at result{path}, sharded by {getattr(s, 'spec', s)}; it returned {aval}.")
        positions = {d.id: i for i, d in enumerate(self.devices)}
        device_positions = np.array([positions[d.id] for d in mesh.devices.flat]).reshape(mesh.devices.shape)
        values = [np.asarray(keys.physical_array(c)) for c in consts]
        manual_mesh = ManualMesh(mesh, "", device_positions, frozenset(mesh.axis_names))
        context = lowering.programs.lower_program(jaxpr, title, lowering.module.Target((self.platform,)),
                                                  lowering.programs.ModuleOptions(values, manual_mesh=manual_mesh))
        if context.host_callbacks:
            raise NotImplementedError(f"{title}, which {self.title} returned, has Python callbacks, which cannot be added "
                                      f"to a module during its compilation. Remove them.")
        return context.module


def _plain(aval) -> ShapedArray:
    return ShapedArray(aval.shape, aval.dtype)


def _trailing_shape(aval) -> tuple[int, ...]:
    """Return the trailing dimensions of the physical representation, such as the words of a key."""
    return keys.physical(aval).shape[aval.ndim:]


def _local_type(aval, sharding) -> ShapedArray:
    """Return the type of one device's shard, rounded up to the size of padded shards."""
    hlo = sharding._to_xla_hlo_sharding(keys.physical(aval).ndim)
    if hlo.is_replicated():
        return _plain(aval)
    return ShapedArray(tuple([-(-n // count) for n, count in zip(aval.shape, hlo.tile_assignment_dimensions())]), aval.dtype)


def _batch_function(run: Callable, dims: Sequence[int | None], size: int) -> Callable:
    """Batch a function; batch dimensions of results come first."""
    def mapped(*values):
        return [broadcast_batch(x, d, size) for x, d in zip(*batch_flat(run, values, dims, size))]

    return mapped


# Entries of shardings


def _unused_axes(batch_axes: list, mesh, shardings: Sequence[Any]) -> list:
    """Return the axes that may still shard the batches of `vmap`s: those that the partition does not use for other
    dimensions."""
    if not all([isinstance(s, NamedSharding) and s.mesh.shape_tuple == mesh.shape_tuple for s in shardings]):
        return [()] * len(batch_axes)
    used_axes = {a for s in shardings for p in s.spec for a in axes_of(p)}
    unused = []
    for axes in batch_axes:
        unused.append(tuple([a for a in axes if a not in used_axes]))
        used_axes |= {*axes}
    return unused


def _with_entry(sharding, d: int, axes: tuple):
    if isinstance(sharding, NamedSharding):
        return with_entry(sharding, d, axes or None)
    return _with_tiles(sharding, lambda tiles: [*tiles[:d], 1, *tiles[d:]])


def _without_entry(sharding, d: int):
    if isinstance(sharding, NamedSharding):
        spec = sharding.spec
        return sharding.update(spec=spec.update(partitions=(*spec[:d], *spec[d + 1:])))
    return _with_tiles(sharding, lambda tiles: [*tiles[:d], *tiles[d + 1:]] if tiles[d] == 1 else None)


def _with_tiles(sharding, update: Callable[[list[int]], list[int] | None]):
    """Return a compiler sharding with modified tile counts per dimension; None replicates the array."""
    hlo = sharding._hlo_sharding
    if not hlo.is_tiled():
        return sharding
    tiles = update(list(hlo.tile_assignment_dimensions()))
    if tiles is None:
        return GSPMDSharding(sharding._internal_device_list, HloSharding.replicate())
    proto = hlo.to_proto()
    proto.tile_assignment_dimensions = tiles
    return GSPMDSharding(sharding._internal_device_list, HloSharding.from_proto(proto))
