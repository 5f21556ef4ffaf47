"""Grid and block mappings of a kernel's primitive: made from the user's specs, with index maps as jaxprs."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, source, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import to_dtype
from xlafront.core.ir import DebugInfo, Jaxpr, Literal, Var
from xlafront.core.refs import AbstractRef
from xlafront.lax.ref_indexing import Slice
from xlafront.pallas.primitives import index_aval
from xlafront.pallas.specs import (
    BlockDim,
    Blocked,
    BlockSpec,
    BoundedSlice,
    Element,
    GridSpec,
    Indirect,
    MemorySpace,
    NoBlockSpec,
    Squeezed,
    no_block_spec,
    ref_type,
    squeezed,
)
from xlafront.staging import signatures
from xlafront.symbolic.dimensions import is_symbolic_dim


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class BlockMapping:
    """The mapping of an array to blocks, one for each point of the grid.

    Args:
        block_shape: A block dimension for each dimension of the array.
        array_aval: Type of the array.
        block_aval: Type of the reference that the kernel gets.
        index_map_jaxpr: Function of the grid's indices and references to scalars, which returns the index of the block.
        origin: The user's name of the array.
        pipeline_mode: Number of buffers.
    """

    block_shape: tuple[Any, ...]
    array_aval: ShapedArray
    block_aval: AbstractRef
    index_map_jaxpr: Jaxpr
    origin: str
    pipeline_mode: Any = None

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """The size of a block along each dimension of the array."""
        return tuple([1 if type(b) is Squeezed else b.block_size for b in self.block_shape])

    @functools.cached_property
    def covers_array(self) -> bool:
        """True if there is a single block, the array."""
        return self.sizes == self.array_aval.shape and all([type(b) is Blocked for b in self.block_shape])

    def __repr__(self):
        return f"BlockMapping(block_shape={self.block_shape})"

    def batched(self, axis_size: int | None) -> BlockMapping:
        """Return the mapping for a grid with a new first axis. With a size, the array has a new first dimension along it."""
        index_jaxpr, new_index = self.index_map_jaxpr.structure, Var(index_aval)
        maps_array = axis_size is not None
        program = index_jaxpr.replace(invars=[new_index, *index_jaxpr.invars],
                                      outvars=[new_index, *index_jaxpr.outvars] if maps_array else index_jaxpr.outvars)
        mapping = dataclasses.replace(self, index_map_jaxpr=program.with_consts(self.index_map_jaxpr.consts))
        if not maps_array:
            return mapping
        return dataclasses.replace(mapping, block_shape=(squeezed, *self.block_shape),
                                   array_aval=self.array_aval.update(shape=(axis_size, *self.array_aval.shape)))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class GridMapping:
    """The grid of a kernel, and its references: scalars (also passed to index maps), blocks of inputs and outputs, scratch.

    Args:
        grid: Sizes; None for dynamic ones, which are the first operands.
        block_mappings: Mappings of the inputs, then of the outputs.
        num_inputs, num_outputs: Numbers of the inputs and outputs.
        index_avals: Types of the references to scalars.
        scratch_avals: Types of the references to scratch memory.
        vmapped_dims: Axes that `vmap` added, which are hidden from the kernel.
        derived: Cache of mappings that transformations made from this one.
    """

    grid: tuple[int | None, ...]
    block_mappings: tuple[BlockMapping, ...]
    num_inputs: int
    num_outputs: int
    index_avals: tuple[AbstractRef, ...] = ()
    scratch_avals: tuple[AbstractRef, ...] = ()
    vmapped_dims: tuple[int, ...] = ()
    derived: dict[Any, GridMapping] = dataclasses.field(default_factory=dict)

    num_dynamic_grid_bounds = property(lambda self: self.grid.count(None))
    num_index_operands = property(lambda self: len(self.index_avals))
    num_scratch_operands = property(lambda self: len(self.scratch_avals))
    kernel_axes = property(lambda self: [i for i in range(len(self.grid)) if i not in self.vmapped_dims],
                           doc="The axes of the grid that the kernel sees.")
    is_empty = property(lambda self: 0 in self.grid or any([0 in b.array_aval.shape for b in self.block_mappings]),
                        doc="True if there is no program to run, or an array without elements.")

    def __repr__(self):
        return f"GridMapping(grid={self.grid}, block_mappings={self.block_mappings})"

    def batched(self, axis_size: int, mapped: tuple[bool, ...]) -> GridMapping:
        """Return the mapping with a new first grid axis, along which the arrays that are marked have a new first dimension."""
        key = (axis_size, mapped)
        if key not in self.derived:
            self.derived[key] = dataclasses.replace(
                self, grid=(axis_size, *self.grid), vmapped_dims=(0, *[d + 1 for d in self.vmapped_dims]), derived={},
                block_mappings=tuple([b.batched(axis_size if m else None) for b, m in zip(self.block_mappings, mapped)]))
        return self.derived[key]

    def with_arrays(self, avals: Sequence[ShapedArray]) -> GridMapping:
        """Return the mapping with more inputs behind the others, which are unblocked."""
        blocks = tuple([_block_mapping(no_block_spec, a, "an array of the kernel's own", self.grid, self.index_avals, None)
                        for a in avals])
        ins, outs = self.block_mappings[:self.num_inputs], self.block_mappings[self.num_inputs:]
        return dataclasses.replace(self, block_mappings=(*ins, *blocks, *outs), num_inputs=len(ins) + len(blocks), derived={})

    def with_index_maps(self, index_maps: Sequence[Jaxpr]) -> GridMapping:
        """Return the mapping with other index maps."""
        blocks = [dataclasses.replace(b, index_map_jaxpr=m) for b, m in zip(self.block_mappings, index_maps)]
        return dataclasses.replace(self, block_mappings=tuple(blocks), derived={})

    def with_state(self, found: ShapedArray, scratch: Sequence[AbstractRef]) -> GridMapping:
        """Return the mapping with one more output, which is unblocked, and more scratch memory."""
        block = _block_mapping(no_block_spec, found, "what is found", self.grid, self.index_avals, None)
        return dataclasses.replace(self, block_mappings=(*self.block_mappings, block), num_outputs=self.num_outputs + 1,
                                   scratch_avals=(*self.scratch_avals, *scratch), derived={})


# From specs

_leaf = object()  # in place of arrays, for constructors that check their arguments


def grid_mapping(spec: GridSpec, in_avals: Sequence[ShapedArray], in_tree, in_names: Sequence[str],
                 out_avals: Sequence[ShapedArray], out_tree, out_names: Sequence[str]) -> GridMapping:
    """Return the mapping for arguments and results with these types, structures and names."""
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
    """Split off the first `count` arguments, which are scalars for index maps."""
    arguments = tree.unflatten(in_tree, [_leaf] * len(avals))
    if count > len(arguments):
        raise ValueError(f"num_scalar_prefetch={count} arguments come first, got {len(arguments)} argument(s).")
    scalars, rest = tree.flatten(arguments[:count]), tree.flatten(arguments[count:])
    first = len(scalars[0])
    return scalars[1], rest[1], avals[:first], avals[first:], names[first:]


def _specs_for(argument: str, counterpart: str, specs: Any, structure, avals: Sequence, many: bool) -> list[Any]:
    """Return a spec for each array."""
    if specs is no_block_spec or isinstance(specs, NoBlockSpec):
        return [no_block_spec] * len(avals)
    if many and not isinstance(specs, (tuple, list)):
        raise ValueError(f"in_specs must be a tuple or a list with a BlockSpec for each argument, got {errors.short(specs)}.")
    leaf_specs, spec_tree = tree.flatten(_lists_to_tuples(specs))
    expected_tree = tree.structure(_lists_to_tuples(tree.unflatten(structure, [_leaf] * len(avals))))
    if spec_tree != expected_tree:
        raise ValueError(f"the pytree of {argument} and that of {counterpart} do not match: a BlockSpec is needed for each "
                         f"array, in the structure {expected_tree}, got {spec_tree}.")
    for s in leaf_specs:
        if not _is_spec(s):
            raise TypeError(f"{argument} takes BlockSpecs, got {errors.short(s)}.")
    return leaf_specs


def _is_spec(x: Any) -> bool:
    return isinstance(x, (BlockSpec, NoBlockSpec))


def _lists_to_tuples(x: Any) -> Any:
    """Convert lists to tuples, since users write either."""
    if type(x) in (tuple, list):
        return tuple(map(_lists_to_tuples, x))
    return {k: _lists_to_tuples(v) for k, v in x.items()} if type(x) is dict else x


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
    program = _index_jaxpr(index_map, dims, name, len(grid), index_avals, index_tree)
    dims = tuple([Element(b.block_size) if type(b) is BoundedSlice else b for b in dims])  # (slices have the full size)
    return BlockMapping(dims, aval, AbstractRef(block, space), program, name, spec.pipeline_mode)


def _block_dim(dim: Any, name: str, shape: tuple) -> Any:
    if dim is None:
        return squeezed
    if isinstance(dim, Indirect):
        raise NotImplementedError(f"the block shape of {name} has the dimension {dim}, which pallas_call does not have. Take "
                                  f"blocks of one row at prefetched scalars, or copy rows in the kernel: "
                                  f"pltpu.async_copy(x.at[rows], ...).")
    if isinstance(dim, BlockDim):
        return dim
    if is_symbolic_dim(dim):
        return Blocked(dim)
    if isinstance(dim, bool) or not hasattr(type(dim), "__index__"):
        raise TypeError(f"the block shape of {name} takes integers, None, or block dimensions such as pl.Element, got "
                        f"{errors.short(dim)} in {shape}.")
    if dim.__index__() < 0:
        raise ValueError(f"the block shape of {name} takes sizes that are not negative, got {dim} in {shape}.")
    return Blocked(dim.__index__())


def _index_jaxpr(index_map: Callable | None, dims: tuple, name: str, rank: int, index_avals: Sequence[AbstractRef],
                   index_tree) -> Jaxpr:
    """Trace an index map to a jaxpr, whose results are int32 scalars."""
    description = f"the index map {source_name(index_map)} of {name}"

    def flat(*args):
        if index_map is None:
            return [0] * len(dims)
        scalars = tree.unflatten(index_tree, args[rank:])
        expected = f"{rank} indices of the grid{', and the scalars' if scalars else ''}"
        _check_parameters(index_map, (*args[:rank], *scalars), expected, description)
        indices = index_map(*args[:rank], *scalars)
        indices = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
        if len(indices) != len(dims):
            raise ValueError(f"{description} must return {len(dims)} values to match its block_shape={dims}; it returned "
                             f"{len(indices)}: {errors.short(indices)}.")
        return [_index(_start_of_slice(x, description, i, b) if type(b) is BoundedSlice else x, description, i)
                for i, (x, b) in enumerate(zip(indices, dims))]

    origin = DebugInfo("pallas_call index_map", signatures.function_name(index_map) if index_map else "first block")

    def as_indices(*args):
        return [to_dtype(x, index_aval.dtype) if isinstance(x, tracing.Tracer) else x for x in flat(*args)]

    jaxpr, consts = inline_scalar_constants(*tracing.trace_to_jaxpr(
        as_indices, [index_aval] * rank + list(index_avals), origin))
    if consts:
        raise ValueError(f"{description} must not capture constants, but it uses {', '.join(map(errors.short, consts))}. "
                         "Compute the index from the grid's indices, or pass scalars with a PrefetchScalarGridSpec.")
    return jaxpr.replace(outvars=[
        Literal(index_aval.dtype.type(v.val), index_aval) if v.is_literal else v for v in jaxpr.outvars])


def _check_parameters(index_map: Callable, args: Sequence[Any], expected: str, description: str) -> None:
    """Raise an error if an index map does not take these arguments."""
    code = getattr(index_map, "__code__", None)
    if code is not None and code.co_argcount == len(args) and not code.co_kwonlyargcount and not inspect.ismethod(index_map):
        return
    try:
        inspect.signature(index_map).bind(*args)
    except TypeError as e:
        raise TypeError(f"{description} must take {expected}: {e}.") from None
    except ValueError:  # built-in functions may have no signature
        pass


def inline_scalar_constants(jaxpr: Jaxpr, consts: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """Inline scalar constants of a jaxpr as literals, such as `xnp.int32(1)`. Return it with the remaining constants."""
    literals = {v: Literal(np.asarray(c)[()], v.aval) for v, c in zip(jaxpr.constvars, consts)
             if not isinstance(c, tracing.Tracer) and isinstance(v.aval.dtype, np.dtype) and not v.aval.shape}
    if not literals:
        return jaxpr, list(consts)
    remaining = [(v, c) for v, c in zip(jaxpr.constvars, consts) if v not in literals]
    return jaxpr.replace(constvars=[v for v, _ in remaining], eqns=[
        eqn.replace(invars=[v if v.is_literal else literals.get(v, v) for v in eqn.invars]) for eqn in jaxpr.eqns],
        outvars=[v if v.is_literal else literals.get(v, v) for v in jaxpr.outvars]), [c for _, c in remaining]


def source_name(function: Callable | None) -> str:
    """Return the name of a user's function, and its source location."""
    code = signatures.code_of(function)[0] if function else None
    location = f" at {source.position(code.co_filename, code.co_firstlineno)}" if code else ""
    return f"{signatures.function_name(function)}{location}" if function else "by default"


def _start_of_slice(x: Any, description: str, i: int, dim: BoundedSlice) -> Any:
    """Return the start of the slice that an index map returns."""
    if not isinstance(x, Slice) or x.stride != 1:
        raise TypeError(f"{description} must return pl.ds(start, size) for the dimension {dim}; result {i} is "
                        f"{errors.short(x)}.")
    if not isinstance(x.size, int) or x.size != dim.block_size:
        raise NotImplementedError(f"{description} returned a slice of {errors.short(x.size)} positions for the dimension "
                                  f"{dim}. Slices of other sizes are for pltpu.emit_pipeline: give the array "
                                  f"memory_space=pl.ANY and run a pipeline in the kernel.")
    return x.start


def _index(x: Any, description: str, i: int):
    """Return the index along a dimension, as a scalar integer."""
    if isinstance(x, Slice):
        x = x.start
    aval = tracing.aval_of(x)
    if aval.shape or not dtypes.is_integer(aval.dtype):
        raise ValueError(f"{description} must return integer scalars; result {i} has type {aval}.")
    return x if isinstance(x, tracing.Tracer) else int(x)


