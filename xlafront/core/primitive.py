"""A primitive: one operation of the IR, described by one record.

`Primitive` holds what every operation needs: how its results are typed, lowered, differentiated, transposed and batched. Three
sections hold what few operations need:

- `Structured`, for operations whose parameters contain jaxprs (`scan`, `jit`) and for those that take references.
- `MeshRules`, for how results are sharded and how the operation depends on named axes.
- `Traits`, flags.

No field changes after construction. The registries of `xlafront.interpreters` and the `def_*` methods, by which programs define
primitives of their own, are the only exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xlafront.base import typed_scalars
from xlafront.core import errors, tracing
from xlafront.core.bounded_cache import BoundedCache, WeakRegistry
from xlafront.core.ir import subprograms
from xlafront.core.refs import AbstractRef
from xlafront.core.sharding_types import Sums, types_over_meshes
from xlafront.core.tracing import joint_vma
from xlafront.core.traits import Cost as Cost, KeyUse as KeyUse, Traits as Traits

if TYPE_CHECKING:
    from xlafront.core.typing import BatchRule, JvpRule, LoweringRule, Params, TransposeRule

# All primitives, for the registries of `xlafront.interpreters`, which are views over the records.
known_primitives: WeakRegistry[Primitive] = WeakRegistry()
_declared: dict[Primitive, str] = {}  # primitives without a record, and the modules that define them


class OwnRule:
    """A rule that needs the primitive of its record: `make(primitive)` returns the rule.

    `jvp`, `transpose`, `batch` and lowerings may be such.

    Example:
        >>> @OwnRule
        ... def linear_jvp(primitive):
        ...     return lambda primals, tangents: (primitive.bind(*primals), primitive.bind(*tangents))
        >>> negate_p = Primitive("negate", jvp=linear_jvp)
    """

    __slots__ = ("make",)

    def __init__(self, make: Callable[[Primitive], Callable]) -> None:
        self.make = make

    def __call__(self, primitive: Primitive) -> Callable:
        return self.make(primitive)


def _resolved(rule: Any, primitive: Primitive) -> Any:
    return rule(primitive) if type(rule) is OwnRule else rule


class Structured(NamedTuple):
    """Rules of operations that contain jaxprs or take references. All are optional.

    Operations that call one jaxpr and do nothing else are `ProgramCall`s, which have these rules already.

    Args:
        dce: `(used_outputs, eqn)` returns the equation that computes only the used results, or None if nothing is left.
        partial_eval: `(eqn, policy)` splits an equation for `checkpoint` into the part that is saved and the part that is
            recomputed.
        linearize: `(primals, tangents, **params)` returns results and tangents, where linearizing differs from `jvp`.
        depends: `(marks, **params)` marks the results that depend on the marked operands.
        active_outputs: `(marks, **params)` marks the results that have a tangent when the marked operands have one.
        discharge: `(primitive, refs, operands, params, keep_rules)` applies the operation to values in place of references; see
            `core.discharge`.
        debug_steps: `(run, operands, params)` runs the jaxprs one by one with `run(jaxpr, *operands)`, which returns their
            results or raises. `debug_nans` uses it to find the equation that produced a NaN.
        expand: `(operand_types, params)` returns a jaxpr that is equivalent to the operation, where the one it contains says
            less.
        scope: `(**params)` returns the context in which the jaxprs are traced again when composite types are lowered.
        only_calls_program: True if the operation does nothing but call the jaxpr in its parameter `jaxpr`.
    """

    dce: Callable | None = None
    partial_eval: Callable | None = None
    linearize: Callable | None = None
    depends: Callable | None = None
    active_outputs: Callable | None = None
    discharge: Callable | None = None
    debug_steps: Callable | None = None
    expand: Callable | None = None
    scope: Callable | None = None
    only_calls_program: bool = False


class MeshRules(NamedTuple):
    """Rules for meshes and named axes. All are optional; without them, results over an `Explicit` mesh are replicated.

    Args:
        sharding_rule: `(name, operands, result, params)` returns the mesh axes that shard each dimension of the result; see
            `core.sharding_types`.
        sums: The operands in which the operation is linear, so that it passes unreduced sums on.
        summed_axes: `(operand_types, params)` returns the mesh axes that shard the summed dimensions; `out_sharding` may leave
            the sum over them open.
        over_axis: `(trace, operands, dims, **params)` applies a collective over the axis that `vmap` names; returns results and
            dims.
        communicates: True if devices exchange data over the axes that the parameter `axes` or `axis_name` names.
        states_vma: True if `abstract` says over which axes of a `shard_map` the results vary. Otherwise over those of the
            operands.
        states_mesh_types: True if `abstract` gives complete types, with shardings and memories.
        binds_devices: `(**params)` is True if shardings among the parameters fix the devices of the program. Default: they do.
        changes_groups: `(**params)` is True if the operation converts between arrays of this process and of all processes.
    """

    sharding_rule: Callable | None = None
    sums: Sums | None = None
    summed_axes: Callable | None = None
    over_axis: Callable | None = None
    communicates: bool = False
    states_vma: bool = False
    states_mesh_types: bool = False
    binds_devices: Callable[..., bool] | None = None
    changes_groups: Callable[..., bool] | None = None


_UNSTRUCTURED, _NO_MESH_RULES, _NO_TRAITS = Structured(), MeshRules(), Traits()


class _Undefined:
    """Base of the class of a declared primitive until it has its record: reading a field imports the module that defines it.

    `Primitive` itself has no `__getattr__`, with which CPython reads every field four times slower.
    """

    __slots__ = ()

    def __getattr__(self, field: str) -> Any:  # called for missing attributes only
        primitive: Any = self
        module = _declared.get(primitive)
        if module is not None:
            import_module(module)
            if primitive in _declared:
                raise AttributeError(f"{module} has not defined the primitive {primitive.name} yet")
        return getattr(primitive, field)


class Primitive:
    """One operation of the IR. `bind` applies it under the current trace.

    Args:
        name: Name in jaxprs.
        abstract: `(*avals, **params)` returns the type of the result, or a list of types if `multiple_results`.
        lower: `(ctx, *operands, **params)` writes StableHLO; or a mapping from platforms to such rules, None for any platform.
        jvp: `(primals, tangents, **params)` returns results and their tangents.
        transpose: `(cotangents, *operands, **params)` returns cotangents of the operands in which the operation is linear.
        batch: `(axis_size, operands, dims, **params)` applies the operation to batches; returns results and their batch
            dimensions.
        impl: `(*args, **params)` runs it eagerly. Default: compile it.
        effects: `(*avals, **params)` returns its side effects.
        multiple_results: True if it returns a list.
        shown_as: Name in error messages. Default: `name`.
        defaults: Values of parameters that calls leave out and equations show.
        stage: `(trace, args, params)` replaces appending an equation, or returns None to append it. For operations whose
            parameters are Python functions.
        fold_literal: `(literal, params)` returns the literal that the operation makes of a literal operand, or None.
        batch_with_axis: Batch rule `(trace, operands, dims, **params)` that needs the trace: the axis' name and size.
        decompose: `(*operands, **params)` computes the operation by others, for traces of extensions that have no rule for it.
        printed_as: `(results, is_unused, operands, eqn)` returns the text of an equation.
        structured: Rules of operations that contain jaxprs or take references.
        mesh: Rules for meshes and named axes.
        traits: Flags.

    Example:
        >>> double_p = Primitive("double", abstract=lambda x: x, lower=lambda ctx, x: ctx.op("stablehlo.add", [x, x]))
        >>> double_p.bind(3.0)
        Array(6., dtype=float32, weak_type=True)
    """

    __slots__ = ("name", "shown_as", "multiple_results", "abstract", "lowerings", "jvp", "transpose", "batch", "own_impl",
                 "effects", "defaults", "stage", "fold_literal", "batch_with_axis", "decompose", "printed_as", "structured",
                 "mesh", "traits", "types", "eager", "__weakref__")

    # Flags that extensions read on any primitive; `CallPrimitive` overrides the first.
    call_primitive = False
    map_primitive = False
    is_high = staticmethod(lambda *avals, **params: False)

    def __init__(self, name: str, *, abstract: Callable | None = None,
                 lower: LoweringRule | OwnRule | Mapping[str | None, Any] | None = None,
                 jvp: JvpRule | OwnRule | None = None, transpose: TransposeRule | OwnRule | None = None,
                 batch: BatchRule | OwnRule | None = None,
                 impl: Callable | None = None, effects: Callable | None = None, multiple_results: bool = False,
                 shown_as: str | None = None, defaults: Mapping[str, Any] | None = None, stage: Callable | None = None,
                 fold_literal: Callable | None = None, batch_with_axis: Callable | None = None,
                 decompose: Callable | None = None, printed_as: Callable | None = None,
                 structured: Structured = _UNSTRUCTURED, mesh: MeshRules = _NO_MESH_RULES, traits: Traits = _NO_TRAITS) -> None:
        self.name = name
        self.shown_as = shown_as or name
        self.multiple_results = multiple_results
        self.abstract, self.effects = abstract, effects
        rules = {} if lower is None else lower if isinstance(lower, Mapping) else {None: lower}
        self.lowerings: dict[str | None, LoweringRule] = {platform: _resolved(rule, self) for platform, rule in rules.items()}
        self.jvp, self.transpose, self.batch = _resolved(jvp, self), _resolved(transpose, self), _resolved(batch, self)
        self.own_impl = impl
        self.defaults = defaults
        self.stage, self.fold_literal = stage, fold_literal
        self.batch_with_axis, self.decompose, self.printed_as = batch_with_axis, decompose, printed_as
        self.structured, self.mesh, self.traits = structured, mesh, traits
        self.types = BoundedCache(4096)  # results of `abstract`
        self.eager = BoundedCache(1024)  # compiled kernels by parameters
        known_primitives.add(self)

    @classmethod
    def declare(cls, name: str, module: str) -> Any:
        """Return a primitive without a record, which `module` defines. It is imported when a field is first read."""
        primitive: Any = cls.__new__(type(cls.__name__, (_Undefined, cls), {"__slots__": ()}))
        primitive.name = name
        _declared[primitive] = module
        return primitive

    def define(self, **fields: Any) -> Primitive:
        """Construct the record of a declared primitive, with the arguments of `Primitive`, and return the primitive."""
        if self not in _declared:
            raise KeyError(f"the primitive {self.name} is defined already")
        self.__init__(self.name, **fields)  # type: ignore[misc]
        self.__class__ = type(self).__mro__[2]
        del _declared[self]  # last: other threads that read a field meanwhile wait for the import
        return self

    def bind(self, *args: Any, **params: Any) -> Any:
        return tracing.thread.trace.process(self, args, params)

    @property
    def impl(self) -> Callable:
        """The function that runs it eagerly, whatever is being traced: `impl(*args, **params)`."""
        return self.own_impl or self.evaluate

    @impl.setter
    def impl(self, impl: Callable) -> None:
        self.own_impl = impl

    def evaluate(self, *args: Any, **params: Any) -> Any:
        """Run the primitive eagerly as a compiled kernel, whatever is being traced."""
        with tracing.current_trace(tracing.eval_trace):
            return tracing.EvalTrace.apply(self, args, params)

    def result_types(self, avals: tuple, params: Params) -> Any:
        """Return the types of the results, memoised. Hot: once a traced equation."""
        if self.abstract is None:
            raise NotImplementedError(f"the primitive {self.shown_as} cannot be traced: it has no rule for the types of its "
                                      f"results. Give it one with {self.name}.def_abstract_eval(rule), where rule(*avals, "
                                      f"**params) returns the type of the result.")
        if not self.traits.memoise:
            return self.checked_types(self.types_of(avals, params))
        key = (avals, *params.items()) if params else avals
        try:
            found = self.types.get(key)
        except TypeError:  # a parameter that cannot be hashed
            return self.checked_types(self.types_of(avals, params))
        return self.types.put(key, self.checked_types(self.types_of(avals, params))) if found is None else found

    def checked_types(self, types: Any) -> Any:
        """Return the types that `abstract` gave; raise if they are a list for one result or the other way round."""
        if isinstance(types, (list, tuple)) is self.multiple_results:
            return types
        expected, given = ("a sequence of types", "one type") if self.multiple_results else ("one type", "a sequence of types")
        raise ValueError(f"the rule for the types of the results of the primitive {self.shown_as} returned {given}, "
                         f"{errors.short(types)}, where {expected} is needed: its multiple_results is {self.multiple_results}.")

    def types_of(self, avals: tuple, params: Params) -> Any:
        """Return the types of the results, with their shardings, memories and varying axes."""
        for aval in avals:
            if not aval.plain:
                break
        else:
            if not params or params.get("sharding") is None and params.get("out_sharding") is None:
                return self.abstract(*avals, **params)
        mesh = self.mesh
        if mesh.states_mesh_types or mesh.sharding_rule is None and next(subprograms(params), None) is not None:
            return self.abstract(*avals, **params)
        if not self.traits.takes_refs:
            for aval in avals:
                if type(aval) is AbstractRef:
                    raise errors.reference_as_array(self.shown_as, aval)
        return self.types_over_meshes(avals, params)

    def types_over_meshes(self, avals: tuple, params: Params) -> Any:
        """Return the types of the results for operands that are sharded, in other memories, or vary over mesh axes."""
        return types_over_meshes(self, avals, params)

    def varying_types(self, avals: tuple, params: Params) -> Any:
        """Return the types of the results; inside of `shard_map` they vary over the axes over which the operands do."""
        types = self.abstract(*avals, **params)
        if self.mesh.states_vma or not any([aval.vma for aval in avals]):
            return types
        joint = joint_vma(avals)
        if self.multiple_results:
            return [t.update(vma=joint) for t in types]
        return types.update(vma=joint)

    def lowering_for(self, platform: str) -> LoweringRule:
        rule = self.lowerings.get(platform) or self.lowerings.get(None)
        if rule is None:
            known = ", ".join(sorted(p for p in self.lowerings if p)) or "no platform"
            raise NotImplementedError(
                f"{self.shown_as} cannot run on {platform}: it has a lowering for {known}. Register one with "
                f"xlafront.interpreters.mlir.register_lowering, or say how it runs outside of jit with its def_impl.")
        return rule

    # Methods by which programs define primitives of their own.

    def def_impl(self, impl: Any) -> Any:
        """Define how the primitive runs outside of compiled code. Usable as a decorator."""
        def run(*args: Any, **params: Any) -> Any:
            return impl(*[_as_in_compiled_code(x, self) for x in args], **params)

        self.own_impl = None if impl == self.evaluate else run
        self.eager.clear()
        return impl

    def def_abstract_eval(self, abstract: Any) -> Any:
        """Define the type of the result. Usable as a decorator."""
        # Such rules may depend on more than their arguments (1 and True are equal as parameters).
        self.traits = self.traits._replace(memoise=False)
        self.types.clear()
        self.abstract = abstract
        return abstract

    def def_effectful_abstract_eval(self, abstract: Any) -> Any:
        """Define the types of the results by a rule that returns `(types, effects)`. Usable as a decorator."""
        self.def_abstract_eval(lambda *avals, **params: abstract(*avals, **params)[0])
        self.effects = lambda *avals, **params: frozenset(abstract(*avals, **params)[1])
        return abstract

    def_effectful_abstract_eval2 = def_effectful_abstract_eval

    def bind_with_trace(self, trace: tracing.Trace, args: Any, *avals_and_params: Any) -> Any:
        """Apply the primitive in a given trace: `(trace, args, params)`, or with the types of `args` before `params`."""
        with tracing.current_trace(trace):
            return trace.process(self, tuple(args), avals_and_params[-1])

    def get_bind_params(self, params: Params) -> dict[str, Any]:
        """Return the parameters for `bind(*args, **parameters)`, from those of an equation."""
        return dict(params)

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        """Return the types of the results, and the effects."""
        effects = frozenset() if self.effects is None else self.effects(*avals, **params)
        return self.result_types(avals, params), effects

    def is_effectful(self, params: Params) -> bool:
        return self.effects is not None

    def __repr__(self) -> str:
        return self.name

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"the primitive {self.name} cannot be pickled: pickle the function that uses it, or its export")


def _as_in_compiled_code(x: Any, primitive: Primitive) -> Any:
    """Return an operand with the dtype that it has in compiled code, for the `impl` of a user's primitive."""
    aval = tracing.aval_of(x, primitive.shown_as)
    if type(x) in (int, float, complex):
        return typed_scalars.typed(x, aval.dtype)
    return x.astype(aval.dtype) if isinstance(x, (np.ndarray, np.generic)) and x.dtype != aval.dtype else x
