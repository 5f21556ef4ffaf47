"""What a program computes and moves at the least, counted on its equations: for rooflines of machines that are not here.

Operations are counted twice: as if everything were fused into the products of matrices, which alone count then, and as if
each operation read its operands from memory and wrote its results there. Of loops one turn is counted, of branches nothing.
What goes between devices is that of a torus whose axes are those of the mesh.
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

from xlafront.core import tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import DropVar, Jaxpr, JaxprEqn, Literal, Var, dce_jaxpr, subprograms
from xlafront.core.primitive import Primitive
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.parallel.shard_map import shard_map
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.staging.inspection import make_jaxpr
from xlafront.transforms.ad.derivatives import vjp

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineShape:
    """A shape and a dtype, and how much memory they take."""

    shape: tuple[int, ...]
    dtype: Any

    @classmethod
    def from_aval(cls, aval: Any) -> Self:
        """Those of a type of arrays.

        - `aval`: the type.

        >>> RooflineShape.from_aval(xf.typeof(xnp.ones(3))).bytes
        12
        """
        if not isinstance(aval, ShapedArray):
            raise TypeError(f"RooflineShape.from_aval takes the type of an array, got {type(aval).__name__}: {aval}")
        return cls(shape=aval.shape, dtype=aval.dtype)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """How much memory they take."""
        return self.size * self.dtype.itemsize

    @classmethod
    def total_bytes(cls, avals: Iterable[Any]) -> int:
        """How much memory arrays take together.

        - `avals`: their types.

        >>> RooflineShape.total_bytes([xf.typeof(1.0), xf.typeof(xnp.ones(3))])
        16
        """
        return sum([cls.from_aval(aval).bytes for aval in avals])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineResult:
    """What one device does: operations, bytes between devices along each axis of the mesh, bytes of its memory.

    Results add up, but for the highest memory use, of which the larger counts; `result * 3` is three times as much of all.

    - `flops`: operations of products of matrices.
    - `unfused_flops`: operations of everything.
    - `ici_bytes`: what the busiest link carries, by axis.
    - `ici_latency`: over how many links the longest ways go, by axis.
    - `hbm_bytes`: what products read and write.
    - `peak_hbm_bytes`: of all values that live at a time.
    - `unfused_hbm_bytes`: what all operations read and write.

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
        """That of doing nothing.

        >>> RooflineResult.zeros().flops
        0
        """
        return cls()

    def __add__(self, other: Self) -> Self:
        def both(ours: dict[str, int], theirs: dict[str, int]) -> dict[str, int]:
            return {axis: ours.get(axis, 0) + theirs.get(axis, 0) for axis in {**ours, **theirs}}

        return type(self)(
            flops=self.flops + other.flops, unfused_flops=self.unfused_flops + other.unfused_flops,
            ici_bytes=both(self.ici_bytes, other.ici_bytes), ici_latency=both(self.ici_latency, other.ici_latency),
            hbm_bytes=self.hbm_bytes + other.hbm_bytes, peak_hbm_bytes=max(self.peak_hbm_bytes, other.peak_hbm_bytes),
            unfused_hbm_bytes=self.unfused_hbm_bytes + other.unfused_hbm_bytes)

    def __mul__(self, times: int) -> Self:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return type(self)(**{name: {axis: n * times for axis, n in value.items()} if isinstance(value, dict) else value * times
                             for name, value in values.items()})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RooflineRuleContext:
    """What the rule of a primitive is told: the equation's names, primitive and types, and what `roofline` was called with."""

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
    """A decorator of functions that say what one operation costs.

    - `prim`: the primitive. The function is called with a `RooflineRuleContext`, a `RooflineShape` for each operand, and the
      parameters of the operation by name, and returns a `RooflineResult`.

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
    """Say that an operation costs nothing: others that it is fused with read and write what it needs.

    - `prim`: the primitive.

    >>> from xlafront.experimental.roofline import roofline
    >>> register_standard_roofline(xf.lax.erf_inv_p)
    >>> roofline(xf.lax.erf_inv)(xnp.ones(3))[1].unfused_flops
    0
    """
    _rules[prim] = lambda ctx, *shapes, **params: RooflineResult()


# Costs of operations on one device


def _moved(ctx: RooflineRuleContext) -> int:
    return RooflineShape.total_bytes([*ctx.avals_in, *ctx.avals_out])


def _elementwise(ctx, *shapes, **_):
    return RooflineResult(unfused_flops=max([x.size for x in shapes]), unfused_hbm_bytes=_moved(ctx))


def _moves_only(ctx, *shapes, **_):
    return RooflineResult(unfused_hbm_bytes=_moved(ctx))


def _sum(ctx, x, **_):
    results = sum([RooflineShape.from_aval(aval).size for aval in ctx.avals_out])
    return RooflineResult(unfused_flops=x.size - results, unfused_hbm_bytes=_moved(ctx))


def _accumulated(operations: int):
    return lambda ctx, x, *, axis, **_: RooflineResult(unfused_flops=operations * x.shape[axis], unfused_hbm_bytes=_moved(ctx))


def _select(ctx, which, *cases, **_):
    """Of the cases as much is read as one has."""
    return RooflineResult(unfused_flops=cases[0].size, unfused_hbm_bytes=which.bytes + cases[0].bytes)


def _gather(ctx, operand, indices, *, mode, **_):
    [out] = map(RooflineShape.from_aval, ctx.avals_out)
    bounds = 4 * indices.size + out.size if getattr(mode, "name", mode) == "FILL_OR_DROP" else 0  # compared, and filled in
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
    moved = (0 if ctx.pin_lhs_in_vmem else lhs.bytes + out.bytes) + (0 if ctx.pin_rhs_in_vmem else rhs.bytes)
    return RooflineResult(flops=flops, unfused_flops=flops, hbm_bytes=moved, unfused_hbm_bytes=moved)


def _conv(ctx, lhs, rhs, *, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, batch_group_count, **_):
    """Only what meets elements of the operand is counted, not what meets padding or the gaps of a dilation."""
    [out] = map(RooflineShape.from_aval, ctx.avals_out)
    lhs_dims, rhs_dims, out_dims = dimension_numbers
    met = 1
    for k, (stride, (before, _), gap, spread) in enumerate(zip(window_strides, padding, lhs_dilation, rhs_dilation)):
        starts = np.arange(out.shape[out_dims[2 + k]])[:, None] * stride - before
        places = starts + np.arange(rhs.shape[rhs_dims[2 + k]]) * spread
        met *= int(np.sum((places >= 0) & (places % gap == 0) & (places < lhs.shape[lhs_dims[2 + k]] * gap)))
    features = out.shape[out_dims[0]] * out.shape[out_dims[1]] * rhs.shape[rhs_dims[1]]
    return RooflineResult(unfused_flops=2 * met * features, unfused_hbm_bytes=_moved(ctx))


# Costs of exchanges between devices


def _axes_of(ctx: RooflineRuleContext, names: Any, groups: Any) -> dict[str, int]:
    """The sizes of the axes of the mesh that an exchange goes along."""
    if groups is not None:
        raise NotImplementedError(f"roofline: {ctx.primitive} over groups of devices (axis_index_groups) is not counted; name "
                                  "the axes of a finer mesh in its place.")
    names = names if isinstance(names, (tuple, list)) else (names,)
    names = [name for name in names if isinstance(name, str)]  # the others are dimensions
    if names and ctx.mesh is None:
        raise AssertionError(f"roofline: {ctx.primitive} goes along {names}, and roofline was called without a mesh")
    return {name: ctx.mesh.shape[name] for name in names}


def _exchanged(sizes: dict[str, int], amount: int, latency: int) -> RooflineResult:
    return RooflineResult(ici_bytes=dict.fromkeys(sizes, amount), ici_latency=dict.fromkeys(sizes, latency))


def _around(sizes: dict[str, int], part: int) -> RooflineResult:
    """Parts of devices go around rings along all axes at once, until each device has had all of them."""
    count = math.prod(sizes.values())
    if count == 1 or not sizes:
        return _exchanged(sizes, 0, 0)
    return _exchanged(sizes, part // len(sizes) * (count - 1), len(sizes) * max(sizes.values()))


def _all(results: Iterable[RooflineResult]) -> RooflineResult:
    return sum(results, RooflineResult())


def _all_gather(ctx, *shapes, axis_name, axis_index_groups=None, **_):
    sizes = _axes_of(ctx, axis_name, axis_index_groups)
    return _all([_around(sizes, x.bytes) for x in shapes])


def _reduce_scatter(ctx, *shapes, axis_name, axis_index_groups=None, **_):
    sizes = _axes_of(ctx, axis_name, axis_index_groups)
    return _all([_around(sizes, x.bytes // math.prod(sizes.values())) for x in shapes])


def _all_reduce(ctx, *shapes, axes, axis_index_groups=None, **_):
    """A sum is scattered, and its parts gathered."""
    sizes = _axes_of(ctx, axes, axis_index_groups)
    return _all([_around(sizes, x.bytes // math.prod(sizes.values())) * 2 for x in shapes])


def _extreme(ctx, *shapes, axes, axis_index_groups=None, **_):
    """One element of each device."""
    sizes = _axes_of(ctx, axes, axis_index_groups)
    return _all([_around(sizes, x.dtype.itemsize) for x in shapes])


def _all_to_all(ctx, x, *, axis_name, axis_index_groups=None, **_):
    """Half of all goes through the links at the narrowest place of the torus."""
    sizes = _axes_of(ctx, axis_name, axis_index_groups)
    count = math.prod(sizes.values())
    if count == 1 or not sizes:
        return _exchanged(sizes, 0, 0)
    narrowest = min(sizes.values())
    links = narrowest ** (len(sizes) - 1) * (2 if narrowest > 2 else 1)  # an axis of two has no way around
    return _exchanged(sizes, x.bytes * count // (2 * links), sum(sizes.values()) // 2)


def _ppermute(ctx, x, *, axis_name, perm, **_):
    """The busiest link, where values go the shortest way along each axis."""
    sizes = _axes_of(ctx, axis_name, None)
    loads: collections.Counter = collections.Counter()
    longest = 0
    for pair in perm:
        start, end = (np.unravel_index(device, tuple(sizes.values())) for device in pair)
        steps = 0
        for k, size in enumerate(sizes.values()):
            ahead = (int(end[k]) - int(start[k])) % size
            way = range(ahead) if 2 * ahead <= size else range(-1, ahead - size - 1, -1)
            for at in way:
                ends = frozenset([(start[k] + at) % size, (start[k] + at + 1) % size])
                loads[k, tuple(start[:k]), tuple(start[k + 1:]), ends] += 1
            steps += len(way)
        longest = max(longest, steps)
    return _exchanged(sizes, x.bytes * max(loads.values(), default=0), longest)


_CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin")
_SCATTERS = ("scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max", "scatter_apply")
_COSTS: dict[str, Rule] = {
    **dict.fromkeys("""abs acos asin atan bessel_i0e bessel_i1e cbrt ceil conj cos cosh digamma erf erf_inv erfc exp expm1 floor
        imag integer_pow is_finite lgamma log log1p logistic neg not real relu round rsqrt sign sin sinh sqrt square tan add and
        div eq ge gt le lt max min mul ne or rem sub xor""".split(), _elementwise),
    **dict.fromkeys(("pure_callback", "io_callback"), _moves_only),
    **dict.fromkeys(_CUMULATIVE, _accumulated(1)), "cumlogsumexp": _accumulated(2),
    **dict.fromkeys(_SCATTERS, _scatter(True)), "scatter": _scatter(False), "gather": _gather,
    "reduce_sum": _sum, "select_n": _select, "dot_general": _dot, "conv_general_dilated": _conv,
    "all_gather": _all_gather, "all_gather_invariant": _all_gather, "reduce_scatter": _reduce_scatter,
    "psum": _all_reduce, "psum_invariant": _all_reduce, "pmax": _extreme, "pmin": _extreme, "all_to_all": _all_to_all,
    "ppermute": _ppermute,
}
# Which programs that equations call are counted, once. Loops whose length values decide, and branches, are not.
_CALLS = frozenset("jit remat2 closed_call custom_jvp_call custom_vjp_call custom_vmap_call scan inlined composite".split())
# What says nothing of its costs, and should: it does more than compute values of values.
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
            return _all([self.count(program) for program in itertools.islice(subprograms(eqn.params), 1)])
        if name in _UNKNOWN:
            log.warning("roofline: there is no rule for %s, which is counted as nothing: see register_roofline", name)
        return RooflineResult()

    def count(self, program: Jaxpr) -> RooflineResult:
        """The costs of all equations, and what is alive when the most is."""
        program, _ = dce_jaxpr(program, [True] * len(program.outvars))
        last = {v: k for k, eqn in enumerate(program.eqns) for v in eqn.invars if type(v) is not Literal}
        kept = set(v for v in program.outvars if type(v) is not Literal)
        read = {v for v in last} | kept
        alive = peak = RooflineShape.total_bytes([v.aval for v in (*program.constvars, *program.invars) if v in read])
        total = RooflineResult()
        for k, eqn in enumerate(program.eqns):
            total += self.cost(eqn)
            done = {v for v in eqn.invars if type(v) is not Literal and last[v] == k and v not in kept}
            alive -= RooflineShape.total_bytes([v.aval for v in done])
            alive += RooflineShape.total_bytes([v.aval for v in eqn.outvars if type(v) is not DropVar])
            peak = max(peak, alive)
        return total + RooflineResult(peak_hbm_bytes=peak)


def roofline(f: Callable, mesh: Any = None, in_specs: Any = None, out_specs: Any = None, *, pin_lhs_in_vmem: bool = False,
             pin_rhs_in_vmem: bool = False, vjp: bool = False, print_jaxpr: bool = False) -> Callable[..., tuple]:
    """A function that says what another costs, instead of running it: `(shapes of its results, RooflineResult)`.

    - `f`: the other.
    - `mesh`, `in_specs`, `out_specs`: when all are given, `f` is the function of one device, as for `shard_map`.
    - `pin_lhs_in_vmem`, `pin_rhs_in_vmem`: whether products have their left or right operand at hand, and need not read it.
    - `vjp`: count the derivative, with the results as cotangents; `f` has results in bfloat16 then.
    - `print_jaxpr`: print the program that is counted.

    >>> shapes, cost = roofline(xnp.matmul)(xf.ShapeDtypeStruct((8, 16), "float32"), xf.ShapeDtypeStruct((16, 4), "float32"))
    >>> shapes.shape, cost.flops, cost.hbm_bytes
    ((8, 4), 1024, 896)
    """
    split = mesh is not None and in_specs is not None and out_specs is not None
    counted = shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs) if split else f
    if vjp:
        counted = _derivative(counted)

    def of(*args: Any) -> tuple:
        closed, shapes = make_jaxpr(counted, return_shape=True)(*args)
        program, shardings = closed.jaxpr, {}
        for eqn in program.eqns:
            if eqn.primitive.name == "shard_map":
                [program] = subprograms(eqn.params)
                if split:
                    shardings = {v: NamedSharding(mesh, spec) for v, spec in zip(eqn.outvars, eqn.params["out_specs"])}
        if print_jaxpr:
            print(program)
        cost = _Counter(mesh if split else None, pin_lhs_in_vmem, pin_rhs_in_vmem).count(program)
        leaves, structure = tree.flatten(shapes)
        split_as = [shardings.get(v) if isinstance(v, Var) else None for v in closed.jaxpr.outvars]
        return structure.unflatten([ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
                                    for x, sharding in zip(leaves, split_as)]), cost

    return of


def _derivative(f: Callable) -> Callable:
    def gradients(*args):
        results, pull_back = vjp(f, *args)
        return pull_back(tree.map(lambda x: x.astype("bfloat16"), results))

    return gradients


def roofline_and_grad(f: Callable, mesh: Any, in_specs: Any, out_specs: Any, *, pin_lhs_in_vmem: bool = False,
                      pin_rhs_in_vmem: bool = False, print_jaxpr: bool = False) -> Callable[..., tuple]:
    """A function that says what another and its derivative cost: `(shapes of its results, RooflineResult, RooflineResult)`.

    The derivative is counted with all arguments in bfloat16.

    - `f`, `mesh`, `in_specs`, `out_specs`: the function of one device, as for `shard_map`.
    - `pin_lhs_in_vmem`, `pin_rhs_in_vmem`, `print_jaxpr`: as for `roofline`.

    >>> mesh = xf.sharding.AbstractMesh((4,), ("x",))
    >>> x = xf.ShapeDtypeStruct((8, 16), "bfloat16")
    >>> total = lambda x: xf.lax.psum(x * x, "x")
    >>> shapes, cost, gradient = roofline_and_grad(total, mesh, xf.P("x"), xf.P())(x)
    >>> cost.ici_bytes, gradient.unfused_flops
    ({'x': 96}, 64)
    """
    options: dict[str, Any] = {
        "pin_lhs_in_vmem": pin_lhs_in_vmem, "pin_rhs_in_vmem": pin_rhs_in_vmem, "print_jaxpr": print_jaxpr}

    def of(*args: Any) -> tuple:
        shapes, forward = roofline(f, mesh, in_specs, out_specs, **options)(*args)
        halves = tree.map(lambda x: ShapeDtypeStruct(np.shape(x), "bfloat16"), args)
        _, backward = roofline(f, mesh, in_specs, out_specs, vjp=True, **options)(*halves)
        return shapes, forward, backward

    return of
