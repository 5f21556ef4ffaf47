"""Lowering of equations: each by the rule of its primitive, which gets a `RuleContext`.

A rule is called as `rule(ctx, *operands, **params)` with MLIR values as operands. It emits operations with the methods of `ctx`
and returns a value, or a list of values if the primitive has several results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.core import source
from xlafront.core.ir import DropVar, Jaxpr
from xlafront.lowering import mlir, sizes
from xlafront.lowering.builder import NOT_INLINEABLE, Body, OperationBuilder
from xlafront.lowering.mlir import create, ir
from xlafront.lowering.module import GLOBAL_CONSTANT, ModuleContext, constant, flat_types, ordered_effects

MAX_CALL_DEPTH = 128  # XLA recurses into nested calls; the stacks of its threads overflow at about 170


def lower_equations(body: Body, jaxpr, consts: Sequence[ir.Value], args: Sequence[ir.Value]) -> list[ir.Value]:
    """Lower a jaxpr at the end of a block; return its results. Hot: the lowering benchmarks watch the time per equation."""
    env: dict[Any, ir.Value] = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    module, prefix, common = body.module, body.prefix, body.frontend_attributes
    rules, location, constrain, attributes = module.rules, module.location, module.constrain, source.scope_attributes
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        operands = []
        shape = eqn.outvars[0].aval.shape if primitive.traits.broadcasts_scalars else None
        for v in eqn.invars:
            aval = v.aval
            if v.is_literal:
                operands.append(body.literal(v.val, aval.dtype, aval.shape if shape is None else shape))
            elif shape is None or aval.shape == shape:
                operands.append(env[v])
            else:
                operands.append(body.broadcast_operand(env[v], aval, shape))
        if (site := eqn.site) is source.NOWHERE:
            site = source.unnamed(module.last_site)  # of the enclosing operation, whose names are in the prefix
        else:
            module.last_site = site
        frontend_attributes = attributes[site[2]] if site is not None and site[2] else None
        if common is not None:
            frontend_attributes = common if frontend_attributes is None else common | frontend_attributes
        ctx = RuleContext(body, eqn.invars, eqn.outvars, location(primitive.name, site, prefix), primitive, site,
                          frontend_attributes)
        rule = rules.get(primitive) or module.rule_of(primitive)
        results = rule(ctx, *operands, **eqn.params)
        if not primitive.multiple_results:
            result = results[0] if isinstance(results, (list, tuple)) else results
            if constrain is None:
                env[eqn.outvars[0]] = result
                continue
            results = [result]
        elif len(results) != len(eqn.outvars):
            raise ValueError(f"the lowering of {primitive} returned {len(results)} values for {len(eqn.outvars)} results")
        if constrain is not None and any([v.aval.explicit_sharding is not None for v in eqn.outvars]):
            results = constrain(ctx, results)
        env.update(zip(eqn.outvars, results))
    return [body.literal(v.val, v.aval.dtype, v.aval.shape) if v.is_literal else env[v] for v in jaxpr.outvars]


class Placeholder:
    """Stands for a variable of an equation: only its type is known."""

    __slots__ = ("aval",)

    def __init__(self, aval):
        self.aval = aval


class RuleContext(OperationBuilder):
    """The equation that a lowering rule lowers; its base class emits operations."""

    __slots__ = ("_invars",)

    def __init__(self, body, invars, outvars, loc, primitive=None, site=None, frontend_attributes=None):
        self.body = body
        self._invars = invars
        self._outvars = outvars
        self.loc = loc
        self.primitive = primitive
        self.site = site
        self.frontend_attributes = frontend_attributes  # added to the operation

    def within(self, body: Body, site: source.Site | None, loc: ir.Location | None = None) -> RuleContext:
        return RuleContext(body, self._invars, self._outvars, loc or self.loc, self.primitive, site, self.frontend_attributes)

    def replace(self, *, avals_in=None, avals_out=None, primitive=None) -> RuleContext:
        """Return the context of an equation with other types or another primitive."""
        invars = self._invars if avals_in is None else [Placeholder(a) for a in avals_in]
        outvars = self._outvars if avals_out is None else [Placeholder(a) for a in avals_out]
        return RuleContext(self.body, invars, outvars, self.loc, primitive or self.primitive, self.site,
                           self.frontend_attributes)

    @property
    def avals_in(self):
        return [v.aval for v in self._invars]

    def literal_value(self, i: int) -> Any:
        """Return the value of an operand that is a literal of the jaxpr, None if it is a variable."""
        return getattr(self._invars[i], "val", None)

    def is_read(self, i: int) -> bool:
        """True if a result may be read. A rule may return any operand in place of an unread result."""
        return type(self._outvars[i]) is not DropVar

    @property
    def platform(self) -> str:
        return self.body.module.platform

    # Jaxprs within the equation

    def inline(self, closed, operands: Sequence[ir.Value], scope: str | None = None) -> list[ir.Value]:
        """Inline the operations of a jaxpr here; `scope` is a name scope for them."""
        values = constants(closed)
        body = self.body
        saved = body.prefix, body.frontend_attributes
        body.prefix = f"{self.name_prefix}{scope}/" if scope else self.name_prefix
        body.frontend_attributes = self.frontend_attributes
        try:
            return lower_equations(body, closed.structure, values, operands)
        finally:
            body.prefix, body.frontend_attributes = saved

    def call(self, closed, operands: Sequence[ir.Value], name: str | None = None, *, inlineable: bool = True, scope: str = "",
             **attributes) -> list[ir.Value]:
        """Call a jaxpr as a function of the module, in which it is lowered once.

        XLA does not inline the call if it is not `inlineable`. `scope` is a name scope of the function's operations.
        """
        if not inlineable:
            attributes["mhlo.frontend_attributes"] = mlir.attribute(NOT_INLINEABLE)
        symbol = function_of(self.module_context, closed, name, scope, self.frontend_attributes)
        attributes["callee"] = mlir.symbol(symbol)
        if self.frontend_attributes is not None:
            mlir.add_frontend_attributes(attributes, self.frontend_attributes)
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


def constants(closed: Jaxpr) -> list[ir.Value]:
    """Emit the constants of a jaxpr."""
    return [constant(c, dtype=v.aval.dtype) for v, c in zip(closed.constvars, closed.consts)]


def function_of(module: ModuleContext, closed, name: str | None = None, scope: str = "",
                frontend_attributes: dict[str, str] | None = None) -> str:
    """Return the symbol of the function that computes a jaxpr; lower the jaxpr unless the module has it.

    `scope` is a name scope of the function's operations, and `frontend_attributes` are added to them.
    """
    jaxpr = closed.structure
    key = (id(jaxpr), *map(id, closed.consts), module.manual_mesh, frontend_attributes and (*frontend_attributes.items(),))
    symbol_and_depth = module.functions.get(key)
    if symbol_and_depth is None:
        module.keepalives.append(closed)  # keeps the ids taken while the module is built
        effects = ordered_effects(jaxpr)
        tokens = [mlir.token_type()] * len(effects)
        names = module.dimension_variables
        outer_calls, module.calls = module.calls, 0
        symbol, _, block = module.add_function(
            name or jaxpr.debug_info.function_name,
            tokens + [sizes.scalar_type()] * len(names) + flat_types(jaxpr.in_avals),
            tokens + flat_types(jaxpr.out_avals),
            arg_attributes=_with_dimension_variables(names, len(tokens), len(jaxpr.invars)))
        with ir.InsertionPoint(block):
            arguments = list(block.arguments)
            body = Body(module, dict(zip(effects, arguments)), f"{scope}/" if scope else "",
                        frontend_attributes=frontend_attributes)
            if names:
                body.sizes = sizes.Sizes(dict(zip(names, arguments[len(effects):])))
            results = lower_equations(body, jaxpr, constants(closed), arguments[len(effects) + len(names):])
            create("func.return", operands=[*[body.tokens[e] for e in effects], *results], loc=mlir.unknown_location)
        symbol_and_depth = module.functions[key] = symbol, module.calls + 1
        module.calls = outer_calls
    symbol, depth = symbol_and_depth
    if depth > MAX_CALL_DEPTH:
        raise RecursionError(f"{symbol} is one of more than {MAX_CALL_DEPTH} jitted functions that are nested in each "
                             f"other, so deeply that XLA's compiler would end the process. Leave out the inner jit, or "
                             f"give it inline=True.")
    module.calls = max(module.calls, depth)
    return symbol


def _with_dimension_variables(names: Sequence[str], num_before: int, num_after: int) -> list[dict] | None:
    """Return attributes for arguments that include dimension variables, which XLA's refinement treats as constants."""
    if not names:
        return None
    return [*[{}] * num_before, *[{GLOBAL_CONSTANT: mlir.string(name)} for name in names], *[{}] * num_after]
