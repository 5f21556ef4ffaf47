"""`ShapeDtypeStruct`: a placeholder for arrays of which only the type matters."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import NamedSharding, Sharding
from xlafront.base.layouts import Format, Layout
from xlafront.base.meshes import active
from xlafront.base.specs import ManualAxisType, PartitionSpec, check_rank
from xlafront.core import dtypes, tracing
from xlafront.core.avals import AbstractValue, ShapedArray
from xlafront.core.refs import AbstractRef


class ShapeDtypeStruct:
    """An immutable placeholder for an array in `eval_shape`, `lower` and similar functions.

    Args:
        shape: Shape of the array.
        dtype: dtype of the array.
        sharding: A sharding, a `Format`, or a `PartitionSpec` over the mesh in context when it is read. Optional.
        weak_type: True if the dtype is weak, as that of Python scalars.
        manual_axis_type: The manual mesh axes of a `shard_map` over which it varies. Optional.
        is_ref: True for a reference to such an array.

    Example:
        >>> xf.eval_shape(xnp.sum, xf.ShapeDtypeStruct((8, 128), "float32"))
        ShapeDtypeStruct(shape=(), dtype=float32)
    """

    __slots__ = ("shape", "dtype", "_sharding", "weak_type", "manual_axis_type", "is_ref", "_layout")

    shape: tuple
    dtype: Any
    _sharding: Sharding | PartitionSpec | None
    weak_type: bool
    manual_axis_type: ManualAxisType | None
    is_ref: bool
    _layout: Layout | None

    def __init__(self, shape: Sequence[Any], dtype: Any, *, sharding: Any = None, weak_type: bool = False,
                 manual_axis_type: ManualAxisType | None = None, is_ref: bool = False) -> None:
        if dtype is None:
            raise ValueError("ShapeDtypeStruct needs a dtype, got None.")
        if not (manual_axis_type is None or isinstance(manual_axis_type, ManualAxisType)):
            raise TypeError(f"ShapeDtypeStruct takes a ManualAxisType as manual_axis_type, got {manual_axis_type!r}.")
        shape = tuple(shape)
        if None in shape:
            raise ValueError(f"ShapeDtypeStruct got a `shape` with None in it, {shape}: sizes are integers, or symbolic sizes "
                             f"from export.symbolic_shape.")
        sharding, layout = _sharding_and_layout(sharding, shape)
        if not isinstance(dtype, dtypes.ExtendedDType) and not (isinstance(dtype, type) and issubclass(dtype, dtypes.extended)):
            dtype = np.dtype(dtype)
        for set_field, value in zip(_setters, (shape, dtype, sharding, weak_type, manual_axis_type, is_ref, layout)):
            set_field(self, value)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """Return the placeholder for an array: its type and, if the array is committed to devices, its format.

        That of a traced value has the sharding of its type.

        Args:
            x: The array.

        Returns:
            The placeholder.

        Example:
            >>> ShapeDtypeStruct.like(xnp.ones((2, 3)))
            ShapeDtypeStruct(shape=(2, 3), dtype=float32)
        """
        if isinstance(x, ShapeDtypeStruct):
            return cls(**x._arguments())
        aval = tracing.aval_of(x, "ShapeDtypeStruct.like")
        if isinstance(x, tracing.Tracer) and isinstance(aval, ShapedArray):
            over_mesh = bool(aval.sharding.mesh.axis_names)
            return cls(aval.shape, aval.dtype, sharding=aval.sharding if over_mesh else None, weak_type=aval.weak_type,
                       manual_axis_type=aval.manual_axis_type if over_mesh and aval.sharding.mesh.manual_axes else None)
        committed = not isinstance(x, tracing.Tracer) and getattr(x, "committed", False)
        return cls(aval.shape, aval.dtype, sharding=x.format if committed and hasattr(x, "format") else None,
                   weak_type=aval.weak_type)

    @property
    def sharding(self) -> Sharding | None:
        """The sharding, None if not given; a `PartitionSpec` refers to the mesh in context."""
        given = self._sharding
        if not isinstance(given, PartitionSpec):
            return given
        mesh = active.mesh or active.abstract
        if mesh is None:
            raise TypeError(f"a ShapeDtypeStruct has the sharding {given}, a PartitionSpec, and no mesh is in force: the "
                            f"context mesh cannot be empty. Use set_mesh(mesh), or a NamedSharding.")
        sharding = NamedSharding(mesh, given)
        sharding.check_compatible_aval(self.shape)
        return sharding

    @property
    def format(self) -> Format:
        """The layout and the sharding, None where not given."""
        return Format(self._layout, self.sharding)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(ShapeDtypeStruct, name) or hasattr(self, name):
            raise RuntimeError(f"cannot assign to {name}: a {type(self).__name__} is immutable. Use update({name}=...).")
        object.__setattr__(self, name, value)  # an attribute of a subclass, for the first time

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a ShapeDtypeStruct without dimensions")
        return self.shape[0]

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """Return a copy with some fields replaced."""
        if self._layout is not None and not isinstance(changes.get("sharding"), Format | None):
            raise ValueError(f"a ShapeDtypeStruct with {self._layout} cannot be updated with the sharding "
                             f"{changes['sharding']} alone. Pass a Format.")
        return ShapeDtypeStruct(**self._arguments() | changes)

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor for an equal placeholder."""
        fields = {name.lstrip("_"): getattr(self, name) for name in ShapeDtypeStruct.__slots__[:-1]}
        return fields if self._layout is None else fields | {"sharding": self.format}

    def __reduce__(self) -> Any:
        if type(self) is not ShapeDtypeStruct:
            return object.__new__, (type(self),), object.__getstate__(self)  # type: ignore[attr-defined]
        return _struct, (*_fields(self)[:-1], self._layout)

    def __setstate__(self, state: tuple[dict[str, Any] | None, dict[str, Any]]) -> None:
        """Restore from a pickle of JAX, or of a subclass."""
        own = {"_dll": "_layout"}
        for name, value in {**(state[0] or {}), **state[1]}.items():
            object.__setattr__(self, own.get(name, name), value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return hash(_fields(self))

    def __repr__(self) -> str:
        more = [f", {name}={value}" for name, value in (
            ("sharding", self._sharding), ("format", self._layout), ("weak_type", self.weak_type or None),
            ("manual_axis_type", self.manual_axis_type), ("is_ref", self.is_ref or None)) if value is not None]
        return f"{type(self).__name__}(shape={self.shape}, dtype={getattr(self.dtype, 'name', self.dtype)}{''.join(more)})"


_fields = operator.attrgetter(*ShapeDtypeStruct.__slots__)
_setters = [ShapeDtypeStruct.__dict__[name].__set__ for name in ShapeDtypeStruct.__slots__]


def _struct(shape: tuple, dtype: Any, sharding: Any, weak_type: bool, manual_axis_type: ManualAxisType | None, is_ref: bool,
            layout: Layout | None) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(shape, dtype, sharding=sharding if layout is None else Format(layout, sharding),
                            weak_type=weak_type, manual_axis_type=manual_axis_type, is_ref=is_ref)


def _sharding_and_layout(given: Any, shape: tuple) -> tuple[Any, Layout | None]:
    layout = None
    if isinstance(given, Format):
        given, layout = given.sharding, given.layout
        if layout is not None and not isinstance(layout, Layout):
            raise TypeError(f"a ShapeDtypeStruct takes a definite layout, got {layout}. Use Layout.AUTO in in_shardings and "
                            f"out_shardings only.")
    if not (given is None or isinstance(given, (Sharding, PartitionSpec))):
        raise ValueError(f"ShapeDtypeStruct takes a Sharding, a PartitionSpec or a Format as sharding, got "
                         f"{type(given).__name__}: {given!r:.80}.")
    if isinstance(given, PartitionSpec):
        check_rank(given, shape)
    if isinstance(given, NamedSharding):
        given.check_compatible_aval(shape)
    return given, layout


def _aval_of_struct(x: ShapeDtypeStruct) -> AbstractValue:
    vma = frozenset() if x.manual_axis_type is None else x.manual_axis_type.varying
    aval = ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True), bool(x.weak_type),
                       sharding=x.sharding, vma=frozenset(vma))
    return AbstractRef(aval) if x.is_ref else aval


tracing.aval_of_type[ShapeDtypeStruct] = _aval_of_struct
