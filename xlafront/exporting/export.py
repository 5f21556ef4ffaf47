"""`export`: lower a jitted function for given argument types, as an `Exported`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront import lowering
from xlafront.api.derivatives import vjp
from xlafront.base import config
from xlafront.base.platforms import ALIASES, NAMES
from xlafront.core import errors, tree
from xlafront.core.ir import Jaxpr
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import boundary
from xlafront.exporting.checks import (
    DisabledSafetyCheck,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from xlafront.exporting.exported import Exported
from xlafront.exporting.record import ExportedModule
from xlafront.exporting.stable_calls import check_custom_calls
from xlafront.runtime import backends, keys
from xlafront.runtime.sharding import AbstractMesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from xlafront.staging.jit import jit
from xlafront.symbolic.dimensions import DimExpr, check_one_scope


def default_export_platform() -> str:
    """Return the platform that functions are exported for by default: `"cpu"`, `"cuda"`, `"rocm"` or `"tpu"`.

    Returns:
        Name of the platform.

    Example:
        >>> xf.export.default_export_platform()
        'cpu'
    """
    return backends.lowering_platform(backends.client())


@boundary
def export(fun_jit: Callable, *, platforms: Sequence[str] | None = None,
           disabled_checks: Sequence[DisabledSafetyCheck] = (),
           _override_lowering_rules: Sequence[tuple[Any, Callable]] | None = None) -> Callable[..., Exported]:
    """Return a function that exports a jitted function for given argument types, as an `Exported` that can be saved and called.

    In place of a composite value (of a `HiType`), the exported function takes and returns the list of its components.

    Args:
        fun_jit: Result of `jit`. Its static arguments are bound to the values that are given.
        platforms: Platforms, of "cpu", "cuda", "rocm", "tpu"; a module for several runs on each of them. Default: the platform
            of this process.
        disabled_checks: Safety checks to disable, made by `DisabledSafetyCheck`.
        _override_lowering_rules: Pairs of a primitive and a lowering rule that replaces its own.

    Returns:
        A function of arrays or `ShapeDtypeStruct`s, whose shapes may have symbolic dimensions, that returns an `Exported`.

    Example:
        >>> exported = xf.export.export(xf.jit(lambda x: 2 * x))(xf.ShapeDtypeStruct((3,), "float32"))
        >>> xf.export.deserialize(exported.serialize()).call(np.ones(3, "float32"))
        Array([2., 2., 2.], dtype=float32)
    """
    if not hasattr(fun_jit, "trace") or not hasattr(fun_jit, "lower"):
        raise ValueError(f"export takes a function that is the result of jit, got {errors.short(fun_jit)} of type "
                         f"{type(fun_jit).__name__}. Pass jit(f).")
    chosen = _platforms(platforms)
    checks = tuple(disabled_checks)
    for check in checks:
        if not isinstance(check, DisabledSafetyCheck):
            raise TypeError(f"export takes disabled_checks made by DisabledSafetyCheck.custom_call(name) or "
                            f"DisabledSafetyCheck.platform(), got {check!r}.")

    @boundary
    def export_for(*args, **kwargs) -> Exported:
        shapes = [getattr(leaf, "shape", None) for leaf in tree.leaves((args, kwargs))]
        check_one_scope([n for shape in shapes if isinstance(shape, tuple) for n in shape if type(n) is DimExpr])
        traced = fun_jit.trace(*args, **kwargs)  # type: ignore[attr-defined]
        if traced._traced.is_high:
            fun, args, kwargs = traced.function_of_components()
            traced = jit(fun).trace(*args, **kwargs)  # type: ignore[attr-defined]
        return _exported(traced, chosen or (default_export_platform(),), checks, dict(_override_lowering_rules or ()))

    return export_for


def _platforms(platforms: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(platforms, str):
        raise TypeError(f"export takes platforms as a tuple of names, got a str: use platforms=({platforms!r},).")
    known = (*NAMES, "rocm")
    found = tuple([ALIASES.get(p, p) for p in platforms or ()])
    for platform in found:
        if platform not in known:
            raise ValueError(f"there is no platform {platform!r} to export for; the platforms are {', '.join(sorted(known))}.")
    if len(set(found)) < len(found):
        raise ValueError(f"export takes each platform once, got platforms={tuple(platforms or ())}.")
    return found


def _exported(traced, platforms: tuple[str, ...], checks: tuple[DisabledSafetyCheck, ...],
              rules: dict[Any, Callable]) -> Exported:
    name, closed = traced.fun_name, traced.jaxpr
    version = config.export_calling_convention_version.value
    known = range(minimum_supported_calling_convention_version, maximum_supported_calling_convention_version + 1)
    if version not in known:
        raise ValueError(f"{name} cannot be exported with the calling convention {version} "
                         f"(export_calling_convention_version): versions {known[0]} to {known[-1]} are supported.")
    if traced._traced.takes_refs:
        raise NotImplementedError(f"{name} cannot be exported: it takes references (new_ref), which are memory of this "
                                  f"process. Export a function of their contents.")
    module = traced.lower_for_export(platforms, rules)
    context = module.module_context
    if context.host_callbacks:
        raise NotImplementedError(f"{name} cannot be exported: it calls Python (pure_callback, io_callback, debug.print), "
                                  f"which is not available where the module runs. Remove these calls.")
    if not context.cacheable:
        raise NotImplementedError(f"{name} cannot be exported: custom_partitioning and inspect_array_sharding call Python "
                                  f"while the program is compiled, which is not available where the module is compiled.")
    check_custom_calls(name, context.module, checks)
    assignment, flat_in_avals = module.assignment, traced._traced.in_avals
    ins = _given_shardings(traced, flat_in_avals)
    outs = [_over_mesh(s, aval) for s, aval in zip(module.shardings.out, closed.out_avals)]
    effects = sorted(module.closed.effects, key=str)
    lowering.module_text.name_boundary(context.module, *traced.boundary_names(module.live))
    inner = [x for x in context.keepalives if isinstance(x, ExportedModule)]
    polymorphic = len(platforms) > 1 or bool(context.dimension_variables) or any([x.uses_global_constants for x in inner])
    with lowering.mlir.context:
        context.module.operation.attributes["jax.uses_shape_polymorphism"] = lowering.mlir.boolean(polymorphic)
    return Exported(
        fun_name=name, in_tree=traced.in_tree, in_avals=tuple(flat_in_avals), out_tree=traced.out_tree,
        out_avals=tuple(closed.out_avals), _has_named_shardings=True, _in_named_shardings=tuple(map(_without_devices, ins)),
        _out_named_shardings=tuple(map(_without_devices, outs)), in_shardings_hlo=(None,) * len(ins),
        out_shardings_hlo=(None,) * len(outs), nr_devices=len(assignment.devices), platforms=platforms,
        ordered_effects=tuple(lowering.module.ordered_effects(module.closed)),
        unordered_effects=tuple([effect for effect in effects if not effect.ordered]), disabled_safety_checks=checks,
        mlir_module_serialized=lowering.artifacts.serialize(context.module),
        calling_convention_version=version,
        module_kept_var_idx=tuple([i for i, live in enumerate(module.live) if live]), uses_global_constants=polymorphic,
        _get_vjp=_derivative(closed, ins, outs, platforms, checks, rules))


def _given_shardings(traced, in_avals: Sequence[Any]) -> list[NamedSharding | None]:
    """Return the explicit sharding of each argument: from in_shardings or from the argument itself."""
    found: list[NamedSharding | None] = []
    given = traced._jitted.options.flat_in_shardings(traced.fun_name, traced._call.in_tree)
    for x, aval, sharding in zip(traced._call.leaves, in_avals, given):
        if not isinstance(sharding, Sharding):
            array = keys.physical_array(x)
            sharding = x.sharding if isinstance(x, ShapeDtypeStruct) else (
                array.sharding if getattr(array, "_committed", False) else None)
        found.append(_over_mesh(sharding, aval))
    return found


def _over_mesh(sharding: Any, aval: Any) -> NamedSharding | None:
    """Return an explicit sharding over a mesh; one device is a mesh without axes, and keeps only its memory kind."""
    if isinstance(sharding, SingleDeviceSharding):
        return NamedSharding(AbstractMesh((), ()), PartitionSpec(*[None] * len(aval.shape)), memory_kind=sharding.memory_kind)
    return sharding if isinstance(sharding, NamedSharding) else None


def _without_devices(sharding: NamedSharding | None) -> NamedSharding | None:
    if sharding is None:
        return None
    return NamedSharding(sharding.mesh.abstract_mesh, sharding.spec, memory_kind=sharding.memory_kind)


def _derivative(closed: Jaxpr, ins, outs, platforms, checks, rules) -> Callable[[Exported], Exported]:
    """Return a function that exports the derivative of an export on demand."""
    ins, outs = ([s if s is not None and s.mesh.axis_names else None for s in shardings] for shardings in (ins, outs))

    def export_vjp(exported: Exported) -> Exported:
        count = len(exported.in_avals)

        def fun_vjp(*primals_and_cotangents):
            _, pullback = vjp(lambda *xs: tuple(closed(*xs)), *primals_and_cotangents[:count])
            return pullback(tuple(primals_and_cotangents[count:]))

        types = [*exported.in_avals, *[aval.to_tangent_aval() for aval in exported.out_avals]]
        arguments = [ShapeDtypeStruct(aval.shape, aval.dtype, sharding=s, weak_type=aval.weak_type)
                     for aval, s in zip(types, [*ins, *outs])]
        jitted = jit(fun_vjp, out_shardings=tuple(ins)) if any(ins) else jit(fun_vjp)
        return export(jitted, platforms=platforms, disabled_checks=checks, _override_lowering_rules=tuple(rules.items()))(
            *arguments)

    return export_vjp
