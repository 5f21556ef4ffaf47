"""Lowering rules of primitives, and the vocabulary in which they are written.

A rule is `rule(ctx, *operands, **params)` and returns the MLIR values of the results. It runs while the MLIR context, a
location and an insertion point are current, so that the builders of `jaxlib.mlir.dialects` can be used directly.

>>> from xlafront.extend.mlir.dialects import stablehlo as hlo
>>> twice_p = xf.extend.core.Primitive("twice")
>>> rule = register_lowering(twice_p, lambda ctx, x: [hlo.add(x, x)])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from xlafront.core import dtypes, keys, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import ClosedJaxpr, DebugInfo, Effect, Jaxpr
from xlafront.core.primitive import Primitive
from xlafront.interpreters.lowering_rules import (
    PLATFORMS,
    LoweringRuleContext as LoweringRuleContext,
    TokenSet as TokenSet,
    adapted,
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
from xlafront.lowering.custom_calls import custom_call as custom_call
from xlafront.lowering.host_callbacks import call_python
from xlafront.lowering.mlir import create, ir
from xlafront.runtime.jaxlib_compat import pytree
from xlafront.runtime.sharding import Mesh as Mesh
from xlafront.staging.equal_programs import recent_programs

Value = Token = ir.Value
DEVICE_TO_DEVICE_TYPE, SEND_TO_HOST_TYPE, RECV_FROM_HOST_TYPE = 1, 2, 3
ir_tree_registry = pytree.PyTreeRegistry(enable_none=False, enable_dict=False)


class EffectTypeSet:
    """Kinds of effects."""

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


lowerable_effects = EffectTypeSet(Effect)  # what an effect does to order is in its class


# Rules


def register_lowering(prim: Primitive, rule: Callable, platform: str | None = None, inline: bool = True,
                      cacheable: bool = True) -> Callable:
    """Give a primitive its lowering, for one platform or for all that have none of their own.

    Without `inline` it is written once, as a function of the module that is called. `cacheable` is accepted: the modules of
    equal programs are shared.

    >>> negative_p = xf.extend.core.Primitive("negative")
    >>> rule = register_lowering(negative_p, lower_fun(lambda x: -x, multiple_results=False))
    """
    if platform is not None and platform not in PLATFORMS:
        raise NotImplementedError(f"register_lowering of {prim} names the platform {platform!r}; the platforms are "
                                  f"{', '.join(PLATFORMS)}.")
    field = adapted(prim, rule, inline)
    for name in ("cuda", "rocm") if platform == "gpu" else (platform,):
        prim.lowerings[name] = field
    prim.eager.clear()
    recent_programs.clear()
    return rule


def lower_fun(fun: Callable, multiple_results: bool = True) -> Callable:
    """A lowering rule from a function of arrays that is written with other operations.

    >>> square_p = xf.extend.core.Primitive("square")
    >>> rule = register_lowering(square_p, lower_fun(lambda x: x * x, multiple_results=False))
    """
    def rule(ctx, *operands, **params):
        def flat(*tracers):
            results = fun(*tracers, **params)
            return results if multiple_results else [results]

        name = getattr(fun, "__name__", str(ctx.primitive))
        with tracing.current_trace(tracing.eval_trace):
            closed = tracing.trace_to_closed_jaxpr(flat, ctx.avals_in, DebugInfo("lower_fun", name))
        return _write(ctx.module_context, closed.jaxpr, [ir_constant(c) for c in closed.consts], operands, ctx.body.tokens)

    return rule


def _write(module, jaxpr: Jaxpr, consts, operands, tokens) -> tuple[ir.Value, ...]:
    # A body of its own: constants that it shares are defined where the rule writes now, maybe within a region.
    return tuple(lowering.Body(module, tokens).run(jaxpr, consts, list(flat_values(operands))))


def jaxpr_subcomp(ctx: Any, jaxpr: Jaxpr, name_stack: Any, tokens: TokenSet, consts_for_constvars: Sequence[Any], *args,
                  dim_var_values: Sequence[Any] = (), const_lowering: dict | None = None, outer_traceback: Any = None
                  ) -> tuple[tuple[ir.Value, ...], TokenSet]:
    """Write the operations of a program at the current insertion point; the values of its results, and the tokens.

    `ctx` is the `ModuleContext`. The other arguments are about places that modules here know from the program.

    >>> # results, tokens = jaxpr_subcomp(ctx.module_context, jaxpr, ctx.name_stack, ctx.tokens_in, consts, *operands)
    """
    known = dict(tokens.items())
    results = _write(_module_of(ctx), jaxpr, list(flat_values(consts_for_constvars)), args, known)
    return results, TokenSet(known)


def core_call_lowering(ctx: LoweringRuleContext, *args, name: str, backend: Any = None, call_jaxpr: ClosedJaxpr | Jaxpr
                       ) -> list[ir.Value]:
    """The lowering rule of primitives that call a program: a function of the module, and a call of it.

    >>> call_p = xf.extend.core.CallPrimitive("my_call")
    >>> rule = register_lowering(call_p, core_call_lowering)
    """
    closed = call_jaxpr if isinstance(call_jaxpr, ClosedJaxpr) else ClosedJaxpr(call_jaxpr)
    return ctx.call(closed, list(flat_values(args)), name)


# Types


def _module_of(ctx) -> lowering.ModuleContext:
    return getattr(ctx, "module_context", ctx)


def dtype_to_ir_type(dtype: Any) -> ir.Type:
    """The MLIR type of elements of a dtype.

    >>> with make_ir_context():
    ...     print(dtype_to_ir_type(xnp.dtype("bfloat16")))
    bf16
    """
    return mlir.element_type(dtype)


def aval_to_ir_types(ctx: Any, aval: Any = None) -> tuple[ir.Type, ...]:
    """The MLIR types of the values that stand for a value of this type.

    >>> with make_ir_context():
    ...     types = aval_to_ir_types(None, xf.typeof(1.0))
    """
    return (aval_to_ir_type(ctx, aval),)


def aval_to_ir_type(ctx: Any, aval: Any = None) -> ir.Type:
    """The MLIR type of an abstract value; `ctx`, a module's context, is not needed.

    >>> with make_ir_context():
    ...     print(aval_to_ir_type(None, xf.core.ShapedArray((2, 3), "float32")))
    tensor<2x3xf32>
    """
    return mlir.type_of(ctx if aval is None else aval)


def token_type() -> ir.Type:
    """The MLIR type of tokens.

    >>> with make_ir_context():
    ...     print(token_type())
    !stablehlo.token
    """
    return mlir.token_type()


def flatten_ir_types(xs: Any) -> list[ir.Type]:
    """The types in a sequence that may be nested.

    >>> flatten_ir_types([])
    []
    """
    return ir_tree_registry.flatten(xs)[0]


def flatten_ir_values(xs: Any) -> list[ir.Value]:
    """The values in a sequence that may be nested.

    >>> flatten_ir_values([])
    []
    """
    return list(flat_values(xs))


def unflatten_ir_values_like_types(xs: Sequence[ir.Value], ys: Sequence[Any]) -> list[Any]:
    """Values nested as types are: a value for each type, a tuple for each sequence.

    >>> unflatten_ir_values_like_types([], [])
    []
    """
    values = iter(xs)
    return [next(values) if isinstance(y, ir.Type) else tuple(next(values) for _ in y) for y in ys]


# Constants and attributes


class ConstantHandler(Protocol):
    """Makes the constant of a value of some type: `handler(value, aval)` returns MLIR values."""

    def __call__(self, val: Any, aval: Any) -> Any: ...


_constant_handlers: dict[type, Callable] = {}


def register_constant_handler(type_: type, handler_fun: Callable) -> None:
    """Say how values of a type are written as constants: `handler_fun(value, aval)` returns MLIR values.

    >>> class Celsius(float):
    ...     pass
    >>> register_constant_handler(Celsius, lambda value, aval: ir_constant(xnp.float32(value)))
    """
    _constant_handlers[type_] = handler_fun


def ir_constants(val: Any, *, const_lowering: dict | None = None, aval: Any = None) -> tuple[ir.Value, ...]:
    """The MLIR values of a constant.

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
    """The MLIR value of a constant: an array or a number.

    >>> # in a lowering rule: hlo.add(x, ir_constant(numpy.float32(1)))
    """
    [value] = ir_constants(val, const_lowering=const_lowering, aval=aval)
    return value


def i32_attr(i: int) -> ir.Attribute:
    """The attribute `i : i32`.

    >>> with make_ir_context():
    ...     print(i32_attr(3))
    3 : i32
    """
    return mlir.i32(i)


def i64_attr(i: int) -> ir.Attribute:
    """The attribute `i : i64`.

    >>> with make_ir_context():
    ...     print(i64_attr(3))
    3 : i64
    """
    return mlir.i64(i)


def dense_int_array(xs: Sequence[int]) -> ir.Attribute:
    """The attribute `array<i64: ...>`.

    >>> with make_ir_context():
    ...     print(dense_int_array([1, 2]))
    array<i64: 1, 2>
    """
    return mlir.i64s(xs)


def dense_int_elements(xs: Sequence[int]) -> ir.Attribute:
    """The attribute `dense<...> : tensor<...xi64>`.

    >>> with make_ir_context():
    ...     print(dense_int_elements([1, 2]))
    dense<[1, 2]> : tensor<2xi64>
    """
    return mlir.dense_i64(xs)


def ir_attribute(val: Any) -> ir.Attribute:
    """A Python or NumPy value as an attribute.

    >>> with make_ir_context():
    ...     print(ir_attribute([1, "a"]))
    [1, "a"]
    """
    return custom_calls.attribute_of(val)


def shape_tensor(ctx: Any, sizes: Sequence[Any]) -> ir.Value:
    """A one-dimensional tensor of 32-bit sizes, of numbers and of scalar MLIR values.

    >>> # in a lowering rule: hlo.dynamic_reshape(result_type, x, shape_tensor(ctx, [2, 3]))
    """
    if all(isinstance(n, (int, np.integer)) for n in sizes):
        return lowering.constant(np.asarray(sizes, np.int32))
    one = mlir.tensor_type((1,), np.dtype(np.int32))

    def part(n):
        value = n if isinstance(n, ir.Value) else lowering.constant(np.int32(n))
        if value.type != mlir.tensor_type((), np.dtype(np.int32)):
            value = create("stablehlo.convert", results=[mlir.tensor_type((), np.dtype(np.int32))], operands=[value]).result
        return create("stablehlo.reshape", results=[one], operands=[value]).result

    return create("stablehlo.concatenate", results=[mlir.tensor_type((len(sizes),), np.dtype(np.int32))],
                  operands=[part(n) for n in sizes], attributes={"dimension": mlir.i64(0)}).result


class _CallbackEffect(Effect):
    """Of a callback that is given its token by hand."""

    ordered = True


class _Callback(NamedTuple):
    """What a program holds of a callback; it lives as long as the program."""

    call: Callable


def emit_python_callback(ctx: LoweringRuleContext, callback: Callable, token: Any | None, operands: Sequence[ir.Value],
                         operand_avals: Sequence[ShapedArray], result_avals: Sequence[ShapedArray], *, has_side_effect: bool,
                         returns_token: bool = True, partitioned: bool = False, sharding: Any = None
                         ) -> tuple[Sequence[ir.Value], Any, Any]:
    """Call a Python function of NumPy arrays from the program: `(results, token or None, what has to be kept alive)`.

    With a `token` it comes in its turn. `partitioned` calls it on every device with its part.

    >>> # in a lowering rule: results, _, _ = emit_python_callback(
    >>> #     ctx, f, None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False)
    """
    effect = _CallbackEffect() if token is not None else None

    def call(*arrays):
        ordered = effect is not None
        results = tuple(callback(*arrays[ordered:]))
        if len(results) != len(result_avals):
            raise ValueError(f"the callback of {ctx.primitive} returned {len(results)} results, {len(result_avals)} were said.")
        arrays = tuple(np.asarray(x, aval.dtype) for x, aval in zip(results, result_avals))
        for x, aval in zip(arrays, result_avals):
            if x.shape != aval.shape:
                raise ValueError(f"the callback of {ctx.primitive} returned an array of shape {x.shape}, "
                                 f"{aval.shape} was said.")
        return (None, *arrays) if ordered else arrays

    tokens: dict[Effect, Any] = {} if effect is None else {effect: token}
    inner = LoweringRuleContext.around(ctx.replace(avals_in=operand_avals, avals_out=result_avals),
                                       lowering.Body(ctx.module_context, tokens))
    results = call_python(inner, call, list(flat_values(operands)), has_side_effect=has_side_effect, effect=effect,
                          partitioned=partitioned)
    new_token = inner.body.tokens[effect] if effect is not None and returns_token else None
    return results, new_token, _Callback(call)
