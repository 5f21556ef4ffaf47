"""The stages of a compilation, one by one: `jit(f).trace(...).lower().compile()`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from xlafront import lowering
from xlafront.core import avals, backends, keys, parts, tracing, tree
from xlafront.core.memo import Memo
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import boundary, filter_traceback
from xlafront.runtime import clients, config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import (
    JaxRuntimeError,
    PjitFunctionCache,
    hlo_computation,
    hlo_cost_analysis,
    hlo_text,
    let_go,
    pjit,
)
from xlafront.runtime.layouts import Format, Layout, use as layouts_in_use
from xlafront.staging import composites, device_assignment, signatures
from xlafront.staging.compiling import LoweredModule, run_executable
from xlafront.staging.debug_nans import check_finite
from xlafront.staging.jitted import leaves_handles, own_copy, shard_arg_fallback
from xlafront.staging.ref_boundary import boundary_of, stand_ins


@runtime_checkable
class Wrapped(Protocol):
    """What every jitted function offers: to be called, traced and lowered."""

    def __call__(self, *args, **kwargs): ...

    def trace(self, *args, **kwargs):
        """The program for arguments like these, a `Traced`."""

    def lower(self, *args, **kwargs):
        """The StableHLO module for arguments like these, a `Lowered`."""


CompilerOptions = dict[str, str | bool]


class ArgInfo:
    """Type of one argument, and whether it is donated."""

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
    call = signatures.split_call(jitted.name, jitted.options.static, args, kwargs)
    if tracing.composites and composites.among(call.leaves):
        contents = composites.Contents.of(call.leaves)
        return jitted.on_contents(call, contents).trace(contents.arrays(), *contents.others)
    call = call._replace(leaves=[_described(x) for x in call.leaves])
    return Traced(jitted, call, jitted.trace(call))


def _described(x: Any) -> Any:
    """Where nothing is computed, whatever has a shape and a dtype stands for an array of that type."""
    if type(x) in tracing.abstractors or not (hasattr(x, "shape") and hasattr(x, "dtype")) or tracing.is_arraylike(x):
        return x
    shape = x.shape if isinstance(x.shape, Sequence) else (x.shape,)
    return ShapeDtypeStruct(shape, x.dtype, weak_type=getattr(x, "weak_type", False))


def _laid_out(x: Any) -> Any:
    """An array that was put somewhere in an order of its own, as the type for which a program is lowered."""
    if type(x) is not ArrayImpl or not x._committed or x.is_deleted():
        return x
    layout = Layout.from_pjrt_layout(x._pjrt_layout)
    if layout.major_to_minor == tuple(range(x.ndim)):
        return x
    return ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type, sharding=Format(layout, x.sharding))


def _structs(out_tree, types, shardings, lowered: bool = True):
    """Types of results, with the shardings that are known. (That one is weak is no property of a lowered program.)"""
    return out_tree.unflatten([
        a if a is avals.abstract_token or a.is_high else ShapeDtypeStruct(
            a.shape, a.dtype, weak_type=a.weak_type and not lowered, manual_axis_type=a.manual_axis_type if a.vma else None,
            sharding=a.explicit_sharding if s is device_assignment.UNSPECIFIED else s)
        for a, s in zip(types, shardings)])


def _for_platforms(options, platforms: Sequence[str]) -> tuple[Any, tuple[str, ...] | None]:
    """Options for a platform; the names, where they are several or this process does not have it, and programs are lowered to
    be read alone."""
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
    try:
        backends.client(platform)
        return options._replace(backend=platform), None
    except clients.PlatformError:
        return options, (platform,)


recent_modules: Memo = Memo(8)  # what was lowered last: notebooks ask for its text, then for its cost, then for its code


class Traced:
    """A function traced for one signature."""

    def __init__(self, jitted, call, traced):
        self._jitted, self._call, self._traced = jitted, call, traced
        self.jaxpr = traced.closed
        self.fun_name = jitted.name
        self.in_tree, self.out_tree = call.in_tree, traced.out_tree
        self.in_avals = call.in_tree.unflatten(traced.in_avals)
        self._out_shardings = jitted.flat_out_shardings(traced.out_tree)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of the flat arguments that are donated."""
        return tuple(i for i, donated in enumerate(self._jitted.donated_flags(self._call)) if donated)

    @property
    def out_info(self):
        """The types of the results, with the shardings that were asked for."""
        return _structs(self.out_tree, self.jaxpr.out_avals, self._out_shardings, lowered=False)

    @property
    def args_info(self):
        """The types of the arguments, `(args, kwargs)`, and whether each of them is donated."""
        flags = self._jitted.donated_flags(self._call)
        return self.in_tree.unflatten([ArgInfo(a, d) for a, d in zip(self._traced.in_avals, flags)])

    @property
    def out_avals(self):
        """The types of the results, as transformations see them."""
        return self.out_tree.unflatten(self.jaxpr.out_avals)

    @boundary
    def boundary_names(self, kept: Sequence[bool]) -> tuple[list[str], list[str]]:
        """What the arguments that are read are called, and the results."""
        names = self._traced.debug_info.arg_names
        arguments = [name for name, keep in zip(names, kept) if keep] if len(names) == len(kept) else []  # as with parts
        return arguments, tree.result_paths(tree.structure(self.out_info))

    def lower(self, *, lowering_platforms=None, _private_parameters=None) -> Lowered:
        """The StableHLO module, for the devices that a call would use.

        With several platforms its first argument says which of them it is (the index of its name), and it is there to be read.
        """
        jitted, call, traced = self._jitted, self._call, self._traced
        if traced.takes_refs:
            refs = boundary_of(traced, jitted.name)
            inputs = stand_ins(refs, refs.inputs(call.leaves))
            of_values, _ = jitted.on_values(refs, call, inputs)
            return LoweredWithRefs(self, trace(of_values, tuple(inputs), {}).lower(lowering_platforms=lowering_platforms), refs)
        if traced.is_high:
            given = tuple(parts.parts_of(traced.in_avals, call.leaves))
            return LoweredOnParts(self, jitted.on_parts(traced, call).trace(*given).lower(
                lowering_platforms=lowering_platforms))
        traced, options, elsewhere = traced.on_arrays, jitted.options, None
        if lowering_platforms:
            options, elsewhere = _for_platforms(options, lowering_platforms)
        wanted = jitted.flat_in_shardings(call.in_tree)
        mesh = device_assignment.only_abstract(call.leaves, wanted)
        if mesh is not None and lowering_platforms is None:
            raise ValueError(f"{jitted.name} has shardings over {mesh} alone, which has no devices, so that it is not known "
                             f"what to "
                             f"lower it for: pass lowering_platforms, as in "
                             f"jit(f).trace(...).lower(lowering_platforms=('tpu',)).")
        if mesh is not None:
            return Lowered(self, self._over(mesh, backends.devices(), elsewhere), mesh)
        assignment = device_assignment.place_arguments(jitted.name, call.leaves, wanted, traced, options)
        jitted.check_layouts(traced, call)
        if layouts_in_use.others:
            call = call._replace(leaves=[_laid_out(x) for x in call.leaves])
        donated = jitted.donated_flags(call)
        key = traced, assignment, donated, elsewhere, layouts_in_use.others
        laid_out = any([type(x) is ShapeDtypeStruct and x._layout for x in call.leaves])
        module = None if laid_out else recent_modules.get(key)
        if module is None:
            module = jitted.lower(traced, call, assignment, donated, elsewhere)
            if not laid_out:
                recent_modules.keep(key, module)
        return Lowered(self, module)

    def of_arrays(self) -> tuple[Callable, tuple, dict[str, Any]]:
        """The function of lists of the arrays that values consist of, in place of these values, and its arguments."""
        traced, on_parts = self._traced, self._jitted.on_parts(self._traced, self._call)

        def fun(*args, **kwargs):
            found = iter(on_parts(*tree.leaves((args, kwargs))))
            return traced.out_tree.unflatten([[next(found) for _ in kind.lo_ty()] if kind.is_high else next(found)
                                              for kind in traced.closed.out_avals])

        fun.__name__ = self._jitted.name
        args, kwargs = self.in_tree.unflatten([list(kind.lower_val(x)) if kind.is_high else x
                                               for kind, x in zip(traced.in_avals, self._call.leaves)])
        return fun, args, kwargs

    def lower_to_leave(self, platforms: tuple[str, ...], own_rules=None) -> LoweredModule:
        """The module for these platforms as one that leaves the process: all that it needs is in it.

        `own_rules` are lowering rules by primitives, in place of theirs.
        """
        jitted, call, traced = self._jitted, self._call, self._traced.on_arrays
        wanted = jitted.flat_in_shardings(call.in_tree)
        mesh = device_assignment.only_abstract(call.leaves, wanted)
        if mesh is not None:
            return self._over(mesh, device_assignment.devices_to_write_for(mesh.size), platforms, True, own_rules)
        assignment = device_assignment.place_arguments(jitted.name, call.leaves, wanted, traced, jitted.options)
        return jitted.lower(traced, call, assignment, jitted.donated_flags(call), platforms, True, own_rules)

    def _over(self, mesh, devices, elsewhere: tuple[str, ...] | None, self_contained: bool = False, own_rules=None):
        """The module of a program about an abstract mesh, as one for these devices."""
        jitted, call = self._jitted, self._call
        assignment = device_assignment.over_devices(mesh, devices, call.leaves, jitted.flat_in_shardings(call.in_tree))
        return jitted.lower(self._traced, call, assignment, jitted.donated_flags(call), elsewhere, self_contained, own_rules)

    def __call__(self, *args, **kwargs):
        return self.lower().compile()(*args, **kwargs)


class Lowered:
    """A function lowered to a StableHLO module."""

    def __init__(self, traced: Traced, lowered, abstract_mesh=None):
        self._traced, self._lowered = traced, lowered
        self._abstract_mesh = abstract_mesh  # where it is not known on which devices it is to run
        self.in_tree, self.out_tree = traced.in_tree, traced.out_tree

    @property
    def out_info(self):
        """The types of the results, with the shardings that were asked for."""
        return _structs(self.out_tree, self._traced.jaxpr.out_avals, self._lowered.shardings.out)

    args_info = property(lambda self: self._traced.args_info, doc=Traced.args_info.__doc__)
    in_avals = property(lambda self: self._traced.in_avals, doc="The types of the arguments, as transformations see them.")
    donate_argnums = property(lambda self: self._traced.donate_argnums, doc=Traced.donate_argnums.__doc__)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The module as text: `dialect` is "stablehlo" (the default) or "hlo"."""
        if dialect in (None, "stablehlo"):
            return lowering.written.module_text(self._named, debug_info)
        if dialect == "hlo":
            return hlo_text(self._hlo(), debug_info)
        raise ValueError(f"as_text takes dialect 'stablehlo' or 'hlo', got {dialect!r}.")

    def compiler_ir(self, dialect: str | None = None):
        """The module itself, as an MLIR object ("stablehlo") or an XLA computation ("hlo")."""
        if dialect in (None, "stablehlo"):
            return lowering.written.copy_of(self._named)
        if dialect == "hlo":
            return self._hlo()
        raise ValueError(f"compiler_ir takes dialect 'stablehlo' or 'hlo', got {dialect!r}.")

    @functools.cached_property
    def _named(self):
        """The module with the names of what it takes and returns, which are not part of what is compiled."""
        module = lowering.written.clone_of(self._lowered.module_context.module)
        lowering.written.name_boundary(module, *self._traced.boundary_names(self._lowered.kept))
        return module

    def _hlo(self):
        return hlo_computation(lowering.written.module_bytecode(self._named))

    def cost_analysis(self) -> dict[str, float] | None:
        """The compiler's estimate before optimisation: flops, bytes accessed, by name; None where it makes none."""
        try:
            return hlo_cost_analysis(self._lowered.client, self._hlo())
        except JaxRuntimeError:
            return None

    @boundary
    def compile(self, compiler_options: dict[str, Any] | None = None, device_assignment=None) -> Compiled:
        """The module compiled for the devices that it was lowered for.

        - `compiler_options`: XLA flags by name, besides those of `jit`.
        - `device_assignment`: the devices, of a module that was lowered for a mesh without.
        """
        mesh = self._abstract_mesh
        if mesh is not None:
            if device_assignment is None:
                raise RuntimeError(f"{self._traced.fun_name} was lowered for {mesh}, which has no devices: say on which it is "
                                   f"to run, "
                                   f"compile(device_assignment=devices).")
            module = self._traced._over(mesh, device_assignment, None)
            return Compiled(self, module.compile(compiler_options), lambda: module.compile(compiler_options, anew=True))
        if device_assignment is not None and tuple(device_assignment) != self._lowered.assignment.devices:
            raise ValueError("the devices are part of the lowering: give jit shardings over these devices instead.")
        module = self._lowered
        if compiler_options or module.layouts is not None or module.elsewhere is not None:
            executable = module.compile(compiler_options)
        else:
            traced = self._traced
            executable = traced._jitted.compiled(
                traced._traced.on_arrays, traced._call, module.assignment, module.donated, module)
        return Compiled(self, executable, lambda: module.compile(compiler_options, anew=True))


class Compiled:
    """A compiled function; calling it never traces or compiles."""

    def __init__(self, lowered: Lowered, executable, compile_anew: Callable):
        self._lowered, self._executable, self._compile_anew = lowered, executable, compile_anew
        self._traced = lowered._traced
        self.in_tree, self.out_tree = lowered.in_tree, lowered.out_tree
        self._prepare_calls()

    def _prepare_calls(self) -> None:
        self._dispatch = _dispatcher_of(self._traced, self._executable)
        self._lets_go = bool(self._traced._jitted.options.donate) and leaves_handles(self._executable)

    @property
    def out_info(self):
        """The types of the results, with their shardings and layouts."""
        return _structs(self.out_tree, self._traced.jaxpr.out_avals, self._out_formats())

    args_info = property(lambda self: self._traced.args_info, doc=Traced.args_info.__doc__)
    donate_argnums = property(lambda self: self._traced.donate_argnums, doc=Traced.donate_argnums.__doc__)
    in_avals = property(lambda self: self._traced.in_avals, doc="The types of the arguments, as transformations see them.")
    out_avals = property(lambda self: self._traced.out_avals, doc=Traced.out_avals.__doc__)

    @property
    def input_shardings(self):
        """The sharding of each argument, by position and by name; None for those that are not read."""
        executable = self._executable
        return self.in_tree.unflatten([s if keep else None for s, keep in zip(executable.in_shardings, executable.kept)])

    @property
    def output_shardings(self):
        """The sharding of each result."""
        return self.out_tree.unflatten(self._executable.out_shardings)

    @property
    def input_formats(self):
        """The layout and the sharding of each argument, by position and by name; None for those that are not read."""
        executable = self._executable
        layouts = iter(executable.layouts()[len(executable.const_args):])
        return self.in_tree.unflatten([Format(next(layouts), s) if keep else None for s, keep in zip(
            executable.in_shardings, executable.kept)])

    @property
    def output_formats(self):
        """The layout and the sharding of each result."""
        return self.out_tree.unflatten(self._out_formats())

    def _out_formats(self) -> list[Format]:
        layouts = map(Layout.from_pjrt_layout, self._executable.loaded.get_output_layouts())
        return [Format(layout, s) for layout, s in zip(layouts, self._executable.out_shardings)]

    def as_text(self) -> str:
        """The optimised program, as the compiler left it."""
        return "\n\n".join(module.to_string() for module in self._executable.loaded.hlo_modules())

    def cost_analysis(self) -> dict[str, float] | None:
        """The compiler's estimate: flops, bytes accessed, by name; None where it makes none, as for GPUs that are not here."""
        try:
            return self._executable.loaded.cost_analysis()
        except JaxRuntimeError:
            return None

    def memory_analysis(self):
        """Bytes of arguments, results, temporaries and code."""
        return self._executable.loaded.get_compiled_memory_stats()

    def _code(self) -> bytes:
        """What other processes on this machine can load."""
        executable = self._compile_anew() if self._executable.from_disk else self._executable
        return executable.loaded.serialize()

    def runtime_executable(self):
        """The executable as jaxlib has it."""
        return self._executable.loaded

    def call(self, *args, **kwargs):
        """As calling it."""
        return self(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        results = self._dispatch(*args, **kwargs)
        if self._lets_go:
            let_go(tree.leaves((args, kwargs)))
        return results


class LoweredWithRefs(Lowered):
    """A function that takes references, lowered as one of what they hold."""

    def __init__(self, traced: Traced, of_values: Lowered, boundary):
        super().__init__(traced, of_values._lowered)
        self._of_values, self._boundary = of_values, boundary

    def compile(self, compiler_options: dict[str, Any] | None = None, device_assignment=None) -> CompiledWithRefs:
        return CompiledWithRefs(self, self._of_values.compile(compiler_options, device_assignment))


class CompiledOverPlain(Compiled):
    """A compiled function that hands its calls to the compiled function of plain arrays that it consists of."""

    def __init__(self, lowered: LoweredWithRefs | LoweredOnParts, plain: Compiled):
        self._lowered, self._executable, self._traced = lowered, plain._executable, lowered._traced
        self.in_tree, self.out_tree = lowered.in_tree, lowered.out_tree
        self._plain = plain

    def _leaves(self, args, kwargs, asked_for: Callable[[Any], bool]) -> list:
        """The leaves of a call. Those of the types that are asked for are compared here, the others by the plain function."""
        leaves, in_tree = tree.flatten_tree((args, kwargs))
        types = self._traced._traced.in_avals
        if in_tree != self.in_tree or any([asked_for(t) and tracing.aval_of(x) != t for x, t in zip(leaves, types)]):
            given = in_tree.unflatten(list(map(tracing.aval_of, leaves)))
            raise TypeError(f"{self._traced.fun_name} was compiled for other arguments: {types}, and was called with {given}.")
        return leaves


class CompiledWithRefs(CompiledOverPlain):
    """A compiled function that takes references."""

    def __call__(self, *args, **kwargs):
        boundary = self._lowered._boundary
        inputs = boundary.inputs(self._leaves(args, kwargs, lambda kind: True))
        return boundary.finish(inputs, self._plain(*boundary.values(inputs, own_copy)))


class LoweredOnParts(Lowered):
    """A function with arguments or results that consist of others (`core.parts`), lowered as one of what they consist of."""

    def __init__(self, traced: Traced, of_parts: Lowered):
        super().__init__(traced, of_parts._lowered)
        self._of_parts = of_parts

    @property
    def out_info(self):
        """The types of the results; a list of those of its parts for one that consists of others."""
        return _grouped(self.out_tree, self._traced._traced.closed.out_avals, self._of_parts.out_info)

    @property
    def args_info(self):
        """The types of the arguments; a list of those of its parts for one that consists of others."""
        return _grouped(self.in_tree, self._traced._traced.in_avals, self._of_parts.args_info[0])

    def compile(self, compiler_options: dict[str, Any] | None = None, device_assignment=None) -> CompiledOnParts:
        return CompiledOnParts(self, self._of_parts.compile(compiler_options, device_assignment))


class CompiledOnParts(CompiledOverPlain):
    """A compiled function with arguments or results that consist of others."""

    out_info = property(lambda self: self._lowered.out_info)
    args_info = property(lambda self: self._lowered.args_info)

    def __call__(self, *args, **kwargs):
        leaves, traced = self._leaves(args, kwargs, lambda kind: kind.is_high), self._traced._traced
        results = self._plain(*parts.parts_of(traced.in_avals, leaves))
        return traced.out_tree.unflatten(parts.put_together(traced.closed.out_avals, results))


def _grouped(structure, kinds: Sequence[Any], of_parts: Sequence[Any]) -> Any:
    """What is said of each part, by the values that consist of them."""
    rest = iter(of_parts)
    return structure.unflatten([[next(rest) for _ in kind.lo_ty()] if kind.is_high else next(rest) for kind in kinds])


def _dispatcher_of(stage, executable) -> Callable:
    """The C++ function that repeats calls of an executable; it knows nothing of the `Compiled` that holds it."""
    jitted, traced = stage._jitted, stage._traced
    in_tree, name, static = stage.in_tree, stage.fun_name, jitted.options.static

    def call_first(*args, **kwargs):
        try:
            if tracing.is_tracing():
                raise TypeError(f"the compiled function {name} cannot be called inside a transformation: it is no "
                                f"longer a program. Call the jitted function instead.")
            leaves, given = tree.flatten_tree((args, kwargs))
            call = signatures.Call((), leaves, given)
            _check_call(name, traced, in_tree, call, executable, static)
            in_order = jitted.in_order(executable, call)
            results = run_executable(executable, leaves, traced.closed.out_avals)
            if config.debug_nans.value or config.debug_infs.value:  # C++ asks again in each context of settings
                check_finite(name, results, traced.closed, leaves, lambda: None)
            out = traced.out_tree.unflatten(results)
            return out, jitted.fast_path(executable, traced, out) if in_order else None, False
        except Exception as e:
            filter_traceback(e)
            raise

    return pjit(name, jitted.fun, call_first, [], [], (), tree.dispatch_registry, shard_arg_fallback, PjitFunctionCache())


def _check_call(name: str, traced, in_tree, call, executable, static) -> None:
    if call.in_tree != in_tree:
        ours = tree.numbered(in_tree)
        theirs = call.in_tree.unflatten(call.leaves)
        remedy = " Static arguments are compiled in: leave them out." if static else ""
        raise TypeError(f"{name} was compiled for other arguments, their input pytrees do not match: "
                        f"{tree.first_difference(ours, theirs)}{remedy}")
    for i, (x, aval) in enumerate(zip(call.leaves, traced.in_avals)):
        got = tracing.aval_of(x)
        if got.shape != aval.shape or got.dtype != aval.dtype:
            raise TypeError(f"argument types differ: {name} was compiled for {aval} as argument "
                            f"{traced.debug_info.arg_names[i]}, and was called with {got}. Call the jitted function, or "
                            "compile for this type.")
        words, wanted = keys.physical_array(x), executable.in_shardings[i]
        if executable.kept[i] and isinstance(words, ArrayImpl) and words._committed and words._sharding != wanted and not (
                words._sharding.is_equivalent_to(wanted, words.ndim)):
            raise ValueError(
                f"{name} was compiled for its argument {traced.debug_info.arg_names[i]} {device_assignment.in_words(wanted)}, "
                f"and the array that it got (shape {words.shape}) is {device_assignment.in_words(words._sharding)}. Move it "
                f"with device_put to what compiled.input_shardings says, or call the jitted function.")
    if layouts_in_use.others:
        _check_layouts(name, traced, call, executable)


def _check_layouts(name: str, traced, call, executable) -> None:
    words = [keys.physical_array(x) for x in call.leaves]
    misfits = iter(executable.misfits(words))
    for x, keep, of in zip(words, executable.kept, traced.debug_info.arg_names):
        if keep and next(misfits, False) and x._committed:
            raise ValueError(f"{name} was compiled for an argument {of} of another layout than that of the array that it got, "
                             f"{Layout.from_pjrt_layout(x._pjrt_layout)}: they disagree. Bring it with device_put to what "
                             f"compiled.input_formats says, or call the jitted function.")
