"""Whole programs as modules: `main`, its arguments and results, and the choice between platforms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core.avals import abstract_token, token_stand_in
from xlafront.core.ir import Effect
from xlafront.lowering import mlir, sizes
from xlafront.lowering.mlir import create, ir, tensor_type
from xlafront.lowering.module import (
    GLOBAL_CONSTANT,
    MOST_OF_A_NAME,
    Body,
    ModuleContext,
    RuleContext,
    constant,
    flat_types,
    ordered_effects,
)


def lower_program(jaxpr, name: str, platforms: Sequence[str], **options) -> ModuleContext:
    """A module whose `main` computes `jaxpr`; `scope` is in front of the names of its operations.

    Of several platforms the first argument is the index of the one that it runs on, and `main` chooses between their programs,
    where these are not the same.
    One that `takes_tokens` gets those of its ordered effects next, and returns them first: it is to be a part of another.
    `own_rules` are lowering rules by primitives, in place of theirs.

    `const_values` has a NumPy value for each constant variable that is written into the module, and None for
    each that becomes a leading argument of `main`. `manual_mesh` is the mesh that collectives work over, where the program is
    that of one device. `argument_names` are how messages about sizes call the arguments of the program.
    """
    module = _lower_program(jaxpr, name, platforms, False, **options)
    if len(platforms) > 1 and module.asked_platform:
        return _lower_program(jaxpr, name, platforms, True, **options)
    return module


def _lower_program(jaxpr, name: str, platforms: Sequence[str], by_case: bool, *, const_values: Sequence[Any],
                   arg_attributes=None, result_attributes=None, num_partitions: int = 1, num_replicas: int = 1,
                   sharding_context=None, manual_mesh=None, scope: str = "", takes_tokens: bool = False,
                   own_rules: dict[Any, Callable] | None = None, argument_names: Sequence[str] = ()) -> ModuleContext:
    """As `lower_program`; `by_case`: with a choice between programs for the platforms, where they are several."""
    effects = ordered_effects(jaxpr)
    if num_partitions > 1:
        _check_order(jaxpr, effects, num_partitions)
    with mlir.context, mlir.unknown_location:
        module = ModuleContext(module_name(name), platforms[0], num_partitions, num_replicas, sharding_context)
        module.manual_mesh = manual_mesh
        module.own_rules, module.targets, module.leaves = own_rules or {}, tuple(platforms), takes_tokens
        module.dimension_variables = sizes.variables_of(jaxpr.in_avals)
        if module.dimension_variables:
            module.module.operation.attributes["jax.uses_shape_polymorphism"] = mlir.boolean(True)
        main = _Main(module, jaxpr, const_values, effects, takes_tokens, scope)
        arg_types, result_types = main.types()
        _, _, block = module.add_function("main", arg_types, result_types, public=True,
                                          arg_attributes=main.argument_attributes(arg_attributes, len(arg_types)),
                                          result_attributes=main.result_attributes(result_attributes))
        with ir.InsertionPoint(block):
            index, arguments = main.split(list(block.arguments))
            variables = main.variables(arguments, argument_names) if module.dimension_variables else None
            if by_case:
                case = create("stablehlo.case", operands=index, results=result_types, regions=len(platforms),
                              loc=mlir.unknown_location)
                for platform, region in zip(platforms, case.regions):
                    module.turn_to(platform)
                    with ir.InsertionPoint(region.blocks.append()):
                        create("stablehlo.return", operands=main.write(arguments, variables), loc=mlir.unknown_location)
                results = list(case.results)
            else:
                results = main.write(arguments, variables)
            if module.constrain is not None:
                results = sharding_context.constrain_results(results)
            create("func.return", operands=results, loc=mlir.unknown_location)
    return module


class _Main:
    """The function `main` of a program. Its arguments: the index of the platform, where there are several; a token for each
    ordered effect, if it takes them; the constants that are not written into it; the arguments of the program."""

    def __init__(self, module: ModuleContext, jaxpr, const_values: Sequence[Any], effects: list[Effect], takes_tokens: bool,
                 scope: str):
        self.module, self.jaxpr, self.const_values, self.effects = module, jaxpr, const_values, effects
        self.scope = f"{scope}/" if scope else ""
        self.tokens = len(effects) if takes_tokens else 0
        self.hoisted = [v for v, value in zip(jaxpr.constvars, const_values) if value is None]
        self.chooses = len(module.targets) > 1

    def types(self) -> tuple[list[ir.Type], list[ir.Type]]:
        tokens = [mlir.token_type()] * self.tokens
        arguments = [*tokens, *flat_types(map(_at_boundary, [*[v.aval for v in self.hoisted], *self.jaxpr.in_avals]))]
        if self.chooses:
            arguments.insert(0, tensor_type((), np.dtype(np.int32)))
        return arguments, [*tokens, *flat_types(map(_at_boundary, self.jaxpr.out_avals))]

    def argument_attributes(self, given: Sequence[Any] | None, count: int) -> list[Any] | None:
        """Those of all `count` arguments, from those of the constants and of the program's arguments."""
        if not given and not self.chooses:
            return None
        own: list[dict] = [{}] * self.tokens
        if self.chooses:
            own.insert(0, {GLOBAL_CONSTANT: mlir.string("_platform_index")})
        return [*own, *(given or [{}] * (count - len(own)))]

    def result_attributes(self, given: Sequence[Any] | None) -> list[Any] | None:
        return [*[{}] * self.tokens, *given] if given else None

    def split(self, arguments: list[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
        """The index of the platform, if there is one, and the other arguments."""
        return arguments[:self.chooses], arguments[self.chooses:]

    def variables(self, arguments: Sequence[ir.Value], names: Sequence[str]):
        """The values of symbolic sizes, computed from the arguments and checked."""
        names = names or [f"args[{i}]" for i in range(len(self.jaxpr.invars))]
        return sizes.from_arguments(names, self.jaxpr.in_avals, list(arguments[self.tokens + len(self.hoisted):]))

    def write(self, arguments: Sequence[ir.Value], variables) -> list[ir.Value]:
        """Write the program where operations are being written; the results of `main`."""
        jaxpr, module = self.jaxpr, self.module
        leading, own = self.tokens + len(self.hoisted), iter(arguments[self.tokens:])
        consts = [next(own) if value is None else constant(value) for value in self.const_values]
        # What orders programs among each other is `runtime.effects`; in each the chains start anew.
        tokens = dict(zip(self.effects, arguments)) if self.tokens else {effect: new_token() for effect in self.effects}
        if module.constrain is not None:
            consts = [module.sharding_context.constrain_constant(value, v.aval) for v, value in zip(jaxpr.constvars, consts)]
        values = [new_token() if v.aval is abstract_token else value
                  for v, value in zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments[leading:]])]
        body = Body(module, tokens, self.scope)
        if variables is not None:
            body.sizes = sizes.Sizes(variables)
        results = body.run(jaxpr, values[:len(consts)], values[len(consts):])
        results = [constant(np.zeros(token_stand_in.shape, token_stand_in.dtype)) if v.aval is abstract_token else value
                   for v, value in zip(jaxpr.outvars, results)]
        return [*[body.tokens[effect] for effect in self.effects if self.tokens], *results]


def _check_order(jaxpr, effects: list[Effect], devices: int) -> None:
    """Raise for effects that have no order over several devices."""
    for effect in effects:
        if not effect.ordered_over_devices:
            raise ValueError(f"{jaxpr.debug_info.func_src_info} has ordered effects ({effect}, of a callback with "
                             f"ordered=True) in a program for more than 1 device: the {devices} devices have no common order. "
                             "Leave ordered out, call io_callback, or run it on one device.")


def new_token() -> ir.Value:
    """A token that comes after nothing."""
    return create("stablehlo.after_all", results=[mlir.token_type()], loc=mlir.unknown_location).result


def _at_boundary(aval):
    return token_stand_in if aval is abstract_token else aval


def module_name(name: str) -> str:
    """The name of a program as one of a file: XLA's dumps are called by it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name[:MOST_OF_A_NAME]).rstrip("_") or "program"


def build_module(name: str, platform: str, arg_types, result_types, build: Callable[..., Sequence[ir.Value]],
                 arg_attributes=None, result_attributes=None, num_partitions: int = 1) -> ModuleContext:
    """A module of a few operations, of no program: `build(ctx, *arguments)` writes them and returns the results."""
    with mlir.context, mlir.unknown_location:
        module = ModuleContext(name, platform, num_partitions)
        _, _, block = module.add_function("main", arg_types, result_types, public=True, arg_attributes=arg_attributes,
                                          result_attributes=result_attributes)
        with ir.InsertionPoint(block):
            results = build(RuleContext(Body(module), (), (), mlir.unknown_location), *block.arguments)
            create("func.return", operands=list(results), loc=mlir.unknown_location)
    return module
