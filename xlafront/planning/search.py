"""Search for the mesh and the shardings with which a training step is fastest on a pod that is not attached.

Candidates that cannot be, by their shapes, are left out. Each of the others is lowered and partitioned, which gives its
collectives and its memory, and so an estimate; the best few are compiled by the topology's own compiler.
"""

from __future__ import annotations

import collections
import io
import math
import os
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import dtypes, errors, tree
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.planning import communication, costs, hlo, placements, step_time, topologies
from xlafront.planning.placement import argument_path, lower_on, parameters_of, sharding_of
from xlafront.planning.placements import Leaf, Rules
from xlafront.planning.report import Memory
from xlafront.planning.search_report import Candidate, Count, SearchResult
from xlafront.planning.worker import Compiled, Failed, Job, Workers
from xlafront.runtime import topologies as chips
from xlafront.runtime.compile_options import compile_options
from xlafront.runtime.sharding import Mesh, NamedSharding, PartitionSpec
from xlafront.staging.inspection import eval_shape
from xlafront.staging.meshes import set_mesh

DEFAULT_AXES = ("data", "fsdp", "model")


Topology = str | topologies.TopologyDescription


def plan_search(fun: Callable, *args: Any, topology: Topology | Sequence[Topology], axes: Sequence[str] | None = None,
                rules: Rules | None = None, batch: Sequence[str] = (), memory_limit: int | None = None,
                compiler_options: dict[str, Any] | None = None, candidates: int = 40, compiled: int = 3,
                time_limit: float = 600.0, workers: int | None = None, progress: Callable[[str], None] | None = None,
                **kwargs: Any) -> SearchResult:
    """Search for the mesh and the shardings with which a training step is fastest on machines that need not be attached.

    Args:
        fun: The step; or, without arguments, a function of a mesh that returns the pair of the step and its arguments.
        args, kwargs: Arguments of the step, as types. Those with a `PartitionSpec` as sharding keep it, those that match a rule
            get its spec. Of the others, what the step returns again (parameters, moments) is split over `fsdp` and `model`, and
            the batch over `data` and `fsdp`.
        topology: Name of a topology, or its description, as for `plan`; or several.
        axes: Axes that meshes may have. Default: those that the specs name; without any, data, fsdp and model.
        rules: Specs by regular expressions of paths, such as {r"\\['qkv'\\]$": P(None, "fsdp", "model")}.
        batch: Names of the arguments that are the batch. Default: those that the step does not return.
        memory_limit: Memory of a device in bytes, instead of the chip's own.
        compiler_options: XLA flags by name.
        candidates: Number of candidates that are partitioned.
        compiled: Number of the best that are compiled for the topology.
        time_limit: Seconds after which the search ends with what it has.
        workers: Number of processes that compile. Default: as many as there are cores.
        progress: Function that is called with a line of text when something is found.

    Returns:
        The candidates, best first.

    Example:
        >>> x = xf.ShapeDtypeStruct((512, 512), "float32")
        >>> xf.plan_search(lambda x: x, x, topology="v9:4x4")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: there is no topology 'v9:4x4'. ...
    """
    if not callable(fun):
        raise errors.not_callable("plan_search", fun)
    program = _Program(fun, args, kwargs)
    given = [topology] if isinstance(topology, (str, topologies.TopologyDescription)) else list(topology)
    described = dict(_described(one) for one in given)
    search = _Search(program, described, dict(rules or {}), tuple(batch), memory_limit, compiler_options, progress)
    return search.run(tuple(axes or ()), candidates, compiled, time_limit, workers or os.cpu_count() or 1)


def _described(topology: Topology) -> tuple[str, topologies.TopologyDescription]:
    if isinstance(topology, str):
        return topology, topologies.get_topology_desc(topology)
    return f"{len(topology.devices)} {topology.devices[0].device_kind}", topology


class _Program(NamedTuple):
    """The step as it was given: with its arguments, or as a function of a mesh."""

    fun: Callable
    args: tuple
    kwargs: dict[str, Any]

    @property
    def takes_mesh(self) -> bool:
        return not self.args and not self.kwargs and parameters_of(self.fun) == ["mesh"]

    def call(self, mesh: Mesh) -> tuple[Callable, tuple, dict[str, Any]]:
        """Return the step for a mesh, and its arguments."""
        if not self.takes_mesh:
            return self.fun, self.args, self.kwargs
        with set_mesh(mesh):
            step, args = self.fun(mesh)
        return (step, (), args) if isinstance(args, dict) else (step, tuple(args), {})


class _Option(NamedTuple):
    """A candidate before it is lowered."""

    topology: str
    sizes: dict[str, int]
    mesh: Mesh
    step: Callable
    args: tuple
    kwargs: dict[str, Any]
    specs: dict[str, PartitionSpec]
    count: Count
    rank: float


class _Search:
    """One search: its candidates, and the results of compiling them."""

    def __init__(self, program: _Program, described: Mapping[str, topologies.TopologyDescription], rules: Rules,
                 batch: tuple[str, ...], memory_limit: int | None, compiler_options: dict[str, Any] | None,
                 progress: Callable[[str], None] | None):
        self.program, self.described, self.rules, self.batch = program, described, rules, batch
        self.memory_limit, self.compiler_options, self.progress = memory_limit, compiler_options, progress
        self.excluded: collections.Counter[str] = collections.Counter()
        self.found: dict[int, Candidate] = {}
        self.options: list[_Option] = []
        self.modules: dict[int, Job] = {}
        self.results: queue.SimpleQueue[tuple[int, bool, Compiled | Failed]] = queue.SimpleQueue()
        self.least_memory: float = math.inf
        self.refusal: ValueError | None = None  # of the step, when it is traced over a mesh
        self.state: frozenset[str] | None = None  # names of the arguments that are the state: of all meshes the same

    def run(self, axes: tuple[str, ...], candidates: int, compiled: int, time_limit: float, workers: int) -> SearchResult:
        deadline = time.monotonic() + time_limit
        for name in self.described:
            self.options += self._options(name, axes)
        if not self.options and self.refusal is not None:
            raise self.refusal
        self.options.sort(key=lambda option: (not _is_plain(option.sizes), option.rank))
        if len(self.options) > candidates:
            self.excluded["slower by arithmetic"] += len(self.options) - candidates
            del self.options[candidates:]
        stopped = None
        most = max([len(d.devices) for d in self.described.values()])
        pool = Workers(workers, most)
        try:
            self._partition(pool, deadline)
            self._compile(pool, compiled, deadline)
        except TimeoutError:
            stopped = f"after {time_limit:g} s (time_limit)"
        except KeyboardInterrupt:
            stopped = "by an interrupt"
        finally:
            pool.close()
        if not self.found and self.refusal is not None and stopped is None:
            raise self.refusal
        return SearchResult(self._name(), list(self.described), self._sorted(), dict(self.excluded), stopped,
                            None if self.least_memory == math.inf else int(self.least_memory))

    def _name(self) -> str:
        return getattr(self.program.fun, "__name__", "the function")

    # Candidates

    def _options(self, name: str, axes: tuple[str, ...]) -> Iterator[_Option]:
        devices = self.described[name].devices
        count = len(devices)
        limit = self._limit(devices[0])
        for sizes in placements.meshes(count, axes or self._axes(name)):
            mesh = topologies.make_mesh(self.described[name], tuple(sizes.values()), tuple(sizes))
            try:
                step, args, kwargs = self.program.call(mesh)
                leaves = self._leaves(mesh, step, args, kwargs)
            except ValueError as e:
                self._exclude(e)
                continue
            width = placements.width(leaves)
            specs = {leaf.path: placements.spec_of(leaf, sizes, self.rules, width) for leaf in leaves}
            if uneven := next((leaf for leaf in leaves if specs[leaf.path] is None), None):
                self.excluded[f"{uneven.path} of shape {uneven.shape} is not divisible"] += 1
                continue
            held = sum([_held(leaf, specs[leaf.path], sizes) for leaf in leaves])
            if limit is not None and held > limit:
                self.least_memory = min(self.least_memory, held)
                self.excluded["arguments do not fit"] += 1
                continue
            done = _count(leaves, args, kwargs)
            yield _Option(name, sizes, mesh, step, args, kwargs, specs, done,  # type: ignore[arg-type]
                          _rank(leaves, specs, sizes, done.number / (count * width) if width else 1 / 16))

    def _exclude(self, refusal: ValueError) -> None:
        """Leave out a mesh over which the step cannot be traced: its own shardings, or those of `shard_map`, do not divide."""
        self.refusal = self.refusal or refusal
        self.excluded["the step cannot be traced over the mesh"] += 1

    def _limit(self, device) -> int | None:
        chip = chips.chip_of(device)
        return self.memory_limit if self.memory_limit is not None else chip.memory if chip else None

    def _axes(self, name: str) -> tuple[str, ...]:
        """Return the axes that specs and rules name, or the default ones."""
        count = len(self.described[name].devices)
        sizes = dict.fromkeys(placements.AXES, 1) | {"data": count}
        mesh = topologies.make_mesh(self.described[name], tuple(sizes.values()), tuple(sizes))
        _, args, kwargs = self.program.call(mesh)
        given = [spec for x in tree.leaves((args, kwargs)) if (spec := _given_spec(x)) is not None]
        return placements.axes_in([*given, *self.rules.values()]) or DEFAULT_AXES

    def _leaves(self, mesh: Mesh, step: Callable, args: tuple, kwargs: dict[str, Any]) -> list[Leaf]:
        names = parameters_of(step)
        named = {names[i] if i < len(names) else f"args[{i}]": x for i, x in enumerate(args)} | kwargs
        given = {name + tree.keystr(path): spec for name, value in named.items()
                 for path, x in tree.leaves_with_path(value) if (spec := _given_spec(x)) is not None}
        if self.state is None:
            with set_mesh(mesh):
                results = eval_shape(step, *tree.map(_without_sharding, args), **tree.map(_without_sharding, kwargs))
            self.state = placements.state_of(named, results, self.batch)
        return placements.leaves(named, given, self.state)

    # Lowering, partitioning, compiling

    def _partition(self, pool: Workers, deadline: float) -> None:
        pending = 0
        for i, option in enumerate(self.options):
            try:
                self.modules[i] = self._lower(option)
            except ValueError as e:
                self._exclude(e)
                continue
            pool.submit(self.modules[i], lambda result, i=i: self.results.put((i, False, result)))
            pending += 1
            while not self.results.empty():
                self._take(deadline)
                pending -= 1
        for _ in range(pending):
            self._take(deadline)

    def _compile(self, pool: Workers, count: int, deadline: float) -> None:
        order = sorted(self.found, key=lambda i: self.found[i].order)
        chosen = [i for i in order if self.found[i].fits is not False][:count] or order[:min(count, 1)]
        for i in chosen:
            pool.submit(self.modules[i]._replace(partition_only=False),
                        lambda result, i=i: self.results.put((i, True, result)))
        for _ in chosen:
            self._take(deadline)

    def _lower(self, option: _Option) -> Job:
        args, kwargs = _with_shardings(option)
        lowered, _ = lower_on(option.mesh, option.step, args, kwargs)
        module = lowered._lowered
        devices = tuple(module.assignment.devices)
        options = compile_options(len(devices), devices, dict(module.job.options.compiler_options) | (
            self.compiler_options or {}))
        module.shardings.adjust(options)
        written = io.BytesIO()
        module.module_context.module.operation.write_bytecode(written)
        return Job(written.getvalue(), options.SerializeAsString(), self.described[option.topology].serialize(), len(devices),
                   True)

    def _take(self, deadline: float) -> None:
        """Wait for a result, and keep it."""
        try:
            i, compiled, result = self.results.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError from None
        self.found[i] = self._candidate(self.options[i], result, compiled, self.found.get(i))
        if self.progress is not None:
            done = sum([c.is_compiled for c in self.found.values()])
            self.progress(f"{len(self.found)} of {len(self.options)} meshes partitioned, {done} compiled")

    def _candidate(self, option: _Option, result: Compiled | Failed, compiled: bool, before: Candidate | None) -> Candidate:
        device = option.mesh.devices.flat[0]
        chip, limit = chips.chip_of(device), self._limit(device)
        known = Candidate(option.topology, option.sizes, option.specs, option.count, compiled)
        if isinstance(result, Failed):
            if before is not None:  # what partitioning gave is still true
                return before._replace(failure=result.message, is_compiled=compiled)
            return known._replace(failure=result.message)
        arguments, outputs, donated, temporaries, code = result.memory
        total = arguments + outputs + temporaries + (code if compiled else 0) - donated
        memory = Memory(arguments, outputs, donated, temporaries, code, total, limit)
        if not result.text:  # the time is that of the partitioned program
            return (before or known)._replace(memory=memory, is_compiled=compiled, compile_seconds=result.seconds)
        positions = np.arange(option.mesh.size)
        module = hlo.Module(result.text)
        with_dtypes = hlo.Module(result.collectives_text) if result.collectives_text else module
        found = costs.collectives(with_dtypes, option.mesh, positions, scattered=not compiled)
        seconds = step_time.seconds(costs.work(module), found, option.mesh, chip) if chip else {}
        cost = (lambda c: communication.seconds(c, option.mesh, chip)) if chip else (lambda c: c.bytes * c.times)
        return known._replace(memory=memory, seconds=seconds, dominant=max(found, key=cost, default=None),
                              compile_seconds=result.seconds)

    def _sorted(self) -> list[Candidate]:
        return sorted(self.found.values(), key=lambda c: c.order)


def _held(leaf: Leaf, spec: PartitionSpec | None, sizes: Mapping[str, int]) -> int:
    assert spec is not None
    return math.prod(leaf.shape) * leaf.itemsize // placements.shard_count(spec, sizes)


def _is_plain(sizes: Mapping[str, int]) -> bool:
    """Return True if a mesh only has the axis `data` or `fsdp`: others are compared with these, so they are always tried."""
    return {name for name, n in sizes.items() if n > 1} in ({"data"}, {"fsdp"})


def _rank(leaves: Sequence[Leaf], specs: Mapping[str, PartitionSpec | None], sizes: Mapping[str, int], tokens: float) -> float:
    """Return a number that is smaller for meshes that move less: the state once for each of its copies, and activations.

    Wide `model` and `sequence` axes sum activations: about one value of the model's width for each token and six square
    matrices, forward and backward. `tokens` is the number of tokens of a device over this width.
    """
    state = sum([_held(leaf, specs[leaf.path], sizes) for leaf in leaves if leaf.is_state])
    unsharded = sum([math.prod(leaf.shape) * leaf.itemsize for leaf in leaves if leaf.is_state])
    narrow = math.prod(n for name, n in sizes.items() if name not in ("data", "fsdp"))
    gathered = unsharded / narrow if sizes.get("fsdp", 1) > 1 else state
    return state + gathered + unsharded * (narrow - 1) * tokens / 4


def _count(leaves: Sequence[Leaf], args: tuple, kwargs: dict[str, Any]) -> Count:
    """Return what a step works through: the elements of the largest integer array of the batch, or else its rows."""
    types = {id(x): x for x in tree.leaves((args, kwargs))}
    integers = [math.prod(x.shape) for x in types.values()
                if hasattr(x, "dtype") and dtypes.is_integer(x.dtype) and len(x.shape) > 1]
    if integers:
        return Count(max(integers), "tokens")
    rows = [leaf.shape[0] for leaf in leaves if not leaf.is_state and leaf.shape]
    return Count(max(rows, default=1), "examples")


def _given_spec(x: Any) -> PartitionSpec | None:
    sharding = sharding_of(x)
    if isinstance(sharding, NamedSharding):
        return sharding.spec
    return sharding if isinstance(sharding, PartitionSpec) else None


def _without_sharding(x: Any) -> Any:
    return ShapeDtypeStruct(x.shape, x.dtype) if hasattr(x, "shape") and hasattr(x, "dtype") else x


def _with_shardings(option: _Option) -> tuple[tuple, dict[str, Any]]:
    """Return the arguments of a candidate as types with its shardings."""
    names = parameters_of(option.step)

    def place(path, x):
        spec = option.specs.get(argument_path(path, names))
        return x if spec is None else ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(option.mesh, spec))

    return tree.map_with_path(place, (option.args, option.kwargs))
