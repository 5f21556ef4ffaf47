"""Lowering of jaxprs to modules: `main`, its arguments and results, and the choice between platforms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.core.avals import abstract_token, token_stand_in
from xlafront.core.ir import Effect
from xlafront.lowering import mlir, sizes
from xlafront.lowering.builder import Body
from xlafront.lowering.equations import RuleContext, lower_equations
from xlafront.lowering.mlir import create, ir, tensor_type
from xlafront.lowering.module import (
    GLOBAL_CONSTANT,
    MAX_NAME_LENGTH,
    ModuleContext,
    Target,
    constant,
    flat_types,
    ordered_effects,
)


class ModuleOptions(NamedTuple):
    """The values that the module of a jaxpr depends on, beside the jaxpr and its target."""

    # For each constant variable, a NumPy value to embed in the module, or None to make it a leading argument of `main`.
    const_values: Sequence[Any]
    arg_attributes: Sequence[dict] | None = None  # by argument of `main`: the constants, then those of the jaxpr
    result_attributes: Sequence[dict] | None = None  # by result of the jaxpr
    num_partitions: int = 1  # number of devices
    sharding_context: Any = None  # the `module_shardings.ProgramShardings` that constrains values to their shardings
    manual_mesh: Any = None  # the mesh of collectives in a jaxpr that is for one device of the mesh
    scope: str = ""  # name scope of all operations
    rule_overrides: dict[Any, Callable] | None = None  # lowering rules by primitive, in place of those of the primitives
    argument_names: Sequence[str] = ()  # names of the arguments in messages about sizes


def lower_program(jaxpr, name: str, target: Target, options: ModuleOptions) -> ModuleContext:
    """Return a module named `name` whose `main` computes `jaxpr`.

    With several platforms, the first argument of `main` is the index of the platform that it runs on, by which it chooses
    between programs if these differ. In an exported module, the tokens of ordered effects are the next arguments and the
    first results, so that it can be linked into another module.
    """
    module = _lower_program(jaxpr, name, target, options, by_case=False)
    if len(target.platforms) > 1 and module.depends_on_platform:
        return _lower_program(jaxpr, name, target, options, by_case=True)
    return module


def _lower_program(jaxpr, name: str, target: Target, options: ModuleOptions, by_case: bool) -> ModuleContext:
    """Lower as `lower_program`; `by_case` emits a switch between versions for the platforms."""
    effects = ordered_effects(jaxpr)
    if options.num_partitions > 1:
        _check_order(jaxpr, effects, options.num_partitions)
    with mlir.context, mlir.unknown_location:
        module = ModuleContext(module_name(name), target, options.num_partitions, options.sharding_context)
        module.manual_mesh = options.manual_mesh
        module.rule_overrides = options.rule_overrides or {}
        module.dimension_variables = sizes.variables_of(jaxpr.in_avals)
        if module.dimension_variables:
            module.module.operation.attributes["jax.uses_shape_polymorphism"] = mlir.boolean(True)
        main = _Main(module, jaxpr, options.const_values, effects, options.scope)
        arg_types, result_types = main.signature()
        _, _, block = module.add_function("main", arg_types, result_types, public=True,
                                          arg_attributes=main.argument_attributes(options.arg_attributes, len(arg_types)),
                                          result_attributes=main.result_attributes(options.result_attributes))
        with ir.InsertionPoint(block):
            index, arguments = main.split(list(block.arguments))
            variables = main.variables(arguments, options.argument_names) if module.dimension_variables else None
            if by_case:
                case = create("stablehlo.case", operands=index, results=result_types, regions=len(target.platforms),
                              loc=mlir.unknown_location)
                for platform, region in zip(target.platforms, case.regions):
                    module.lower_for(platform)
                    with ir.InsertionPoint(region.blocks.append()):
                        create("stablehlo.return", operands=main.emit(arguments, variables), loc=mlir.unknown_location)
                results = list(case.results)
            else:
                results = main.emit(arguments, variables)
            if module.constrain is not None:
                results = options.sharding_context.constrain_results(results)
            create("func.return", operands=results, loc=mlir.unknown_location)
    return module


class _Main:
    """The function `main` of a module.

    Its arguments are the platform index (if there are several platforms), a token for each ordered effect (if it takes tokens),
    the constants that are not embedded, and the arguments of the jaxpr.
    """

    def __init__(self, module: ModuleContext, jaxpr, const_values: Sequence[Any], effects: list[Effect], scope: str):
        self.module, self.jaxpr, self.const_values, self.effects = module, jaxpr, const_values, effects
        self.scope = f"{scope}/" if scope else ""
        self.tokens = len(effects) if module.target.for_export else 0
        self.hoisted = [v for v, value in zip(jaxpr.constvars, const_values) if value is None]
        self.chooses = len(module.target.platforms) > 1

    def signature(self) -> tuple[list[ir.Type], list[ir.Type]]:
        tokens = [mlir.token_type()] * self.tokens
        arguments = [*tokens, *flat_types(map(_boundary_aval, [*[v.aval for v in self.hoisted], *self.jaxpr.in_avals]))]
        if self.chooses:
            arguments.insert(0, tensor_type((), np.dtype(np.int32)))
        return arguments, [*tokens, *flat_types(map(_boundary_aval, self.jaxpr.out_avals))]

    def argument_attributes(self, attributes: Sequence[Any] | None, count: int) -> list[Any] | None:
        """Return the attributes of all `count` arguments, from those of the constants and the jaxpr's arguments."""
        if not attributes and not self.chooses:
            return None
        leading: list[dict] = [{}] * self.tokens
        if self.chooses:
            leading.insert(0, {GLOBAL_CONSTANT: mlir.string("_platform_index")})
        return [*leading, *(attributes or [{}] * (count - len(leading)))]

    def result_attributes(self, attributes: Sequence[Any] | None) -> list[Any] | None:
        return [*[{}] * self.tokens, *attributes] if attributes else None

    def split(self, arguments: list[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
        """Split off the platform index, if there is one, from the other arguments."""
        return arguments[:self.chooses], arguments[self.chooses:]

    def variables(self, arguments: Sequence[ir.Value], names: Sequence[str]):
        """Return the values of dimension variables, computed from the arguments and checked."""
        names = names or [f"args[{i}]" for i in range(len(self.jaxpr.invars))]
        return sizes.from_arguments(names, self.jaxpr.in_avals, list(arguments[self.tokens + len(self.hoisted):]))

    def emit(self, arguments: Sequence[ir.Value], variables) -> list[ir.Value]:
        """Emit the jaxpr at the insertion point and return the results of `main`."""
        jaxpr, module = self.jaxpr, self.module
        leading, main_arguments = self.tokens + len(self.hoisted), iter(arguments[self.tokens:])
        consts = [next(main_arguments) if value is None else constant(value) for value in self.const_values]
        # Token chains start fresh in each executable; `runtime.effects` orders the executables.
        tokens = dict(zip(self.effects, arguments)) if self.tokens else {effect: new_token() for effect in self.effects}
        if module.constrain is not None:
            consts = [module.sharding_context.constrain_to_type(value, v.aval) for v, value in zip(jaxpr.constvars, consts)]
        values = [new_token() if v.aval is abstract_token else value
                  for v, value in zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments[leading:]])]
        body = Body(module, tokens, self.scope)
        if variables is not None:
            body.sizes = sizes.Sizes(variables)
        results = lower_equations(body, jaxpr, values[:len(consts)], values[len(consts):])
        results = [constant(np.zeros(token_stand_in.shape, token_stand_in.dtype)) if v.aval is abstract_token else value
                   for v, value in zip(jaxpr.outvars, results)]
        return [*[body.tokens[effect] for effect in self.effects if self.tokens], *results]


def _check_order(jaxpr, effects: list[Effect], devices: int) -> None:
    """Raise if an effect cannot be ordered across devices."""
    for effect in effects:
        if not effect.ordered_over_devices:
            raise ValueError(f"{jaxpr.debug_info.label} has ordered effects ({effect}, of a callback with "
                             f"ordered=True) in a program for more than 1 device: the {devices} devices have no common order. "
                             "Leave ordered out, call io_callback, or run it on one device.")


def new_token() -> ir.Value:
    """Return a token that depends on nothing."""
    return create("stablehlo.after_all", results=[mlir.token_type()], loc=mlir.unknown_location).result


def _boundary_aval(aval):
    return token_stand_in if aval is abstract_token else aval


def module_name(name: str) -> str:
    """Return a name that is valid as a file name, since XLA names its dumps after the module."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name[:MAX_NAME_LENGTH]).rstrip("_") or "program"


def build_module(name: str, platform: str, arg_types, result_types, build: Callable[..., Sequence[ir.Value]],
                 arg_attributes=None, result_attributes=None, num_partitions: int = 1) -> ModuleContext:
    """Return a module of a few operations without a jaxpr: `build(ctx, *arguments)` emits them and returns the results."""
    with mlir.context, mlir.unknown_location:
        module = ModuleContext(name, Target((platform,)), num_partitions)
        _, _, block = module.add_function("main", arg_types, result_types, public=True, arg_attributes=arg_attributes,
                                          result_attributes=result_attributes)
        with ir.InsertionPoint(block):
            results = build(RuleContext(Body(module), (), (), mlir.unknown_location), *block.arguments)
            create("func.return", operands=list(results), loc=mlir.unknown_location)
    return module
