"""`export`: from a jitted function and the types of its arguments to an `Exported`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront import lowering
from xlafront.core import backends, errors, keys, tree
from xlafront.core.dimensions import DimExpr, check_one_scope
from xlafront.core.ir import ClosedJaxpr, jaxpr_as_fun
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import boundary
from xlafront.exporting.checks import (
    DisabledSafetyCheck,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from xlafront.exporting.exported import Exported
from xlafront.exporting.stable_calls import check_custom_calls
from xlafront.runtime import config
from xlafront.runtime.clients import ALIASES, PLATFORMS
from xlafront.runtime.sharding import NamedSharding
from xlafront.staging.jit import jit
from xlafront.transforms.ad.derivatives import vjp


def default_export_platform() -> str:
    """The platform that functions are exported for when none is given: `"cpu"`, `"cuda"`, `"rocm"` or `"tpu"`.

    >>> xf.export.default_export_platform()
    'cpu'
    """
    return backends.lowering_platform(backends.client())


@boundary
def export(fun_jit: Callable, *, platforms: Sequence[str] | None = None,
           disabled_checks: Sequence[DisabledSafetyCheck] = (),
           _override_lowering_rules: Sequence[tuple[Any, Callable]] | None = None) -> Callable[..., Exported]:
    """A function that exports a jitted function for given types of arguments, as an `Exported` that can be saved and called.

    - `fun_jit`: what `jit` has made. Its static arguments are bound to what is given.
    - `platforms`: of "cpu", "cuda", "rocm", "tpu"; with several, the module runs on each of them. None: that of this process.
    - `disabled_checks`: what `DisabledSafetyCheck` makes: checks to leave out.
    - `_override_lowering_rules`: pairs of a primitive and the lowering rule to use in place of its own.

    In place of a value that consists of arrays (of a `HiType`), the exported function takes and returns the list of these.
    The function returned takes arrays, or `ShapeDtypeStruct`s, whose shapes may hold symbolic dimensions.

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
            of_arrays, args, kwargs = traced.of_arrays()
            traced = jit(of_arrays).trace(*args, **kwargs)  # type: ignore[attr-defined]
        return _exported(traced, chosen or (default_export_platform(),), checks, dict(_override_lowering_rules or ()))

    return export_for


def _platforms(platforms: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(platforms, str):
        raise TypeError(f"export takes platforms as a tuple of names, got a str: use platforms=({platforms!r},).")
    known = (*PLATFORMS, "rocm")
    found = tuple([ALIASES.get(p, p) for p in platforms or ()])
    for platform in found:
        if platform not in known:
            raise ValueError(f"there is no platform {platform!r} to export for; the platforms are {', '.join(sorted(known))}.")
    if len(set(found)) < len(found):
        raise ValueError(f"export takes each platform once, got platforms={tuple(platforms or ())}.")
    return found


def _exported(traced, platforms: tuple[str, ...], checks: tuple[DisabledSafetyCheck, ...],
              rules: dict[Any, Callable]) -> Exported:
    name, program = traced.fun_name, traced.jaxpr
    version = config.export_calling_convention_version.value
    known = range(minimum_supported_calling_convention_version, maximum_supported_calling_convention_version + 1)
    if version not in known:
        raise ValueError(f"{name} cannot be exported with the calling convention {version} "
                         f"(export_calling_convention_version): those from {known[0]} to {known[-1]} are known.")
    if traced._traced.takes_refs:
        raise NotImplementedError(f"{name} cannot be exported: it takes references (new_ref), which are memory of this "
                                  f"process. Export the function of what they hold.")
    module = traced.lower_to_leave(platforms, rules)
    context = module.module_context
    if context.host_callbacks:
        raise NotImplementedError(f"{name} cannot be exported: it calls Python (pure_callback, io_callback, debug.print), "
                                  f"which is not there where the module runs. Leave these calls out.")
    if not context.cacheable:
        raise NotImplementedError(f"{name} cannot be exported: custom_partitioning and inspect_array_sharding call Python "
                                  f"while the program is compiled, which is not there where the module is compiled.")
    check_custom_calls(name, context.module, checks)
    assignment, flat_in_avals = module.assignment, traced._traced.in_avals
    ins = _given_shardings(traced, flat_in_avals)
    outs = [s if isinstance(s, NamedSharding) else None for s in module.shardings.out]
    effects = sorted(module.closed.effects, key=str)
    lowering.written.name_boundary(context.module, *traced.boundary_names(module.kept))
    polymorphic = len(platforms) > 1 or bool(context.dimension_variables)
    with lowering.mlir.context:
        context.module.operation.attributes["jax.uses_shape_polymorphism"] = lowering.mlir.boolean(polymorphic)
    return Exported(
        fun_name=name, in_tree=traced.in_tree, in_avals=tuple(flat_in_avals), out_tree=traced.out_tree,
        out_avals=tuple(program.out_avals), _has_named_shardings=True, _in_named_shardings=tuple(map(_without_devices, ins)),
        _out_named_shardings=tuple(map(_without_devices, outs)), in_shardings_hlo=(None,) * len(ins),
        out_shardings_hlo=(None,) * len(outs), nr_devices=len(assignment.devices), platforms=platforms,
        ordered_effects=tuple(lowering.module.ordered_effects(module.closed)),
        unordered_effects=tuple([effect for effect in effects if not effect.ordered]), disabled_safety_checks=checks,
        mlir_module_serialized=lowering.artifacts.serialize(context.module),
        calling_convention_version=version,
        module_kept_var_idx=tuple([i for i, keep in enumerate(module.kept) if keep]), uses_global_constants=polymorphic,
        _get_vjp=_derivative(program, ins, outs, platforms, checks, rules))


def _given_shardings(traced, in_avals: Sequence[Any]) -> list[NamedSharding | None]:
    """The sharding that each argument was given, by in_shardings or by itself."""
    found: list[NamedSharding | None] = []
    given = traced._jitted.flat_in_shardings(traced._call.in_tree)
    for x, sharding in zip(traced._call.leaves, given):
        if not isinstance(sharding, NamedSharding):
            words = keys.physical_array(x)
            sharding = x.sharding if isinstance(x, ShapeDtypeStruct) else (
                words.sharding if getattr(words, "_committed", False) else None)
        found.append(sharding if isinstance(sharding, NamedSharding) else None)
    return found


def _without_devices(sharding: NamedSharding | None) -> NamedSharding | None:
    if sharding is None:
        return None
    return NamedSharding(sharding.mesh.abstract_mesh, sharding.spec, memory_kind=sharding.memory_kind)


def _derivative(program: ClosedJaxpr, ins, outs, platforms, checks, rules) -> Callable[[Exported], Exported]:
    """How the derivative of an export is made: when it is asked for."""
    def of(exported: Exported) -> Exported:
        count = len(exported.in_avals)

        def fun_vjp(*primals_and_cotangents):
            _, pull = vjp(lambda *xs: tuple(jaxpr_as_fun(program)(*xs)), *primals_and_cotangents[:count])
            return pull(tuple(primals_and_cotangents[count:]))

        types = [*exported.in_avals, *[aval.to_tangent_aval() for aval in exported.out_avals]]
        arguments = [ShapeDtypeStruct(aval.shape, aval.dtype, sharding=s, weak_type=aval.weak_type)
                     for aval, s in zip(types, [*ins, *outs])]
        jitted = jit(fun_vjp, out_shardings=tuple(ins)) if any(ins) else jit(fun_vjp)
        return export(jitted, platforms=platforms, disabled_checks=checks, _override_lowering_rules=tuple(rules.items()))(
            *arguments)

    return of
