"""Roofline estimates: the operations and memory traffic of a jaxpr, counted on its equations, for any machine.

Costs are counted twice: as if everything were fused into matrix products, so that only these count, and as if each operation
read its operands from memory and wrote its results there. One iteration of a loop is counted, and nothing of branches. The
communication between devices is that of a torus whose axes are the axes of the mesh.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from xlafront.api.derivatives import vjp
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.core import tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import DropVar, Jaxpr, JaxprEqn, Literal, Var, dce_jaxpr, last_reads, subprograms
from xlafront.core.primitive import Primitive
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.parallel.shard_map import shard_map
from xlafront.staging.inspection import make_jaxpr

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineShape:
    """A shape and a dtype, with their size in memory."""

    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def from_aval(cls, aval: Any) -> Self:
        """Return the shape and dtype of an abstract array.

        Args:
            aval: Type of the array.

        Returns:
            The `RooflineShape`.

        Example:
            >>> RooflineShape.from_aval(xf.typeof(xnp.ones(3))).bytes
            12
        """
        if not isinstance(aval, ShapedArray):
            raise TypeError(f"RooflineShape.from_aval takes the type of an array, got {type(aval).__name__}: {aval}")
        return cls(shape=aval.shape, dtype=aval.dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.size * self.dtype.itemsize

    @classmethod
    def total_bytes(cls, avals: Iterable[Any]) -> int:
        """Return the total size of arrays in bytes.

        Args:
            avals: Types of the arrays.

        Returns:
            Number of bytes.

        Example:
            >>> RooflineShape.total_bytes([xf.typeof(1.0), xf.typeof(xnp.ones(3))])
            16
        """
        return sum([cls.from_aval(aval).bytes for aval in avals])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineResult:
    """The costs of a program on one device: operations, communication along each mesh axis, and memory.

    Results can be added; the peak memory of a sum is the larger one. `result * 3` has three times all costs.

    Args:
        flops: Operations of matrix products.
        unfused_flops: Operations of everything.
        ici_bytes: Bytes over the busiest link, by axis.
        ici_latency: Number of links on the longest route, by axis.
        hbm_bytes: Bytes that matrix products read and write.
        peak_hbm_bytes: Peak size of all live values.
        unfused_hbm_bytes: Bytes that all operations read and write.

    Example:
        >>> RooflineResult(flops=2) + RooflineResult(flops=3, peak_hbm_bytes=8) == RooflineResult(flops=5, peak_hbm_bytes=8)
        True
    """

    flops: int = 0
    unfused_flops: int = 0
    ici_bytes: dict[str, int] = dataclasses.field(default_factory=dict)
    ici_latency: dict[str, int] = dataclasses.field(default_factory=dict)
    hbm_bytes: int = 0
    peak_hbm_bytes: int = 0
    unfused_hbm_bytes: int = 0

    @classmethod
    def zeros(cls) -> Self:
        """Return a result with zero costs.

        Returns:
            The result.

        Example:
            >>> RooflineResult.zeros().flops
            0
        """
        return cls()

    def __add__(self, other: Self) -> Self:
        def add(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
            return {axis: left.get(axis, 0) + right.get(axis, 0) for axis in {**left, **right}}

        return type(self)(
            flops=self.flops + other.flops, unfused_flops=self.unfused_flops + other.unfused_flops,
            ici_bytes=add(self.ici_bytes, other.ici_bytes), ici_latency=add(self.ici_latency, other.ici_latency),
            hbm_bytes=self.hbm_bytes + other.hbm_bytes, peak_hbm_bytes=max(self.peak_hbm_bytes, other.peak_hbm_bytes),
            unfused_hbm_bytes=self.unfused_hbm_bytes + other.unfused_hbm_bytes)

    def __mul__(self, times: int) -> Self:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return type(self)(**{name: {axis: n * times for axis, n in value.items()} if isinstance(value, dict) else value * times
                             for name, value in values.items()})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineRuleContext:
    """The context of a cost rule: the equation's name stack, primitive and types, and the arguments of `roofline`."""

    name_stack: Any
    primitive: Primitive
    avals_in: Sequence[Any]
    avals_out: Sequence[Any]
    jaxpr_eqn_ctx: Any
    mesh: Any
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool


Rule = Callable[..., RooflineResult]
_rules: dict[Primitive, Rule] = {}


def register_roofline(prim: Primitive) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a function as the cost rule of a primitive.

    Args:
        prim: Primitive. The rule is called with a `RooflineRuleContext`, a `RooflineShape` for each operand, and the parameters
            of the equation by name, and returns a `RooflineResult`.

    Returns:
        The decorator.

    Example:
        >>> from xlafront.experimental.roofline import RooflineResult, roofline
        >>> @register_roofline(xf.lax.tan_p)
        ... def cost_of_tan(ctx, x, **parameters):
        ...     return RooflineResult(unfused_flops=20 * x.size)
        >>> roofline(xnp.tan)(xnp.ones(3))[1].unfused_flops
        60
    """
    def register(rule: Rule) -> Rule:
        _rules[prim] = rule
        return rule

    return register


def register_standard_roofline(prim: Primitive) -> None:
    """Register zero costs for a primitive, as for operations that are always fused with others.

    Args:
        prim: Primitive.

    Example:
        >>> from xlafront.experimental.roofline import roofline
        >>> register_standard_roofline(xf.lax.erf_inv_p)
        >>> roofline(xf.lax.erf_inv)(xnp.ones(3))[1].unfused_flops
        0
    """
    _rules[prim] = lambda ctx, *shapes, **params: RooflineResult()


# Costs of operations on one device


def _accessed_bytes(ctx: RooflineRuleContext) -> int:
    return RooflineShape.total_bytes([*ctx.avals_in, *ctx.avals_out])


def _elementwise(ctx, *shapes, **_):
    return RooflineResult(unfused_flops=max([x.size for x in shapes]), unfused_hbm_bytes=_accessed_bytes(ctx))


def _memory_only(ctx, *shapes, **_):
    return RooflineResult(unfused_hbm_bytes=_accessed_bytes(ctx))


def _sum(ctx, x, **_):
    results = sum([RooflineShape.from_aval(aval).size for aval in ctx.avals_out])
    return RooflineResult(unfused_flops=x.size - results, unfused_hbm_bytes=_accessed_bytes(ctx))


def _cumulative(operations: int):
    return lambda ctx, x, *, axis, **_: RooflineResult(unfused_flops=operations * x.shape[axis],
                                                       unfused_hbm_bytes=_accessed_bytes(ctx))


def _select(ctx, which, *cases, **_):
    """Count one case: each element is read from one of them."""
    return RooflineResult(unfused_flops=cases[0].size, unfused_hbm_bytes=which.bytes + cases[0].bytes)


def _gather(ctx, operand, indices, *, mode, **_):
    [out] = map(RooflineShape.from_aval, ctx.avals_out)
    bounds = 4 * indices.size + out.size if getattr(mode, "name", mode) == "FILL_OR_DROP" else 0  # bounds checks and fill
    return RooflineResult(unfused_flops=bounds, unfused_hbm_bytes=2 * out.bytes + indices.bytes)


def _scatter(combines: bool):
    def rule(ctx, operand, indices, updates, **_):
        return RooflineResult(unfused_flops=updates.size if combines else 0,
                              unfused_hbm_bytes=3 * updates.bytes + indices.bytes)

    return rule


def _dot(ctx, lhs, rhs, *, dimension_numbers, **_):
    (contracted, _), _ = dimension_numbers
    [out] = map(RooflineShape.from_aval, ctx.avals_out)
    flops = 2 * out.size * math.prod([lhs.shape[d] for d in contracted])
    accessed = (0 if ctx.pin_lhs_in_vmem else lhs.bytes + out.bytes) + (0 if ctx.pin_rhs_in_vmem else rhs.bytes)
    return RooflineResult(flops=flops, unfused_flops=flops, hbm_bytes=accessed, unfused_hbm_bytes=accessed)


def _conv(ctx, lhs, rhs, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, batch_group_count, **_):
    """Count only products with elements of the operand, not with padding or the gaps of a dilation."""
    [out] = map(RooflineShape.from_aval, ctx.avals_out)
    lhs_dims, rhs_dims, out_dims = dimension_numbers
    pairs = 1
    for k, (stride, (low, _), dilation, rhs_step) in enumerate(zip(window_strides, padding, lhs_dilation, rhs_dilation)):
        starts = np.arange(out.shape[out_dims[2 + k]])[:, None] * stride - low
        positions = starts + np.arange(rhs.shape[rhs_dims[2 + k]]) * rhs_step
        in_bounds = (positions >= 0) & (positions < lhs.shape[lhs_dims[2 + k]] * dilation)
        pairs *= int(np.sum(in_bounds & (positions % dilation == 0)))
    features = out.shape[out_dims[0]] * out.shape[out_dims[1]] * rhs.shape[rhs_dims[1]]
    return RooflineResult(unfused_flops=2 * pairs * features, unfused_hbm_bytes=_accessed_bytes(ctx))


# Costs of collectives


def _axes_of(ctx: RooflineRuleContext, names: Any) -> dict[str, int]:
    """Return the sizes of the mesh axes of a collective. Groups of devices are counted as one of all devices of the axes."""
    names = names if isinstance(names, (tuple, list)) else (names,)
    names = [name for name in names if isinstance(name, str)]  # the others are dimensions
    if names and ctx.mesh is None:
        raise AssertionError(f"roofline: {ctx.primitive} is along the axes {names}, but roofline was called without a mesh")
    return {name: ctx.mesh.shape[name] for name in names}


def _communication(sizes: dict[str, int], amount: int, latency: int) -> RooflineResult:
    return RooflineResult(ici_bytes=dict.fromkeys(sizes, amount), ici_latency=dict.fromkeys(sizes, latency))


def _ring_exchange(sizes: dict[str, int], shard_bytes: int) -> RooflineResult:
    """Return the costs of sending one shard per device around rings, until all devices have received all shards.

    The shards go along all axes at once.
    """
    count = math.prod(sizes.values())
    if count == 1 or not sizes:
        return _communication(sizes, 0, 0)
    return _communication(sizes, shard_bytes // len(sizes) * (count - 1), len(sizes) * max(sizes.values()))


def _all(results: Iterable[RooflineResult]) -> RooflineResult:
    return sum(results, RooflineResult())


def _all_gather(ctx, *shapes, axis_name, **_):
    sizes = _axes_of(ctx, axis_name)
    return _all([_ring_exchange(sizes, x.bytes) for x in shapes])


def _reduce_scatter(ctx, *shapes, axis_name, **_):
    sizes = _axes_of(ctx, axis_name)
    return _all([_ring_exchange(sizes, x.bytes // math.prod(sizes.values())) for x in shapes])


def _all_reduce(ctx, *shapes, axes, axis_index_groups=None, **_):
    """Count a reduce-scatter and an all-gather."""
    if axis_index_groups is not None:
        raise NotImplementedError(f"roofline: {ctx.primitive} over groups of devices (axis_index_groups) is not counted; name "
                                  "the axes of a finer mesh in its place.")
    sizes = _axes_of(ctx, axes)
    return _all([_ring_exchange(sizes, x.bytes // math.prod(sizes.values())) * 2 for x in shapes])


def _all_reduce_extremum(ctx, *shapes, axes, **_):
    """Count one element per device."""
    sizes = _axes_of(ctx, axes)
    return _all([_ring_exchange(sizes, x.dtype.itemsize) for x in shapes])


def _all_to_all(ctx, x, *, axis_name, **_):
    """Count half of all data, which crosses the bisection of the torus."""
    sizes = _axes_of(ctx, axis_name)
    count = math.prod(sizes.values())
    if count == 1 or not sizes:
        return _communication(sizes, 0, 0)
    narrowest = min(sizes.values())
    links = narrowest ** (len(sizes) - 1) * (2 if narrowest > 2 else 1)  # an axis of size 2 has no wraparound link
    return _communication(sizes, x.bytes * count // (2 * links), sum(sizes.values()) // 2)


def _ppermute(ctx, x, *, axis_name, perm, **_):
    """Count the load of the busiest link, with shortest routes along each axis."""
    sizes = _axes_of(ctx, axis_name)
    loads: collections.Counter = collections.Counter()
    longest = 0
    for pair in perm:
        start, end = (np.unravel_index(device, tuple(sizes.values())) for device in pair)
        steps = 0
        for k, size in enumerate(sizes.values()):
            ahead = (int(end[k]) - int(start[k])) % size
            route = range(ahead) if 2 * ahead <= size else range(-1, ahead - size - 1, -1)
            for offset in route:
                ends = frozenset([(start[k] + offset) % size, (start[k] + offset + 1) % size])
                loads[k, tuple(start[:k]), tuple(start[k + 1:]), ends] += 1
            steps += len(route)
        longest = max(longest, steps)
    return _communication(sizes, x.bytes * max(loads.values(), default=0), longest)


_CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin")
_SCATTERS = ("scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max", "scatter_apply")
_COSTS: dict[str, Rule] = {
    **dict.fromkeys("""abs acos asin atan bessel_i0e bessel_i1e cbrt ceil conj cos cosh digamma erf erf_inv erfc exp expm1 floor
        imag integer_pow is_finite lgamma log log1p logistic neg not real relu round rsqrt sign sin sinh sqrt square tan add and
        div eq ge gt le lt max min mul ne or rem sub xor""".split(), _elementwise),
    **dict.fromkeys(("pure_callback", "io_callback"), _memory_only),
    **dict.fromkeys(_CUMULATIVE, _cumulative(1)), "cumlogsumexp": _cumulative(2),
    **dict.fromkeys(_SCATTERS, _scatter(True)), "scatter": _scatter(False), "gather": _gather,
    "reduce_sum": _sum, "select_n": _select, "dot_general": _dot, "conv_general_dilated": _conv,
    "all_gather": _all_gather, "all_gather_invariant": _all_gather, "reduce_scatter": _reduce_scatter,
    "psum": _all_reduce, "psum_invariant": _all_reduce, "pmax": _all_reduce_extremum, "pmin": _all_reduce_extremum,
    "all_to_all": _all_to_all, "ppermute": _ppermute,
}
# Primitives whose jaxpr is counted, once. Loops of data-dependent length and branches are not counted.
_CALLS = frozenset("jit remat2 closed_call custom_jvp_call custom_vjp_call custom_vmap_call scan inlined composite".split())
# Primitives with unknown costs, for which a warning is logged: they do more than compute values from values.
_UNKNOWN = frozenset("axis_index debug_callback debug_print ffi_call buffer_callback call_exported".split())


# Counting


@dataclasses.dataclass(frozen=True)
class _Counter:
    mesh: Any
    pin_lhs_in_vmem: bool
    pin_rhs_in_vmem: bool

    def cost(self, eqn: JaxprEqn) -> RooflineResult:
        name = eqn.primitive.name
        rule = _rules.get(eqn.primitive) or _COSTS.get(name)
        if rule is not None:
            avals_in, avals_out = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
            context = RooflineRuleContext(
                name_stack=eqn.source_info.name_stack, primitive=eqn.primitive, avals_in=avals_in, avals_out=avals_out,
                jaxpr_eqn_ctx=eqn.ctx, mesh=self.mesh, pin_lhs_in_vmem=self.pin_lhs_in_vmem,
                pin_rhs_in_vmem=self.pin_rhs_in_vmem)
            return rule(context, *map(RooflineShape.from_aval, avals_in), **eqn.params)
        if name in _CALLS:
            return _all([self.count(jaxpr) for jaxpr in itertools.islice(subprograms(eqn.params), 1)])
        if name in _UNKNOWN:
            log.warning("roofline: there is no rule for %s, which is counted as nothing: see register_roofline", name)
        return RooflineResult()

    def count(self, jaxpr: Jaxpr) -> RooflineResult:
        """Return the costs of all equations, and the peak size of live values."""
        jaxpr, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
        last = last_reads(jaxpr)
        live_bytes = peak = RooflineShape.total_bytes([v.aval for v in (*jaxpr.constvars, *jaxpr.invars) if v in last])
        total = RooflineResult()
        for k, eqn in enumerate(jaxpr.eqns):
            total += self.cost(eqn)
            dead = {v for v in eqn.invars if type(v) is not Literal and last[v] == k}
            live_bytes -= RooflineShape.total_bytes([v.aval for v in dead])
            live_bytes += RooflineShape.total_bytes([v.aval for v in eqn.outvars if type(v) is not DropVar])
            peak = max(peak, live_bytes)
        return total + RooflineResult(peak_hbm_bytes=peak)


def roofline(f: Callable, mesh: Any = None, in_specs: Any = None, out_specs: Any = None, *, pin_lhs_in_vmem: bool = False,
             pin_rhs_in_vmem: bool = False, vjp: bool = False, print_jaxpr: bool = False) -> Callable[..., tuple]:
    """Return a function that computes the costs of `f` instead of running it.

    Args:
        f: Function to count.
        mesh, in_specs, out_specs: If all are given, `f` is the function of one device, as for `shard_map`.
        pin_lhs_in_vmem, pin_rhs_in_vmem: If True, matrix products do not read their left or right operand from memory.
        vjp: If True, count the derivative, with the results as cotangents, converted to bfloat16.
        print_jaxpr: If True, print the jaxpr that is counted.

    Returns:
        A function of the arguments of `f` that returns the pair of the shapes of its results and a `RooflineResult`.

    Example:
        >>> x, y = xf.ShapeDtypeStruct((8, 16), "float32"), xf.ShapeDtypeStruct((16, 4), "float32")
        >>> shapes, cost = roofline(xnp.matmul)(x, y)
        >>> shapes.shape, cost.flops, cost.hbm_bytes
        ((8, 4), 1024, 896)
    """
    sharded = mesh is not None and in_specs is not None and out_specs is not None
    counted = shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs) if sharded else f
    if vjp:
        counted = _derivative(counted)

    def costs(*args: Any) -> tuple:
        closed, shapes = make_jaxpr(counted, return_shape=True)(*args)
        jaxpr, shardings = closed.structure, {}
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "shard_map":
                [jaxpr] = subprograms(eqn.params)
                if sharded:
                    shardings = {v: NamedSharding(mesh, spec) for v, spec in zip(eqn.outvars, eqn.params["out_specs"])}
        if print_jaxpr:
            print(jaxpr)
        cost = _Counter(mesh if sharded else None, pin_lhs_in_vmem, pin_rhs_in_vmem).count(jaxpr)
        leaves, structure = tree.flatten(shapes)
        out_shardings = [shardings.get(v) if isinstance(v, Var) else None for v in closed.outvars]
        return structure.unflatten([ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
                                    for x, sharding in zip(leaves, out_shardings)]), cost

    return costs


def _derivative(f: Callable) -> Callable:
    def gradients(*args):
        results, pull_back = vjp(f, *args)
        return pull_back(tree.map(lambda x: x.astype("bfloat16"), results))

    return gradients


def roofline_and_grad(f: Callable, mesh: Any, in_specs: Any, out_specs: Any, *, pin_lhs_in_vmem: bool = False,
                      pin_rhs_in_vmem: bool = False, print_jaxpr: bool = False) -> Callable[..., tuple]:
    """Return a function that computes the costs of `f` and of its derivative.

    The derivative is counted with all arguments in bfloat16.

    Args:
        f, mesh, in_specs, out_specs: The function of one device, as for `shard_map`.
        pin_lhs_in_vmem, pin_rhs_in_vmem, print_jaxpr: See `roofline`.

    Returns:
        A function of the arguments of `f` that returns the shapes of its results and two `RooflineResult`s.

    Example:
        >>> mesh = xf.sharding.AbstractMesh((4,), ("x",), xf.sharding.AxisType.Auto)
        >>> x = xf.ShapeDtypeStruct((8, 16), "bfloat16")
        >>> total = lambda x: xf.lax.psum(x * x, "x")
        >>> shapes, cost, gradient = roofline_and_grad(total, mesh, xf.P("x"), xf.P())(x)
        >>> cost.ici_bytes, gradient.unfused_flops
        ({'x': 96}, 64)
    """
    options: dict[str, Any] = {
        "pin_lhs_in_vmem": pin_lhs_in_vmem, "pin_rhs_in_vmem": pin_rhs_in_vmem, "print_jaxpr": print_jaxpr}

    def costs(*args: Any) -> tuple:
        shapes, forward = roofline(f, mesh, in_specs, out_specs, **options)(*args)
        halves = tree.map(lambda x: ShapeDtypeStruct(np.shape(x), "bfloat16"), args)
        _, backward = roofline(f, mesh, in_specs, out_specs, vjp=True, **options)(*halves)
        return shapes, forward, backward

    return costs
