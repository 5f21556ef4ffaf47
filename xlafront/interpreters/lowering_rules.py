"""How a lowering rule from outside becomes the field of a primitive's record.

Such a rule is `rule(ctx, *operands, **params)`, written with the builders of `jaxlib.mlir.dialects`: it runs while
context, location and insertion point are current, and returns a value, a sequence of values, or one with nested sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlafront.core.ir import Effect, equation_context
from xlafront.core.primitive import Primitive
from xlafront.interpreters.source_info_util import NameStack
from xlafront.lowering import mlir, module as lowering
from xlafront.lowering.mlir import create, ir

PLATFORMS = ("cpu", "cuda", "gpu", "oneapi", "rocm", "tpu")


class TokenSet:
    """The token of each ordered effect: what the next operation with that effect waits for."""

    __slots__ = ("_tokens",)

    def __init__(self, tokens: Any = None):
        self._tokens: dict[Effect, ir.Value] = dict(tokens or {})

    @classmethod
    def create(cls, effects: Sequence[Effect]) -> TokenSet:
        """New tokens, which wait for nothing."""
        return cls({e: create("stablehlo.create_token", results=[mlir.token_type()]).result for e in effects})

    def get(self, effect: Effect) -> ir.Value:
        return self._tokens[effect]

    def items(self):
        return self._tokens.items()

    def effects(self) -> set[Effect]:
        return set(self._tokens)

    def subset(self, effects) -> TokenSet:
        return TokenSet({e: self._tokens[e] for e in effects})

    def update_tokens(self, tokens: TokenSet) -> TokenSet:
        return TokenSet(self._tokens | tokens._tokens)

    def __len__(self):
        return len(self._tokens)




class LoweringRuleContext(lowering.RuleContext):
    """What a lowering rule knows of the operation that it lowers: `avals_in`, `avals_out`, `module_context`, `primitive`."""

    __slots__ = ("_name_stack", "traceback", "const_lowering", "axis_size_env", "dim_var_values", "jaxpr_eqn_ctx",
                 "platforms", "_tokens_out")

    def __init__(self, module_context: lowering.ModuleContext, name_stack: NameStack | None = None, traceback: Any = None,
                 primitive: Primitive | None = None, avals_in: Sequence[Any] = (), avals_out: Sequence[Any] = (),
                 tokens_in: TokenSet | None = None, tokens_out: TokenSet | None = None, const_lowering: dict | None = None,
                 axis_size_env: dict | None = None, dim_var_values: Sequence[Any] = (), jaxpr_eqn_ctx: Any = None,
                 platforms: Sequence[str] | None = None):
        body = lowering.Body(module_context, dict(tokens_in.items()) if tokens_in is not None else None)
        super().__init__(body, [lowering._Typed(a) for a in avals_in], [lowering._Typed(a) for a in avals_out],
                         mlir.unknown_location, primitive)
        self._name_stack, self.traceback = name_stack, traceback
        self.const_lowering = {} if const_lowering is None else const_lowering
        self.axis_size_env, self.dim_var_values = axis_size_env, dim_var_values
        self.jaxpr_eqn_ctx = equation_context if jaxpr_eqn_ctx is None else jaxpr_eqn_ctx
        self.platforms, self._tokens_out = platforms, tokens_out

    @classmethod
    def around(cls, ctx: lowering.RuleContext, body: lowering.Body | None = None) -> LoweringRuleContext:
        """The context of one of our rules, for a rule from outside."""
        found = cls.__new__(cls)
        lowering.RuleContext.__init__(found, body or ctx.body, ctx._invars, ctx._outvars, ctx.loc, ctx.primitive, ctx.site)
        found._name_stack = found.traceback = found.axis_size_env = found.platforms = found._tokens_out = None
        found.const_lowering, found.dim_var_values, found.jaxpr_eqn_ctx = {}, (), equation_context
        return found

    @property
    def name_stack(self) -> NameStack:
        if self._name_stack is not None:
            return self._name_stack
        return NameStack.of(self.site[2] if self.site else "")

    @property
    def tokens_in(self) -> TokenSet:
        return TokenSet(self.body.tokens)

    @property
    def tokens_out(self) -> TokenSet | None:
        return self._tokens_out

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        """Make these the tokens that what follows waits for."""
        self._tokens_out = tokens_out
        self.body.tokens.update(tokens_out.items())

    def is_forward_compat(self) -> bool:
        return False

    def replace(self, **changes) -> LoweringRuleContext:
        """The context with other types, or other settings."""
        types = {k: changes.pop(k) for k in ("avals_in", "avals_out", "primitive") if k in changes}
        found = LoweringRuleContext.around(lowering.RuleContext.replace(self, **types))
        for name in LoweringRuleContext.__slots__:
            setattr(found, name, getattr(self, name))
        module = changes.pop("module_context", None)
        if module is not None:
            found.body = lowering.Body(module, self.body.tokens)
        if "tokens_in" in changes:
            found.body = lowering.Body(found.body.module, dict(changes.pop("tokens_in").items()))
        for name, value in changes.items():
            setattr(found, f"_{name}" if name in ("name_stack", "tokens_out") else name, value)
        return found


def flat_values(results: Any) -> Iterator[ir.Value]:
    """The MLIR values in what a rule returned."""
    if isinstance(results, ir.Value):
        yield results
    elif isinstance(results, (ir.Operation, ir.OpView)):
        yield from results.results
    else:
        for item in results:
            yield from flat_values(item)


def adapted(primitive: Primitive, rule: Callable, inline: bool = True) -> Callable:
    """The field of the record for a rule from outside."""
    def lower(ctx, *operands, **params):
        with ctx.loc:
            given = rule(LoweringRuleContext.around(ctx), *operands, **params)
            return checked(primitive, given, ctx)

    return lower if inline else _outlined(primitive, lower)


def checked(primitive: Primitive, given: Any, ctx: lowering.RuleContext):
    """What a rule returned, in the form and of the types that the primitive has."""
    try:
        values = list(flat_values(given))
    except TypeError:
        raise TypeError(f"the lowering of {primitive} must return MLIR values, it returned {type(given).__name__}: "
                        f"{given!r:.200}.") from None
    wanted = [mlir.type_of(aval) for aval in ctx.avals_out]
    if [v.type for v in values] != wanted:
        raise ValueError(f"the lowering of {primitive} must return values of the types ({', '.join(map(str, wanted))}), as its "
                         f"rule for abstract evaluation says; it returned ({', '.join(str(v.type) for v in values)}).")
    return values if primitive.multiple_results else values[0]


def _outlined(primitive: Primitive, lower: Callable) -> Callable:
    """The rule as a function of the module that is called; written once for each combination of types and parameters."""
    def call(ctx, *operands, **params):
        if ctx.body.tokens:
            return lower(ctx, *operands, **params)
        module = ctx.module_context
        key: tuple = (primitive, *ctx.avals_in, *params.items())
        try:
            symbol = module.functions.get(key)
        except TypeError:  # a parameter that cannot be hashed
            key, symbol = (), None
        if symbol is None:
            symbol, _, block = module.add_function(primitive.name, [v.type for v in operands],
                                                   lowering.flat_types(ctx.avals_out))
            with ir.InsertionPoint(block):
                inner = LoweringRuleContext.around(ctx, lowering.Body(module))
                results = lower(inner, *block.arguments, **params)
                create("func.return", operands=results if primitive.multiple_results else [results], loc=ctx.loc)
            if key:
                module.functions[key] = symbol
        operation = create("func.call", results=lowering.flat_types(ctx.avals_out), operands=operands,
                           attributes={"callee": mlir.symbol(symbol)}, loc=ctx.loc)
        results = list(operation.results)
        return results if primitive.multiple_results else results[0]

    return call
