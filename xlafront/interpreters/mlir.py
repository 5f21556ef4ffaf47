"""Lowering rules of primitives, and functions for writing them.

A rule is `rule(ctx, *operands, **params)` and returns the MLIR values of the results. It runs with a current MLIR context,
location and insertion point, so that the builders of `jaxlib.mlir.dialects` can be used directly.

>>> from xlafront.extend.mlir.dialects import stablehlo as hlo
>>> twice_p = xf.extend.core.Primitive("twice")
>>> register_lowering(twice_p, lambda ctx, x: [hlo.add(x, x)])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from xlafront.base.jaxlib_compat import pytree
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import DebugInfo, Effect, Jaxpr
from xlafront.core.primitive import Primitive
from xlafront.interpreters.lowering_rules import (
    PLATFORMS,
    LoweringRuleContext as LoweringRuleContext,
    TokenSet as TokenSet,
    adapt_rule,
    flat_values,
)
from xlafront.interpreters.mlir_modules import (
    LoweringParameters as LoweringParameters,
    LoweringResult as LoweringResult,
    ModuleContext as ModuleContext,
    ShapePolyLoweringState as ShapePolyLoweringState,
    ShardingContext as ShardingContext,
    SPMDAxisContext as SPMDAxisContext,
    lower_jaxpr_to_fun as lower_jaxpr_to_fun,
    lower_jaxpr_to_module as lower_jaxpr_to_module,
    make_ir_context as make_ir_context,
    merge_mlir_modules as merge_mlir_modules,
    module_to_bytecode as module_to_bytecode,
    module_to_string as module_to_string,
)
from xlafront.lowering import custom_calls, mlir, module as lowering
from xlafront.lowering.builder import Body
from xlafront.lowering.custom_calls import custom_call as custom_call
from xlafront.lowering.equations import lower_equations
from xlafront.lowering.host_callbacks import call_python
from xlafront.lowering.mlir import create, ir
from xlafront.runtime import keys
from xlafront.runtime.sharding import Mesh as Mesh
from xlafront.staging.caches import executables_by_jaxpr

Value = Token = ir.Value
DEVICE_TO_DEVICE_TYPE, SEND_TO_HOST_TYPE, RECV_FROM_HOST_TYPE = 1, 2, 3
ir_tree_registry = pytree.PyTreeRegistry(enable_none=False, enable_dict=False)


class EffectTypeSet:
    """A set of effect classes."""

    __slots__ = ("_types",)

    def __init__(self, *types: type):
        self._types = set(types)

    def add_type(self, effect_type: type) -> None:
        self._types.add(effect_type)

    def contains(self, effect: Effect) -> bool:
        return isinstance(effect, tuple(self._types))

    __contains__ = contains

    def filter_in(self, effects) -> list[Effect]:
        return [e for e in effects if e in self]

    def filter_not_in(self, effects) -> list[Effect]:
        return [e for e in effects if e not in self]

    def remove_in(self, effects) -> set[Effect]:
        return set(self.filter_not_in(effects))

    def __repr__(self):
        return f"EffectTypeSet({self._types})"


lowerable_effects = EffectTypeSet(Effect)  # all: the class of an effect says if it is ordered


# Rules


def register_lowering(prim: Primitive, rule: Callable, platform: str | None = None, inline: bool = True,
                      cacheable: bool = True) -> None:
    """Register the lowering rule of a primitive, for one platform or as the default of all platforms.

    Without `inline` the rule is emitted once, as a function of the module that is called. `cacheable` has no effect, as modules
    of equal programs are shared.

    Example:
        >>> negative_p = xf.extend.core.Primitive("negative")
        >>> register_lowering(negative_p, lower_fun(lambda x: -x, multiple_results=False))
    """
    if platform is not None and platform not in PLATFORMS:
        raise NotImplementedError(f"register_lowering of {prim} names the platform {platform!r}; the platforms are "
                                  f"{', '.join(PLATFORMS)}.")
    field = adapt_rule(prim, rule, inline)
    for name in ("cuda", "rocm") if platform == "gpu" else (platform,):
        prim.lowerings[name] = field
    prim.eager.clear()
    executables_by_jaxpr.clear()


def lower_fun(fun: Callable, multiple_results: bool = True) -> Callable:
    """Return a lowering rule from a function of arrays that is written with other primitives.

    Example:
        >>> square_p = xf.extend.core.Primitive("square")
        >>> register_lowering(square_p, lower_fun(lambda x: x * x, multiple_results=False))
    """
    def rule(ctx, *operands, **params):
        def flat(*tracers):
            results = fun(*tracers, **params)
            return results if multiple_results else [results]

        name = getattr(fun, "__name__", str(ctx.primitive))
        with tracing.current_trace(tracing.eval_trace):
            closed = tracing.trace_to_closed_jaxpr(flat, ctx.avals_in, DebugInfo("lower_fun", name))
        return _emit(ctx.module_context, closed.structure, [ir_constant(c) for c in closed.consts], operands, ctx.body.tokens)

    return rule


def _emit(module, jaxpr: Jaxpr, consts, operands, tokens) -> tuple[ir.Value, ...]:
    # A new body: its shared constants are defined at the current insertion point, which may be in a region.
    return tuple(lower_equations(Body(module, tokens), jaxpr, consts, list(flat_values(operands))))


def jaxpr_subcomp(ctx: Any, jaxpr: Jaxpr, name_stack: Any, tokens: TokenSet, consts_for_constvars: Sequence[Any], *args,
                  dim_var_values: Sequence[Any] = (), const_lowering: dict | None = None, outer_traceback: Any = None
                  ) -> tuple[tuple[ir.Value, ...], TokenSet]:
    """Emit the equations of a jaxpr at the current insertion point; return the values of its results, and the tokens.

    `ctx` is the `ModuleContext`. The other arguments set locations and dimension values, which the jaxpr itself has here.

    Example:
        >>> # results, tokens = jaxpr_subcomp(ctx.module_context, jaxpr, ctx.name_stack, ctx.tokens_in, consts, *operands)
    """
    known = dict(tokens.items())
    results = _emit(_module_of(ctx), jaxpr, list(flat_values(consts_for_constvars)), args, known)
    return results, TokenSet(known)


def core_call_lowering(ctx: LoweringRuleContext, *args, name: str, backend: Any = None, inline_jax_late: bool = False,
                       call_jaxpr: Jaxpr, **params) -> list[ir.Value]:
    """Lower a primitive that calls a jaxpr: to a function of the module and its call, or inline with `inline_jax_late`.

    Example:
        >>> call_p = xf.extend.core.CallPrimitive("my_call")
        >>> register_lowering(call_p, core_call_lowering)
    """
    operands = list(flat_values(args))
    return ctx.inline(call_jaxpr, operands, name) if inline_jax_late else ctx.call(call_jaxpr, operands, name)


# Types


def _module_of(ctx) -> lowering.ModuleContext:
    return getattr(ctx, "module_context", ctx)


def dtype_to_ir_type(dtype: Any) -> ir.Type:
    """Return the MLIR element type of a dtype.

    Example:
        >>> with make_ir_context():
        ...     print(dtype_to_ir_type(xnp.dtype("bfloat16")))
        bf16
    """
    return mlir.element_type(dtype)


def aval_to_ir_types(ctx: Any, aval: Any = None) -> tuple[ir.Type, ...]:
    """Return the MLIR types of the values that represent a value of this type.

    Example:
        >>> with make_ir_context():
        ...     types = aval_to_ir_types(None, xf.typeof(1.0))
    """
    return (aval_to_ir_type(ctx, aval),)


def aval_to_ir_type(ctx: Any, aval: Any = None) -> ir.Type:
    """Return the MLIR type of an abstract value; `ctx`, the context of a module, is not needed.

    Example:
        >>> with make_ir_context():
        ...     print(aval_to_ir_type(None, xf.core.ShapedArray((2, 3), "float32")))
        tensor<2x3xf32>
    """
    return mlir.type_of(ctx if aval is None else aval)


def token_type() -> ir.Type:
    """Return the MLIR type of tokens.

    Example:
        >>> with make_ir_context():
        ...     print(token_type())
        !stablehlo.token
    """
    return mlir.token_type()


def flatten_ir_types(xs: Any) -> list[ir.Type]:
    """Flatten a nested sequence of types.

    Example:
        >>> flatten_ir_types([])
        []
    """
    return ir_tree_registry.flatten(xs)[0]


def flatten_ir_values(xs: Any) -> list[ir.Value]:
    """Flatten a nested sequence of values.

    Example:
        >>> flatten_ir_values([])
        []
    """
    return list(flat_values(xs))


def unflatten_ir_values_like_types(xs: Sequence[ir.Value], ys: Sequence[Any]) -> list[Any]:
    """Nest values like types: one value for each type, a tuple for each sequence.

    Example:
        >>> unflatten_ir_values_like_types([], [])
        []
    """
    values = iter(xs)
    return [next(values) if isinstance(y, ir.Type) else tuple(next(values) for _ in y) for y in ys]


# Constants and attributes


class ConstantHandler(Protocol):
    """A function `handler(value, aval)` that returns the MLIR values of a constant."""

    def __call__(self, val: Any, aval: Any) -> Any: ...


_constant_handlers: dict[type, Callable] = {}


def register_constant_handler(type_: type, handler_fun: Callable) -> None:
    """Register the function that lowers constants of a Python type: `handler_fun(value, aval)` returns MLIR values.

    Example:
        >>> class Celsius(float):
        ...     pass
        >>> register_constant_handler(Celsius, lambda value, aval: ir_constant(xnp.float32(value)))
    """
    _constant_handlers[type_] = handler_fun


def ir_constants(val: Any, *, const_lowering: dict | None = None, aval: Any = None) -> tuple[ir.Value, ...]:
    """Return the MLIR values of a constant.

    Example:
        >>> # in a lowering rule: [zero] = ir_constants(numpy.float32(0))
    """
    for kind in type(val).__mro__:
        if kind in _constant_handlers:
            return tuple(flat_values(_constant_handlers[kind](val, aval)))
    val = keys.physical_array(val)
    if type(val) in dtypes.python_scalar_dtypes:
        val = np.asarray(val, aval.dtype if aval is not None else tracing.aval_of(val).dtype)
    return (lowering.constant(np.asarray(val)),)


def ir_constant(val: Any, *, const_lowering: dict | None = None, aval: Any = None) -> ir.Value:
    """Return the MLIR value of a constant, an array or a number.

    Example:
        >>> # in a lowering rule: hlo.add(x, ir_constant(numpy.float32(1)))
    """
    [value] = ir_constants(val, const_lowering=const_lowering, aval=aval)
    return value


def i32_attr(i: int) -> ir.Attribute:
    """Return the attribute `i : i32`.

    Example:
        >>> with make_ir_context():
        ...     print(i32_attr(3))
        3 : i32
    """
    return mlir.i32(i)


def i64_attr(i: int) -> ir.Attribute:
    """Return the attribute `i : i64`.

    Example:
        >>> with make_ir_context():
        ...     print(i64_attr(3))
        3 : i64
    """
    return mlir.i64(i)


def dense_int_array(xs: Sequence[int]) -> ir.Attribute:
    """Return the attribute `array<i64: ...>`.

    Example:
        >>> with make_ir_context():
        ...     print(dense_int_array([1, 2]))
        array<i64: 1, 2>
    """
    return mlir.i64s(xs)


def dense_int_elements(xs: Sequence[int]) -> ir.Attribute:
    """Return the attribute `dense<...> : tensor<...xi64>`.

    Example:
        >>> with make_ir_context():
        ...     print(dense_int_elements([1, 2]))
        dense<[1, 2]> : tensor<2xi64>
    """
    return mlir.dense_i64(xs)


def ir_attribute(val: Any) -> ir.Attribute:
    """Return a Python or NumPy value as an attribute.

    Example:
        >>> with make_ir_context():
        ...     print(ir_attribute([1, "a"]))
        [1, "a"]
    """
    return custom_calls.attribute_of(val)


def shape_tensor(ctx: Any, sizes: Sequence[Any]) -> ir.Value:
    """Return a one-dimensional tensor of 32-bit sizes, given as numbers and scalar MLIR values.

    Example:
        >>> # in a lowering rule: hlo.dynamic_reshape(result_type, x, shape_tensor(ctx, [2, 3]))
    """
    if all(isinstance(n, (int, np.integer)) for n in sizes):
        return lowering.constant(np.asarray(sizes, np.int32))
    one = mlir.tensor_type((1,), np.dtype(np.int32))

    def as_vector(n):
        value = n if isinstance(n, ir.Value) else lowering.constant(np.int32(n))
        if value.type != mlir.tensor_type((), np.dtype(np.int32)):
            value = create("stablehlo.convert", results=[mlir.tensor_type((), np.dtype(np.int32))], operands=[value]).result
        return create("stablehlo.reshape", results=[one], operands=[value]).result

    return create("stablehlo.concatenate", results=[mlir.tensor_type((len(sizes),), np.dtype(np.int32))],
                  operands=[as_vector(n) for n in sizes], attributes={"dimension": mlir.i64(0)}).result


class _CallbackEffect(Effect):
    """The effect of a callback whose token is passed explicitly."""

    ordered = True


class _Callback(NamedTuple):
    """A reference to a callback, which must live as long as the executable."""

    call: Callable


def emit_python_callback(ctx: LoweringRuleContext, callback: Callable, token: Any | None, operands: Sequence[ir.Value],
                         operand_avals: Sequence[ShapedArray], result_avals: Sequence[ShapedArray], *, has_side_effect: bool,
                         returns_token: bool = True, partitioned: bool = False, sharding: Any = None
                         ) -> tuple[Sequence[ir.Value], Any, Any]:
    """Emit a call of a Python function of NumPy arrays; return `(results, token or None, object to keep alive)`.

    With a `token` the call is ordered. With `partitioned`, every device calls the function with its shard.

    Example:
        >>> # in a lowering rule: results, _, _ = emit_python_callback(
        >>> #     ctx, f, None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False)
    """
    effect = _CallbackEffect() if token is not None else None

    def call(*arrays):
        ordered = effect is not None
        results = tuple(callback(*arrays[ordered:]))
        if len(results) != len(result_avals):
            raise ValueError(f"the callback of {ctx.primitive} returned {len(results)} results, expected {len(result_avals)}.")
        arrays = tuple(np.asarray(x, aval.dtype) for x, aval in zip(results, result_avals))
        for x, aval in zip(arrays, result_avals):
            if x.shape != aval.shape:
                raise ValueError(f"the callback of {ctx.primitive} returned an array of shape {x.shape}, "
                                 f"expected {aval.shape}.")
        return (None, *arrays) if ordered else arrays

    tokens: dict[Effect, Any] = {} if effect is None else {effect: token}
    inner = LoweringRuleContext.around(ctx.replace(avals_in=operand_avals, avals_out=result_avals),
                                       Body(ctx.module_context, tokens))
    results = call_python(inner, call, list(flat_values(operands)), has_side_effect=has_side_effect, effect=effect,
                          partitioned=partitioned)
    new_token = inner.body.tokens[effect] if effect is not None and returns_token else None
    return results, new_token, _Callback(call)
