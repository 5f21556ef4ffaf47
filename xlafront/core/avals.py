"""Abstract values: the types of arrays, tokens and other values during tracing.

`ShapedArray`s are interned: two with equal contents are the same object, so that comparing them and using them as
dictionary keys costs a pointer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base import config
from xlafront.base.interned import Interned
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.layouts import Layout, MemorySpace
from xlafront.base.meshes import active
from xlafront.base.specs import ManualAxisType, PartitionSpec, RankError, UnreducedKind, axes_of
from xlafront.core import dtypes
from xlafront.core.bounded_cache import BoundedCache

new_type_hooks: list[Callable[[type[AbstractValue]], None]] = []  # called with each class of types that is defined


class AbstractValue:
    """Base class of the types of variables in a jaxpr."""

    __slots__ = ()

    vma: frozenset = frozenset()  # the manual axes of a mesh over which values differ between devices
    # The sharding over explicit axes of a mesh, if it is part of the type: a NamedSharding, or None.
    explicit_sharding: Any = None
    plain = True  # True if the type has no sharding, varying axes or memory
    is_high = False  # True for composite values (`core.composite_lowering`)
    if TYPE_CHECKING:  # attributes that types of arrays, references or composite values have
        shape: tuple[Any, ...]
        dtype: Any
        weak_type: bool
        ndim: int
        size: int
        memory: Any
        memory_space: Any
        inner_aval: Any
        differentiable: bool
        vspace_zero: Any
        vspace_add: Any

        def update(self, **changes: Any) -> Any: ...
        def to_ct_aval(self) -> Any: ...

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for hook in new_type_hooks:
            hook(cls)

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return repr(self)

    def at_least_vspace(self) -> AbstractValue:
        """Return the type of tangents of values of this type."""
        raise TypeError(f"values of type {self} have no tangents")

    to_tangent_aval = at_least_vspace

    # Types of composite values override these (`interpreters.hijax`).

    def lo_ty(self) -> list[AbstractValue]:
        return [self]

    def lower_val(self, x: Any) -> list[Any]:
        return [x]

    def raise_val(self, x: Any) -> Any:
        return x


_interned = Interned(1 << 16)  # the types that are in use
_types_on_shardings = BoundedCache(4096)  # results of `ShapedArray.on`


def forget_unused_types() -> None:
    """Drop interned types that are not referenced any more; those in use stay the same objects."""
    _interned.sweep()


_set = object.__setattr__
_FIELDS = ("shape", "dtype", "weak_type", "explicit_sharding", "vma", "memory", "ndim", "mesh", "_bare", "plain", "_tangent")
_SAME = object()  # in place of the type itself, which would be a reference cycle


class ShapedArray(AbstractValue):
    """Shape, dtype and weak type of an array, and its sharding and manual axes where they are part of the type."""

    __slots__ = ("shape", "dtype", "weak_type", "ndim", "explicit_sharding", "vma", "memory", "mesh", "_bare", "plain",
                 "_tangent", "__weakref__")

    shape: tuple[Any, ...]
    dtype: Any
    weak_type: bool
    ndim: int
    _bare: ShapedArray | None
    _tangent: Any
    mesh: Any  # the mesh of an array that is sharded over Auto axes, for users only; jaxprs have `bare` types

    def __new__(cls, shape: Sequence[int] | int, dtype: Any, weak_type: bool = False, *, sharding: Any = None,
                vma: frozenset = frozenset(), memory_space: Any = None, manual_axis_type: Any = None) -> ShapedArray:
        if isinstance(shape, int):
            shape = (shape,)
        if isinstance(manual_axis_type, ManualAxisType):
            manual_axis_type = manual_axis_type.varying
        if memory_space is MemorySpace.Device:
            memory_space = None
        if sharding is not None:
            sharding = explicit_part(sharding, len(shape))
        key = (shape, dtype, weak_type, sharding, vma or manual_axis_type or frozenset(), memory_space)
        try:
            found = _interned.get(key)
        except TypeError:
            found = None
        if found is not None:
            return found
        if not isinstance(dtype, (np.dtype, dtypes.ExtendedDType)):
            dtype = dtypes.dtype(dtype)
        shape = tuple(int(n) if isinstance(n, (int, np.integer)) else n for n in shape)
        return cls._of((shape, dtype, bool(weak_type), *key[3:]))

    @classmethod
    def _of(cls, key: tuple, mesh: Any = None, bare: ShapedArray | None = None) -> ShapedArray:
        contents = key if mesh is None else (*key, mesh)
        aval = _interned.get(contents)
        if aval is None:
            if key[3] is not None:
                key[3].shard_shape(key[0])  # raises if a dimension cannot be sharded
            aval = object.__new__(cls)
            for field, value in zip(_FIELDS, (*key, len(key[0]), mesh, bare, contents[3:] == (None, frozenset(), None), None)):
                _set(aval, field, value)
            aval = _interned.add(contents, aval)
        return aval

    @property
    def bare(self) -> ShapedArray:
        """The type as jaxprs have it."""
        return self if self._bare is None else self._bare

    def on(self, sharding: Any) -> ShapedArray:
        """Return the type that users see of an array with this sharding; it also shows the axes of the mesh that are Auto."""
        key = (self, sharding, config.remove_size_one_mesh_axis_from_type.value)
        found = _types_on_shardings.get(key)
        if found is None:
            kind = getattr(sharding, "memory_kind", None)
            found = ShapedArray(self.shape, self.dtype, self.weak_type, sharding=sharding,
                                memory_space=None if kind in (None, "device") else MemorySpace.Host)
            if type(sharding) is NamedSharding and found.explicit_sharding is None and sharding.mesh.axis_names:
                found = ShapedArray._of((self.shape, self.dtype, self.weak_type, None, frozenset(), found.memory),
                                        sharding.mesh.abstract_mesh, found)
            _types_on_shardings.put(key, found)
        return found

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @staticmethod
    def _getitem(x: Any, key: Any) -> Any:
        """Return `x[key]`. By this method other packages recognize the types of values that can be indexed."""
        return x[key]

    def to_ct_aval(self) -> ShapedArray:
        """Return the type of cotangents: unreduced axes become reduced ones and the other way round."""
        tangent = self.at_least_vspace()
        spec = None if self.explicit_sharding is None else self.explicit_sharding.spec
        if spec is None or not (spec.unreduced or spec.reduced):
            return tangent
        return tangent.update(sharding=NamedSharding(self.explicit_sharding.mesh, spec.to_ct_spec()))

    @property
    def mat(self) -> ManualAxisType:
        """The manual axes of the mesh over which values vary, are unreduced, or are reduced."""
        unreduced, reduced = self._sums()
        return ManualAxisType(varying=self.vma, unreduced=unreduced, reduced=reduced,
                              unreduced_kind=self.explicit_sharding.spec.unreduced_kind if unreduced else None)

    manual_axis_type = mat

    def _sums(self) -> tuple[frozenset, frozenset]:
        """Return the manual axes over which values are unreduced, and those over which they are reduced."""
        if self.explicit_sharding is None:
            return frozenset(), frozenset()
        spec, manual = self.explicit_sharding.spec, frozenset(self.explicit_sharding.mesh.manual_axes)
        return spec.unreduced & manual, spec.reduced & manual

    @property
    def layout(self) -> Any:
        """`Layout.AUTO`: the layouts of values in programs are chosen by the compiler."""
        return Layout.AUTO

    @property
    def memory_space(self) -> MemorySpace:
        return self.memory or MemorySpace.Device

    @property
    def sharding(self) -> NamedSharding:
        """The sharding over the explicit axes of the mesh; `mat` describes the manual axes."""
        if self.explicit_sharding is not None:
            unreduced, reduced = self._sums()
            if not (unreduced or reduced):
                return self.explicit_sharding
            spec = self.explicit_sharding.spec
            return self.explicit_sharding.update(spec=spec.update(
                unreduced=spec.unreduced - unreduced, reduced=spec.reduced - reduced))
        return NamedSharding(self.mesh or active.abstract_mesh(), PartitionSpec(*[None] * self.ndim))

    def update(self, **changes: Any) -> ShapedArray:
        """Return the type with some fields replaced. If the shape changes, the sharding is dropped unless it is given."""
        fields = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type, "sharding": self.explicit_sharding,
                  "vma": self.vma, "memory_space": self.memory}
        if self.explicit_sharding is not None and changes.get("shape", self.shape) != self.shape:
            fields["sharding"] = None
        return ShapedArray(**(fields | changes))

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False) if self.weak_type else self

    def at_least_vspace(self) -> ShapedArray:
        found = self._tangent
        if found is None:
            tangent = dtypes.tangent_dtype(self.dtype)
            found = _SAME if tangent == self.dtype else self.update(dtype=tangent, weak_type=False)
            _set(self, "_tangent", found)
        return self if found is _SAME else found

    to_tangent_aval = at_least_vspace

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to {name}: types are immutable, and {self} is shared. Use update({name}=...) for "
                             f"a changed copy.")

    def __reduce__(self) -> Any:
        return _shaped_array, (self.shape, self.dtype, self.weak_type, self.explicit_sharding, self.vma, self.memory)

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __str__(self) -> str:
        return f"{'~' if self.weak_type else ''}{self.str_short()}"

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        if short_dtypes:
            return str_short(self)
        return f"{dtype_name(self.dtype)}{_details(self)}"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({dtype_name(self.dtype)}{_details(self)}{weak})"


ShapedArray.__copy__ = lambda self: self  # type: ignore[attr-defined]


def _shaped_array(shape: tuple, dtype: Any, weak_type: bool, sharding: Any, vma: frozenset, memory_space: Any) -> ShapedArray:
    return ShapedArray(shape, dtype, weak_type, sharding=sharding, vma=vma, memory_space=memory_space)


class AbstractToken(AbstractValue):
    """The type of tokens, which order effects."""

    __slots__ = ()

    weak_type = False

    def _missing(self) -> Any:
        raise TypeError("a token is not an array: it orders effects. Pass it to after_all or precv, or through loops and "
                        "branches.")

    shape = dtype = ndim = size = property(_missing)

    def update(self, **changes: Any) -> AbstractToken:
        return self

    def at_least_vspace(self) -> AbstractToken:
        return self

    to_tangent_aval = at_least_vspace

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return "Tok"

    def __repr__(self) -> str:
        return "AbstractToken()"


abstract_token = AbstractToken()


class Token:
    """A token outside of traced functions; it holds no data."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Token()"

    def block_until_ready(self) -> Token:
        return self


# The array by which executables take and return tokens, which have no buffers.
token_stand_in = ShapedArray((0,), np.dtype(np.bool_))


def _dims(shape: Sequence[Any]) -> str:
    return ",".join(map(str, shape))


def _details(aval: ShapedArray) -> str:
    """Return `[8@x,4]`: sizes with the axes that shard them, and the memory unless it is the device's default one."""
    memory = f"<{aval.memory.name.lower()}>" if aval.memory is not None else ""
    if aval.explicit_sharding is None:
        return f"{memory}[{_dims(aval.shape)}]{_sums_text(V=aval.vma) if aval.vma else ''}"
    spec = aval.explicit_sharding.spec
    dims = [f"{n}" if p is None else f"{n}@({','.join(map(str, p))})" if isinstance(p, tuple) else f"{n}@{p}"
            for n, p in zip(aval.shape, spec)]
    unreduced = "U" if spec.unreduced_kind in (None, UnreducedKind.sum) else f"U_{spec.unreduced_kind.name}"
    return f"{memory}[{','.join(dims)}]{_sums_text(**{'V': aval.vma, unreduced: spec.unreduced, 'R': spec.reduced})}"


def _sums_text(**axes: Any) -> str:
    """Return `{V:x, R:(y,z)}`: the axes over which values vary, are unreduced, or are reduced."""
    texts = [f"{name}:{found[0]}" if len(found) == 1 else f"{name}:({','.join(found)})"
             for name, found in ((name, sorted(map(str, names))) for name, names in axes.items()) if found]
    return f"{{{', '.join(texts)}}}" if texts else ""


def explicit_part(sharding: Any, rank: int) -> NamedSharding | None:
    """Return the part of a sharding that belongs to types, or None.

    This is the sharding of dimensions over the explicit axes of its mesh. Raise an error if the spec has more entries than
    `rank`.
    """
    if type(sharding) is not NamedSharding:
        return None
    mesh, spec = sharding.mesh.abstract_mesh, sharding.spec
    explicit = mesh.explicit
    if not (explicit or spec.unreduced or spec.reduced):
        return None
    without_ones = config.remove_size_one_mesh_axis_from_type.value
    key = (mesh, spec, rank, without_ones)
    found = _explicit_shardings.get(key)
    if found is None:
        if len(spec) > rank:
            raise RankError(f"{spec} over {mesh} has {len(spec)} entries, but the array has only {rank} dimension(s). Leave "
                            f"out entries.")
        if without_ones:
            explicit = [a for a in explicit if mesh.shape[a] > 1]
        partitions = [tuple(a for a in axes_of(p) if a in explicit) for p in spec.padded(rank)]
        used = any(partitions) or spec.unreduced or spec.reduced
        found = _explicit_shardings.put(key, (NamedSharding(mesh, spec.update(partitions=partitions)) if used else None,))
    return found[0]


_explicit_shardings = BoundedCache(4096)

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


@functools.cache
def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype. NumPy has none for float0, the dtype of tangents of integers."""
    return "float0" if dtype == dtypes.float0 else dtype.name


def short_dtype(dtype: Any) -> str:
    """Return the short name of a dtype: `float32 -> f32`, `bool -> bool`, `float8_e4m3fn -> f8_e4m3fn`."""
    name = dtype_name(dtype)
    head = name.rstrip("0123456789") if "_" not in name else name.split("_")[0].rstrip("0123456789")
    return _SHORT[head] + name[len(head):] if head in _SHORT and name != "float0" else name


def str_short(aval: Any) -> str:
    """Return the short text of a type, `f32[3,4]`, as printed in jaxprs."""
    if isinstance(aval, ShapedArray):
        return f"{short_dtype(aval.dtype)}{_details(aval)}"
    return aval.str_short(short_dtypes=True) if isinstance(aval, AbstractValue) else repr(aval)


@functools.lru_cache(4096)
def without_dimension(aval: ShapedArray, d: int | None) -> ShapedArray:
    """Return the type without dimension `d`, or the type itself if `d` is None."""
    if d is None:
        return aval
    changed = aval.update(shape=(*aval.shape[:d], *aval.shape[d + 1:]))
    if aval.explicit_sharding is None:
        return changed
    spec = aval.explicit_sharding.spec
    return changed.update(sharding=NamedSharding(aval.explicit_sharding.mesh, spec.update(partitions=(*spec[:d],
                                                                                                      *spec[d + 1:]))))


def with_dimension(aval: ShapedArray, d: int, size: int, split: Any = None) -> ShapedArray:
    """Return the type with one more dimension of a size, at position `d`, sharded as the vectors of sharding `split`."""
    changed = aval.update(shape=(*aval.shape[:d], size, *aval.shape[d:]))
    sharding = aval.explicit_sharding
    if split is None:
        return changed if sharding is None else changed.update(sharding=with_entry(sharding, d))
    if sharding is None:
        sharding = split.update(spec=split.spec.update(partitions=(None,) * aval.ndim))
    return changed.update(sharding=with_entry(sharding, d, split.spec.partitions[0]))


def with_entry(sharding: Any, d: int, entry: Any = None) -> Any:
    """Return the sharding with one more dimension at position `d`, sharded over the axes in `entry`."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    spec = sharding.spec
    entries = [*spec.partitions, *[None] * max(0, d - len(spec))]
    return sharding.update(spec=spec.update(partitions=(*entries[:d], entry, *entries[d:])))


def entry_of(aval: Any, d: int | None) -> Any:
    """Return the mesh axes that shard dimension `d` of values of a type; None if `d` is None."""
    return None if d is None or aval.explicit_sharding is None else aval.explicit_sharding.spec.partitions[d]
