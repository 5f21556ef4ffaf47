"""Adapters for external lowering rules, which become fields of primitives.

Such a rule is `rule(ctx, *operands, **params)`, written with the builders of `jaxlib.mlir.dialects`. It runs with a current
MLIR context, location and insertion point, and returns a value, or a sequence of values, possibly nested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlafront.core.ir import Effect, equation_context
from xlafront.core.primitive import Primitive
from xlafront.interpreters.source_info_util import NameStack
from xlafront.lowering import mlir
from xlafront.lowering.builder import Body
from xlafront.lowering.equations import Placeholder, RuleContext
from xlafront.lowering.mlir import create, ir
from xlafront.lowering.module import ModuleContext, flat_types

PLATFORMS = ("cpu", "cuda", "gpu", "oneapi", "rocm", "tpu")


class TokenSet:
    """The token of each ordered effect, on which the next operation with that effect depends."""

    __slots__ = ("_tokens",)

    def __init__(self, tokens: Any = None):
        self._tokens: dict[Effect, ir.Value] = dict(tokens or {})

    @classmethod
    def create(cls, effects: Sequence[Effect]) -> TokenSet:
        """Create new tokens without dependencies."""
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



class LoweringRuleContext(RuleContext):
    """The context of a lowering rule: `avals_in`, `avals_out`, `module_context`, `primitive` and others."""

    __slots__ = ("_name_stack", "traceback", "const_lowering", "axis_size_env", "dim_var_values", "jaxpr_eqn_ctx",
                 "platforms", "_tokens_out")

    def __init__(self, module_context: ModuleContext, name_stack: NameStack | None = None, traceback: Any = None,
                 primitive: Primitive | None = None, avals_in: Sequence[Any] = (), avals_out: Sequence[Any] = (),
                 tokens_in: TokenSet | None = None, tokens_out: TokenSet | None = None, const_lowering: dict | None = None,
                 axis_size_env: dict | None = None, dim_var_values: Sequence[Any] = (), jaxpr_eqn_ctx: Any = None,
                 platforms: Sequence[str] | None = None):
        body = Body(module_context, dict(tokens_in.items()) if tokens_in is not None else None)
        super().__init__(body, [Placeholder(a) for a in avals_in], [Placeholder(a) for a in avals_out],
                         mlir.unknown_location, primitive)
        self._name_stack, self.traceback = name_stack, traceback
        self.const_lowering = {} if const_lowering is None else const_lowering
        self.axis_size_env, self.dim_var_values = axis_size_env, dim_var_values
        self.jaxpr_eqn_ctx = equation_context if jaxpr_eqn_ctx is None else jaxpr_eqn_ctx
        self.platforms, self._tokens_out = platforms, tokens_out

    @classmethod
    def around(cls, ctx: RuleContext, body: Body | None = None) -> LoweringRuleContext:
        """Return the context for an external rule, made from that of an internal rule."""
        found = cls.__new__(cls)
        RuleContext.__init__(found, body or ctx.body, ctx._invars, ctx._outvars, ctx.loc, ctx.primitive, ctx.site)
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
        """Set the tokens on which the following operations depend."""
        self._tokens_out = tokens_out
        self.body.tokens.update(tokens_out.items())

    def is_forward_compat(self) -> bool:
        return False

    def replace(self, **changes) -> LoweringRuleContext:
        """Return the context with other types or settings."""
        types = {k: changes.pop(k) for k in ("avals_in", "avals_out", "primitive") if k in changes}
        found = LoweringRuleContext.around(RuleContext.replace(self, **types))
        for name in LoweringRuleContext.__slots__:
            setattr(found, name, getattr(self, name))
        module = changes.pop("module_context", None)
        if module is not None:
            found.body = Body(module, self.body.tokens)
        if "tokens_in" in changes:
            found.body = Body(found.body.module, dict(changes.pop("tokens_in").items()))
        for name, value in changes.items():
            setattr(found, f"_{name}" if name in ("name_stack", "tokens_out") else name, value)
        return found


def flat_values(results: Any) -> Iterator[ir.Value]:
    """Yield the MLIR values in the result of a rule."""
    if isinstance(results, ir.Value):
        yield results
    elif isinstance(results, (ir.Operation, ir.OpView)):
        yield from results.results
    else:
        for item in results:
            yield from flat_values(item)


def adapt_rule(primitive: Primitive, rule: Callable, inline: bool = True) -> Callable:
    """Return the field of a primitive for an external rule."""
    def lower(ctx, *operands, **params):
        with ctx.loc:
            results = rule(LoweringRuleContext.around(ctx), *operands, **params)
            return check_results(primitive, results, ctx)

    return lower if inline else _outline(primitive, lower)


def check_results(primitive: Primitive, results: Any, ctx: RuleContext):
    """Return the results of a rule in the primitive's form; raise an error if their types are wrong."""
    try:
        values = list(flat_values(results))
    except TypeError:
        raise TypeError(f"the lowering of {primitive} must return MLIR values, it returned {type(results).__name__}: "
                        f"{results!r:.200}.") from None
    expected = [mlir.type_of(aval) for aval in ctx.avals_out]
    if [v.type for v in values] != expected:
        raise ValueError(f"the lowering of {primitive} must return values of the types ({', '.join(map(str, expected))}), as "
                         f"given by its abstract evaluation rule; it returned ({', '.join(str(v.type) for v in values)}).")
    return values if primitive.multiple_results else values[0]


def _outline(primitive: Primitive, lower: Callable) -> Callable:
    """Return the rule as a call of a function, emitted once per module for each combination of types and parameters."""
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
                                                   flat_types(ctx.avals_out))
            with ir.InsertionPoint(block):
                inner = LoweringRuleContext.around(ctx, Body(module))
                results = lower(inner, *block.arguments, **params)
                create("func.return", operands=results if primitive.multiple_results else [results], loc=ctx.loc)
            if key:
                module.functions[key] = symbol
        operation = create("func.call", results=flat_types(ctx.avals_out), operands=operands,
                           attributes={"callee": mlir.symbol(symbol)}, loc=ctx.loc)
        results = list(operation.results)
        return results if primitive.multiple_results else results[0]

    return call
