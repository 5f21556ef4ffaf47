"""Lowering of jaxprs to modules and functions of modules, for extensions that lower on their own."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from xlafront.core.ir import Jaxpr
from xlafront.interpreters.lowering_rules import adapt_rule
from xlafront.lowering import mlir, module as lowering, module_text
from xlafront.lowering.builder import Body
from xlafront.lowering.equations import lower_equations
from xlafront.lowering.mlir import create, ir


class LoweringParameters(NamedTuple):
    """Parameters of lowering. `override_lowering_rules` are (primitive, rule) pairs that precede the registered rules."""

    override_lowering_rules: Any = None
    global_constant_computation: bool = False
    for_export: bool = False
    export_ignore_forward_compatibility: bool = False
    hoist_constants_as_args: bool = False


class ShardingContext(NamedTuple):
    """The devices of a program that XLA partitions."""

    num_devices: int
    device_assignment: Any = None
    abstract_mesh: Any = None


class SPMDAxisContext(NamedTuple):
    """The mesh of a program with manual axes."""

    mesh: Any
    manual_axes: frozenset = frozenset()


class ShapePolyLoweringState:
    """The symbolic dimensions of a module, and its platforms."""

    __slots__ = ("dim_vars", "lowering_platforms")

    def __init__(self, dim_vars: Sequence[str] = (), lowering_platforms: Sequence[str] | None = None):
        self.dim_vars, self.lowering_platforms = tuple(dim_vars), lowering_platforms

    @property
    def uses_dim_vars(self) -> bool:
        return bool(self.dim_vars)


class LoweringResult(NamedTuple):
    """A module, and the objects that must live as long as its executable."""

    module: ir.Module
    keepalive: Any
    host_callbacks: list
    shape_poly_state: ShapePolyLoweringState


class _AnyModuleContext(type):
    """The instance check of `ModuleContext`: internal contexts are instances too."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, lowering.ModuleContext)


class ModuleContext(lowering.ModuleContext, metaclass=_AnyModuleContext):
    """A module under construction, for a list of platforms; it is lowered for the first one."""

    def __init__(self, *, platforms: Sequence[str], backend: Any = None, axis_context: Any = None,
                 keepalives: list | None = None, channel_iterator: Any = None, host_callbacks: list | None = None,
                 lowering_parameters: LoweringParameters | None = None, context: Any = None, module: Any = None, ip: Any = None,
                 symbol_table: Any = None, lowering_cache: Any = None, cached_primitive_lowerings: Any = None,
                 traceback_caches: Any = None, shape_poly_state: Any = None, all_default_mem_kind: bool = True,
                 sharding_attr_cache: Any = None, aval_to_ir_types_cache: Any = None, pallas_lowering_cache: Any = None):
        platform = lowering_platform(platforms[0])
        with mlir.context, mlir.unknown_location:
            super().__init__("module", lowering.Target((platform,)), getattr(axis_context, "num_devices", 1))
            if module is not None:
                self.module = module
                self.names = {str(ir.StringAttr(op.attributes["sym_name"]).value) for op in module.body.operations}
                self.insertion_point = ir.InsertionPoint(module.body) if ip is None else ip
        self.backend, self.axis_context = backend, axis_context
        self.keepalives = [] if keepalives is None else keepalives
        self.host_callbacks = [] if host_callbacks is None else host_callbacks
        self.channel_iterator = channel_iterator or itertools.count(1)
        self.lowering_parameters = lowering_parameters or LoweringParameters()
        self.shape_poly_state = shape_poly_state or ShapePolyLoweringState((), tuple(platforms))
        for primitive, rule in self.lowering_parameters.override_lowering_rules or ():
            self.rules[primitive] = adapt_rule(primitive, rule)


def lowering_platform(name: str) -> str:
    return "cuda" if name == "gpu" else name


def make_ir_context() -> ir.Context:
    """Return the MLIR context of this process, with all dialects loaded; enter it with `with`.

    Example:
        >>> with make_ir_context() as context:
        ...     print(context is make_ir_context())
        True
    """
    return mlir.context


def _attributes(count: int, **columns) -> list[dict[str, ir.Attribute]]:
    """Return a dictionary of attributes for each argument or result, from columns of values or Nones."""
    rows: list[dict[str, ir.Attribute]] = [{} for _ in range(count)]
    for name, (values, make) in columns.items():
        for row, value in zip(rows, values or ()):
            if value is not None and value is not False:
                row[name.replace("__", ".")] = make(value)
    return rows


def _text(value) -> ir.Attribute:
    return mlir.string(str(value))


def _flag(value) -> ir.Attribute:
    return mlir.boolean(True)


def _sharding(value) -> ir.Attribute:
    if isinstance(value, ir.Attribute):
        return value
    build = getattr(value, "build", None)  # Shardy's description of a sharding
    return build() if build is not None else mlir.string(repr(value))


def lower_jaxpr_to_fun(
        ctx: Any, name: str, jaxpr: Jaxpr, effects: Sequence[Any] = (), *, num_const_args: int = 0,
        main_function: bool = False, replicated_args: Sequence[bool] | None = None, in_avals: Sequence[Any] | None = None,
        out_avals: Sequence[Any] | None = None, arg_shardings: Sequence[Any] | None = None,
        result_shardings: Sequence[Any] | None = None,
        use_sharding_annotations: bool = True, input_output_aliases: Sequence[int | None] | None = None,
        xla_donated_args: Sequence[bool] | None = None, arg_names: Sequence[str | None] | None = None,
        result_names: Sequence[str] | None = None, arg_memory_kinds: Sequence[str | None] | None = None,
        result_memory_kinds: Sequence[str | None] | None = None, arg_layouts: Sequence[Any] | None = None,
        result_layouts: Sequence[Any] | None = None, propagated_out_mem_kinds: Any = None, detached: bool = False
        ) -> ir.OpView:
    """Emit a jaxpr as a function of the module; return the function's operation.

    Tokens of the ordered `effects` are the first arguments and results, except in the main function. With `detached` the
    function is not part of the module. `in_avals` and `out_avals` are the types of the jaxpr.

    Example:
        >>> # function = lower_jaxpr_to_fun(ctx.module_context, "inner", closed_jaxpr)
    """
    module = getattr(ctx, "module_context", ctx)
    ordered = [] if main_function else [e for e in effects if e.ordered]
    with mlir.context, mlir.unknown_location:
        tokens = [mlir.token_type()] * len(ordered)
        arg_types, result_types = lowering.flat_types(jaxpr.in_avals), lowering.flat_types(jaxpr.out_avals)
        aliases = input_output_aliases or ()
        donors = [d and i not in {k for k, a in enumerate(aliases) if a is not None}
                  for i, d in enumerate(xla_donated_args or ())]
        as_hlo = use_sharding_annotations and not _is_shardy(arg_shardings, result_shardings)
        key = "mhlo__sharding" if as_hlo else "sdy__sharding"
        arguments = _attributes(
            len(arg_types), mhlo__is_same_data_across_replicas=(replicated_args, _flag), jax__buffer_donor=(donors, _flag),
            mhlo__memory_kind=(arg_memory_kinds, _text), mhlo__layout_mode=(arg_layouts, _text),
            tf__aliasing_output=(aliases, mlir.i32), **{key: (arg_shardings, _sharding)})
        results = _attributes(
            len(result_types), jax__result_info=(result_names, _text), mhlo__memory_kind=(result_memory_kinds, _text),
            mhlo__layout_mode=(result_layouts, _text), **{key: (result_shardings, _sharding)})
        _, operation, block = module.add_function(
            name, tokens + arg_types, tokens + result_types, public=main_function,
            arg_attributes=[{} for _ in tokens] + arguments, result_attributes=[{} for _ in tokens] + results)
        with ir.InsertionPoint(block):
            values = list(block.arguments)
            if main_function:
                known = {e: create("stablehlo.create_token", results=[mlir.token_type()]).result
                         for e in effects if e.ordered}
            else:
                known = dict(zip(ordered, values))
            body = Body(module, known)
            out = lower_equations(body, jaxpr, [lowering.constant(c) for c in jaxpr.consts], values[len(ordered):])
            create("func.return", operands=[*[body.tokens[e] for e in ordered], *out])
        if detached:
            operation.detach_from_parent()
    return operation.opview


def _is_shardy(*groups) -> bool:
    return any(isinstance(s, ir.Attribute) or hasattr(s, "build") for group in groups for s in group or ())


def lower_jaxpr_to_module(
        module_name: str, jaxpr: Jaxpr, *, num_const_args: int = 0, in_avals: Sequence[Any] | None = None,
        out_avals: Sequence[Any] | None = None, ordered_effects: Sequence[Any] = (), platforms: Sequence[str],
        backend: Any = None, axis_context: Any = None,
        donated_args: Sequence[bool] | None = None, replicated_args: Sequence[bool] | None = None,
        arg_shardings: Sequence[Any] | None = None, result_shardings: Sequence[Any] | None = None,
        in_layouts: Sequence[Any] | None = None, out_layouts: Sequence[Any] | None = None,
        arg_names: Sequence[str | None] | None = None, result_names: Sequence[str] | None = None, num_partitions: int = 1,
        all_default_mem_kind: bool = True, input_output_aliases: Sequence[int | None] | None = None,
        propagated_out_mem_kinds: Any = None, lowering_parameters: LoweringParameters | None = None) -> LoweringResult:
    """Return a module whose `main` computes a jaxpr.

    Example:
        >>> closed = xf.make_jaxpr(lambda x: x * 2)(1.0)
        >>> module = lower_jaxpr_to_module("double", closed, platforms=["cpu"]).module
    """
    state = ShapePolyLoweringState((), tuple(platforms))
    ctx = ModuleContext(platforms=platforms, backend=backend, axis_context=axis_context,
                        lowering_parameters=lowering_parameters, shape_poly_state=state)
    with mlir.context, mlir.unknown_location:
        attributes = ctx.module.operation.attributes
        attributes["sym_name"] = mlir.string("".join(c if c.isalnum() or c == "_" else "_" for c in module_name))
        attributes["mhlo.num_partitions"] = mlir.i32(num_partitions)
    lower_jaxpr_to_fun(
        ctx, "main", jaxpr, ordered_effects, main_function=True, replicated_args=replicated_args,
        arg_shardings=arg_shardings, result_shardings=result_shardings, input_output_aliases=input_output_aliases,
        xla_donated_args=donated_args, arg_names=arg_names, result_names=result_names, arg_layouts=in_layouts,
        result_layouts=out_layouts)
    with mlir.context:
        if not ctx.module.operation.verify():
            raise ValueError(f"the module {module_name} is not valid:\n{ctx.module}")
    return LoweringResult(ctx.module, ctx.keepalives, ctx.host_callbacks, state)


def merge_mlir_modules(dst_module: ir.Module, sym_name: str, src_module: ir.Module, dst_symtab: Any = None) -> str:
    """Copy the functions of one module into another, its `main` as a private function named like `sym_name`; return that name.

    Example:
        >>> closed = xf.make_jaxpr(lambda x: x * 2)(1.0)
        >>> one, other = (lower_jaxpr_to_module("m", closed, platforms=["cpu"]).module for _ in range(2))
        >>> merge_mlir_modules(one, "double", other)
        'double'
    """
    with mlir.context, mlir.unknown_location:
        source = ir.Module.parse(module_to_bytecode(src_module))  # a copy: symbols are about to be renamed
        taken = {ir.StringAttr(op.attributes["sym_name"]).value for op in dst_module.body.operations
                 if "sym_name" in op.attributes}
        names: dict[str, str] = {}
        symbols = [op for op in source.body.operations if "sym_name" in op.attributes]
        for op in symbols:
            old = ir.StringAttr(op.attributes["sym_name"]).value
            requested = sym_name if old == "main" else old
            own = {ir.StringAttr(o.attributes["sym_name"]).value for o in symbols} - {old}
            new, n = requested, 0
            while new in taken or new in own:
                new, n = f"{requested}_{n}", n + 1
            taken.add(new)
            names[old] = new
            if new != old:
                ir.SymbolTable.replace_all_symbol_uses(old, new, source.operation)
                ir.SymbolTable.set_symbol_name(op, new)
            if old == "main":
                ir.SymbolTable.set_visibility(op, "private")
        for op in list(source.body.operations):
            copy = op.operation.clone(ip=ir.InsertionPoint(dst_module.body))
            if dst_symtab is not None and "sym_name" in copy.attributes:
                dst_symtab.insert(copy)
        return names["main"]


def module_to_string(module: ir.Module, enable_debug_info: bool | None = None) -> str:
    """Return a module as text, with source locations unless `enable_debug_info` is False.

    Example:
        >>> lowered = xf.jit(lambda x: x * 2).lower(1.0)
        >>> text = module_to_string(lowered.compiler_ir("stablehlo"))
    """
    return module_text.module_text(module, True if enable_debug_info is None else enable_debug_info)


def module_to_bytecode(module: ir.Module) -> bytes:
    """Return a module as MLIR bytecode.

    Example:
        >>> lowered = xf.jit(lambda x: x * 2).lower(1.0)
        >>> module_to_bytecode(lowered.compiler_ir("stablehlo"))[:4]
        b'ML\\xefR'
    """
    buffer = io.BytesIO()
    with mlir.context:
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()
