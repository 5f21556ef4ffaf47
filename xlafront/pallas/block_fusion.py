"""Block specs of functions that are fused into kernels: pulled from results to operands, or pushed from operands to results.

A function is traced, and calls in its jaxpr are inlined. `PULL` and `PUSH` have a rule for each primitive, from the block of
its result to those of its operands and back; `EVALUATE` has rules that compute a block of the result. Elementwise operations
need none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.program_call import ProgramCall
from xlafront.lax.creation import broadcasted_iota
from xlafront.lax.ref_indexing import Slice
from xlafront.lax.shapes import reshape_to
from xlafront.pallas.custom_fusion import BlockIndexTransform, CustomEvalContext, custom_fusion_p
from xlafront.pallas.grid_mapping import inline_scalar_constants
from xlafront.pallas.reshaped_blocks import reshaped_block
from xlafront.pallas.specs import Blocked, BlockSpec, BoundedSlice, Element, NoBlockSpec, is_squeezed, no_block_spec
from xlafront.pallas.tpu import SMEM

_LOOPS = ("scan", "while", "cond")


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A block of an array: its dimensions as in a spec, and its index in each as a function of those of the grid, and scalars.

    The index of `pl.Element` is that of the first element, which counts the padding; of `pl.BoundedSlice` it is a `Slice`.
    """

    dims: tuple[Any, ...]
    index: Callable[..., tuple]
    spec: BlockSpec

    sizes = property(lambda self: tuple([1 if is_squeezed(b) else int(getattr(b, "block_size", b)) for b in self.dims]))

    def as_spec(self) -> BlockSpec:
        """Return the block as a spec. A scalar is in scalar memory."""
        if not self.dims:
            return BlockSpec((), lambda *_: (), memory_space=SMEM)
        return BlockSpec(self.dims, self.index, memory_space=self.spec.memory_space, pipeline_mode=self.spec.pipeline_mode)

    def replace(self, dims: Sequence[Any], index: Callable[[tuple], Sequence[Any]]) -> Block:
        """Return a block whose index is a function of that of this one."""
        return Block(tuple(dims), lambda *args: tuple(index(self.index(*args))), self.spec)


def _by_elements(dim: Any) -> bool:
    """True if the index of a dimension is that of an element, not of a block."""
    return isinstance(dim, (Element, BoundedSlice))


def block_of(spec: Any, aval: Any) -> Block | None:
    """Return the block of an array that a spec describes; None for `no_block_spec`."""
    if spec is None or isinstance(spec, NoBlockSpec):
        return None
    if not isinstance(spec, BlockSpec):
        raise TypeError(f"a fusion takes BlockSpecs, got {errors.short(spec)}.")
    if spec.block_shape is None:
        return Block(aval.shape, lambda *_: (0,) * aval.ndim, spec)
    for b in spec.block_shape:
        if not (is_squeezed(b) or isinstance(b, (int, np.integer, Blocked, Element, BoundedSlice))):
            raise NotImplementedError(f"a fusion with the block dimension {b}. Use sizes, None, pl.Element or pl.BoundedSlice.")
    dims, index_map = tuple(spec.block_shape), spec.index_map

    def index(*args: Any) -> tuple:
        found = (0,) * len(dims) if index_map is None else index_map(*args)
        return tuple([Slice(i.start or 0, i.stop - (i.start or 0)) if isinstance(i, slice) else i
                      for i in (found if isinstance(found, (tuple, list)) else (found,))])

    return Block(dims, index, spec)


def seen_shape(block: Block) -> tuple[int, ...]:
    """Return the shape of a block without the dimensions that its spec drops."""
    return tuple([n for n, b in zip(block.sizes, block.dims) if not is_squeezed(b)])


# Functions as jaxprs


def aval_of(x: Any) -> ShapedArray:
    """Return the type of an array, or of what has a shape and a dtype."""
    return ShapedArray(tuple(x.shape), x.dtype) if hasattr(x, "shape") and not tracing.is_arraylike(x) else (
        tracing.aval_of(x).strip_weak_type())


def called(eqn: JaxprEqn) -> Jaxpr | None:
    """Return the jaxpr that an equation calls once."""
    if isinstance(eqn.primitive, ProgramCall):
        return eqn.params[eqn.primitive.parameter]
    found = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
    is_call = isinstance(found, Jaxpr) and eqn.primitive.name not in _LOOPS and (
        [v.aval.shape for v in found.invars] == [v.aval.shape for v in eqn.invars])
    return found if is_call else None


def run_flat(jaxpr: Jaxpr, args: Sequence[Any], check: Callable[[JaxprEqn], None] = lambda eqn: None) -> list[Any]:
    """Evaluate a jaxpr and those that it calls, equation by equation."""
    env: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*jaxpr.consts, *args]))
    for eqn in jaxpr.eqns:
        check(eqn)
        values = [v.val if v.is_literal else env[v] for v in eqn.invars]
        inner = called(eqn)
        if inner is not None:
            results = run_flat(inner, values, check)
        else:
            bound = eqn.primitive.bind(*values, **eqn.params)
            results = bound if eqn.primitive.multiple_results else [bound]
        env.update(zip(eqn.outvars, results))
    return [v.val if v.is_literal else env[v] for v in jaxpr.outvars]


@dataclasses.dataclass
class Traced:
    """A function of arrays as a jaxpr without calls.

    Attributes:
        jaxpr: The jaxpr; its constants are what the function closes over.
        consts: The constants.
        in_tree, out_tree: Structures of `(args, kwargs)` and of the results.
    """

    jaxpr: Jaxpr
    consts: list[Any]
    in_tree: Any
    out_tree: Any

    def is_scalar(self, v: Any) -> bool:
        """True if a constant only computes positions of dynamic slices: it is a prefetched scalar."""
        if v.aval.shape:
            return False
        positions: set[Any] = set()
        others: set[Any] = set()
        for eqn in reversed(self.jaxpr.eqns):
            of_slice = eqn.primitive.name == "dynamic_slice"
            only_positions = not any([o in others for o in eqn.outvars]) and any([o in positions for o in eqn.outvars])
            for i, x in enumerate(eqn.invars):
                if not x.is_literal:
                    (positions if of_slice and i or only_positions else others).add(x)
        return v in positions and v not in others and v not in self.jaxpr.outvars


def trace(f: Callable, args: tuple, kwargs: dict) -> Traced:
    """Trace a function on examples of its arguments."""
    leaves, in_tree = tree.flatten((args, kwargs))
    out_tree: Any = None

    def flat(*tracers: Any) -> list[Any]:
        nonlocal out_tree
        positional, named = in_tree.unflatten(tracers)
        results, out_tree = tree.flatten(f(*positional, **named))
        return results

    avals = [aval_of(x) for x in leaves]
    closed, consts = tracing.trace_to_jaxpr(flat, avals)
    count = len(closed.constvars)
    as_inputs = closed.replace(constvars=[], invars=[*closed.constvars, *closed.invars])
    all_avals = [v.aval for v in as_inputs.invars]
    jaxpr, own = inline_scalar_constants(*tracing.trace_to_jaxpr(lambda *xs: run_flat(as_inputs, xs), all_avals))
    used = {v for eqn in jaxpr.eqns for v in eqn.invars if not v.is_literal} | {v for v in jaxpr.outvars if not v.is_literal}
    used_consts = [(v, c) for v, c in zip(jaxpr.invars[:count], consts) if v in used]
    all_consts = [*zip(jaxpr.constvars, own), *used_consts]
    jaxpr = jaxpr.replace(constvars=[v for v, _ in all_consts], invars=jaxpr.invars[count:])
    return Traced(jaxpr, [c for _, c in all_consts], in_tree, out_tree)


# Rules. Those for pulling return the block of each operand, None for one without.


def _unsupported(eqn: JaxprEqn, why: str = "") -> NotImplementedError:
    return NotImplementedError(f"{eqn.primitive.shown_as} cannot be fused into a kernel{why}. Compute it outside of the fused "
                               f"function, or before and after it.")


def _pull_elementwise(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    return [_broadcast_operand(block, v.aval.shape, eqn.outvars[0].aval.shape) for v in eqn.invars]


def _broadcast_operand(block: Block, shape: tuple, out: tuple) -> Block:
    """Return the block of an operand that has the shape of the result, is a scalar, or has sizes of 1."""
    if shape == out:
        return block
    is_one = [n == 1 and m != 1 for n, m in zip(shape, out)]
    return block.replace([1 if one and not is_squeezed(b) else b for one, b in zip(is_one, block.dims)],
                         lambda index: [0 if one else i for one, i in zip(is_one, index)])


def _pull_broadcast(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    dims, shape, out = eqn.params["broadcast_dimensions"], eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape
    is_one = [n == 1 and out[d] != 1 for n, d in zip(shape, dims)]
    return [block.replace([1 if one and not is_squeezed(block.dims[d]) else block.dims[d] for one, d in zip(is_one, dims)],
                          lambda index: [0 if one else index[d] for one, d in zip(is_one, dims)])]


def _pull_transpose(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    order = eqn.params["permutation"]
    inverse = [order.index(d) for d in range(len(order))]
    return [block.replace([block.dims[d] for d in inverse], lambda index: [index[d] for d in inverse])]


def _reshaped(eqn: JaxprEqn, block: Block, source: tuple, target: tuple) -> Block:
    found = reshaped_block(block.dims, source, target, 1 if eqn.primitive.name == "reshape" else None)
    if found is None:
        raise _unsupported(eqn, f" from shape {eqn.invars[0].aval.shape} to {eqn.outvars[0].aval.shape} in blocks of "
                                f"{block.dims}: dimensions that are merged or split must have blocks of consecutive elements")
    return block.replace(*found)


def _pull_reshape(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    if eqn.primitive.name == "reshape":  # which has no squeezed dimensions
        block = dataclasses.replace(block, dims=tuple([1 if is_squeezed(b) else b for b in block.dims]))
    return [_reshaped(eqn, block, eqn.outvars[0].aval.shape, eqn.invars[0].aval.shape)]


def _pull_slice(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    params, starts = eqn.params, eqn.params["start_indices"]
    if params["strides"] is not None and any([n != 1 for n in params["strides"]]):
        raise _unsupported(eqn, " with strides")
    return [_shifted(eqn, block, starts)]


def _shifted(eqn: JaxprEqn, block: Block, starts: Sequence[Any]) -> Block:
    """Return a block from a start on, which must be a multiple of the size of the block, unless that starts at an element."""
    units = [1 if _by_elements(b) else n for b, n in zip(block.dims, block.sizes)]
    for start, n in zip(starts, units):
        if callable(start) and n != 1:
            raise _unsupported(eqn, f" from a dynamic index in blocks of {n}: only blocks of size 1 and pl.Element have any "
                                    f"start")
        if isinstance(start, int) and start % n:
            raise ValueError(f"{eqn.primitive.shown_as} from {start} cannot be fused into a kernel with blocks of {n}. Start "
                             f"at a multiple of the block's size, or use pl.Element({n}).")

    def index(*args: Any) -> tuple:
        values = [s(*args) if callable(s) else s // n for s, n in zip(starts, units)]
        return tuple([i if isinstance(v, int) and not v else Slice(i.start + v, i.size) if isinstance(i, Slice) else i + v
                      for i, v in zip(block.index(*args), values)])

    return Block(block.dims, index, block.spec)


def _pull_dynamic_slice(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    operand, sizes = eqn.invars[0], eqn.params["slice_sizes"]
    starts: list[Any] = []
    for v, full, n in zip(eqn.invars[1:], operand.aval.shape, sizes):
        if full == n:
            starts.append(0)
        elif v.is_literal:
            starts.append(min(max(int(v.val), 0), full - n))
        else:
            starts.append(state.scalar(v))
    return [_shifted(eqn, block, starts), *[None] * len(sizes)]


def _pull_reduction(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    shape, axes = eqn.invars[0].aval.shape, eqn.params["axes"]
    left = {d: i for i, d in enumerate([d for d in range(len(shape)) if d not in axes])}
    return [block.replace([Blocked(shape[d]) if d in axes else block.dims[left[d]] for d in range(len(shape))],
                          lambda index: [0 if d in axes else index[left[d]] for d in range(len(shape))])]


def _pull_concatenate(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    """Return blocks of the operands: the whole of each, or the block that is nearest to that of the result."""
    axis, shapes, size = eqn.params["dimension"], [v.aval.shape for v in eqn.invars], block.sizes[eqn.params["dimension"]]
    sizes = [shape[axis] for shape in shapes]
    if _by_elements(block.dims[axis]):
        raise _unsupported(eqn, f" along axis {axis} in blocks of {block.dims[axis]}, which are parts of several operands")
    if size == sum(sizes):
        return [block.replace(_with(block.dims, axis, n), lambda index: index) for n in sizes]
    if any([n % size for n in sizes]):
        raise _unsupported(eqn, f" of sizes {tuple(sizes)} in blocks of {size}: they must be multiples of the block's size")

    def shifted(number: int) -> Block:
        first, last = sum(sizes[:number]) // size, sizes[number] // size - 1
        return block.replace(block.dims, lambda index: _with(index, axis, _clamped(index[axis] - first, last)))

    return [shifted(k) for k in range(len(sizes))]


def _with(items: Sequence[Any], position: int, item: Any) -> tuple[Any, ...]:
    return (*items[:position], item, *items[position + 1:])


def _clamped(i: Any, last: int) -> Any:
    return min(max(i, 0), last) if isinstance(i, int) else xnp.clip(i, 0, last)


def _pull_stack(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    axis, count = eqn.params["axis"], len(eqn.invars)
    if block.sizes[axis] != count or _by_elements(block.dims[axis]):
        raise _unsupported(eqn, f" of {count} arrays in blocks of {block.sizes[axis]} along the new axis: blocks must have "
                                f"all")
    left = [d for d in range(len(block.sizes)) if d != axis]
    return [block.replace([block.dims[d] for d in left], lambda index: [index[d] for d in left])] * count


def _pull_split(state: Any, eqn: JaxprEqn, blocks: Sequence[Block | None]) -> list[Block | None]:
    """Return the block of the operand, which has the axis whole."""
    axis, shape = eqn.params["axis"], eqn.invars[0].aval.shape
    used = [(b, n) for b, n in zip(blocks, eqn.params["sizes"]) if b is not None]
    if any([b.sizes[axis] != n or _by_elements(b.dims[axis]) or _with(b.dims, axis, 0) != _with(used[0][0].dims, axis, 0)
            for b, n in used]):
        raise _unsupported(eqn, f" along axis {axis} in blocks of {', '.join([str(b.sizes) for b, _ in used])}: blocks must "
                                f"have that axis whole, and the others in equal blocks")
    return [used[0][0].replace(_with(used[0][0].dims, axis, shape[axis]), lambda index: _with(index, axis, 0))]


def _repeats(eqn: JaxprEqn, block: Block) -> list[int]:
    """Return how often a tiled array is repeated within a block, in each dimension."""
    shape, found = eqn.invars[0].aval.shape, []
    for n, m, b, full in zip(shape, block.sizes, block.dims, eqn.outvars[0].aval.shape):
        if _by_elements(b) and n == full:
            found.append(1)
            continue
        if _by_elements(b):
            raise _unsupported(eqn, f" of shape {shape} in blocks of {b}, which are parts of several copies")
        if n % m and m % n:
            raise _unsupported(eqn, f" of shape {shape} in blocks of {block.sizes}: their sizes must divide the shape, or be "
                                    f"multiples of it")
        found.append(max(m // n, 1))
    return found


def _pull_tile(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    shape, repeats = eqn.invars[0].aval.shape, _repeats(eqn, block)
    sizes = [min(n, m) for n, m in zip(shape, block.sizes)]
    dims = [b if _by_elements(b) or is_squeezed(b) else n for b, n in zip(block.dims, sizes)]
    return [block.replace(dims, lambda index: [
        i if _by_elements(b) else 0 if n == m else i if r == 1 and o == n else i % (n // m)
        for i, b, n, m, r, o in zip(index, dims, shape, sizes, repeats, eqn.outvars[0].aval.shape)])]


def _pull_dot_general(state: Any, eqn: JaxprEqn, block: Block) -> list[Block | None]:
    """Return blocks of the operands, which have the axes of the sum whole."""
    contracted, batch = eqn.params["dimension_numbers"]
    found: list[Block | None] = []
    start = len(batch[0])
    for v, summed, shared in zip(eqn.invars, contracted, batch):
        shape, left = v.aval.shape, [d for d in range(v.aval.ndim) if d not in summed and d not in shared]
        dims = {d: i for i, d in enumerate(shared)} | {d: start + i for i, d in enumerate(left)}
        start += len(left)
        found.append(block.replace(
            [block.dims[dims[d]] if d in dims else n for d, n in enumerate(shape)],
            lambda index, dims=dims, rank=len(shape): [index[dims[d]] if d in dims else 0 for d in range(rank)]))
    return found


_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax", "argmin")
_ELEMENTWISE = ("convert_element_type", "select_n", "clamp", "integer_pow", "copy", "stop_gradient", "reduce_precision")

PULL: dict[str, Callable] = {
    "broadcast_in_dim": _pull_broadcast, "transpose": _pull_transpose, "reshape": _pull_reshape, "squeeze": _pull_reshape,
    "expand_dims": _pull_reshape, "slice": _pull_slice, "dynamic_slice": _pull_dynamic_slice,
    "concatenate": _pull_concatenate, "stack": _pull_stack, "tile": _pull_tile, "dot_general": _pull_dot_general,
    "iota": lambda state, eqn, block: [], **dict.fromkeys(_REDUCTIONS, _pull_reduction)}


def _is_elementwise(eqn: JaxprEqn) -> bool:
    return eqn.primitive.traits.broadcasts_scalars or eqn.primitive.name in _ELEMENTWISE


def pull_rule(eqn: JaxprEqn) -> Callable:
    """Return the rule that pulls the block of the result of an equation."""
    rule = PULL.get(eqn.primitive.name) or (_pull_elementwise if _is_elementwise(eqn) else None)
    if rule is None or len(eqn.outvars) != 1:
        raise _unsupported(eqn)
    return rule


def _push_elementwise(eqn: JaxprEqn, blocks: Sequence[Block | None]) -> Block | None:
    shape = eqn.outvars[0].aval.shape
    return next((b for v, b in zip(eqn.invars, blocks) if b is not None and v.aval.shape == shape), None)


def _push_broadcast(eqn: JaxprEqn, blocks: Sequence[Block]) -> Block:
    [block], out = blocks, eqn.outvars[0].aval.shape
    dims = {d: i for i, d in enumerate(eqn.params["broadcast_dimensions"]) if eqn.invars[0].aval.shape[i] == out[d]}
    return block.replace([block.dims[dims[d]] if d in dims else n for d, n in enumerate(out)],
                         lambda index: [index[dims[d]] if d in dims else 0 for d in range(len(out))])


def _push_transpose(eqn: JaxprEqn, blocks: Sequence[Block]) -> Block:
    [block], order = blocks, eqn.params["permutation"]
    return block.replace([block.dims[d] for d in order], lambda index: [index[d] for d in order])


def _push_reshape(eqn: JaxprEqn, blocks: Sequence[Block]) -> Block:
    return _reshaped(eqn, blocks[0], eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape)


def _push_reduction(eqn: JaxprEqn, blocks: Sequence[Block]) -> Block:
    [block], shape, axes = blocks, eqn.invars[0].aval.shape, eqn.params["axes"]
    if any([block.sizes[d] != shape[d] for d in axes]):
        raise _unsupported(eqn, f" over the axes {tuple(axes)} of shape {shape} in blocks of {block.sizes}: each block must "
                                f"have these axes whole")
    left = [d for d in range(len(shape)) if d not in axes]
    return block.replace([block.dims[d] for d in left], lambda index: [index[d] for d in left])


PUSH: dict[str, Callable] = {
    "broadcast_in_dim": _push_broadcast, "transpose": _push_transpose, "reshape": _push_reshape, "squeeze": _push_reshape,
    "expand_dims": _push_reshape, **dict.fromkeys(_REDUCTIONS, _push_reduction)}


# Blocks of values


def _evaluate_iota(eqn: JaxprEqn, block: Block, position: tuple, values: Sequence[Any]) -> Any:
    d, dtype = eqn.params["dimension"], eqn.outvars[0].aval.dtype
    start, dim = block.index(*position)[d], block.dims[d]
    if isinstance(dim, BoundedSlice):
        first = start.start
    elif isinstance(dim, Element):
        first = start - dim.padding[0]
    else:
        first = start * block.sizes[d] if isinstance(start, int) else start * np.int32(block.sizes[d])
    return (broadcasted_iota(np.int32, block.sizes, d) + first).astype(dtype)


def _evaluate_broadcast(eqn: JaxprEqn, block: Block, position: tuple, values: Sequence[Any]) -> Any:
    return eqn.primitive.bind(*values, **(eqn.params | {"shape": block.sizes}))


def _evaluate_concatenate(eqn: JaxprEqn, block: Block, position: tuple, values: Sequence[Any]) -> Any:
    axis, sizes = eqn.params["dimension"], [v.aval.shape[eqn.params["dimension"]] for v in eqn.invars]
    size = block.sizes[axis]
    if size == sum(sizes):
        return eqn.primitive.bind(*values, **eqn.params)
    number, found = block.index(*position)[axis], values[0]
    for k, value in enumerate(values[1:], 1):
        found = xnp.where(number >= sum(sizes[:k]) // size, value, found)
    return found


EVALUATE: dict[str, Callable] = {
    "iota": _evaluate_iota, "broadcast_in_dim": _evaluate_broadcast, "concatenate": _evaluate_concatenate,
    "tile": lambda eqn, block, position, values: eqn.primitive.bind(*values, reps=tuple(_repeats(eqn, block))),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), lambda eqn, block, position, values: reshape_to(
        values[0], block.sizes)),
    **dict.fromkeys(("slice", "dynamic_slice"), lambda eqn, block, position, values: values[0])}


class Pulled:
    """The blocks of a traced function, from those of its results.

    Args:
        traced: The function. Its constants are prefetched scalars.
        outputs: Blocks of its results.
        handler: Function from all prefetched scalars to those of this function.
        grid_len: Number of the axes of the grid.
        strict: If True, a value that is used twice must have one block; if False, blocks of equal sizes.
    """

    def __init__(self, traced: Traced, outputs: Sequence[Block | None], handler: Callable | None, grid_len: int | None,
                 strict: bool) -> None:
        self.traced, self.outputs, self.handler, self.grid_len, self.strict = traced, outputs, handler, grid_len, strict
        self.blocks: dict[Any, Block] = {}
        for v, b in zip(traced.jaxpr.outvars, outputs):
            if not v.is_literal and b is not None:
                self._assign(v, b, None)
        for eqn in reversed(traced.jaxpr.eqns):
            found = [self.blocks.get(v) for v in eqn.outvars]
            if any([b is not None for b in found]):
                rule = _PULL_ALL.get(eqn.primitive.name)
                pulled = pull_rule(eqn)(self, eqn, found[0]) if rule is None else rule(self, eqn, found)
                for v, b in zip(eqn.invars, pulled):
                    if b is not None and not v.is_literal:
                        self._assign(v, b, eqn)

    def _assign(self, v: Any, block: Block, eqn: JaxprEqn | None) -> None:
        old = self.blocks.setdefault(v, block)
        differs = old.sizes != block.sizes or any([x != y for x, y in zip(old.dims, block.dims) if _by_elements(x or y)])
        if old is not block and (differs or self.strict and not self._equal(old, block)):
            raise ValueError(f"a value of type {v.aval} is used in blocks of {old.dims} and of {block.dims} at different "
                             f"positions{f', by {eqn.primitive.shown_as}' if eqn else ''}: a fusion needs one block of each "
                             f"value. Pass it to the function twice, or compute it outside.")

    def _equal(self, x: Block, y: Block) -> bool:
        """True if two blocks have equal indices at some points of the grid, chosen at random."""
        if not x.sizes:
            return True
        if self.grid_len is None or self.traced.consts:
            return False
        random = np.random.default_rng(0)  # small grids, too, since blocks of concatenated arrays differ near their ends
        points = random.integers(0, 2 ** random.integers(1, 11, (32, 1)), (32, self.grid_len)).tolist()
        return all([x.index(*p) == y.index(*p) for p in points])

    def scalar(self, v: Any) -> Callable[..., Any]:
        """Return a scalar of the jaxpr as a function of the grid's indices and of prefetched scalars."""
        jaxpr, handler, grid_len = self.traced.jaxpr, self.handler, self.grid_len
        needed = jaxpr.replace(outvars=[v], eqns=_needed(jaxpr, [v]), invars=list(jaxpr.constvars), constvars=[])
        is_constant = not any([x in jaxpr.constvars for x in [v, *[x for eqn in needed.eqns for x in eqn.invars]]])
        if is_constant:
            return lambda *args: run_flat(needed, [0] * len(needed.invars))[0]
        if handler is None or grid_len is None:
            raise ValueError("a fusion has slices at dynamic indices: pass scalar_prefetch_handler and grid_len, and the "
                             "scalars of get_fusion_values as scalar operands of the kernel.")

        def value(*args: Any) -> Any:
            refs = tree.leaves(handler(*args[grid_len:]))
            scalars = [r[...] if not r.shape else r[0] for r in refs]
            return run_flat(needed, scalars)[0]

        return value

    def evaluate(self, program_ids: Sequence[Any], scalars: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """Return a block of each result, from blocks of the arguments."""
        jaxpr, env = self.traced.jaxpr, {}
        for v, x in zip(jaxpr.invars, leaves):
            if v in self.blocks:
                env[v] = reshape_to(x, self.blocks[v].sizes)
        for eqn in jaxpr.eqns:
            block = self.blocks.get(eqn.outvars[0])
            values = [v.val if v.is_literal else env.get(v) for v in eqn.invars]
            if eqn.primitive.multiple_results:
                if any([v in self.blocks for v in eqn.outvars]):
                    env.update(zip(eqn.outvars, self._evaluate_custom(eqn, values, program_ids, scalars) if (
                        eqn.primitive is custom_fusion_p) else eqn.primitive.bind(*values, **eqn.params)))
            elif block is not None:
                rule = EVALUATE.get(eqn.primitive.name)
                env[eqn.outvars[0]] = eqn.primitive.bind(*values, **eqn.params) if rule is None else (
                    rule(eqn, block, (*program_ids, *scalars), values))
        found = [v.val if v.is_literal else env[v] for v in jaxpr.outvars]
        return [x if b is None else reshape_to(x, seen_shape(b)) for x, b in zip(found, self.outputs)]


    def _evaluate_custom(self, eqn: JaxprEqn, values: Sequence[Any], program_ids: Sequence[Any], scalars: Sequence[Any]
                         ) -> list[Any]:
        """Return the blocks of the results of a custom fusion."""
        rules, blocks = eqn.params["rules"], [self.blocks.get(v) for v in eqn.outvars]
        indices = tuple([None if b is None else tuple(b.index(*program_ids, *scalars)) for b in blocks])
        specs = tuple([None if b is None else b.as_spec() for b in blocks])
        context = CustomEvalContext(specs, indices, tuple(scalars), self.handler)
        operands = [self.blocks.get(v) for v in eqn.invars]
        seen = [x if b is None else reshape_to(x, seen_shape(b)) for x, b in zip(values, operands)]
        found = _one_for_each("def_eval_rule", "results", eqn, rules.eval_rule(context, *seen), eqn.outvars)
        return [x if b is None else reshape_to(x, b.sizes) for x, b in zip(found, blocks)]


# Custom fusions


def _one_for_each(rule: str, kind: str, eqn: JaxprEqn, found: Any, variables: Sequence[Any]) -> list[Any]:
    if not isinstance(found, (tuple, list)) or len(found) != len(variables):
        name = eqn.params["rules"].__name__
        raise TypeError(f"the rule that {name}.{rule} has set must return a tuple for the {len(variables)} {kind} of {name}, "
                        f"got {errors.short(found)}.")
    return list(found)


def _pull_custom(state: Pulled, eqn: JaxprEqn, blocks: Sequence[Block | None]) -> list[Block | None]:
    """Apply the user's rule. Transforms of results, which it composes, have the indices of the current step."""
    current: list[tuple] = [()]
    given = tuple([None if b is None else BlockIndexTransform(
        b.dims, lambda *_, b=b: tuple(b.index(*current[0])), memory_space=b.spec.memory_space,
        pipeline_mode=b.spec.pipeline_mode) for b in blocks])

    def block(transform: Any, v: Any) -> Block | None:
        if transform is None:
            return None
        if not isinstance(transform, BlockIndexTransform):
            raise TypeError(f"a rule of def_pull_block_spec returns BlockIndexTransforms, got {errors.short(transform)}.")

        def index(*args: Any) -> tuple:
            current[0] = args
            outs = [None if b is None else tuple(b.index(*args)) for b in state.outputs]
            return tuple(transform.block_index_transform(*outs))

        return block_of(BlockSpec(transform.block_shape, index, memory_space=transform.memory_space,
                                  pipeline_mode=transform.pipeline_mode), v.aval)

    found = _one_for_each("def_pull_block_spec", "operands", eqn, eqn.params["rules"].pull_block_spec_rule(given), eqn.invars)
    return [block(t, v) for t, v in zip(found, eqn.invars)]


# Rules for primitives of several results: they get the block of each, None for unused results.
_PULL_ALL: dict[str, Callable] = {custom_fusion_p.name: _pull_custom, "split": _pull_split}


def _push_custom(eqn: JaxprEqn, blocks: Sequence[Block | None]) -> list[Block | None]:
    specs = tuple([as_spec(b) for b in blocks])
    found = _one_for_each("def_push_block_spec", "results", eqn, eqn.params["rules"].push_block_spec_rule(specs), eqn.outvars)
    return [block_of(s, v.aval) for s, v in zip(found, eqn.outvars)]


def _needed(jaxpr: Jaxpr, outvars: Sequence[Any]) -> list[JaxprEqn]:
    """Return the equations that some variables depend on."""
    needed_vars, eqns = set(outvars), list[JaxprEqn]()
    for eqn in reversed(jaxpr.eqns):
        if any([v in needed_vars for v in eqn.outvars]):
            eqns.insert(0, eqn)
            needed_vars |= {v for v in eqn.invars if not v.is_literal}
    return eqns


def push(traced: Traced, inputs: Sequence[Block | None]) -> list[Block | None]:
    """Return the blocks of the results of a function, from those of its arguments; None for what has none."""
    blocks: dict[Any, Block | None] = dict(zip(traced.jaxpr.invars, inputs))
    for eqn in traced.jaxpr.eqns:
        found = [None if v.is_literal else blocks.get(v) for v in eqn.invars]
        if any([b is not None for b in found]):
            if eqn.primitive is custom_fusion_p:
                blocks.update(zip(eqn.outvars, _push_custom(eqn, found)))
                continue
            rule = PUSH.get(eqn.primitive.name) or (_push_elementwise if _is_elementwise(eqn) else None)
            if rule is None or len(eqn.outvars) != 1:
                raise _unsupported(eqn)
            blocks[eqn.outvars[0]] = rule(eqn, found)
    return [None if v.is_literal else blocks.get(v) for v in traced.jaxpr.outvars]


def as_spec(block: Block | None) -> Any:
    """Return a block as a spec, `no_block_spec` if there is none."""
    return no_block_spec if block is None else block.as_spec()
