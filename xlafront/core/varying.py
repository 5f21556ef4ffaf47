"""Values that vary over mesh axes: named axes in scope, and how operands of one operation are made to vary alike.

Inside of `shard_map`, the type of a value says over which manual axes its values differ between devices (`aval.vma`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from xlafront.base import config
from xlafront.core import errors
from xlafront.core.avals import AbstractValue, ShapedArray
from xlafront.core.ir import Literal
from xlafront.core.operands import aval_of, is_truncated
from xlafront.core.trace import thread

if TYPE_CHECKING:
    from xlafront.core.primitive import Primitive


class MeshAxis(tuple):
    """A named axis in scope that belongs to a mesh: `(name, size)`.

    Args:
        name: Name of the axis.
        size: Its size.
        checked: True if types say which values vary over it.
        mesh: The mesh.
        cast_varying: The primitive that makes a value vary over axes.
    """

    checked: bool
    mesh: Any
    cast_varying: Any

    def __new__(cls, name: Hashable, size: int, checked: bool, mesh: Any, cast_varying: Primitive) -> MeshAxis:
        axis = super().__new__(cls, (name, size))
        axis.checked, axis.mesh, axis.cast_varying = checked, mesh, cast_varying
        return axis

    def __eq__(self, other: object) -> bool:
        return (type(other) is MeshAxis and tuple.__eq__(self, other) and self.checked == other.checked
                and self.mesh == other.mesh)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((tuple.__hash__(self), self.checked))


class IndexedAxis(tuple):
    """A named axis in scope, `(name, size)`, along which the index is a value: that of a core in a kernel.

    Args:
        name: Name of the axis.
        size: Its size.
        index: The index.
    """

    index: Any

    def __new__(cls, name: Hashable, size: int, index: Any) -> IndexedAxis:
        axis = super().__new__(cls, (name, size))
        axis.index = index
        return axis

    def __eq__(self, other: object) -> bool:
        return type(other) is IndexedAxis and tuple.__eq__(self, other) and self.index is other.index

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def checked_axes() -> frozenset:
    """Return the named axes in scope for which types say which values vary."""
    found = {}
    for axis in thread.axes:
        found[axis[0]] = type(axis) is MeshAxis and axis.checked
    return frozenset(name for name, checked in found.items() if checked)


def as_varying(x: Any, axes: frozenset) -> Any:
    """Return the value as one that varies over these axes too, where types say which values vary."""
    missing = (axes & checked_axes()) - aval_of(x).vma if axes else axes
    if not missing:
        return x
    axis = next(axis for axis in thread.axes if type(axis) is MeshAxis)
    return axis.cast_varying.bind(x, axes=tuple(sorted(missing, key=str)))


class VaryingMismatch(Exception):
    """Raised for operands that vary over different mesh axes; `args[0]` is the union of the axes."""


def joint_vma(avals: Sequence[AbstractValue]) -> frozenset:
    """Return the manual axes over which operands vary; raise `VaryingMismatch` unless all vary over the same."""
    joint = frozenset().union(*[aval.vma for aval in avals])
    if any([aval.vma != joint for aval in avals]):
        raise VaryingMismatch(joint)
    return joint


def retyped(trace: Any, primitive: Any, args: Sequence[Any], atoms: list, error: Exception) -> list | None:
    """Return operands of types that an operation accepts, after its type rule raised `error`; None if there are none.

    Operands are made to vary over the same axes, replicated if the sharding of the result is ambiguous, or truncated to 32
    bits.
    """
    if isinstance(error, VaryingMismatch):
        if not config.auto_pcast.value:
            raise errors.not_varying_alike(primitive.shown_as, tuple([v.aval for v in atoms])) from None
        return trace.make_varying(atoms, error.args[0])
    if isinstance(error, errors.ShardingTypeError):
        return None if thread.unshard_operands is None else thread.unshard_operands(trace, atoms)
    if not any([is_truncated(x) for x in args]):
        return None
    return [Literal(x[()], ShapedArray((), x.dtype)) if is_truncated(x) else v for x, v in zip(args, atoms)]
