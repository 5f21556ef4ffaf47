"""A grid and its blocks as a kernel's operation knows them: made of what users say, with index maps as programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.dimensions import is_symbolic_dim
from xlafront.core.ir import ClosedJaxpr, DebugInfo, Jaxpr, Literal, Var
from xlafront.core.refs import AbstractRef
from xlafront.lax.elementwise import to_dtype
from xlafront.lax.ref_indexing import Slice
from xlafront.pallas.primitives import index_aval
from xlafront.pallas.specs import (
    BlockDim,
    Blocked,
    BlockSpec,
    GridSpec,
    MemorySpace,
    NoBlockSpec,
    Squeezed,
    no_block_spec,
    ref_type,
    squeezed,
)
from xlafront.staging import signatures


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BlockMapping:
    """Which block of an array a kernel sees at each point of the grid.

    - `block_shape`: what is done with each dimension.
    - `array_aval`: the type of the array; `block_aval`: that of the reference that the kernel gets.
    - `index_map_jaxpr`: from the grid's indices, and the references to scalars, to the place of the block.
    - `origin`: the user's name of the array.
    - `pipeline_mode`: how often it is buffered.
    """

    block_shape: tuple[Any, ...]
    array_aval: ShapedArray
    block_aval: AbstractRef
    index_map_jaxpr: ClosedJaxpr
    origin: str
    pipeline_mode: Any = None

    sizes = property(lambda self: tuple([1 if type(b) is Squeezed else b.block_size for b in self.block_shape]))
    is_whole = property(lambda self: self.sizes == self.array_aval.shape and all(
        [type(b) is Blocked for b in self.block_shape]))

    def __repr__(self):
        return f"BlockMapping(block_shape={self.block_shape})"

    def of_batch(self, axis_size: int | None) -> BlockMapping:
        """The same in a grid that has one more axis, the first; with a size the array has one more dimension, along it."""
        inner, index = self.index_map_jaxpr.jaxpr, Var(index_aval)
        along = axis_size is not None
        program = inner.replace(invars=[index, *inner.invars], outvars=[index, *inner.outvars] if along else inner.outvars)
        made = dataclasses.replace(self, index_map_jaxpr=ClosedJaxpr(program, self.index_map_jaxpr.consts))
        if not along:
            return made
        return dataclasses.replace(made, block_shape=(squeezed, *self.block_shape),
                                   array_aval=self.array_aval.update(shape=(axis_size, *self.array_aval.shape)))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class GridMapping:
    """The grid of a kernel, and what the kernel's references are, in their order: scalars, which index maps get too, blocks of
    inputs and of outputs, scratch space.

    - `grid`: its sizes; None for those that are operands, the first ones.
    - `block_mappings`: of the inputs, then of the outputs.
    - `vmapped_dims`: the axes that `vmap` has added, which the kernel does not know of.
    - `index_avals`, `scratch_avals`: the types of the references to scalars and to scratch space.
    """

    grid: tuple[int | None, ...]
    block_mappings: tuple[BlockMapping, ...]
    num_inputs: int
    num_outputs: int
    index_avals: tuple[AbstractRef, ...] = ()
    scratch_avals: tuple[AbstractRef, ...] = ()
    vmapped_dims: tuple[int, ...] = ()
    derived: dict[Any, GridMapping] = dataclasses.field(default_factory=dict)  # what transformations have made of it

    num_dynamic_grid_bounds = property(lambda self: self.grid.count(None))
    num_index_operands = property(lambda self: len(self.index_avals))
    num_scratch_operands = property(lambda self: len(self.scratch_avals))
    kernel_axes = property(lambda self: [i for i in range(len(self.grid)) if i not in self.vmapped_dims],
                           doc="The axes of the grid that the kernel knows of.")

    def __repr__(self):
        return f"GridMapping(grid={self.grid}, block_mappings={self.block_mappings})"

    def of_batch(self, axis_size: int, mapped: tuple[bool, ...]) -> GridMapping:
        """The grid with one more axis in front, along which the arrays marked have one more dimension."""
        key = (axis_size, mapped)
        if key not in self.derived:
            self.derived[key] = dataclasses.replace(
                self, grid=(axis_size, *self.grid), vmapped_dims=(0, *[d + 1 for d in self.vmapped_dims]), derived={},
                block_mappings=tuple([b.of_batch(axis_size if m else None) for b, m in zip(self.block_mappings, mapped)]))
        return self.derived[key]

    def with_arrays(self, avals: Sequence[ShapedArray]) -> GridMapping:
        """The same with more inputs, behind the others, which the kernel sees as wholes."""
        blocks = tuple([_block_mapping(no_block_spec, a, "an array of the kernel's own", self.grid, self.index_avals, None)
                        for a in avals])
        ins, outs = self.block_mappings[:self.num_inputs], self.block_mappings[self.num_inputs:]
        return dataclasses.replace(self, block_mappings=(*ins, *blocks, *outs), num_inputs=len(ins) + len(blocks), derived={})


# From what users say


def grid_mapping(spec: GridSpec, in_avals: Sequence[ShapedArray], in_tree, in_names: Sequence[str],
                 out_avals: Sequence[ShapedArray], out_tree, out_names: Sequence[str]) -> GridMapping:
    """The mapping for arguments and results of these types, in these structures, of these names."""
    count = spec.num_scalar_prefetch
    index_tree, in_tree, scalars, in_avals, in_names = _split(count, in_avals, in_tree, in_names)
    index_avals = tuple([AbstractRef(a, spec.scalar_memory_space) for a in scalars])
    in_specs = _specs_for("in_specs", "the arguments", spec.in_specs, in_tree, in_avals, True)
    out_specs = _specs_for("out_specs", "out_shape", spec.out_specs, out_tree, out_avals, False)
    blocks = tuple([_block_mapping(s, aval, name, spec.grid, index_avals, index_tree) for s, aval, name in zip(
        [*in_specs, *out_specs], [*in_avals, *out_avals], [*in_names, *out_names])])
    grid = tuple([n.__index__() if hasattr(type(n), "__index__") and not isinstance(n, tracing.Tracer) else None
                  for n in spec.grid])
    scratch = tuple([ref_type("scratch_shapes", shape) for shape in tree.leaves(spec.scratch_shapes)])
    return GridMapping(grid, blocks, len(in_avals), len(out_avals), index_avals, scratch)


def _split(count: int, avals: Sequence, in_tree, names: Sequence[str]):
    """The first `count` arguments, which are scalars for index maps, and the others."""
    whole = tree.unflatten(in_tree, range(len(avals)))
    if count > len(whole):
        raise ValueError(f"num_scalar_prefetch={count} arguments come first, got {len(whole)} argument(s).")
    scalars, rest = tree.flatten(whole[:count]), tree.flatten(whole[count:])
    first = len(scalars[0])
    return scalars[1], rest[1], avals[:first], avals[first:], names[first:]


def _specs_for(which: str, what: str, specs: Any, structure, avals: Sequence, many: bool) -> list[Any]:
    """A spec for each array."""
    if specs is no_block_spec or isinstance(specs, NoBlockSpec):
        return [no_block_spec] * len(avals)
    if many and not isinstance(specs, (tuple, list)):
        raise ValueError(f"in_specs must be a tuple or a list with a BlockSpec for each argument, got {errors.short(specs)}.")
    found, given = tree.flatten(_plain(specs))
    wanted = tree.structure(_plain(tree.unflatten(structure, [0] * len(avals))))
    if given != wanted:
        raise ValueError(f"the pytree of {which} and that of {what} do not match: a BlockSpec is needed for each array, in the "
                         f"structure {wanted}, got {given}.")
    for s in found:
        if not _is_spec(s):
            raise TypeError(f"{which} takes BlockSpecs, got {errors.short(s)}.")
    return found


def _is_spec(x: Any) -> bool:
    return isinstance(x, (BlockSpec, NoBlockSpec))


def _plain(x: Any) -> Any:
    """With lists as tuples: users write either."""
    if type(x) in (tuple, list):
        return tuple(map(_plain, x))
    return {k: _plain(v) for k, v in x.items()} if type(x) is dict else x


def _block_mapping(spec: Any, aval: ShapedArray, name: str, grid: tuple, index_avals: Sequence[AbstractRef],
                   index_tree) -> BlockMapping:
    if isinstance(spec, NoBlockSpec):
        spec = BlockSpec()
    shape = aval.shape if spec.block_shape is None else tuple(spec.block_shape)
    if len(shape) != aval.ndim:
        raise ValueError(f"the block shape of {name}, {shape}, must have the same number of dimensions as the array, whose "
                         f"shape is {aval.shape}.")
    dims = tuple([_block_dim(n, name, shape) for n in shape])
    space = MemorySpace.DEFAULT if spec.memory_space is None else spec.memory_space
    block = aval.update(shape=tuple([b.block_size for b in dims if type(b) is not Squeezed]), weak_type=False)
    index_map = spec.index_map if spec.block_shape is not None else None
    program = _index_program(index_map, dims, name, len(grid), index_avals, index_tree)
    return BlockMapping(dims, aval, AbstractRef(block, space), program, name, spec.pipeline_mode)


def _block_dim(n: Any, name: str, shape: tuple) -> Any:
    if n is None:
        return squeezed
    if isinstance(n, BlockDim):
        return n
    if is_symbolic_dim(n):
        return Blocked(n)
    if isinstance(n, bool) or not hasattr(type(n), "__index__"):
        raise TypeError(f"the block shape of {name} takes integers, None, or pl.Element and its kin, got {errors.short(n)} in "
                        f"{shape}.")
    return Blocked(n.__index__())


def _index_program(index_map: Callable | None, dims: tuple, name: str, rank: int, index_avals: Sequence[AbstractRef],
                   index_tree) -> ClosedJaxpr:
    """An index map as a program, whose results are integers of 32 bits."""
    of = f"the index map {source_name(index_map)} of {name}"

    def flat(*args):
        if index_map is None:
            return [0] * len(dims)
        scalars = tree.unflatten(index_tree, args[rank:])
        found = index_map(*args[:rank], *scalars)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(dims):
            raise ValueError(f"{of} must return {len(dims)} values to match its block_shape={dims}; it returned {len(found)}: "
                             f"{errors.short(found)}.")
        return [_index(x, of, i) for i, x in enumerate(found)]

    origin = DebugInfo("pallas_call index_map", signatures.function_name(index_map) if index_map else "first block")

    def as_indices(*args):
        return [to_dtype(x, index_aval.dtype) if isinstance(x, tracing.Tracer) else x for x in flat(*args)]

    jaxpr, consts = with_numbers_in_place(*tracing.trace_to_jaxpr(
        as_indices, [index_aval] * rank + list(index_avals), origin))
    if consts:
        raise ValueError(f"{of} must not capture constants, but it uses {', '.join(map(errors.short, consts))}. Compute the "
                         "place from the grid's indices, or pass what it needs as scalars, by a PrefetchScalarGridSpec.")
    return ClosedJaxpr(jaxpr.replace(outvars=[
        Literal(index_aval.dtype.type(v.val), index_aval) if v.is_literal else v for v in jaxpr.outvars]), ())


def with_numbers_in_place(jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """A program with the constants that are known scalars, as those that `xnp.int32(1)` makes, in its operations."""
    known = {v: Literal(np.asarray(c)[()], v.aval) for v, c in zip(jaxpr.constvars, consts)
             if not isinstance(c, tracing.Tracer) and isinstance(v.aval.dtype, np.dtype) and not v.aval.shape}
    if not known:
        return jaxpr, list(consts)
    left = [(v, c) for v, c in zip(jaxpr.constvars, consts) if v not in known]
    return jaxpr.replace(constvars=[v for v, _ in left], eqns=[
        eqn.replace(invars=[v if v.is_literal else known.get(v, v) for v in eqn.invars]) for eqn in jaxpr.eqns],
        outvars=[v if v.is_literal else known.get(v, v) for v in jaxpr.outvars]), [c for _, c in left]


def source_name(function: Callable | None) -> str:
    """The name of a user's function and where it is written."""
    code = getattr(function, "__code__", None)
    place = f" at {code.co_filename}:{code.co_firstlineno}" if code else ""
    return f"{signatures.function_name(function)}{place}" if function else "by default"


def _index(x: Any, of: str, i: int):
    """The place along a dimension, as a scalar integer."""
    if isinstance(x, Slice):
        x = x.start
    aval = tracing.aval_of(x)
    if aval.shape or not dtypes.is_integer(aval.dtype):
        raise ValueError(f"{of} must return integer scalars; result {i} has type {aval}.")
    return x if isinstance(x, tracing.Tracer) else int(x)


