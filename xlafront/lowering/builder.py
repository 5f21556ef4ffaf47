"""Emission of StableHLO operations: `Body`, the block that they are appended to, and `OperationBuilder`.

Lowering rules call the methods of the builder on their context (`RuleContext` in `lowering/equations.py`).

Tokens chain operations with ordered effects. `Body.tokens` has the latest token of each ordered effect in a block. An
effectful operation takes this token and replaces it with the one that it returns:

    [token] = ctx.tokens([effect])
    token, *results = ctx.op(..., [token, *operands], [mlir.token_type(), ...])
    ctx.set_tokens([effect], [token])

`ctx.inline` handles tokens by itself. Functions called through `ctx.call` take tokens as leading arguments and return them
first. `ctx.loop` and `ctx.case` carry tokens through their regions if they are given `ordered_effects(body, ...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import source
from xlafront.core.ir import Effect
from xlafront.core.program_key import scalar_key
from xlafront.core.sharding_types import has_open_sums
from xlafront.lowering import mlir, sizes
from xlafront.lowering.mlir import create, ir, tensor_type, type_of
from xlafront.lowering.module import ModuleContext, as_type, constant, scoped
from xlafront.symbolic.dimensions import DimExpr, is_symbolic

NOT_INLINEABLE = '{inlineable = "false"}'  # keeps XLA from inlining a call


class Body:
    """One block under construction, with the values that its operations can reuse."""

    __slots__ = ("module", "splats", "sparse", "tokens", "prefix", "frontend_attributes", "sizes", "step")

    def __init__(self, module: ModuleContext, tokens: dict[Effect, ir.Value] | None = None, prefix: str = "",
                 frontend_attributes: dict[str, str] | None = None):
        self.module = module
        self.frontend_attributes = frontend_attributes  # added to all operations of the block (`source.annotated`)
        self.prefix = prefix  # name scopes of its operations
        self.splats: dict[tuple, ir.Value] = {}
        self.sparse: dict[ir.Value, list[Callable]] = {}  # for sparse values: functions that add each to another value
        self.tokens = {} if tokens is None else tokens  # the latest token of each ordered effect
        self.sizes: sizes.Sizes | None = None  # set if the module has dimension variables
        self.step: Any = None  # the jaxpr of the loop step that the block computes

    def literal(self, value, dtype, shape: tuple[int, ...]) -> ir.Value:
        """Return a scalar constant, broadcast to `shape`. Cached per block."""
        key = (scalar_key(value) or repr(value), dtype, shape)
        splat = self.splats.get(key)
        if splat is None:
            if self.sizes is not None and is_symbolic(shape):
                splat = self.sizes.broadcast(self.literal(value, dtype, ()), shape, (), tensor_type(shape, np.dtype(dtype)))
            else:
                splat = constant(value, shape, dtype)
            self.splats[key] = splat
        return splat

    def broadcast_operand(self, value: ir.Value, aval, shape: tuple[int, ...]) -> ir.Value:
        """Broadcast an operand of an elementwise operation (a scalar, or with dimensions of size 1) to the result's shape."""
        key = (value, shape)
        broadcasted = self.splats.get(key)
        if broadcasted is None:
            dtype, own_dims = aval.dtype, range(len(aval.shape))
            element = () if isinstance(dtype, np.dtype) else dtype.physical_element_shape
            dims = (*own_dims, *range(len(shape), len(shape) + len(element)))
            if self.sizes is not None and is_symbolic(shape):
                broadcasted = self.sizes.broadcast(value, (*shape, *element), dims, tensor_type(shape, dtype))
            else:
                summands = self.module.constrain is not None and has_open_sums(aval)
                sharding_context = self.module.sharding_context
                broadcasted = sharding_context.broadcast_summands(value, aval, own_dims, shape) if summands else create(
                    "stablehlo.broadcast_in_dim", results=[tensor_type(shape, dtype)], operands=[value],
                    attributes={"broadcast_dimensions": mlir.i64s(dims)}, loc=mlir.unknown_location).result
            self.splats[key] = broadcasted
        return broadcasted


class OperationBuilder:
    """The methods by which a lowering rule emits operations.

    The `types` or the `result` of an operation are avals or pairs `(shape, dtype)`. Default: the result types of the
    primitive.
    """

    __slots__ = ("body", "primitive", "_outvars", "loc", "site", "frontend_attributes")

    def within(self, body: Body, site: source.Site | None, loc: ir.Location | None = None) -> Any:
        """Return this builder for another block, other places in the source, or another location of the operations."""
        raise NotImplementedError  # by `RuleContext`

    def called(self, name: str) -> Any:
        """Return this builder for operations with the location of `name` in place of the primitive's."""
        return self.within(self.body, self.site, self.module_context.location(name, self.site, self.body.prefix))

    @property
    def module_context(self) -> ModuleContext:
        return self.body.module

    @property
    def avals_out(self):
        return [v.aval for v in self._outvars]

    @property
    def aval_out(self):
        return self._outvars[0].aval

    @property
    def name_prefix(self) -> str:
        """The prefix of the names of operations here: the scopes around them, ending in a slash."""
        return scoped(self.body.prefix, self.site[2] if self.site is not None else "")

    def op(self, name: str, operands: Sequence[ir.Value], types: Sequence[Any] | None = None, regions: int = 0,
           **attributes):
        """Emit an operation. Return its result, or a list if it has several.

        `types` are avals, `(shape, dtype)` pairs or MLIR types. Default: the result types of the primitive.
        """
        if types is None:
            results = [type_of(v.aval) for v in self._outvars]
        else:
            results = [as_type(t) for t in types]
        if self.frontend_attributes is not None:
            mlir.add_frontend_attributes(attributes, self.frontend_attributes)
        operation = create(name, results=results, operands=operands, attributes=attributes or None, regions=regions,
                           loc=self.loc)
        if regions:
            return operation
        return operation.result if len(results) == 1 else list(operation.results)

    def constant(self, value, shape=None, dtype=None) -> ir.Value:
        """Return a constant. Scalars are shared within the block."""
        value = np.asarray(value, dtype)
        if value.ndim == 0:
            return self.body.literal(value[()], value.dtype, () if shape is None else tuple(shape))
        return constant(value)

    def convert(self, x: ir.Value, shape, dtype) -> ir.Value:
        return self.op("stablehlo.convert", [x], [(shape, dtype)])

    def compare(self, direction: str, kind: str, x: ir.Value, y: ir.Value, shape) -> ir.Value:
        """Compare elementwise. `direction` is EQ, NE, LT, LE, GT or GE; `kind` is FLOAT, SIGNED, UNSIGNED or TOTALORDER."""
        return self.op("stablehlo.compare", [x, y], [(shape, np.dtype(bool))],
                       comparison_direction=mlir.attribute(f"#stablehlo<comparison_direction {direction}>"),
                       compare_type=mlir.attribute(f"#stablehlo<comparison_type {kind}>"))

    def constrain_to_type(self, value: ir.Value, aval) -> ir.Value:
        """Constrain a value to the sharding of its type: an intermediate value of a rule, or an operand of a region.

        Otherwise the compiler would reduce pending partial sums of the type, possibly several times.
        """
        module = self.module_context
        return value if module.constrain is None else module.sharding_context.constrain_to_type(value, aval)

    # Ordered effects

    def tokens(self, effects: Sequence[Effect]) -> list[ir.Value]:
        """Return the tokens on which the next operation with these ordered effects depends."""
        latest = self.body.tokens
        for effect in effects:
            if effect not in latest:
                raise NotImplementedError(
                    f"{self.primitive} contains an operation with the effect {effect}, whose order it does not preserve: its "
                    f"lowering does not pass tokens into its regions. Use an unordered callback inside of it.")
        return [latest[effect] for effect in effects]

    def set_tokens(self, effects: Sequence[Effect], values: Sequence[ir.Value]) -> None:
        """Set the tokens on which the next operations with these effects depend."""
        self.body.tokens.update(zip(effects, values))

    # Operations with sizes. Rules give logical dimensions; only these methods handle computed sizes and the trailing physical
    # dimensions of extended dtypes.

    def _result_type(self, result) -> tuple[list | None, tuple[int, ...], tuple[int, ...]]:
        """Return the types for `op`, the shape of the result, and the physical shape of its elements."""
        if isinstance(result, tuple):
            return [result], tuple(result[0]), ()
        aval = self.aval_out if result is None else result
        element = () if isinstance(aval.dtype, np.dtype) else tuple(aval.dtype.physical_element_shape)
        return None if result is None else [aval], tuple(aval.shape), element

    def broadcast_in_dim(self, x: ir.Value, dims: Sequence[int], result=None) -> ir.Value:
        types, shape, element = self._result_type(result)
        if self.has_computed_sizes(shape):
            return self.op("stablehlo.dynamic_broadcast_in_dim", [x, self.vector((*shape, *element), np.int32)], types,
                           broadcast_dimensions=mlir.i64s((*dims, *range(len(shape), len(shape) + len(element)))))
        return self.op("stablehlo.broadcast_in_dim", [x], types, broadcast_dimensions=mlir.i64s(
            (*dims, *range(len(shape), len(shape) + len(element)))))

    def broadcast(self, x: ir.Value, shape, dtype, dims) -> ir.Value:
        return self.broadcast_in_dim(x, dims, (shape, dtype))

    def reshape(self, x: ir.Value, shape=None, dtype=None) -> ir.Value:
        types, sizes, element = self._result_type(None if shape is None else (tuple(shape), dtype))
        if self.has_computed_sizes(sizes):
            return self.op("stablehlo.dynamic_reshape", [x, self.vector((*sizes, *element), np.int32)], types)
        return self.op("stablehlo.reshape", [x], types)

    def iota(self, dimension: int, result=None) -> ir.Value:
        types, shape, _ = self._result_type(result)
        if self.has_computed_sizes(shape):
            return self.op("stablehlo.dynamic_iota", [self.vector(shape, np.int32)], types, iota_dimension=mlir.i64(dimension))
        return self.op("stablehlo.iota", [], types, iota_dimension=mlir.i64(dimension))

    def slice(self, x: ir.Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None,
              result=None) -> ir.Value:
        types, _, element = self._result_type(result)
        strides = (1,) * len(starts) if strides is None else strides
        if self.has_computed_sizes(starts, limits, strides):
            bounds = ((*starts, *[0] * len(element)), (*limits, *element), (*strides, *[1] * len(element)))
            return self.op("stablehlo.real_dynamic_slice", [x, *[self.vector(b, np.int32) for b in bounds]], types)
        return self.op("stablehlo.slice", [x], types, start_indices=mlir.i64s((*starts, *[0] * len(element))),
                       limit_indices=mlir.i64s((*limits, *element)), strides=mlir.i64s((*strides, *[1] * len(element))))

    def pad(self, x: ir.Value, value: ir.Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int],
            result=None) -> ir.Value:
        if self.has_computed_sizes(low, high, interior):
            return self.op("stablehlo.dynamic_pad", [x, value, *[self.vector(p, np.int32) for p in (low, high, interior)]],
                           self._result_type(result)[0])
        return self.op("stablehlo.pad", [x, value], self._result_type(result)[0], edge_padding_low=mlir.i64s(low),
                       edge_padding_high=mlir.i64s(high), interior_padding=mlir.i64s(interior))

    def concatenate(self, operands: Sequence[ir.Value], dimension: int, result=None) -> ir.Value:
        return self.op("stablehlo.concatenate", operands, self._result_type(result)[0], dimension=mlir.i64(dimension))

    def dynamic_slice(self, x: ir.Value, starts: Sequence[ir.Value], result=None) -> ir.Value:
        types, shape, element = self._result_type(result)
        if self.has_computed_sizes(shape):
            return self._computed_slice(x, starts, types, shape, element)
        return self.op("stablehlo.dynamic_slice", [x, *starts, *self._zeros(starts, element)], types,
                       slice_sizes=mlir.i64s((*shape, *element)))

    def _computed_slice(self, x: ir.Value, starts: Sequence[ir.Value], types, shape, element) -> ir.Value:
        """Slice computed sizes at computed starts, which are clamped so that the slice is in bounds."""
        kind, unit, rank = np.dtype(np.int32), ((1,), np.dtype(np.int32)), len(shape) + len(element)
        size, x_extents = self.vector((*shape, *element), kind), []
        vector = ((rank,), kind)
        for d in range(rank):
            extent = self.op("stablehlo.get_dimension_size", [x], [((), kind)], dimension=mlir.i64(d))
            x_extents.append(self.op("stablehlo.reshape", [extent], [unit]))
        starts = [self.op("stablehlo.reshape", [s if str(s.type.element_type) == "i32" else self.convert(s, (), kind)], [unit])
                  for s in [*starts, *self._zeros(starts, element)]]
        begin, extents = self.concatenate(starts, 0, vector), self.concatenate(x_extents, 0, vector)
        last = self.op("stablehlo.subtract", [extents, size], [vector])
        begin = self.op("stablehlo.maximum", [self.op("stablehlo.minimum", [begin, last], [vector]),
                                              constant(np.zeros(rank, kind))], [vector])
        return self.op("stablehlo.real_dynamic_slice", [
            x, begin, self.op("stablehlo.add", [begin, size], [vector]), constant(np.ones(rank, kind))], types)

    def dynamic_update_slice(self, x: ir.Value, update: ir.Value, starts: Sequence[ir.Value], result=None) -> ir.Value:
        types, _, element = self._result_type(result)
        return self.op("stablehlo.dynamic_update_slice", [x, update, *starts, *self._zeros(starts, element)], types)

    def _zeros(self, starts: Sequence[ir.Value], element: tuple[int, ...]) -> list[ir.Value]:
        """Return zero start indices for the physical dimensions of elements, with the dtype of the other starts."""
        if not element:
            return []
        unsigned = starts and str(starts[0].type.element_type).startswith("u")
        bits = starts[0].type.element_type.width if starts else 32
        return [self.constant(0, dtype=np.dtype(f"{'u' if unsigned else ''}int{bits}"))] * len(element)

    # Computed sizes

    def has_computed_sizes(self, *sizes) -> bool:
        """True if one of these shapes has a size that is computed at run time: a symbolic one."""
        return self.body.sizes is not None and any(map(is_symbolic, sizes))

    def vector(self, sizes: Sequence[Any], dtype) -> ir.Value:
        """Return integers, possibly computed sizes, as a one-dimensional tensor."""
        if not is_symbolic(sizes):
            return constant(np.array(list(sizes), dtype))
        return self.body.sizes.vector(sizes, np.dtype(dtype))

    def size(self, n) -> ir.Value:
        """Return a dimension size as an int32 scalar."""
        return self.constant(np.int32(n)) if type(n) is not DimExpr else self.body.sizes.scalar(n)

    def shape_operands(self, results: Sequence[Any], count: int) -> tuple[list[ir.Value], dict[str, Any]]:
        """Return the extra operands and attributes of a custom call with `count` operands whose results have computed sizes."""
        if not self.has_computed_sizes(*[r.shape for r in results]):
            return [], {}
        shapes = [self.vector(r.shape, np.int32) if r.shape else constant(np.zeros(0, np.int32)) for r in results]
        return shapes, {"indices_of_shape_operands": mlir.dense_i64(range(count, count + len(shapes)))}

    def dimension_as_value(self, dim: DimExpr) -> ir.Value:
        if self.body.sizes is None:
            raise ValueError(f"the symbolic dimension '{dim}' has no value in this program: none of its arguments has a size "
                             f"from which it follows.")
        value = self.body.sizes.scalar(dim)
        return self.convert(value, (), self.aval_out.dtype) if self.aval_out.dtype.itemsize != 4 else value

    def dimension_arguments(self) -> list[ir.Value]:
        """Return the values of dimension variables, which functions made from jaxprs take as arguments after the tokens."""
        sizes = self.body.sizes
        return [] if sizes is None else [sizes.variables[v] for v in self.module_context.dimension_variables]

    # Regions

    def with_region(self, name: str, operands, arg_types, build: Callable[..., Sequence[ir.Value]], types=None,
                    **attributes):
        """Emit an operation with one region: `build(ctx, *block_arguments)` returns what the region returns."""
        return self.with_regions(name, operands, [(arg_types, build)], types, **attributes)

    def with_regions(self, name: str, operands, regions, types=None, scopes: Sequence[str] = (), **attributes):
        """Emit an operation with several regions, as `with_region`. `scopes` are name scopes of the regions."""
        operation = self.op(name, operands, types, regions=len(regions), **attributes)
        prefix, site = self.name_prefix, source.unnamed(self.site)
        for i, (region, (arg_types, build)) in enumerate(zip(operation.regions, regions)):
            block_types = [as_type(t) for t in arg_types]
            block = region.blocks.append(*block_types, arg_locs=[self.loc] * len(block_types))
            with ir.InsertionPoint(block):
                region_prefix = f"{prefix}{scopes[i]}/" if scopes else prefix
                region_body = Body(self.body.module, None, region_prefix, self.frontend_attributes)
                if self.body.sizes is not None:
                    region_body.sizes = self.body.sizes.inside()
                results = build(self.within(region_body, site), *block.arguments)
                create("stablehlo.return", operands=list(results), loc=self.loc)
        results = list(operation.results)
        has_one_result = types is None and not (self.primitive is not None and self.primitive.multiple_results)
        return results[0] if has_one_result and len(results) == 1 else results

    def loop(self, state: Sequence[ir.Value], condition: Callable[..., ir.Value],
             body: Callable[..., Sequence[ir.Value]], effects: Sequence[Effect] = ()) -> list[ir.Value]:
        """Emit a `stablehlo.while`: `condition(ctx, *state)` returns a boolean, `body(ctx, *state)` the next state.

        `effects` are the ordered effects of the body; the condition can have none.
        """
        count = len(effects)
        state = [*self.tokens(effects), *state]
        types = [x.type for x in state]

        def step(inner, *state):
            inner.set_tokens(effects, state[:count])
            following = body(inner, *state[count:])
            return [*inner.tokens(effects), *following]

        results = self.called("while").with_regions("stablehlo.while", state, [
            (types, lambda inner, *state: [condition(inner, *state[count:])]), (types, step if count else body)], types,
            scopes=("while/cond", "while/body"))
        self.set_tokens(effects, results[:count])
        return results[count:]

    def case(self, index: ir.Value, branches: Sequence[Callable[..., Sequence[ir.Value]]], types,
             effects: Sequence[Effect] = ()) -> list[ir.Value]:
        """Emit a `stablehlo.case` and return the results of one branch: the last one if the index is out of range.

        `effects` are the ordered effects of the branches.
        """
        tokens = self.tokens(effects)

        def with_tokens(branch):
            def build(inner):
                inner.set_tokens(effects, tokens)
                results = branch(inner)
                return [*inner.tokens(effects), *results]

            return build

        results = self.with_regions("stablehlo.case", [index], [((), with_tokens(b) if tokens else b) for b in branches],
                                    [*[mlir.token_type()] * len(tokens), *types],
                                    scopes=[f"cond/branch_{i}_fun" for i in range(len(branches))])
        self.set_tokens(effects, results[:len(tokens)])
        return results[len(tokens):]

    # Functions

    def function(self, name: str, arg_types, result_types, build: Callable[..., Sequence[ir.Value]]) -> str:
        """Add a function to the module and return its symbol; `build(ctx, *arguments)` emits operations and returns results."""
        types = [[as_type(t) for t in kinds] for kinds in (arg_types, result_types)]
        symbol, _, block = self.module_context.add_function(name, *types)
        with ir.InsertionPoint(block):
            body = Body(self.body.module, frontend_attributes=self.frontend_attributes)
            results = build(self.within(body, self.site), *block.arguments)
            create("func.return", operands=list(results), loc=self.loc)
        return symbol

    def call_symbol(self, symbol: str, operands: Sequence[ir.Value], types: Sequence[Any]) -> list[ir.Value]:
        """Call a function of the module by its symbol; XLA does not inline the call."""
        attributes = {"callee": mlir.symbol(symbol), "mhlo.frontend_attributes": mlir.attribute(NOT_INLINEABLE)}
        return list(create("func.call", results=[as_type(t) for t in types], operands=list(operands), attributes=attributes,
                           loc=self.loc).results)
