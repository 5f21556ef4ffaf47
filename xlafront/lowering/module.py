"""What StableHLO modules are made of: functions, bodies, constants, locations, and what rules write with.

Nothing here knows a primitive: each brings its rule. A rule is called as
`rule(ctx, *operands, **params)` with a `RuleContext` and MLIR values, and returns a value (a list of values
when the primitive has several results).

Ordered effects are chained by tokens: each block knows the token of each ordered effect that comes last before the
operation being written (`Body.tokens`). An operation with an effect takes its token and puts a new one in its place:

    [token] = ctx.tokens([effect])
    token, *results = ctx.op(..., [token, *operands], [mlir.token_type(), ...])
    ctx.set_tokens([effect], [token])

`ctx.inline` needs no care for them. Functions that `ctx.call` calls get tokens as leading arguments and return them first.
`ctx.loop` and `ctx.case` carry them through their regions when they are told `ordered_effects(body, ...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import errors, source
from xlafront.core.dimensions import DimExpr, is_symbolic
from xlafront.core.ir import DropVar, Effect
from xlafront.core.refs import AbstractRef
from xlafront.core.sharding_types import has_open_sums
from xlafront.lowering import mlir, sizes
from xlafront.lowering.mlir import create, ir, tensor_type, type_of

GLOBAL_CONSTANT = "jax.global_constant"  # marks arguments of `main` that are the same for all calls of a compiled program
MOST_OF_A_NAME = 128  # characters
MOST_CALLS = 128  # XLA recurses into functions that call others, on threads whose stacks end at some 170


_APART = '{inlineable = "false"}'  # of a call that stays one


class ModuleContext:
    """One module under construction."""

    def __init__(self, name: str, platform: str, num_partitions: int = 1, num_replicas: int = 1, sharding_context=None):
        self._platform = platform
        self.targets: tuple[str, ...] = (platform,)  # the platforms that it is to run on
        self.asked_platform = False  # whether what has been written depends on which of them it is
        self.num_partitions = num_partitions
        self.num_devices = num_partitions * num_replicas
        self.sharding_context = sharding_context
        self.module = ir.Module.create(loc=mlir.unknown_location)
        operation = self.module.operation
        operation.attributes["sym_name"] = mlir.string(name)
        operation.attributes["mhlo.num_partitions"] = mlir.i32(num_partitions)
        operation.attributes["mhlo.num_replicas"] = mlir.i32(num_replicas)
        self.names: set[str] = set()
        self.functions: dict[tuple, tuple[str, int]] = {}  # symbols, and how deeply calls are nested in them
        self.calls = 0  # how deeply they are in the function that is being written
        self.locations: dict[tuple, ir.Location] = {}
        self.last_site: source.Site | None = None
        self.host_callbacks: list[Any] = []
        self.callback_failures: list[Exception] | None = None  # of a program whose callbacks keep what they raise
        self.keepalives: list[Any] = []
        self.partitioners: list[Any] = []  # what the compiler asks while it compiles
        self.leaves = False  # whether it is to leave this process, for others that may lack kernels of ours
        self.draws = False  # whether it is for this CPU alone, and draws so many numbers that its loops are to be wide
        self.multiplies_bytes = False  # whether it is for a GPU and has products of int8
        self.cacheable = True  # whether the executable may be used in other processes
        self.rules: dict[Any, Callable] = {}
        self.own_rules: dict[Any, Callable] = {}  # what this module is written by in place of the primitives' rules
        partitioned = sharding_context is not None and sharding_context.partitioned
        self.constrain: Callable | None = sharding_context.constrain_typed if partitioned else None
        self.manual_mesh: Any = None  # of the `shard_map` whose body is being written
        self.dimension_variables: tuple[str, ...] = ()  # whose values each function takes
        self.sharding_groups = 0  # of values that are to be spread alike, so far
        self.pair_channels: dict[tuple, ir.Attribute] = {}  # of sends and receives, by their pairs
        self.sent: dict[ir.Value, tuple] = {}  # by token: what is sent once its receive is written
        # Every new function goes before the end of the module.
        self.insertion_point = ir.InsertionPoint(self.module.body)

    @property
    def platform(self) -> str:
        """The platform that is being written for."""
        self.asked_platform = True
        return self._platform

    # The words in which rules of extensions ask for the same.
    context = property(lambda self: mlir.context)
    ip = property(lambda self: self.insertion_point)
    platforms = property(lambda self: (self.platform,))
    symbol_table = property(lambda self: ir.SymbolTable(self.module.operation))

    def add_keepalive(self, item: Any) -> None:
        """Keep an object alive as long as the executable."""
        self.keepalives.append(item)

    def add_host_callback(self, callback: Any) -> None:
        self.host_callbacks.append(callback)

    def unique_name(self, name: str) -> str:
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in name[:MOST_OF_A_NAME]) or "function"
        unique, n = name, 0
        while unique in self.names:
            n += 1
            unique = f"{name}_{n}"
        self.names.add(unique)
        return unique

    def turn_to(self, platform: str) -> None:
        """What is written from here on is for this platform."""
        self._platform = platform
        self.rules, self.functions = {}, {}

    def rule_of(self, primitive) -> Callable:
        rule = self.own_rules.get(primitive)
        if rule is None:
            rule, lowerings = primitive.lowering_for(self._platform), primitive.lowerings
            if any([(lowerings.get(p) or lowerings.get(None)) is not rule for p in self.targets]):
                self.asked_platform = True
        self.rules[primitive] = rule
        return rule

    def location(self, name: str, site, body: Body) -> ir.Location:
        """`jit(f)/scope/primitive` at the user's line. Memoised: a loop in the user's code is one site."""
        if site is None or site[0] is None:
            return self._named(name, site[2] if site else "", mlir.unknown_location, body)
        code, lasti, scope = site
        key = (name, id(code), lasti, scope, body.prefix)
        found = self.locations.get(key)
        if found is None:
            place = self.locations.get(key[1:3])
            if place is None:
                place = ir.Location.file(source.canonical_file(code.co_filename), mlir.line_of(code, lasti), 0)
                place = self.locations[key[1:3]] = ir.Location.name(code.co_name, place)
            found = self.locations[key] = self._named(name, scope, place, body)
        return found

    def _named(self, name, scope, place, body):
        return ir.Location.name(f"{body.inside(scope)}{name}", place)

    def add_function(self, name: str, arg_types, result_types, *, public=False, arg_attributes=None,
                     result_attributes=None) -> tuple[str, ir.Operation, ir.Block]:
        name = self.unique_name(name)
        attributes = {
            "sym_name": mlir.string(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(arg_types, result_types)),
            "sym_visibility": mlir.string("public" if public else "private"),
        }
        if arg_attributes:
            attributes["arg_attrs"] = mlir.array(ir.DictAttr.get(a) for a in arg_attributes)
        if result_attributes:
            attributes["res_attrs"] = mlir.array(ir.DictAttr.get(a) for a in result_attributes)
        operation = create("func.func", attributes=attributes, regions=1, loc=mlir.unknown_location,
                           ip=self.insertion_point)
        block = operation.regions[0].blocks.append(*arg_types, arg_locs=[mlir.unknown_location] * len(arg_types))
        return name, operation, block

    def function_of(self, jaxpr, consts: Sequence[Any] = (), name: str | None = None, attributes_key=(),
                    scope: str = "", told: dict[str, str] | None = None) -> str:
        """The symbol of the function that computes `jaxpr`; the same program is lowered once. `told`: see `Body`."""
        key = (id(jaxpr), attributes_key, self.manual_mesh, told and (*told.items(),))
        found = self.functions.get(key)
        if found is None:
            self.keepalives.append(jaxpr)  # its id stays taken while the module is built
            effects = ordered_effects(jaxpr)
            tokens = [mlir.token_type()] * len(effects)
            names = self.dimension_variables
            outside, self.calls = self.calls, 0
            symbol, _, block = self.add_function(
                name or jaxpr.debug_info.function_name,
                tokens + [sizes.scalar_type()] * len(names) + flat_types(jaxpr.in_avals),
                tokens + flat_types(jaxpr.out_avals), arg_attributes=_with_variables(names, len(tokens), len(jaxpr.invars)))
            with ir.InsertionPoint(block):
                arguments = list(block.arguments)
                body = Body(self, dict(zip(effects, arguments)), f"{scope}/" if scope else "", told=told)
                if names:
                    body.sizes = sizes.Sizes(dict(zip(names, arguments[len(effects):])))
                results = body.run(jaxpr, [constant(c) for c in consts], arguments[len(effects) + len(names):])
                create("func.return", operands=[*[body.tokens[e] for e in effects], *results], loc=mlir.unknown_location)
            found = self.functions[key] = symbol, self.calls + 1
            self.calls = outside
        symbol, depth = found
        if depth > MOST_CALLS:
            raise RecursionError(f"{symbol} is one of more than {MOST_CALLS} jitted functions that are nested in each other, "
                                 f"so deeply that XLA's compiler would end the process. Leave out the inner jit, or give it "
                                 f"inline=True.")
        self.calls = max(self.calls, depth)
        return symbol


def _with_variables(names: Sequence[str], before: int, after: int) -> list[dict] | None:
    """Attributes of arguments among which are dimension variables: these are constants to XLA's refinement."""
    if not names:
        return None
    return [*[{}] * before, *[{GLOBAL_CONSTANT: mlir.string(name)} for name in names], *[{}] * after]


def flat_types(avals) -> list[ir.Type]:
    return [type_of(aval) for aval in avals]


def ordered_effects(*jaxprs) -> list[Effect]:
    """The ordered effects that programs have, in the order in which their tokens are passed."""
    found = {effect for jaxpr in jaxprs for effect in jaxpr.effects if effect.ordered}
    return sorted(found, key=str) if len(found) > 1 else list(found)


def constant(value, shape=None, dtype=None) -> ir.Value:
    """A `stablehlo.constant`; with `shape`, one scalar everywhere."""
    if type(getattr(value, "aval", None)) is AbstractRef:
        raise errors.reference_of_rule(value.aval)
    value = np.asarray(value, dtype)
    attribute = mlir.dense(value, shape)
    return create("stablehlo.constant", results=[attribute.type], attributes={"value": attribute},
                  loc=mlir.unknown_location).result


class Body:
    """The operations of one block: what is defined in it and may be used again."""

    __slots__ = ("module", "splats", "sparse", "tokens", "prefix", "told", "sizes", "step")

    def __init__(self, module: ModuleContext, tokens: dict[Effect, ir.Value] | None = None, prefix: str = "",
                 told: dict[str, str] | None = None):
        self.module = module
        self.told = told  # what compilers are told of all operations here (`source.annotated`)
        self.prefix = prefix  # the names in which its operations are
        self.splats: dict[tuple, ir.Value] = {}
        self.sparse: dict[ir.Value, list[Callable]] = {}  # values that are zero but for a few places: what adds them to another
        self.tokens = {} if tokens is None else tokens  # of each ordered effect the last; see the module's docstring
        self.sizes: sizes.Sizes | None = None  # of a module with dimension variables
        self.step: Any = None  # the program of a loop's step whose operations these are

    def inside(self, scope: str) -> str:
        """The names of a scope that an operation here is in, to be followed by its own."""
        return f"{self.prefix}{source.scope_texts[scope]}/" if scope else self.prefix

    def literal(self, value, dtype, shape: tuple[int, ...]) -> ir.Value:
        """A scalar constant, spread over `shape`; the same one is written once a block."""
        key = (repr(value), dtype, shape)
        found = self.splats.get(key)
        if found is None:
            if self.sizes is not None and is_symbolic(shape):
                found = self.sizes.broadcast(self.literal(value, dtype, ()), shape, (), tensor_type(shape, np.dtype(dtype)))
            else:
                found = constant(value, shape, dtype)
            self.splats[key] = found
        return found

    def spread(self, value: ir.Value, aval, shape: tuple[int, ...]) -> ir.Value:
        """An operand of an elementwise operation, a scalar or with dimensions of size 1, at the shape of the result."""
        key = (value, shape)
        found = self.splats.get(key)
        if found is None:
            dtype, own = aval.dtype, range(len(aval.shape))
            element = () if isinstance(dtype, np.dtype) else dtype.physical_element_shape
            dims = (*own, *range(len(shape), len(shape) + len(element)))
            if self.sizes is not None and is_symbolic(shape):
                found = self.sizes.broadcast(value, (*shape, *element), dims, tensor_type(shape, dtype))
            else:
                summands = self.module.constrain is not None and has_open_sums(aval)
                found = self.module.sharding_context.broadcast_summands(value, aval, own, shape) if summands else create(
                    "stablehlo.broadcast_in_dim", results=[tensor_type(shape, dtype)], operands=[value],
                    attributes={"broadcast_dimensions": mlir.i64s(dims)}, loc=mlir.unknown_location).result
            self.splats[key] = found
        return found

    def run(self, jaxpr, consts: Sequence[ir.Value], args: Sequence[ir.Value]) -> list[ir.Value]:
        """Lower every equation. Hot: a few microseconds each, watched by the lowering benchmarks."""
        env: dict[Any, ir.Value] = dict(zip(jaxpr.constvars, consts))
        env.update(zip(jaxpr.invars, args))
        module = self.module
        rules, location, constrain, attributes = module.rules, module.location, module.constrain, source.scope_attributes
        for eqn in jaxpr.eqns:
            primitive = eqn.primitive
            operands = []
            shape = eqn.outvars[0].aval.shape if primitive.broadcasts_scalars else None
            for v in eqn.invars:
                aval = v.aval
                if v.is_literal:
                    operands.append(self.literal(v.val, aval.dtype, aval.shape if shape is None else shape))
                elif shape is None or aval.shape == shape:
                    operands.append(env[v])
                else:
                    operands.append(self.spread(env[v], aval, shape))
            if (site := eqn.site) is source.NOWHERE:
                site = source.unnamed(module.last_site)  # of the operation around, of which the names are before it
            else:
                module.last_site = site
            told = attributes[site[2]] if site is not None and site[2] else None
            if self.told is not None:
                told = self.told if told is None else self.told | told
            ctx = RuleContext(self, eqn.invars, eqn.outvars, location(primitive.name, site, self), primitive, site, told)
            rule = rules.get(primitive) or module.rule_of(primitive)
            results = rule(ctx, *operands, **eqn.params)
            if not primitive.multiple_results:
                result = results[0] if isinstance(results, (list, tuple)) else results
                if constrain is None:
                    env[eqn.outvars[0]] = result
                    continue
                results = [result]
            elif len(results) != len(eqn.outvars):
                raise ValueError(f"the lowering of {primitive} returned {len(results)} values for "
                                 f"{len(eqn.outvars)} results")
            if constrain is not None and any([v.aval.explicit_sharding is not None for v in eqn.outvars]):
                results = constrain(ctx, results)
            env.update(zip(eqn.outvars, results))
        return [self.literal(v.val, v.aval.dtype, v.aval.shape) if v.is_literal else env[v] for v in jaxpr.outvars]


class _Typed:
    __slots__ = ("aval",)

    def __init__(self, aval):
        self.aval = aval


class RuleContext:
    """What a lowering rule knows of the operation that it lowers, and the means to write others."""

    __slots__ = ("body", "_invars", "_outvars", "loc", "primitive", "site", "told")

    def __init__(self, body, invars, outvars, loc, primitive=None, site=None, told=None):
        self.body = body
        self._invars = invars
        self._outvars = outvars
        self.loc = loc
        self.primitive = primitive
        self.site = site
        self.told = told  # what compilers are told of the operation

    @property
    def names(self) -> str:
        """Those in which the operation is, to be followed by others."""
        return self.body.inside(self.site[2] if self.site is not None else "")

    @property
    def avals_in(self):
        return [v.aval for v in self._invars]

    def number(self, i: int) -> Any:
        """The number that an operand is in the program; None where it is a variable."""
        return getattr(self._invars[i], "val", None)

    @property
    def avals_out(self):
        return [v.aval for v in self._outvars]

    def is_read(self, i: int) -> bool:
        """Whether anything may read a result; a rule may give any operand in place of one that nothing does."""
        return type(self._outvars[i]) is not DropVar

    def tokens(self, effects: Sequence[Effect]) -> list[ir.Value]:
        """The tokens on which the next operation with these ordered effects depends."""
        known = self.body.tokens
        for effect in effects:
            if effect not in known:
                raise NotImplementedError(
                    f"{self.primitive} contains an operation with the effect {effect}, whose order it does not keep: its "
                    f"lowering does not pass tokens into its regions. Use an unordered callback inside of it.")
        return [known[effect] for effect in effects]

    def set_tokens(self, effects: Sequence[Effect], values: Sequence[ir.Value]) -> None:
        """Make these the tokens on which what is written next depends."""
        self.body.tokens.update(zip(effects, values))

    @property
    def aval_out(self):
        return self._outvars[0].aval

    @property
    def module_context(self) -> ModuleContext:
        return self.body.module

    @property
    def platform(self) -> str:
        return self.body.module.platform

    def replace(self, *, avals_in=None, avals_out=None, primitive=None) -> RuleContext:
        invars = self._invars if avals_in is None else [_Typed(a) for a in avals_in]
        outvars = self._outvars if avals_out is None else [_Typed(a) for a in avals_out]
        return RuleContext(self.body, invars, outvars, self.loc, primitive or self.primitive, self.site, self.told)

    def op(self, name: str, operands: Sequence[ir.Value], types: Sequence[Any] | None = None, regions: int = 0,
           **attributes):
        """Write an operation; its one result, or the list of several.

        `types` are avals, `(shape, dtype)` pairs or MLIR types; the primitive's own result types when left out.
        """
        if types is None:
            results = [type_of(v.aval) for v in self._outvars]
        else:
            results = [as_type(t) for t in types]
        if self.told is not None:
            mlir.tell(attributes, self.told)
        operation = create(name, results=results, operands=operands, attributes=attributes or None, regions=regions,
                           loc=self.loc)
        if regions:
            return operation
        return operation.result if len(results) == 1 else list(operation.results)

    def called(self, name: str) -> RuleContext:
        """The context under another name than the primitive's."""
        loc = self.module_context.location(name, self.site, self.body)
        return RuleContext(self.body, self._invars, self._outvars, loc, self.primitive, self.site, self.told)

    def constant(self, value, shape=None, dtype=None) -> ir.Value:
        """A constant; a scalar one is shared within the block."""
        value = np.asarray(value, dtype)
        if value.ndim == 0:
            return self.body.literal(value[()], value.dtype, () if shape is None else tuple(shape))
        return constant(value)

    # Operations that name sizes. Rules say what type the result has (their own, when left out), as an aval or a pair of shape
    # and dtype, and in which dimensions things happen; how sizes are written down, and the dimensions that the elements of an
    # extended dtype have in a module, are known here alone.

    def _typed(self, result) -> tuple[list | None, tuple[int, ...], tuple[int, ...]]:
        """The type for `op`, the shape of the result, and that of its elements."""
        if isinstance(result, tuple):
            return [result], tuple(result[0]), ()
        aval = self.aval_out if result is None else result
        element = () if isinstance(aval.dtype, np.dtype) else tuple(aval.dtype.physical_element_shape)
        return None if result is None else [aval], tuple(aval.shape), element

    def vector(self, sizes: Sequence[Any], dtype) -> ir.Value:
        """Integers, which may be sizes that the module computes, as a tensor of one dimension."""
        if not is_symbolic(sizes):
            return constant(np.array(list(sizes), dtype))
        return self.body.sizes.vector(sizes, np.dtype(dtype))

    def size(self, n) -> ir.Value:
        """The size of a dimension as an int32 scalar."""
        return self.constant(np.int32(n)) if type(n) is not DimExpr else self.body.sizes.scalar(n)

    def shape_operands(self, results: Sequence[Any], count: int) -> tuple[list[ir.Value], dict[str, Any]]:
        """What a custom call of `count` operands takes more, where its results have sizes that the module computes."""
        if not self.computes(*[r.shape for r in results]):
            return [], {}
        shapes = [self.vector(r.shape, np.int32) if r.shape else constant(np.zeros(0, np.int32)) for r in results]
        return shapes, {"indices_of_shape_operands": mlir.dense_i64(range(count, count + len(shapes)))}

    def dimension_as_value(self, dim: DimExpr) -> ir.Value:
        if self.body.sizes is None:
            raise ValueError(f"the symbolic dimension '{dim}' has no value in this program: none of its arguments has a size "
                             f"from which it follows.")
        value = self.body.sizes.scalar(dim)
        return self.convert(value, (), self.aval_out.dtype) if self.aval_out.dtype.itemsize != 4 else value

    def computes(self, *sizes) -> bool:
        """Whether some of these shapes have sizes that the module computes."""
        return self.body.sizes is not None and any(map(is_symbolic, sizes))

    def broadcast_in_dim(self, x: ir.Value, dims: Sequence[int], result=None) -> ir.Value:
        types, shape, element = self._typed(result)
        if self.computes(shape):
            return self.op("stablehlo.dynamic_broadcast_in_dim", [x, self.vector((*shape, *element), np.int32)], types,
                           broadcast_dimensions=mlir.i64s((*dims, *range(len(shape), len(shape) + len(element)))))
        return self.op("stablehlo.broadcast_in_dim", [x], types, broadcast_dimensions=mlir.i64s(
            (*dims, *range(len(shape), len(shape) + len(element)))))

    def broadcast(self, x: ir.Value, shape, dtype, dims) -> ir.Value:
        return self.broadcast_in_dim(x, dims, (shape, dtype))

    def reshape(self, x: ir.Value, shape=None, dtype=None) -> ir.Value:
        types, sizes, element = self._typed(None if shape is None else (tuple(shape), dtype))
        if self.computes(sizes):
            return self.op("stablehlo.dynamic_reshape", [x, self.vector((*sizes, *element), np.int32)], types)
        return self.op("stablehlo.reshape", [x], types)

    def iota(self, dimension: int, result=None) -> ir.Value:
        types, shape, _ = self._typed(result)
        if self.computes(shape):
            return self.op("stablehlo.dynamic_iota", [self.vector(shape, np.int32)], types, iota_dimension=mlir.i64(dimension))
        return self.op("stablehlo.iota", [], types, iota_dimension=mlir.i64(dimension))

    def slice(self, x: ir.Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None,
              result=None) -> ir.Value:
        types, _, element = self._typed(result)
        strides = (1,) * len(starts) if strides is None else strides
        if self.computes(starts, limits, strides):
            bounds = ((*starts, *[0] * len(element)), (*limits, *element), (*strides, *[1] * len(element)))
            return self.op("stablehlo.real_dynamic_slice", [x, *[self.vector(b, np.int32) for b in bounds]], types)
        return self.op("stablehlo.slice", [x], types, start_indices=mlir.i64s((*starts, *[0] * len(element))),
                       limit_indices=mlir.i64s((*limits, *element)), strides=mlir.i64s((*strides, *[1] * len(element))))

    def pad(self, x: ir.Value, value: ir.Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int],
            result=None) -> ir.Value:
        if self.computes(low, high, interior):
            return self.op("stablehlo.dynamic_pad", [x, value, *[self.vector(p, np.int32) for p in (low, high, interior)]],
                           self._typed(result)[0])
        return self.op("stablehlo.pad", [x, value], self._typed(result)[0], edge_padding_low=mlir.i64s(low),
                       edge_padding_high=mlir.i64s(high), interior_padding=mlir.i64s(interior))

    def dynamic_slice(self, x: ir.Value, starts: Sequence[ir.Value], result=None) -> ir.Value:
        types, shape, element = self._typed(result)
        if self.computes(shape):
            return self._computed_slice(x, starts, types, shape, element)
        return self.op("stablehlo.dynamic_slice", [x, *starts, *self._zeros(starts, element)], types,
                       slice_sizes=mlir.i64s((*shape, *element)))

    def _computed_slice(self, x: ir.Value, starts: Sequence[ir.Value], types, shape, element) -> ir.Value:
        """A slice of computed sizes at computed starts, which are moved so that it lies inside."""
        kind, one, rank = np.dtype(np.int32), ((1,), np.dtype(np.int32)), len(shape) + len(element)
        size, of_x = self.vector((*shape, *element), kind), []
        vector = ((rank,), kind)
        for d in range(rank):
            extent = self.op("stablehlo.get_dimension_size", [x], [((), kind)], dimension=mlir.i64(d))
            of_x.append(self.op("stablehlo.reshape", [extent], [one]))
        starts = [self.op("stablehlo.reshape", [s if str(s.type.element_type) == "i32" else self.convert(s, (), kind)], [one])
                  for s in [*starts, *self._zeros(starts, element)]]
        begin, extents = self.concatenate(starts, 0, vector), self.concatenate(of_x, 0, vector)
        last = self.op("stablehlo.subtract", [extents, size], [vector])
        begin = self.op("stablehlo.maximum", [self.op("stablehlo.minimum", [begin, last], [vector]),
                                              constant(np.zeros(rank, kind))], [vector])
        return self.op("stablehlo.real_dynamic_slice", [
            x, begin, self.op("stablehlo.add", [begin, size], [vector]), constant(np.ones(rank, kind))], types)

    def dynamic_update_slice(self, x: ir.Value, update: ir.Value, starts: Sequence[ir.Value], result=None) -> ir.Value:
        types, _, element = self._typed(result)
        return self.op("stablehlo.dynamic_update_slice", [x, update, *starts, *self._zeros(starts, element)], types)

    def _zeros(self, starts: Sequence[ir.Value], element: tuple[int, ...]) -> list[ir.Value]:
        """The starts along the dimensions of elements, of the type of the others."""
        if not element:
            return []
        unsigned = starts and str(starts[0].type.element_type).startswith("u")
        bits = starts[0].type.element_type.width if starts else 32
        return [self.constant(0, dtype=np.dtype(f"{'u' if unsigned else ''}int{bits}"))] * len(element)

    def concatenate(self, parts: Sequence[ir.Value], dimension: int, result=None) -> ir.Value:
        return self.op("stablehlo.concatenate", parts, self._typed(result)[0], dimension=mlir.i64(dimension))

    def convert(self, x: ir.Value, shape, dtype) -> ir.Value:
        return self.op("stablehlo.convert", [x], [(shape, dtype)])

    def compare(self, direction: str, kind: str, x: ir.Value, y: ir.Value, shape) -> ir.Value:
        """`direction` is EQ, NE, LT, LE, GT, GE; `kind` FLOAT, SIGNED, UNSIGNED, TOTALORDER."""
        return self.op("stablehlo.compare", [x, y], [(shape, np.dtype(bool))],
                       comparison_direction=mlir.attribute(f"#stablehlo<comparison_direction {direction}>"),
                       compare_type=mlir.attribute(f"#stablehlo<comparison_type {kind}>"))

    def with_region(self, name: str, operands, arg_types, build: Callable[..., Sequence[ir.Value]], types=None,
                    **attributes):
        """An operation with one region: `build(ctx, *block_arguments)` returns what the region yields."""
        return self.with_regions(name, operands, [(arg_types, build)], types, **attributes)

    def with_regions(self, name: str, operands, regions, types=None, scopes: Sequence[str] = (), **attributes):
        """As `with_region`, with several; `scopes` names what is in them."""
        operation = self.op(name, operands, types, regions=len(regions), **attributes)
        before, site = self.names, source.unnamed(self.site)
        for i, (region, (arg_types, build)) in enumerate(zip(operation.regions, regions)):
            block_types = [as_type(t) for t in arg_types]
            block = region.blocks.append(*block_types, arg_locs=[self.loc] * len(block_types))
            with ir.InsertionPoint(block):
                inside = Body(self.body.module, None, f"{before}{scopes[i]}/" if scopes else before, self.told)
                if self.body.sizes is not None:
                    inside.sizes = self.body.sizes.inside()
                inner = RuleContext(inside, self._invars, self._outvars, self.loc, self.primitive, site, self.told)
                create("stablehlo.return", operands=list(build(inner, *block.arguments)), loc=self.loc)
        results = list(operation.results)
        return results[0] if len(results) == 1 and types is None and not self.primitive_has_many else results

    @property
    def primitive_has_many(self) -> bool:
        return self.primitive is not None and self.primitive.multiple_results

    def loop(self, state: Sequence[ir.Value], condition: Callable[..., ir.Value],
             body: Callable[..., Sequence[ir.Value]], effects: Sequence[Effect] = ()) -> list[ir.Value]:
        """`stablehlo.while`: `condition(ctx, *state)` a boolean, `body(ctx, *state)` the next state.

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

    def case(self, index: ir.Value, branches: Sequence[Callable[[RuleContext], Sequence[ir.Value]]], types,
             effects: Sequence[Effect] = ()) -> list[ir.Value]:
        """`stablehlo.case`: the results of one of the branches, the last one when there is none of that number.

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

    def call(self, closed, operands: Sequence[ir.Value], name: str | None = None, *, inlineable: bool = True, scope: str = "",
             **attributes) -> list[ir.Value]:
        """Call a program as a function of the module, which holds it once; what is not `inlineable` stays a call, `scope` is in
        front of the names of its operations."""
        if not inlineable:
            attributes["mhlo.frontend_attributes"] = mlir.attribute(_APART)
        symbol = self.body.module.function_of(closed.jaxpr, closed.consts, name, scope=scope, told=self.told)
        attributes["callee"] = mlir.symbol(symbol)
        if self.told is not None:
            mlir.tell(attributes, self.told)
        types = flat_types(closed.out_avals)
        operands = [*self.dimension_arguments(), *operands]
        effects = ordered_effects(closed) if closed.effects else []
        if not effects:
            return list(create("func.call", results=types, operands=operands, attributes=attributes, loc=self.loc).results)
        operation = create("func.call", results=[mlir.token_type()] * len(effects) + types,
                           operands=[*self.tokens(effects), *operands], attributes=attributes, loc=self.loc)
        tokens, results = operation.results[:len(effects)], operation.results[len(effects):]
        self.set_tokens(effects, list(tokens))
        return list(results)

    def call_symbol(self, symbol: str, operands: Sequence[ir.Value], types: Sequence[Any]) -> list[ir.Value]:
        """A call of a function of the module by its symbol, which stays a call."""
        attributes = {"callee": mlir.symbol(symbol), "mhlo.frontend_attributes": mlir.attribute(_APART)}
        return list(create("func.call", results=[as_type(t) for t in types], operands=list(operands), attributes=attributes,
                           loc=self.loc).results)

    def dimension_arguments(self) -> list[ir.Value]:
        """What comes first among the arguments of a function that a program became (after tokens)."""
        known = self.body.sizes
        return [] if known is None else [known.variables[v] for v in self.module_context.dimension_variables]

    def function(self, name: str, arg_types, result_types, build: Callable[..., Sequence[ir.Value]]) -> str:
        """The symbol of a function of the module that is no program: `build(ctx, *arguments)` writes it and returns results."""
        types = [[as_type(t) for t in kinds] for kinds in (arg_types, result_types)]
        symbol, _, block = self.body.module.add_function(name, *types)
        with ir.InsertionPoint(block):
            inner = RuleContext(Body(self.body.module, told=self.told), self._invars, self._outvars, self.loc, self.primitive,
                                self.site, self.told)
            create("func.return", operands=list(build(inner, *block.arguments)), loc=self.loc)
        return symbol

    def typed(self, value: ir.Value, aval) -> ir.Value:
        """A value spread over devices as a type says: one between two operations of a rule, or that a region is given.

        The compiler would make the sums that its type leaves open, and more than once.
        """
        module = self.module_context
        return value if module.constrain is None else module.sharding_context.constrain_constant(value, aval)

    def inline(self, closed, operands: Sequence[ir.Value], scope: str | None = None) -> list[ir.Value]:
        """Write a program's operations here; `scope` names them."""
        values = [constant(c, dtype=v.aval.dtype) for v, c in zip(closed.jaxpr.constvars, closed.consts)]
        body = self.body
        saved = body.prefix, body.told
        body.prefix, body.told = f"{self.names}{scope}/" if scope else self.names, self.told
        try:
            return body.run(closed.jaxpr, values, operands)
        finally:
            body.prefix, body.told = saved


def as_type(t) -> ir.Type:
    if isinstance(t, ir.Type):
        return t
    if isinstance(t, tuple):
        return tensor_type(tuple(t[0]), np.dtype(t[1]))
    return type_of(t)
