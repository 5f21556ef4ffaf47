"""Primitives defined by a Python function with one rule per transformation, and types of composite values.

A `HiPrim` is one equation until it is lowered (`hijax_primitives`), as is a `HiPrimitive` with a method `to_lojax`. A
`HiPrimitive` on mutable values runs its `impl`, also during tracing: the value then holds tracers or, if it was created outside
of the traced function, its components are transferred to references (`mutable_composites.Moved`). Values of a `HiType` are one
value in jaxprs until they are lowered (`core/composite_lowering.py`). Values of a `MutableHiType`, which Flax uses for its
variables if `flax_hijax_variable` is set, are split into their components by jitted functions
(`staging/mutable_composites.py`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from inspect import getattr_static
from types import MethodType
from typing import Any, NamedTuple

from xlafront.core import composite_lowering, tracing
from xlafront.core.avals import AbstractValue
from xlafront.core.primitive import Primitive, Traits
from xlafront.core.tracing import StagingTrace
from xlafront.core.zeros import Zero
from xlafront.interpreters.ad import instantiate_zeros, is_undefined_primal, primitive_jvps, primitive_transposes
from xlafront.interpreters.hijax_primitives import HiPrim, VJPHiPrimitive
from xlafront.interpreters.mlir import lowerable_effects as control_flow_allowed_effects
from xlafront.lax.elementwise import copy_p
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.refs import RefView as TransformedRef, new_ref
from xlafront.runtime.sharding import PartitionSpec
from xlafront.staging import mutable_composites

__all__ = ["AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrim", "HiPrimitive", "HiPspec", "HiType", "MutableHiType",
           "TransformedRef", "VJPHiPrimitive", "Zero", "aval_method", "aval_property",
           "control_flow_allowed_effects", "cur_qdd", "instantiate_zeros", "is_undefined_primal", "register_hitype"]


class _DirectAccess(threading.local):
    enabled = False


_direct_access = _DirectAccess()


class _DefinedByType:
    """An attribute of tracers that types of composite values define, such as `copy`. For other types it is that of arrays."""

    def __init__(self, name: str, of_arrays: Any):
        self.name, self.of_arrays = name, of_arrays

    def __get__(self, tracer: Any, owner: type) -> Any:
        found = getattr(tracer.aval, self.name, None) if tracer is not None and tracer.aval.is_high else None
        return self.of_arrays.__get__(tracer, owner) if found is None else found.of_tracer(tracer)


class HiPspec:
    """The partition spec of a composite value; types define subclasses."""

    def to_lo(self) -> tuple[PartitionSpec, ...]:
        """Return the partition specs of the component arrays."""
        raise _undefined(self, "to_lo")

    def to_tangent_spec(self) -> HiPspec:
        """Return the spec of the tangent."""
        raise _undefined(self, "to_tangent_spec")

    def to_ct_spec(self) -> HiPspec:
        """Return the spec of the cotangent."""
        raise _undefined(self, "to_ct_spec")


class HiType(AbstractValue):
    """The type of composite values, each of which is one value in jaxprs and transformations.

    A subclass is hashable and defines the component arrays, and how a value is built from them. `to_tangent_aval` may be any
    type, also one of arrays. In the body of a `shard_map`, an argument has the type `shard(mesh, manual_axes, check_vma,
    spec)`, where `spec` is its `HiPspec`; outside, a result has the type `unshard(mesh, check_vma, spec)`.
    """

    is_high = True
    has_qdd = False
    weak_type = False

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        composite_lowering.in_use.append(cls)
        for name, attribute in vars(cls).items():
            own = getattr_static(tracing.Tracer, name, None)
            if isinstance(attribute, (aval_method, aval_property)) and own is not None:
                setattr(tracing.Tracer, name, _DefinedByType(name, own))

    def update(self, **changes: Any) -> HiType:
        """Return the type itself, as the properties that transformations change are unknown."""
        return self

    def lo_ty(self) -> list[AbstractValue]:
        """Return the types of the component arrays."""
        raise _undefined(self, "lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """Return the component arrays of a value."""
        raise _undefined(self, "lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        """Return the value with these component arrays."""
        raise _undefined(self, "raise_val")

    def to_tangent_aval(self) -> AbstractValue:
        """Return the type of tangents."""
        raise _undefined(self, "to_tangent_aval")

    def to_ct_aval(self) -> AbstractValue:
        """Return the type of cotangents."""
        return self.to_tangent_aval()

    def vspace_zero(self) -> Any:
        """Return the zero tangent of this type."""
        raise _undefined(self, "vspace_zero")

    def vspace_add(self, x: Any, y: Any) -> Any:
        """Return the sum of two tangents of this type."""
        raise _undefined(self, "vspace_add")

    def shard(self, mesh: Any, manual_axes: frozenset, check_vma: bool, spec: HiPspec) -> AbstractValue:
        """Return the type of the shard on one device, in the body of a `shard_map`."""
        raise _undefined(self, "shard")

    def unshard(self, mesh: Any, check_vma: bool, spec: HiPspec) -> AbstractValue:
        """Return the type of a value whose shards have this type."""
        raise _undefined(self, "unshard")


class MutableHiType(AbstractValue):
    """The type of mutable composite values."""

    has_qdd = True


def _undefined(owner: Any, method: str) -> NotImplementedError:
    kind = type(owner).__name__
    return NotImplementedError(f"{kind} does not define `{method}`: add it to the class {kind}.")


class AvalQDD(NamedTuple):
    """A type, with the current quasi-dynamic data of a value."""

    aval: AbstractValue
    qdd: Any


class AvalMutableQDD(NamedTuple):
    """A type, with a mutable reference to the current quasi-dynamic data of a value."""

    aval: AbstractValue
    mutable_qdd: Any


class aval_method(NamedTuple):
    """A method of tracers, defined in the class of their type."""

    fun: Callable

    def of_tracer(self, tracer: tracing.Tracer) -> MethodType:
        return MethodType(self.fun, tracer)


class aval_property(NamedTuple):
    """A property of tracers, defined in the class of their type."""

    fget: Callable

    def of_tracer(self, tracer: tracing.Tracer) -> Any:
        return self.fget(tracer)


class HiPrimitive(Primitive):
    """A primitive on composite values, whose rules are methods. A subclass defines:

    - `abstract_eval(*types, **params)`: the type of the result, and a set of effects.
    - `to_lojax(*values, **params)`: the computation on the components of the values; on mutable values, `impl`.
    - `jvp(primals, tangents, **params)` and `transpose(cotangent, *operands, **params)`, for differentiation.

    With `multiple_results = True`, results are lists.

    Args:
        name: Name of the primitive in jaxprs.

    Example:
        >>> class Double(hijax.HiPrimitive):
        ...     def abstract_eval(self, x):
        ...         return x, set()
        ...     def to_lojax(self, x):
        ...         return 2 * x
        ...     def jvp(self, primals, tangents):
        ...         return self.bind(*primals), 2 * tangents[0]
        >>> double_p = Double("double")
        >>> xf.grad(xf.jit(lambda x: double_p.bind(x) ** 2))(3.0)
        Array(24., dtype=float32, weak_type=True)
    """

    def __init__(self, name: str):
        rules = type(self)
        high, multiple_results = hasattr(rules, "to_lojax"), rules.multiple_results is True
        super().__init__(
            name, multiple_results=multiple_results,
            abstract=(lambda *types, **params: self.abstract_eval(*types, **params)[0]) if high else None,
            impl=self.to_lojax if high else None, lower=lower_fun(self.to_lojax, multiple_results) if high else None,
            traits=Traits(memoise=False, accepts_composites=high))
        if not high:
            return
        for rule, registry in (("jvp", primitive_jvps), ("transpose", primitive_transposes)):
            if getattr(rules, rule) is not getattr(Primitive, rule):
                registry[self] = getattr(rules, rule).__get__(self)

    def bind(self, *args, **params):
        if self.traits.accepts_composites and not any([type(x) in tracing.composites for x in args]):
            return super().bind(*args, **params)
        inside = mutable_composites.staging_around(tracing.thread.trace)
        if _direct_access.enabled or inside is None and not mutable_composites.outside:
            return self.impl(*args, **params)
        base, transferred = tracing.eval_trace if inside is None else inside, []
        for x in args:
            if type(x) in tracing.composites:
                components = _components(x)
                entry = mutable_composites.moved(x, components) or _transfer(inside, x, components)
                if entry is not None:
                    with tracing.current_trace(base):
                        current = entry.read()
                    transferred.append((x, entry, x.cur_qdd(), _components(x), current))
                    _set_components(x, x.cur_qdd(), current)
        try:
            results = self.impl(*args, **params)
            updated = [_components(x) for x, *_ in transferred]
        finally:
            for x, _, state, components, _ in transferred:
                _set_components(x, state, components)
        for current, (_, entry, _, _, previous) in zip(updated, transferred):
            own = any([isinstance(leaf, tracing.Tracer) and leaf._trace is not base for leaf in current])  # such as vmap's
            with tracing.current_trace(tracing.thread.trace if own else base):
                entry.write(current, previous)
        if inside is not None:
            for x in results if isinstance(results, (list, tuple)) else (results,):
                if type(x) in tracing.composites:
                    mutable_composites.note_made(x)
        return results


def _transfer(inside: StagingTrace | None, x: Any, components: Sequence[Any]) -> mutable_composites.Moved | None:
    """Transfer the components of a value from outside of the traced function to references, which the jaxpr reads and writes.

    The references are created in the trace that owns the value. Return None for other values.
    """
    if inside is None or not components:
        return None
    owner = mutable_composites.owner_of(x, components)
    if owner is inside:
        return None
    with tracing.current_trace(tracing.eval_trace if owner is None else owner):
        references = [new_ref(leaf) for leaf in components]
        if owner is None:  # give the value arrays of its own, which are freed with it
            components = [copy_p.bind(leaf) for leaf in components]
            _set_components(x, x.cur_qdd(), components)
    return mutable_composites.note_transferred(x, owner, components, references)


@contextlib.contextmanager
def _access_directly() -> Iterator[None]:
    """Let operations run on the value itself: types may use operations to read and update components."""
    before, _direct_access.enabled = _direct_access.enabled, True
    try:
        yield
    finally:
        _direct_access.enabled = before


def _components(x: Any) -> list[Any]:
    """Return the component arrays of a value."""
    with _access_directly():
        return tracing.composites[type(x)](x).read_loval(x.cur_qdd(), x)


def _set_components(x: Any, state: Any, arrays: Sequence[Any]) -> None:
    with _access_directly():
        tracing.composites[type(x)](x).update_from_loval(state, x, *arrays)


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Register the type of the values of a class.

    Args:
        val_cls: Class. Its values are mutable if it has a method `cur_qdd`; their types must then be `MutableHiType`s.
        typeof_fn: Function from a value to its type.

    Example:
        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> class PairType(hijax.HiType):
        ...     def lo_ty(self):
        ...         return [hijax.ShapedArray((), np.dtype("float32"))] * 2
        ...     def lower_val(self, pair):
        ...         return [pair.a, pair.b]
        ...     def raise_val(self, a, b):
        ...         return Pair(a, b)
        >>> register_hitype(Pair, lambda pair: PairType())
        >>> class Product(hijax.HiPrim):
        ...     in_avals, out_aval, params = (PairType(),), hijax.ShapedArray((), np.dtype("float32")), {}
        ...     def expand(self, pair):
        ...         return pair.a * pair.b
        >>> xf.jit(lambda pair: Product()(pair) + 1)(Pair(xnp.float32(2), xnp.float32(3)))
        Array(7., dtype=float32)
    """
    if hasattr(val_cls, "cur_qdd"):
        tracing.composites[val_cls] = typeof_fn
        return

    tracing.aval_of_type[val_cls] = typeof_fn
    tracing.high_classes.add(val_cls)


def cur_qdd(x: Any) -> Any:
    """Return the current quasi-dynamic data of a value, the part of its type that changes with its content.

    Args:
        x: Value of a mutable composite type.

    Returns:
        The quasi-dynamic data.

    Example:
        >>> import types
        >>> cur_qdd(types.SimpleNamespace(cur_qdd=lambda: "empty"))
        'empty'
    """
    return x.cur_qdd()
