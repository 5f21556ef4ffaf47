"""Calls of exported functions: a primitive whose lowering links the exported module into the module being lowered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.core import dtypes, tracing, tree
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.primitive import Cost, Primitive, Traits
from xlafront.exporting.checks import (
    DisabledSafetyCheck,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from xlafront.exporting.record import ExportedModule
from xlafront.runtime import keys
from xlafront.staging import module_shardings
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.symbolic.dimensions import is_symbolic
from xlafront.symbolic.solving import ArgumentShape, solve_shapes, substituted
from xlafront.transforms.calls.custom_vjp import custom_vjp


def call_exported(exported: ExportedModule, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call an exported function, and return its results."""
    version = exported.calling_convention_version
    if not minimum_supported_calling_convention_version <= version <= maximum_supported_calling_convention_version:
        raise ValueError(
            f"{exported.fun_name} was exported with the calling convention {version}; this version of xlafront supports "
            f"{minimum_supported_calling_convention_version} to {maximum_supported_calling_convention_version}. Export it "
            f"again, or install a version that supports it.")
    leaves, in_tree = tree.flatten_tree((args, kwargs))
    if in_tree != exported.in_tree:
        given, expected = [tree.leaf_indices(t) for t in (in_tree, exported.in_tree)]
        raise ValueError(f"the call of the exported function {exported.fun_name} does not have the structure of (args, "
                         f"kwargs) with which it was exported: {tree.first_difference(expected, given)}. It takes "
                         f"{exported.in_tree}; static arguments are bound: leave them out.")
    _check_types(exported, leaves)
    return exported.out_tree.unflatten(_differentiable(exported)(*leaves))


def _check_types(exported: ExportedModule, leaves: Sequence[Any]) -> None:
    for i, (x, aval) in enumerate(zip(leaves, exported.in_avals)):
        given = tracing.aval_of(x, exported.fun_name)
        if given.dtype != aval.dtype:
            raise ValueError(f"dtype mismatch: {exported.fun_name} was exported for {aval} as {_path(exported, i)}, and is "
                             f"called with {given}. Convert the argument, or export the function for this dtype.")
        if given.shape != aval.shape and not exported.dimension_variables:
            raise ValueError(f"shape mismatch: {exported.fun_name} was exported for {aval} as {_path(exported, i)}, and is "
                             f"called with {given}. Export the function for this shape, or for symbolic dimensions "
                             "(symbolic_shape).")
    if exported.dimension_variables:
        _dimension_values(exported, [tracing.aval_of(x) for x in leaves])


def _dimension_values(exported: ExportedModule, avals: Sequence[Any]) -> dict[str, Any]:
    """Return the values of the dimension variables of the export, solved from the shapes of arguments."""
    cache = exported.__dict__.setdefault("_solved_shapes", BoundedCache(256))
    shapes = tuple([aval.shape for aval in avals])
    values = cache.get(shapes)
    if values is None:
        arguments = [ArgumentShape(_path(exported, i), aval.shape) for i, aval in enumerate(exported.in_avals)]
        values = cache.put(shapes, solve_shapes(arguments, shapes))
    return values


def _result_types(*avals, exported: ExportedModule) -> list[Any]:
    if not exported.dimension_variables:
        return list(exported.out_avals)
    values = _dimension_values(exported, avals)
    return [aval.update(shape=substituted(aval.shape, values)) for aval in exported.out_avals]


def _module(ctx, exported: ExportedModule, index: int | None) -> Any:
    """Return the module to link; if it has dimension variables and the shapes of the operands are static, refined for them."""
    module = lowering.artifacts.deserialize(exported.mlir_module_serialized)
    avals = [keys.physical(ctx.avals_in[i]) for i in exported.module_kept_var_idx]
    if not exported.dimension_variables or any([is_symbolic(aval.shape) for aval in avals]):
        return module
    mlir = lowering.mlir
    leading = [((), np.dtype(np.int32))] * (index is not None) + [mlir.token_type()] * len(exported.ordered_effects)
    return lowering.refinement.refined(module, [*leading, *avals])


def _convert(ctx, values: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """Convert values between static and dynamic types of the same shape."""
    return [x if x.type == t else lowering.mlir.create("stablehlo.convert", results=[t], operands=[x], loc=ctx.loc).result
            for x, t in zip(values, types)]


def _path(exported: ExportedModule, index: int) -> str:
    args, kwargs = tree.leaf_indices(exported.in_tree)
    for name, subtree in (("args", args), ("kwargs", kwargs)):
        for path, number in tree.flatten_with_path(subtree)[0]:
            if number == index:
                return f"{name}{tree.keystr(path)}"
    return f"argument {index}"


def _differentiable(exported: ExportedModule) -> custom_vjp:
    """Return the call on flat arguments, with the exported derivative as its rule."""
    cached = exported.__dict__.get("_flat_call")
    if cached is not None:
        return cached

    def flat(*xs):
        return call_exported_p.bind(*xs, exported=exported)

    def forward(*xs):
        return function(*xs), xs  # calls `function`, so that higher derivatives work

    def backward(xs, cotangents):
        derivative = exported.vjp()
        cts = _differentiable(derivative)(*xs, *cotangents)
        return tuple([None if aval.dtype == dtypes.float0 else ct for ct, aval in zip(cts, derivative.out_avals)])

    flat.__name__ = exported.fun_name
    forward.__name__, backward.__name__ = f"{exported.fun_name}_forward", f"{exported.fun_name}_vjp"
    function = custom_vjp(flat)
    function.defvjp(forward, backward)
    exported.__dict__["_flat_call"] = function
    return function


# The primitive


def _lower(ctx, *operands, exported):
    module = ctx.module_context
    index = _platform_index(exported, ctx.platform)
    if exported.nr_devices not in (1, module.num_partitions):
        raise ValueError(
            f"{exported.fun_name} was exported for {exported.nr_devices} devices, and is called in a program on "
            f"{module.num_partitions} device(s). Place its arguments over a mesh of {exported.nr_devices} devices: "
            f"device_put(x, exported.in_shardings_jax(mesh)[0]).")
    operands = _constrain(ctx, operands, ctx.avals_in, exported._in_named_shardings)
    key = ("exported", exported, tuple(ctx.avals_in) if exported.dimension_variables else ())
    linked = module.functions.get(key)
    if linked is None:
        outer_calls, module.calls = module.calls, 0
        symbol = lowering.linking.link(module, _module(ctx, exported, index),
                                       f"call_exported_{exported.fun_name}", index)
        function = lowering.mlir.function_type(module.module, symbol)
        indices = int(index is not None)
        lead = indices + len(exported.ordered_effects)
        linked = module.functions[key] = (symbol, module.calls + 1, function.inputs[:indices], function.inputs[lead:],
                                          function.results[len(exported.ordered_effects):])
        module.keepalives.append(exported)
        module.calls = outer_calls
    symbol, depth, index_types, argument_types, result_types = linked
    module.calls = max(module.calls, depth)
    mlir, effects = lowering.mlir, exported.ordered_effects
    arguments = _convert(ctx, [operands[i] for i in exported.module_kept_var_idx], argument_types)
    leading = _convert(ctx, [ctx.constant(np.int32(index))], index_types) if index_types else []
    results = mlir.create(
        "func.call", results=[*[mlir.token_type()] * len(effects), *result_types],
        operands=[*leading, *ctx.tokens(effects), *arguments],
        attributes={"callee": mlir.symbol(symbol)}, loc=ctx.loc).results
    ctx.set_tokens(effects, list(results[:len(effects)]))
    outs = _convert(ctx, list(results[len(effects):]), lowering.module.flat_types(ctx.avals_out))
    return _constrain(ctx, outs, ctx.avals_out, exported._out_named_shardings)


def _platform_index(exported: ExportedModule, platform: str) -> int | None:
    """Return the index of the platform among those of the export, or None if it has only one."""
    if platform in exported.platforms:
        return exported.platforms.index(platform) if len(exported.platforms) > 1 else None
    if DisabledSafetyCheck.platform() not in exported.disabled_safety_checks:
        raise ValueError(
            f"{exported.fun_name} was exported for the platform(s) {', '.join(exported.platforms)}, and is called on "
            f"{platform}. Export it with platforms={(*exported.platforms, platform)}; or, if the module is valid there, with "
            f"disabled_checks=[DisabledSafetyCheck.platform()].")
    return 0 if len(exported.platforms) > 1 else None


def _constrain(ctx, values, avals, shardings):
    """Constrain values to their shardings in the export."""
    context = ctx.module_context.sharding_context
    has_axes = [s is not None and bool(s.mesh.axis_names) for s in shardings]
    if context is None or not any(has_axes):
        return values
    on_devices = [context.on_devices(s) if is_over_mesh else UNSPECIFIED for s, is_over_mesh in zip(shardings, has_axes)]
    return module_shardings.constrain(ctx, values, avals, on_devices)


def _batch_error(size, operands, dims, *, exported):
    raise NotImplementedError(
        f"vmap of the exported function {exported.fun_name}: there is no batching rule for an exported module, whose shapes "
        f"are fixed. Export vmap(f) instead, with a symbolic dimension for the size of the batch (symbolic_shape), or call it "
        f"for each element with lax.map.")


def _effects(*_, exported):
    return frozenset((*exported.ordered_effects, *exported.unordered_effects))


call_exported_p = Primitive(
    "call_exported", multiple_results=True, lower=_lower, batch=_batch_error, effects=_effects, abstract=_result_types,
    traits=Traits(cost=Cost.HEAVY))
