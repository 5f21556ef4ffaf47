"""Operations with a Python function as their meaning and a rule for each transformation, and types of values that consist of
other values.

A `VJPHiPrimitive` is one operation of a program until it is lowered (`hijax_primitives`), as is a `HiPrimitive` that says
what it computes by `to_lojax`. One on values that may change runs its `impl`, also while something is traced: such a value
then holds traced arrays, or, when it belongs to what is outside of the function, references hold them for it from then on
(`composites.Moved`). Values of a `HiType` are one value in programs until they are lowered (`core/parts.py`); those of a
`MutableHiType`, as Flax declares its variables to be where `flax_hijax_variable` is set, are taken apart by compiled
functions (`staging/composites.py`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from xlafront.core import parts, tracing
from xlafront.core.avals import AbstractValue
from xlafront.core.primitive import Primitive
from xlafront.core.tracing import StagingTrace
from xlafront.core.zeros import Zero
from xlafront.interpreters.ad import instantiate_zeros, is_undefined_primal, primitive_jvps, primitive_transposes
from xlafront.interpreters.hijax_primitives import VJPHiPrimitive
from xlafront.interpreters.mlir import lowerable_effects as control_flow_allowed_effects
from xlafront.lax.elementwise import copy_p
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.refs import RefView as TransformedRef, new_ref
from xlafront.runtime.sharding import PartitionSpec
from xlafront.staging import composites

__all__ = ["AbstractValue", "AvalMutableQDD", "AvalQDD", "HiPrimitive", "HiPspec", "HiType", "MutableHiType", "TransformedRef",
           "VJPHiPrimitive", "Zero", "aval_method", "aval_property", "control_flow_allowed_effects", "cur_qdd",
           "instantiate_zeros", "is_undefined_primal", "register_hitype"]


class _Asking(threading.local):
    now = False


_asking = _Asking()


class HiPspec:
    """How a value that consists of others is split over the devices of a mesh; types define subclasses."""

    def to_lo(self) -> tuple[PartitionSpec, ...]:
        """How each of the arrays that it consists of is split."""
        raise _undefined(self, "to_lo")

    def to_tangent_spec(self) -> HiPspec:
        """How its tangent is split."""
        raise _undefined(self, "to_tangent_spec")

    def to_ct_spec(self) -> HiPspec:
        """How its cotangent is split."""
        raise _undefined(self, "to_ct_spec")


class HiType(AbstractValue):
    """The type of values that consist of others, which are one value to programs and transformations. A subclass is hashable
    and says of which arrays, and how they are put together. `to_tangent_aval` may be any type, also one of arrays. In the body
    of a `shard_map`, values of a type `shard(mesh, manual_axes, check_vma, spec)` are given, where `spec` is the `HiPspec` of
    the argument, and those that it returns are `unshard(mesh, check_vma, spec)` outside."""

    is_high = True
    has_qdd = False
    weak_type = False

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        parts.in_use.append(cls)

    def update(self, **changes: Any) -> HiType:
        """The type itself, of which nothing that transformations change of types is known."""
        return self

    def lo_ty(self) -> list[AbstractValue]:
        """The types of the arrays that a value consists of."""
        raise _undefined(self, "lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The arrays that a value consists of."""
        raise _undefined(self, "lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value that consists of these arrays."""
        raise _undefined(self, "raise_val")

    def to_tangent_aval(self) -> AbstractValue:
        """The type of the derivative of a value in a direction."""
        raise _undefined(self, "to_tangent_aval")

    def to_ct_aval(self) -> AbstractValue:
        """The type of the derivative in a value."""
        return self.to_tangent_aval()

    def vspace_zero(self) -> Any:
        """The zero among tangents of this type."""
        raise _undefined(self, "vspace_zero")

    def vspace_add(self, x: Any, y: Any) -> Any:
        """The sum of two tangents of this type."""
        raise _undefined(self, "vspace_add")

    def shard(self, mesh: Any, manual_axes: frozenset, check_vma: bool, spec: HiPspec) -> AbstractValue:
        """The type of the part of a value that a device has, in the body of a `shard_map`."""
        raise _undefined(self, "shard")

    def unshard(self, mesh: Any, check_vma: bool, spec: HiPspec) -> AbstractValue:
        """The type of a value of which devices have parts of this type."""
        raise _undefined(self, "unshard")


class MutableHiType(AbstractValue):
    """The type of values that consist of others, which may change."""

    has_qdd = True


def _undefined(owner: Any, method: str) -> NotImplementedError:
    kind = type(owner).__name__
    return NotImplementedError(f"{kind} does not say `{method}`: define it in the class {kind}.")


class AvalQDD(NamedTuple):
    """A type, and what else is known of a value of it at the moment."""

    aval: AbstractValue
    qdd: Any


class AvalMutableQDD(NamedTuple):
    """A type, and the place of what else is known of a value of it at the moment."""

    aval: AbstractValue
    mutable_qdd: Any


class aval_method(NamedTuple):
    """A method of traced values, written down with their type."""

    fun: Callable


class aval_property(NamedTuple):
    """A property of traced values, written down with their type."""

    fget: Callable


class HiPrimitive(Primitive):
    """An operation on such values, whose rules are methods. A subclass defines

    - `abstract_eval(*types, **params)`: the type of the result, and a set of effects.
    - `to_lojax(*values, **params)`: what it computes of what the values consist of; for values that may change, `impl`.
    - `jvp(primals, tangents, **params)` and `transpose(cotangent, *operands, **params)`, where it is differentiated.

    With `multiple_results = True` there are lists of results.

    - `name`: what programs show.

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
        super().__init__(name, multiple_results=rules.multiple_results is True, memoise=False)
        if not hasattr(rules, "to_lojax"):
            return
        self.of_high_types = True
        self.own_impl = self.to_lojax
        self.lowerings[None] = lower_fun(self.to_lojax, self.multiple_results)
        if hasattr(rules, "abstract_eval"):
            self.abstract = lambda *types, **params: self.abstract_eval(*types, **params)[0]
        for rule, registry in (("jvp", primitive_jvps), ("transpose", primitive_transposes)):
            if getattr(rules, rule) is not getattr(Primitive, rule):
                registry[self] = getattr(rules, rule).__get__(self)

    def bind(self, *args, **params):
        if self.of_high_types and not any([type(x) in tracing.composites for x in args]):
            return super().bind(*args, **params)
        inside = composites.staging_around(tracing.thread.trace)
        if _asking.now or inside is None and not composites.outside:
            return self.impl(*args, **params)
        base, elsewhere = tracing.eval_trace if inside is None else inside, []
        for x in args:
            if type(x) in tracing.composites:
                contents = _contents(x)
                entry = composites.moved(x, contents) or _move(inside, x, contents)
                if entry is not None:
                    with tracing.current_trace(base):
                        now = entry.read()
                    elsewhere.append((x, entry, x.cur_qdd(), _contents(x), now))
                    _keep(x, x.cur_qdd(), now)
        try:
            results = self.impl(*args, **params)
            found = [_contents(x) for x, *_ in elsewhere]
        finally:
            for x, _, state, contents, _ in elsewhere:
                _keep(x, state, contents)
        for now, (_, entry, _, _, before) in zip(found, elsewhere):
            own = any([isinstance(leaf, tracing.Tracer) and leaf._trace is not base for leaf in now])  # of vmap, say
            with tracing.current_trace(tracing.thread.trace if own else base):
                entry.write(now, before)
        if inside is not None:
            for x in results if isinstance(results, (list, tuple)) else (results,):
                if type(x) in tracing.composites:
                    composites.note_made(x)
        return results


def _move(inside: StagingTrace | None, x: Any, contents: Sequence[Any]) -> composites.Moved | None:
    """For a value that comes from outside of the function that is being traced: references to what it holds, made where it
    comes from, which the program can read and write."""
    if inside is None or not contents:
        return None
    owner = composites.owner_of(x, contents)
    if owner is inside:
        return None
    with tracing.current_trace(tracing.eval_trace if owner is None else owner):
        references = [new_ref(leaf) for leaf in contents]
        if owner is None:  # what the value keeps is its own alone, so that it goes with it
            contents = [copy_p.bind(leaf) for leaf in contents]
            _keep(x, x.cur_qdd(), contents)
    return composites.note_moved(x, owner, contents, references)


@contextlib.contextmanager
def _as_it_is() -> Iterator[None]:
    """Types may use operations to ask for what a value holds and to change it: here, what the value itself does."""
    before, _asking.now = _asking.now, True
    try:
        yield
    finally:
        _asking.now = before


def _contents(x: Any) -> list[Any]:
    """The arrays that a value keeps."""
    with _as_it_is():
        return tracing.composites[type(x)](x).read_loval(x.cur_qdd(), x)


def _keep(x: Any, state: Any, arrays: Sequence[Any]) -> None:
    with _as_it_is():
        tracing.composites[type(x)](x).update_from_loval(state, x, *arrays)


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], AbstractValue]) -> None:
    """Say of which type the values of a class are.

    - `val_cls`: the class. Its values may change if it has a method `cur_qdd`, and their types are `MutableHiType`s then.
    - `typeof_fn`: a function from a value to its type.

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
    >>> class Product(hijax.VJPHiPrimitive):
    ...     in_avals, out_aval, params = (PairType(),), hijax.ShapedArray((), np.dtype("float32")), {}
    ...     def expand(self, pair):
    ...         return pair.a * pair.b
    >>> xf.jit(lambda pair: Product()(pair) + 1)(Pair(xnp.float32(2), xnp.float32(3)))
    Array(7., dtype=float32)
    """
    if hasattr(val_cls, "cur_qdd"):
        tracing.composites[val_cls] = typeof_fn
        return

    tracing.abstractors[val_cls] = typeof_fn


def cur_qdd(x: Any) -> Any:
    """What is known of a value at the moment beside its type.

    - `x`: a value of a type that consists of others and may change.

    >>> import types
    >>> cur_qdd(types.SimpleNamespace(cur_qdd=lambda: "empty"))
    'empty'
    """
    return x.cur_qdd()
