"""StableHLO modules under construction: functions, names, locations, and the options that lowering rules consult.

Equations are lowered by `lowering/equations.py`; `lowering/builder.py` emits operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import errors, source
from xlafront.core.ir import Effect
from xlafront.core.refs import AbstractRef
from xlafront.lowering import mlir
from xlafront.lowering.mlir import create, ir, tensor_type, type_of

GLOBAL_CONSTANT = "jax.global_constant"  # marks arguments of `main` that are equal in all calls of an executable
MAX_NAME_LENGTH = 128  # characters


class Target(NamedTuple):
    """The target of a module."""

    platforms: tuple[str, ...]  # that it is to run on
    for_export: bool = False  # it must hold all that it needs, for processes that may lack kernels of ours


class ModuleContext:
    """A StableHLO module under construction, with the options that lowering rules consult."""

    def __init__(self, name: str, target: Target, num_partitions: int = 1, sharding_context=None):
        self.target = target
        self._platform = target.platforms[0]
        self.depends_on_platform = False  # True once emitted operations depend on the platform
        self.num_partitions = num_partitions
        self.num_devices = num_partitions
        self.sharding_context = sharding_context
        self.module = ir.Module.create(loc=mlir.unknown_location)
        operation = self.module.operation
        operation.attributes["sym_name"] = mlir.string(name)
        operation.attributes["mhlo.num_partitions"] = mlir.i32(num_partitions)
        operation.attributes["mhlo.num_replicas"] = mlir.i32(1)
        self.names: set[str] = set()
        self.functions: dict[tuple, tuple[str, int]] = {}  # symbol and depth of nested calls
        self.calls = 0  # depth of nested calls in the current function
        self.locations: dict[tuple, ir.Location] = {}
        self.last_site: source.Site | None = None
        self.host_callbacks: list[Any] = []
        self.callback_failures: list[Exception] | None = None  # set if callbacks store their exceptions until the run ends
        self.keepalives: list[Any] = []
        self.partitioners: list[Any] = []  # called by the compiler (`parallel/custom_partitioning.py`)
        self.tuning: set[str] = set()  # properties by which `tuning.tuned_options` chooses XLA options
        self.capability: tuple[tuple[int, int], str] = ((0, 0), "")  # that a GPU needs to compile the module, and for what
        self.cacheable = True  # other processes can use the executable
        self.rules: dict[Any, Callable] = {}
        self.rule_overrides: dict[Any, Callable] = {}  # in place of the rules of primitives
        partitioned = sharding_context is not None and sharding_context.partitioned
        self.constrain: Callable | None = sharding_context.constrain_to_types if partitioned else None
        self.manual_mesh: Any = None  # the mesh of the enclosing `shard_map`
        self.dimension_variables: tuple[str, ...] = ()  # each function takes their values as arguments
        self.sharding_groups = 0  # number of groups of values with equal shardings
        self.pair_channels: dict[tuple, ir.Attribute] = {}  # channels of sends and receives, by their device pairs
        self.sent: dict[ir.Value, tuple] = {}  # by token: values to send when the matching receive is lowered
        # Insert each new function before the end of the module.
        self.insertion_point = ir.InsertionPoint(self.module.body)

    @property
    def platform(self) -> str:
        """The platform that rules lower for. Reading it marks the module as platform-dependent."""
        self.depends_on_platform = True
        return self._platform

    # Aliases under which rules of extensions reach the same objects.
    context = property(lambda self: mlir.context)
    ip = property(lambda self: self.insertion_point)
    platforms = property(lambda self: (self.platform,))
    symbol_table = property(lambda self: ir.SymbolTable(self.module.operation))

    def add_keepalive(self, item: Any) -> None:
        """Keep an object alive as long as the executable."""
        self.keepalives.append(item)

    def add_host_callback(self, callback: Any) -> None:
        self.host_callbacks.append(callback)

    def unique_name(self, name: str) -> str:
        """Return a symbol that no function of the module has, made from a name."""
        name = "".join(c if c.isalnum() or c in "_.$-" else "_" for c in name[:MAX_NAME_LENGTH]) or "function"
        unique, n = name, 0
        while unique in self.names:
            n += 1
            unique = f"{name}_{n}"
        self.names.add(unique)
        return unique

    def lower_for(self, platform: str) -> None:
        """Lower for `platform` from here on."""
        self._platform = platform
        self.rules, self.functions = {}, {}

    def rule_of(self, primitive) -> Callable:
        """Return the lowering rule of a primitive; note it in `rules`."""
        rule = self.rule_overrides.get(primitive)
        if rule is None:
            rule, lowerings = primitive.lowering_for(self._platform), primitive.lowerings
            if any([(lowerings.get(p) or lowerings.get(None)) is not rule for p in self.target.platforms]):
                self.depends_on_platform = True
        self.rules[primitive] = rule
        return rule

    def location(self, name: str, site, prefix: str) -> ir.Location:
        """Return the location `jit(f)/scope/primitive` at the user's line. Cached: a loop in user code is one call site."""
        if site is None or site[0] is None:
            return ir.Location.name(f"{scoped(prefix, site[2] if site else '')}{name}", mlir.unknown_location)
        code, lasti, scope = site
        key = (name, id(code), lasti, scope, prefix)
        location = self.locations.get(key)
        if location is None:
            source_location = self.locations.get(key[1:3])
            if source_location is None:
                source_location = ir.Location.file(source.canonical_file(code.co_filename), mlir.line_of(code, lasti), 0)
                source_location = self.locations[key[1:3]] = ir.Location.name(code.co_name, source_location)
            location = self.locations[key] = ir.Location.name(f"{scoped(prefix, scope)}{name}", source_location)
        return location

    def add_function(self, name: str, arg_types, result_types, *, public=False, arg_attributes=None,
                     result_attributes=None) -> tuple[str, ir.Operation, ir.Block]:
        """Add a function without operations; return its symbol, its operation and its block."""
        name = self.unique_name(name)
        attributes = {
            "sym_name": mlir.string(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(arg_types, result_types)),
            "sym_visibility": mlir.string("public" if public else "private"),
        }
        if arg_attributes:
            attributes["arg_attrs"] = mlir.array(ir.DictAttr.get(a) for a in arg_attributes)
        if result_attributes:
            attributes["res_attrs"] = mlir.array(ir.DictAttr.get(a) for a in result_attributes)
        operation = create("func.func", attributes=attributes, regions=1, loc=mlir.unknown_location,
                           ip=self.insertion_point)
        block = operation.regions[0].blocks.append(*arg_types, arg_locs=[mlir.unknown_location] * len(arg_types))
        return name, operation, block


def scoped(prefix: str, scope: str) -> str:
    """Return the prefix of names in a name scope."""
    return f"{prefix}{source.scope_texts[scope]}/" if scope else prefix


def flat_types(avals) -> list[ir.Type]:
    return [type_of(aval) for aval in avals]


def ordered_effects(*jaxprs) -> list[Effect]:
    """Return the ordered effects of the jaxprs, in the order in which their tokens are passed."""
    effects = {effect for jaxpr in jaxprs for effect in jaxpr.effects if effect.ordered}
    return sorted(effects, key=str) if len(effects) > 1 else list(effects)


def constant(value, shape=None, dtype=None) -> ir.Value:
    """Return a `stablehlo.constant`; with `shape`, a splat of a scalar."""
    if type(getattr(value, "aval", None)) is AbstractRef:
        raise errors.reference_of_rule(value.aval)
    value = np.asarray(value, dtype)
    attribute = mlir.dense(value, shape)
    return create("stablehlo.constant", results=[attribute.type], attributes={"value": attribute},
                  loc=mlir.unknown_location).result


def as_type(t) -> ir.Type:
    if isinstance(t, ir.Type):
        return t
    if isinstance(t, tuple):
        return tensor_type(tuple(t[0]), np.dtype(t[1]))
    return type_of(t)
