"""Abstract values: what tracing knows of an array without its elements.

`ShapedArray`s are interned: two with equal contents are the same object, so that comparing them and using
them as dictionary keys costs a pointer.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from xlafront.core import dtypes
from xlafront.core.memo import Memo
from xlafront.runtime import config
from xlafront.runtime.interned import Interned
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.layouts import MemorySpace
from xlafront.runtime.meshes import active
from xlafront.runtime.specs import ManualAxisType, PartitionSpec, axes_of


class AbstractValue:
    """Base of everything that can be the type of a variable in a program."""

    __slots__ = ()

    vma: frozenset = frozenset()  # the manual axes of a mesh over which values differ between devices
    # How the type says that dimensions are split over explicit axes of a mesh: a NamedSharding, or None.
    explicit_sharding: Any = None
    plain = True  # whether the type says nothing of meshes and memories
    is_high = False  # whether values consist of others (`core.parts`)

    def str_short(self, short_dtypes=False, mesh_axis_types=False) -> str:
        return repr(self)

    def at_least_vspace(self) -> AbstractValue:
        """The type of tangents of values of this type."""
        raise TypeError(f"values of type {self} have no tangents")

    to_tangent_aval = at_least_vspace

    # What the types of values that consist of others say otherwise (`interpreters.hijax`).

    def lo_ty(self) -> list[AbstractValue]:
        return [self]

    def lower_val(self, x: Any) -> list[Any]:
        return [x]

    def raise_val(self, x: Any) -> Any:
        return x


_interned = Interned(1 << 16)  # the types that are in use
_seen = Memo(4096)  # of `ShapedArray.on`


def forget_unused_types() -> None:
    """Drop the types that nothing uses any more; those in use stay the same objects."""
    _interned.sweep()


_set = object.__setattr__
_FIELDS = ("shape", "dtype", "weak_type", "explicit_sharding", "vma", "memory", "ndim", "mesh", "_bare", "plain", "_tangent")
_SAME = object()  # in place of a type itself, which would be a circle


class ShapedArray(AbstractValue):
    """Shape, dtype and weak type of an array; with its sharding and manual axes where those are part of the type."""

    __slots__ = ("shape", "dtype", "weak_type", "ndim", "explicit_sharding", "vma", "memory", "mesh", "_bare", "plain",
                 "_tangent", "__weakref__")

    shape: tuple[Any, ...]
    dtype: Any
    weak_type: bool
    ndim: int
    mesh: Any  # of an array whose mesh types leave to the compiler: what users see of it; programs are about `bare` types

    def __new__(cls, shape, dtype, weak_type=False, *, sharding=None, vma=frozenset(), memory_space=None,
                manual_axis_type=None):
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
    def _of(cls, key: tuple, mesh=None, bare: ShapedArray | None = None) -> ShapedArray:
        contents = key if mesh is None else (*key, mesh)
        aval = _interned.get(contents)
        if aval is None:
            if key[3] is not None:
                key[3].shard_shape(key[0])  # raises where a dimension cannot be split
            aval = object.__new__(cls)
            for field, value in zip(_FIELDS, (*key, len(key[0]), mesh, bare, contents[3:] == (None, frozenset(), None), None)):
                _set(aval, field, value)
            aval = _interned.add(contents, aval)
        return aval

    @property
    def bare(self) -> ShapedArray:
        """The type as programs have it."""
        return self if self._bare is None else self._bare

    def on(self, sharding) -> ShapedArray:
        """The type that users see of an array with this sharding: of its mesh it says also what it leaves to the compiler."""
        key = (self, sharding, config.remove_size_one_mesh_axis_from_type.value)
        found = _seen.get(key)
        if found is None:
            kind = getattr(sharding, "memory_kind", None)
            found = ShapedArray(self.shape, self.dtype, self.weak_type, sharding=sharding,
                                memory_space=None if kind in (None, "device") else MemorySpace.Host)
            if type(sharding) is NamedSharding and found.explicit_sharding is None and sharding.mesh.axis_names:
                found = ShapedArray._of((self.shape, self.dtype, self.weak_type, None, frozenset(), found.memory),
                                        sharding.mesh.abstract_mesh, found)
            _seen.keep(key, found)
        return found

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def to_ct_aval(self) -> ShapedArray:
        """The type of cotangents: what sums are still to be made of in one are already made in the other."""
        tangent = self.at_least_vspace()
        spec = None if self.explicit_sharding is None else self.explicit_sharding.spec
        if spec is None or not (spec.unreduced or spec.reduced):
            return tangent
        return tangent.update(sharding=NamedSharding(self.explicit_sharding.mesh, spec.to_ct_spec()))

    @property
    def mat(self) -> ManualAxisType:
        """How values relate to the manual axes of the mesh."""
        unreduced, reduced = self._sums()
        return ManualAxisType(varying=self.vma, unreduced=unreduced, reduced=reduced)

    manual_axis_type = mat

    def _sums(self) -> tuple[frozenset, frozenset]:
        """The manual axes over which sums are still to be made, and those over which sums of cotangents are."""
        if self.explicit_sharding is None:
            return frozenset(), frozenset()
        spec, manual = self.explicit_sharding.spec, frozenset(self.explicit_sharding.mesh.manual_axes)
        return spec.unreduced & manual, spec.reduced & manual

    @property
    def memory_space(self) -> MemorySpace:
        return self.memory or MemorySpace.Device

    @property
    def sharding(self) -> NamedSharding:
        """How dimensions are split over the explicit axes of a mesh; `mat` says what is about its manual axes."""
        if self.explicit_sharding is not None:
            unreduced, reduced = self._sums()
            if not (unreduced or reduced):
                return self.explicit_sharding
            spec = self.explicit_sharding.spec
            return self.explicit_sharding.update(spec=spec.update(
                unreduced=spec.unreduced - unreduced, reduced=spec.reduced - reduced))
        return NamedSharding(self.mesh or active.abstract_mesh(), PartitionSpec(*[None] * self.ndim))

    def update(self, **changes) -> ShapedArray:
        """The type with some of its fields changed; one of another shape is split over no axes."""
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
        raise AttributeError(f"cannot assign to {name}: types do not change, and {self} is one object everywhere. Use "
                             f"update({name}=...).")

    def __reduce__(self):
        return _shaped_array, (self.shape, self.dtype, self.weak_type, self.explicit_sharding, self.vma, self.memory)

    def __deepcopy__(self, memo):
        return self

    def __str__(self):
        return f"{'~' if self.weak_type else ''}{self.str_short()}"

    def str_short(self, short_dtypes=False, mesh_axis_types=False) -> str:
        if short_dtypes:
            return str_short(self)
        return f"{dtype_name(self.dtype)}{_details(self)}"

    def __repr__(self):
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({dtype_name(self.dtype)}{_details(self)}{weak})"


ShapedArray.__copy__ = lambda self: self


def _shaped_array(shape, dtype, weak_type, sharding, vma, memory_space):
    return ShapedArray(shape, dtype, weak_type, sharding=sharding, vma=vma, memory_space=memory_space)


class AbstractToken(AbstractValue):
    """The type of the tokens that put ordered effects in their order."""

    __slots__ = ()

    weak_type = False

    def _of_arrays(self):
        raise TypeError("a token is no array: it says what comes before what. Pass it to after_all or precv, or through loops "
                        "and branches.")

    shape = dtype = ndim = size = property(_of_arrays)

    def update(self, **changes) -> AbstractToken:
        return self

    def str_short(self, short_dtypes=False, mesh_axis_types=False) -> str:
        return "Tok"

    def __repr__(self):
        return "AbstractToken()"


abstract_token = AbstractToken()


class Token:
    """What a token is outside of traced functions: it holds nothing."""

    __slots__ = ()

    def __repr__(self):
        return "Token()"

    def block_until_ready(self) -> Token:
        return self


# How compiled programs take and return tokens, which are in no buffers.
token_stand_in = ShapedArray((0,), np.dtype(np.bool_))


def _dims(shape) -> str:
    return ",".join(map(str, shape))


def _details(aval: ShapedArray) -> str:
    """`[8@x,4]`: sizes, with the axes that split them, and the memory where it is not the device's own."""
    memory = f"<{aval.memory.name.lower()}>" if aval.memory is not None else ""
    if aval.explicit_sharding is None:
        return f"{memory}[{_dims(aval.shape)}]{_sums_text(varying=aval.vma) if aval.vma else ''}"
    spec = aval.explicit_sharding.spec
    dims = [f"{n}" if p is None else f"{n}@({','.join(map(str, p))})" if isinstance(p, tuple) else f"{n}@{p}"
            for n, p in zip(aval.shape, spec)]
    return f"{memory}[{','.join(dims)}]{_sums_text(varying=aval.vma, unreduced=spec.unreduced, reduced=spec.reduced)}"


def _sums_text(**axes) -> str:
    """`{V:x, R:(y,z)}`: over which axes values vary, sums are still to be made, or those of cotangents are."""
    parts = [f"{name[0].upper()}:{found[0]}" if len(found) == 1 else f"{name[0].upper()}:({','.join(found)})"
             for name, found in ((name, sorted(map(str, names))) for name, names in axes.items()) if found]
    return f"{{{', '.join(parts)}}}" if parts else ""


def explicit_part(sharding, rank: int):
    """What of a sharding belongs to types: the explicit axes of its mesh that it splits dimensions over, or None."""
    if type(sharding) is not NamedSharding:
        return None
    mesh, spec = sharding.mesh.abstract_mesh, sharding.spec
    explicit = mesh.explicit
    if not (explicit or spec.unreduced or spec.reduced):
        return None
    without_ones = config.remove_size_one_mesh_axis_from_type.value
    key = (mesh, spec, rank, without_ones)
    found = _parts.get(key)
    if found is None:
        if without_ones:
            explicit = [a for a in explicit if mesh.shape[a] > 1]
        kept = [tuple(a for a in axes_of(p) if a in explicit) for p in spec.padded(rank)]
        used = any(kept) or spec.unreduced or spec.reduced
        found = _parts.keep(key, (NamedSharding(mesh, spec.update(partitions=kept)) if used else None,))
    return found[0]


_parts = Memo(4096)

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def dtype_name(dtype) -> str:
    """The name of a dtype; NumPy has none for float0, the type of tangents of integers."""
    return "float0" if dtype == dtypes.float0 else dtype.name


def short_dtype(dtype) -> str:
    """`float32 -> f32`, `bool -> bool`, `float8_e4m3fn -> f8_e4m3fn`."""
    name = dtype_name(dtype)
    head = name.rstrip("0123456789") if "_" not in name else name.split("_")[0].rstrip("0123456789")
    return _SHORT[head] + name[len(head):] if head in _SHORT and name != "float0" else name


def str_short(aval) -> str:
    """`f32[3,4]`, as programs are printed."""
    if isinstance(aval, ShapedArray):
        return f"{short_dtype(aval.dtype)}{_details(aval)}"
    return aval.str_short(short_dtypes=True) if isinstance(aval, AbstractValue) else repr(aval)


@functools.lru_cache(4096)
def without_dimension(aval: ShapedArray, d: int | None) -> ShapedArray:
    """The type of one of the elements that dimension `d` counts; the type itself where no dimension does."""
    if d is None:
        return aval
    changed = aval.update(shape=(*aval.shape[:d], *aval.shape[d + 1:]))
    if aval.explicit_sharding is None:
        return changed
    spec = aval.explicit_sharding.spec
    return changed.update(sharding=NamedSharding(aval.explicit_sharding.mesh, spec.update(partitions=(*spec[:d],
                                                                                                      *spec[d + 1:]))))


def with_dimension(aval: ShapedArray, d: int, size: int) -> ShapedArray:
    """The type of `size` values in a row, counted by dimension `d`."""
    changed = aval.update(shape=(*aval.shape[:d], size, *aval.shape[d:]))
    if aval.explicit_sharding is None:
        return changed
    return changed.update(sharding=with_entry(aval.explicit_sharding, d))


def with_entry(sharding: Any, d: int, entry: Any = None) -> Any:
    """The sharding of arrays with one more dimension, at `d`, which these axes split."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    spec = sharding.spec
    entries = [*spec.partitions, *[None] * max(0, d - len(spec))]
    return sharding.update(spec=spec.update(partitions=(*entries[:d], entry, *entries[d:])))


def entry_of(aval: Any, d: int | None) -> Any:
    """The axes that split dimension `d` of values of a type, None for no dimension."""
    return None if d is None or aval.explicit_sharding is None else aval.explicit_sharding.spec.partitions[d]
