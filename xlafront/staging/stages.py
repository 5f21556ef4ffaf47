"""The stages of a compilation, one by one: `jit(f).trace(...).lower().compile()`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from xlafront import lowering
from xlafront.base import config
from xlafront.base.jaxlib_compat import (
    ArrayImpl,
    JaxRuntimeError,
    PjitFunctionCache,
    delete_handle,
    hlo_computation,
    hlo_cost_analysis,
    hlo_text,
    pjit,
)
from xlafront.base.layouts import Format, Layout, use as layouts_in_use
from xlafront.core import avals, tracing, tree
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import boundary, filter_traceback
from xlafront.runtime import backends, clients, keys
from xlafront.staging import device_assignment, signatures
from xlafront.staging.argument_adapters import StageAdapter, adapter_for_types, adapter_for_values
from xlafront.staging.array_layouts import check_argument_layouts, with_own_layout
from xlafront.staging.compiling import LoweredModule
from xlafront.staging.debug_nans import check_finite
from xlafront.staging.dispatch import must_delete_donated, shard_arg_fallback
from xlafront.staging.signatures import Selection


@runtime_checkable
class Wrapped(Protocol):
    """The interface of every jitted function: it can be called, traced and lowered."""

    def __call__(self, *args, **kwargs): ...

    def trace(self, *args, **kwargs):
        """Return the program for arguments like these, a `Traced`."""

    def lower(self, *args, **kwargs):
        """Return the StableHLO module for arguments like these, a `Lowered`."""


CompilerOptions = dict[str, str | bool]


class ArgInfo:
    """The type of one argument, and whether it is donated."""

    __slots__ = ("_aval", "donated")

    def __init__(self, _aval, donated: bool):
        self._aval = _aval
        self.donated = donated

    shape = property(lambda self: self._aval.shape, doc="The size of each dimension.")
    dtype = property(lambda self: self._aval.dtype, doc="The dtype of the elements.")

    def __eq__(self, other):
        return isinstance(other, ArgInfo) and (self._aval, self.donated) == (other._aval, other.donated)

    def __hash__(self):
        return hash((self._aval, self.donated))

    def __repr__(self):
        return f"ArgInfo(_aval={self._aval!r}, donated={self.donated})"


@boundary
def trace(jitted, args, kwargs) -> Traced:
    """Trace a jitted function for arguments like these."""
    call = signatures.split_call(jitted.fun, jitted.name, jitted.options.static, args, kwargs)
    if (adapter := adapter_for_values(jitted, call)) is not None:
        function: Any = adapter.function_of_arrays(call.leaves)
        return function.trace(*adapter.encode(call.leaves))
    call = call._replace(leaves=[_as_struct(x) for x in call.leaves])
    return Traced(jitted, call, jitted.trace(call))


def _as_struct(x: Any) -> Any:
    """Return a `ShapeDtypeStruct` for an object that has only a shape and a dtype; other values as they are."""
    if type(x) in tracing.aval_of_type or not (hasattr(x, "shape") and hasattr(x, "dtype")) or tracing.is_arraylike(x):
        return x
    shape = x.shape if isinstance(x.shape, Sequence) else (x.shape,)
    return ShapeDtypeStruct(shape, x.dtype, weak_type=getattr(x, "weak_type", False))


def _structs(out_tree, types, shardings, lowered: bool = True):
    """Return the types of results with the known shardings. Weak types are a property of traced programs only."""
    return out_tree.unflatten([
        a if a is avals.abstract_token or a.is_high else ShapeDtypeStruct(
            a.shape, a.dtype, weak_type=a.weak_type and not lowered, manual_axis_type=a.manual_axis_type if a.vma else None,
            sharding=a.explicit_sharding if s is device_assignment.UNSPECIFIED else s)
        for a, s in zip(types, shardings)])


def _grouped(structure, kinds: Sequence[Any], infos: Sequence[Any]) -> Any:
    """Return infos by leaf, from those of arrays: a composite has a list, that of its components."""
    rest = iter(infos)
    return structure.unflatten([[next(rest) for _ in kind.lo_ty()] if kind.is_high else next(rest) for kind in kinds])


def _for_platforms(options, platforms: Sequence[str]) -> tuple[Any, tuple[str, ...] | None]:
    """Return the options of `jit` for a requested platform, and the platforms of a module that can only be read.

    The latter are None for a single platform that this process has.
    """
    if isinstance(platforms, str):
        raise TypeError(f"lowering_platforms takes a tuple of names, got a str: use lowering_platforms=({platforms!r},).")
    for platform in platforms:
        if platform not in (*clients.PLATFORMS, "rocm"):
            raise ValueError(f"there is no platform {platform!r} to lower for; the platforms are "
                             f"{', '.join(sorted([*clients.PLATFORMS, 'rocm']))}.")
    if len(platforms) > 1:
        return options, tuple(platforms)
    [platform] = platforms
    if platform == backends.lowering_platform(backends.client(options.backend)):
        return options, None
    if platform in clients.PLATFORMS and clients.PLATFORMS[platform].available():
        try:
            backends.client(platform)
            return options._replace(backend=platform), None
        except clients.PlatformError:
            pass
    return options, (platform,)


# The last modules: a notebook requests the text of one, then its cost, then its code.
recent_modules: BoundedCache = BoundedCache(8)


class Traced:
    """A function traced for one signature."""

    def __init__(self, jitted, call, traced):
        self._jitted, self._call, self._traced = jitted, call, traced
        self.jaxpr = traced.closed
        self.fun_name = jitted.name
        self.in_tree, self.out_tree = call.in_tree, traced.out_tree
        self.in_avals = call.in_tree.unflatten(traced.in_avals)
        self._out_shardings = jitted.options.flat_out_shardings(traced.out_tree)

    @property
    def effects(self) -> frozenset:
        """Side effects of the function, such as those of callbacks."""
        return self.jaxpr.effects

    def closure_convert(self) -> tuple[list[Any], Callable]:
        """Return the values that the function closes over, and a function with these as its first argument.

        Returns:
            List of the constants of the jaxpr, and a function `fun(consts, *args, **kwargs)`, which evaluates the jaxpr.

        Example:
            >>> weights = xnp.arange(3.0)
            >>> consts, fun = xf.jit(lambda x: x * weights).trace(2.0).closure_convert()
            >>> fun([consts[0] + 1], 2.0)
            Array([2., 4., 6.], dtype=float32)
        """
        jaxpr, name, in_tree, out_tree = self.jaxpr.structure, self.fun_name, self.in_tree, self.out_tree

        def fun(consts: Any, *args: Any, **kwargs: Any) -> Any:
            leaves, structure = tree.flatten((args, kwargs))
            if structure != in_tree:
                raise TypeError(f"{name} was traced for arguments of the structure {in_tree}; got {structure}.")
            return out_tree.unflatten(jaxpr.with_consts(tree.leaves(consts))(*leaves))

        return list(self.jaxpr.consts), fun

    def with_consts_as_arg(self) -> tuple[list[Any], Traced]:
        """Return the values that the function closes over, and the function traced with these as its first argument.

        Returns:
            List of the constants of the jaxpr, and the traced function.

        Example:
            >>> weights = xnp.arange(3.0)
            >>> consts, traced = xf.jit(lambda x: x * weights).trace(2.0).with_consts_as_arg()
            >>> traced.lower().compile()(consts, 3.0)
            Array([0., 3., 6.], dtype=float32)
        """
        consts, fun = self.closure_convert()
        options, in_tree = self._jitted.options, self.in_tree
        args, kwargs = in_tree.unflatten(self._call.leaves)
        arg_flags, kwarg_flags = in_tree.unflatten(self._donated)
        donate = Selection(tuple([i for i, flags in enumerate(arg_flags, 1) if any(tree.leaves(flags))]),
                           tuple([name for name, flags in kwarg_flags.items() if any(tree.leaves(flags))]))
        in_shardings = options.in_shardings
        if in_shardings is not device_assignment.UNSPECIFIED:
            in_shardings = (None, *in_tree.unflatten(options.flat_in_shardings(self.fun_name, in_tree))[0])
        jitted = type(self._jitted)(fun, options._replace(static=Selection(), donate=donate, in_shardings=in_shardings),
                                    self.fun_name)
        return consts, trace(jitted, (consts, *args), kwargs)

    def physicalize(self, ctx: Any) -> Traced:
        """Return the function itself: key arrays are replaced by their data when it is lowered.

        Args:
            ctx: Context of the lowering, which is not needed.

        Returns:
            The traced function.

        Example:
            >>> traced = xf.jit(lambda x: x).trace(1.0)
            >>> traced.physicalize(None) is traced
            True
        """
        return self

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Indices of the flat arguments that are donated."""
        return tuple(i for i, donated in enumerate(self._donated) if donated)

    @property
    def _donated(self) -> tuple[bool, ...]:
        return self._jitted.options.donated_flags(self._call)

    @property
    def out_info(self):
        """Types of the results, with the shardings that were requested."""
        return _structs(self.out_tree, self.jaxpr.out_avals, self._out_shardings, lowered=False)

    @property
    def args_info(self):
        """Types of the arguments, `(args, kwargs)`, and whether each of them is donated."""
        return self.in_tree.unflatten([ArgInfo(a, d) for a, d in zip(self._traced.in_avals, self._donated)])

    @property
    def out_avals(self):
        """Types of the results, as transformations see them."""
        return self.out_tree.unflatten(self.jaxpr.out_avals)

    def boundary_names(self, live: Sequence[bool]) -> tuple[list[str], list[str]]:
        """Return the names of the arguments that are read (`live`) and of the results."""
        names = self._traced.debug_info.arg_names
        # (components of composite arguments have no names)
        arguments = [name for name, is_live in zip(names, live) if is_live] if len(names) == len(live) else []
        return arguments, tree.result_paths(tree.structure(self.out_info))

    @boundary
    def lower(self, *, lowering_platforms=None, _private_parameters=None) -> Lowered:
        """Lower the program to a StableHLO module, for the devices that a call would use.

        A module for several platforms takes the index of the platform as its first argument, and can only be read.

        Args:
            lowering_platforms: Names of the platforms to lower for. Default: that of the devices.
        """
        jitted, call = self._jitted, self._call
        if (adapter := adapter_for_types(jitted, self._traced, call)) is not None:
            function: Any = adapter.function_of_arrays(call.leaves)
            inner = function.trace(*adapter.stand_ins(call.leaves)).lower(lowering_platforms=lowering_platforms)
            return Lowered(self, inner._lowered, inner=inner, adapter=adapter)
        traced, options, platforms = self._traced.without_composites, jitted.options, None
        if lowering_platforms:
            options, platforms = _for_platforms(options, lowering_platforms)
        requested = options.flat_in_shardings(jitted.name, call.in_tree)
        mesh = device_assignment.abstract_mesh_of_arguments(call.leaves, requested)
        if mesh is not None:
            if lowering_platforms is None:
                raise ValueError(f"{jitted.name} has shardings over {mesh} alone, which has no devices, so that the platform "
                                 f"to lower it for is not known: pass lowering_platforms, as in "
                                 f"jit(f).trace(...).lower(lowering_platforms=('tpu',)).")
            return Lowered(self, self._lower_over(mesh, backends.devices(), platforms), abstract_mesh=mesh)
        assignment = device_assignment.place_arguments(jitted.name, call.leaves, requested, traced, options)
        check_argument_layouts(jitted.name, jitted.options, traced, call)
        if layouts_in_use.others:
            call = call._replace(leaves=[with_own_layout(x) for x in call.leaves])
        donated = self._donated
        key = traced, assignment, donated, platforms, layouts_in_use.others
        has_layouts = any([type(x) is ShapeDtypeStruct and x._layout for x in call.leaves])
        module = None if has_layouts else recent_modules.get(key)
        if module is None:
            module = LoweredModule(jitted.job(traced, call, assignment, donated)._replace(lowering_platforms=platforms))
            if not has_layouts:
                recent_modules.put(key, module)
        return Lowered(self, module)

    def function_of_components(self) -> tuple[Callable, tuple, dict[str, Any]]:
        """Return the function of lists of component arrays in place of composite values, and its arguments."""
        jitted, traced, call = self._jitted, self._traced, self._call
        function_of_arrays = adapter_for_types(jitted, traced, call).function_of_arrays(call.leaves)  # type: ignore[union-attr]

        def fun(*args, **kwargs):
            return _grouped(traced.out_tree, traced.closed.out_avals, function_of_arrays(*tree.leaves((args, kwargs))))

        fun.__name__ = jitted.name
        args, kwargs = self.in_tree.unflatten([list(kind.lower_val(x)) if kind.is_high else x
                                               for kind, x in zip(traced.in_avals, call.leaves)])
        return fun, args, kwargs

    def lower_for_export(self, platforms: tuple[str, ...], rule_overrides=None) -> LoweredModule:
        """Lower to a module that other processes can run: it holds all that it needs beside its arguments.

        `rule_overrides` are lowering rules by primitive, in place of those of their records.
        """
        jitted, call, traced = self._jitted, self._call, self._traced.without_composites
        requested = jitted.options.flat_in_shardings(jitted.name, call.in_tree)
        mesh = device_assignment.abstract_mesh_of_arguments(call.leaves, requested)
        if mesh is not None:
            devices = device_assignment.devices_for_export(mesh.size)
            return self._lower_over(mesh, devices, platforms, for_export=True, rule_overrides=rule_overrides)
        assignment = device_assignment.place_arguments(jitted.name, call.leaves, requested, traced, jitted.options)
        return LoweredModule(jitted.job(traced, call, assignment, self._donated)._replace(
            lowering_platforms=platforms, for_export=True, rule_overrides=rule_overrides))

    def _lower_over(self, mesh, devices, platforms: tuple[str, ...] | None, **export: Any) -> LoweredModule:
        """Lower a program over an abstract mesh, for these devices."""
        jitted, call = self._jitted, self._call
        requested = jitted.options.flat_in_shardings(jitted.name, call.in_tree)
        assignment = device_assignment.assign_abstract_mesh(mesh, devices, call.leaves, requested)
        job = jitted.job(self._traced.without_composites, call, assignment, self._donated)
        return LoweredModule(job._replace(lowering_platforms=platforms, **export))

    def __call__(self, *args, **kwargs):
        return self.lower().compile()(*args, **kwargs)


class Lowered:
    """A function lowered to a StableHLO module."""

    def __init__(self, traced: Traced, lowered: LoweredModule, *, abstract_mesh=None, inner: Lowered | None = None,
                 adapter: StageAdapter | None = None):
        self._traced, self._lowered = traced, lowered
        self._abstract_mesh = abstract_mesh  # if the devices are not known yet
        self._inner, self._adapter = inner, adapter  # of references and composites: the function of arrays in place of it
        self._shows_components = adapter is not None and adapter.shows_components
        self.in_tree, self.out_tree = traced.in_tree, traced.out_tree

    @property
    def out_info(self):
        """Types of the results, with the shardings that were requested; lists of those of components for composite results."""
        if self._shows_components:
            return _grouped(self.out_tree, self._traced._traced.closed.out_avals, self._inner.out_info)
        return _structs(self.out_tree, self._traced.jaxpr.out_avals, self._lowered.shardings.out)

    @property
    def args_info(self):
        """Types of the arguments, `(args, kwargs)`, and whether each of them is donated; lists for composite arguments."""
        if self._shows_components:
            return _grouped(self.in_tree, self._traced._traced.in_avals, self._inner.args_info[0])
        return self._traced.args_info

    in_avals = property(lambda self: self._traced.in_avals, doc="Types of the arguments, as transformations see them.")
    donate_argnums = property(lambda self: self._traced.donate_argnums, doc=Traced.donate_argnums.__doc__)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the module as text.

        Args:
            dialect: "stablehlo" (the default) or "hlo".
            debug_info: If True, include source locations.
        """
        if dialect in (None, "stablehlo"):
            return lowering.module_text.module_text(self._named, debug_info)
        if dialect == "hlo":
            return hlo_text(self._hlo(), debug_info)
        raise ValueError(f"as_text takes dialect 'stablehlo' or 'hlo', got {dialect!r}.")

    def compiler_ir(self, dialect: str | None = None):
        """Return the module itself, as an MLIR object ("stablehlo") or an XLA computation ("hlo")."""
        if dialect in (None, "stablehlo"):
            lowering.mlir.find_operation_classes()
            return lowering.module_text.copy_of(self._named)
        if dialect == "hlo":
            return self._hlo()
        raise ValueError(f"compiler_ir takes dialect 'stablehlo' or 'hlo', got {dialect!r}.")

    @functools.cached_property
    def _named(self):
        """The module with the names of its arguments and results, which are not compiled."""
        module = lowering.module_text.clone_of(self._lowered.module_context.module)
        lowering.module_text.name_boundary(module, *self._traced.boundary_names(self._lowered.live))
        return module

    def _hlo(self):
        return hlo_computation(lowering.module_text.module_bytecode(self._named))

    def cost_analysis(self) -> dict[str, float] | None:
        """Return the compiler's estimate before optimization (flops, bytes accessed) by name; None if it makes none."""
        try:
            return hlo_cost_analysis(self._lowered.job.client, self._hlo())
        except JaxRuntimeError:
            return None

    @boundary
    def compile(self, compiler_options: dict[str, Any] | None = None, device_assignment=None) -> Compiled:
        """Compile the module for the devices that it was lowered for.

        Args:
            compiler_options: XLA flags by name, in addition to those of `jit`.
            device_assignment: Devices, for a module that was lowered for a mesh without devices.
        """
        if self._inner is not None:
            return Compiled(self, inner=self._inner.compile(compiler_options, device_assignment))
        mesh, module = self._abstract_mesh, self._lowered
        if mesh is not None:
            if device_assignment is None:
                raise RuntimeError(f"{self._traced.fun_name} was lowered for {mesh}, which has no devices: say on which it is "
                                   f"to run, compile(device_assignment=devices).")
            module = self._traced._lower_over(mesh, device_assignment, None)
        elif device_assignment is not None and tuple(device_assignment) != module.assignment.devices:
            raise ValueError("the devices are part of the lowering: give jit shardings over these devices instead.")
        job = module.job
        if mesh is not None or compiler_options or job.layouts is not None or job.lowering_platforms is not None:
            executable = module.compile(compiler_options)
        else:
            traced = self._traced
            executable = traced._jitted.executable(job.traced, traced._call, job.assignment, job.donated, module)
        executable.take_upgrade(waits=True)
        return Compiled(self, executable, lambda: module.compile(compiler_options, bypass_cache=True))


class Compiled:
    """A compiled function; calling it never traces or compiles."""

    _lowered: Lowered | None = None
    _inner: Compiled | None = None  # the compiled function of arrays in place of this one, with the adapter to it
    _adapter: StageAdapter | None = None

    def __init__(self, lowered: Lowered, executable=None, compile_uncached: Callable | None = None,
                 inner: Compiled | None = None):
        self._lowered, self._inner, self._adapter = lowered, inner, lowered._adapter
        if inner is None:
            self._compile_uncached = compile_uncached
            self._prepare_calls(lowered._traced, executable)
        else:
            self._traced, self._executable, self._compile_uncached = lowered._traced, inner._executable, inner._compile_uncached
            self.in_tree, self.out_tree = lowered.in_tree, lowered.out_tree

    def _prepare_calls(self, traced, executable) -> None:
        self._traced, self._executable = traced, executable
        self.in_tree, self.out_tree = traced.in_tree, traced.out_tree
        self._dispatch = _dispatcher_of(traced, executable)
        self._deletes_donated = bool(traced._jitted.options.donate) and must_delete_donated(executable)

    def __call__(self, *args, **kwargs):
        if self._inner is not None:
            leaves = self._checked_leaves(args, kwargs)
            return self._adapter.decode(leaves, self._inner(*self._adapter.encode(leaves)))
        results = self._dispatch(*args, **kwargs)
        if self._deletes_donated:
            delete_handle(tree.leaves((args, kwargs)))
        return results

    def call(self, *args, **kwargs):
        """Call the compiled function, as `compiled(*args, **kwargs)` does."""
        return self(*args, **kwargs)

    def _checked_leaves(self, args, kwargs) -> list:
        """Return the leaves of a call with references or composites; raise if their types differ from the compiled ones."""
        leaves, in_tree = tree.flatten_tree((args, kwargs))
        types, checks_type = self._traced._traced.in_avals, self._adapter.checks_type
        if in_tree != self.in_tree or any([checks_type(t) and tracing.aval_of(x) != t for x, t in zip(leaves, types)]):
            given = in_tree.unflatten(list(map(tracing.aval_of, leaves)))
            raise TypeError(f"{self._traced.fun_name} was compiled for other arguments: {types}, and was called with {given}.")
        return leaves

    @property
    def out_info(self):
        """Types of the results, with their shardings and layouts; lists of those of components for composite results."""
        if self._shows_components:
            return self._lowered.out_info
        return _structs(self.out_tree, self._traced.jaxpr.out_avals, self._out_formats())

    @property
    def args_info(self):
        """Types of the arguments, `(args, kwargs)`, and whether each of them is donated; lists for composite arguments."""
        return self._lowered.args_info if self._shows_components else self._traced.args_info

    @property
    def _shows_components(self) -> bool:
        return self._adapter is not None and self._adapter.shows_components

    donate_argnums = property(lambda self: self._traced.donate_argnums, doc=Traced.donate_argnums.__doc__)
    in_avals = property(lambda self: self._traced.in_avals, doc="Types of the arguments, as transformations see them.")
    out_avals = property(lambda self: self._traced.out_avals, doc=Traced.out_avals.__doc__)

    @property
    def input_shardings(self):
        """Sharding of each argument, by position and by name; None for those that are not read."""
        executable = self._executable
        return self.in_tree.unflatten([s if live else None for s, live in zip(executable.in_shardings, executable.live)])

    @property
    def output_shardings(self):
        """Sharding of each result."""
        return self.out_tree.unflatten(self._executable.out_shardings)

    @property
    def input_formats(self):
        """Layout and sharding of each argument, by position and by name; None for those that are not read."""
        executable = self._executable
        layouts = iter(executable.layouts()[len(executable.const_args):])
        return self.in_tree.unflatten([Format(next(layouts), s) if live else None for s, live in zip(
            executable.in_shardings, executable.live)])

    @property
    def output_formats(self):
        """Layout and sharding of each result."""
        return self.out_tree.unflatten(self._out_formats())

    def _out_formats(self) -> list[Format]:
        layouts = map(Layout.from_pjrt_layout, self._executable.loaded.get_output_layouts())
        return [Format(layout, s) for layout, s in zip(layouts, self._executable.out_shardings)]

    def as_text(self) -> str:
        """Return the optimized program as text."""
        return "\n\n".join(module.to_string() for module in self._executable.loaded.hlo_modules())

    def cost_analysis(self) -> dict[str, float] | None:
        """Return the compiler's estimate (flops, bytes accessed) by name; None if it makes none, as for absent GPUs."""
        try:
            return self._executable.loaded.cost_analysis()
        except JaxRuntimeError:
            return None

    def memory_analysis(self):
        """Return the bytes of arguments, results, temporaries and code."""
        return self._executable.loaded.get_compiled_memory_stats()

    def runtime_executable(self):
        """Return jaxlib's executable."""
        return self._executable.loaded

    def _code(self) -> bytes:
        """Return the serialized executable, which other processes on this machine can load."""
        executable = self._compile_uncached() if self._executable.from_disk else self._executable
        return executable.loaded.serialize()


def _dispatcher_of(stage: Traced, executable) -> Callable:
    """Return the C++ function that repeats calls of an executable. It does not refer to the `Compiled` that holds it."""
    jitted, traced = stage._jitted, stage._traced
    in_tree, name, options = stage.in_tree, stage.fun_name, jitted.options

    def call_first(*args, **kwargs):
        try:
            if tracing.is_tracing():
                raise TypeError(f"the compiled function {name} cannot be called inside a transformation: it is no "
                                f"longer a program. Call the jitted function instead.")
            leaves, given = tree.flatten_tree((args, kwargs))
            call = signatures.Call((), leaves, given)
            _check_call(name, traced, in_tree, call, executable, options)
            has_layouts = executable.reads_layouts_of(leaves)
            results = executable.run(leaves, traced.closed.out_avals)
            if config.debug_nans.value or config.debug_infs.value:  # C++ calls this once for each context of settings
                check_finite(name, results, traced.closed, leaves, lambda: None)
            out = traced.out_tree.unflatten(results)
            return out, executable.fast_path(traced, out) if has_layouts else None, False
        except Exception as e:
            filter_traceback(e)
            raise

    return pjit(name, jitted.fun, call_first, [], [], (), tree.dispatch_registry, shard_arg_fallback, PjitFunctionCache())


def _check_call(name: str, traced, in_tree, call, executable, options) -> None:
    """Raise for arguments that the executable was not compiled for."""
    if call.in_tree != in_tree:
        ours = tree.leaf_indices(in_tree)
        theirs = call.in_tree.unflatten(call.leaves)
        remedy = " Static arguments are compiled in: leave them out." if options.static else ""
        raise TypeError(f"{name} was compiled for other arguments, their input pytrees do not match: "
                        f"{tree.first_difference(ours, theirs)}{remedy}")
    for i, (x, aval) in enumerate(zip(call.leaves, traced.in_avals)):
        got = tracing.aval_of(x)
        if got.shape != aval.shape or got.dtype != aval.dtype:
            raise TypeError(f"argument types differ: {name} was compiled for {aval} as argument "
                            f"{traced.debug_info.arg_names[i]}, and was called with {got}. Call the jitted function, or "
                            "compile for this type.")
        words, expected = keys.physical_array(x), executable.in_shardings[i]
        if options.device is not None or options.backend is not None:
            continue  # `jit` was given a device, to which it transfers all arguments
        if executable.live[i] and isinstance(words, ArrayImpl) and words._committed and words._sharding != expected and not (
                words._sharding.is_equivalent_to(expected, words.ndim)):
            raise ValueError(
                f"{name} was compiled for its argument {traced.debug_info.arg_names[i]} "
                f"{device_assignment.describe_sharding(expected)}, and the array that it got (shape {words.shape}) is "
                f"{device_assignment.describe_sharding(words._sharding)}. Move it with device_put to what "
                f"compiled.input_shardings says, or call the jitted function.")
    if layouts_in_use.others:
        _check_layouts(name, traced, call, executable)


def _check_layouts(name: str, traced, call, executable) -> None:
    words = [keys.physical_array(x) for x in call.leaves]
    misfits = iter(executable.misfits(words))
    for x, live, argument in zip(words, executable.live, traced.debug_info.arg_names):
        if live and next(misfits, False) and x._committed:
            raise ValueError(f"{name} was compiled for an argument {argument} of another layout than that of the array that it "
                             f"got, {Layout.from_pjrt_layout(x._pjrt_layout)}: they disagree. Transfer it with device_put to "
                             f"what compiled.input_formats says, or call the jitted function.")
