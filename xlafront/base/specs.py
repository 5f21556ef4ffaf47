"""Shardings of array dimensions over named mesh axes, and types of values along manual axes."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from xlafront.base.interned import Interned


class DuplicateSpecError(ValueError):
    """A spec names a mesh axis twice."""


class RankError(ValueError):
    """A spec has more entries than an array has dimensions."""


class MissingDimensionError(RankError, IndexError):
    """A spec shards a dimension that an array does not have."""


class IndivisibleError(ValueError):
    """A dimension is not divisible by the number of shards."""


class _Unconstrained:
    def __repr__(self):
        return "UNCONSTRAINED"

    def __reduce__(self):
        return "_unconstrained"


_unconstrained = _Unconstrained()


def axes_of(partition) -> tuple:
    """Return the mesh axes of one entry of a spec."""
    if partition is None or partition is _unconstrained:
        return ()
    return partition if isinstance(partition, tuple) else (partition,)


def _entry(partition):
    if isinstance(partition, (tuple, list)):
        if any([isinstance(axis, (tuple, list)) for axis in partition]):
            raise ValueError(f"an entry of a PartitionSpec is an axis name or a tuple of names, got {partition!r}. Write the "
                             f"names in one tuple.")
        return None if not partition else partition[0] if len(partition) == 1 else tuple(partition)
    return partition


class UnreducedKind(enum.Enum):
    """The reduction that is still to be made along the axes over which an array is unreduced.

    Example:
        >>> xf.P("x", unreduced={"y"}).unreduced_kind
        <UnreducedKind.sum: 1>
    """

    sum = 1
    max = 2
    min = 3


def _checked_kind(unreduced: frozenset, kind: UnreducedKind | None) -> UnreducedKind | None:
    """Return the kind of reduction: a sum by default, None if there are no unreduced axes."""
    if kind is not None and not isinstance(kind, UnreducedKind):
        raise TypeError(f"unreduced_kind must be an UnreducedKind, got {kind!r} of type {type(kind).__name__}.")
    if kind is not None and not unreduced:
        raise ValueError(f"unreduced_kind must be None if there are no unreduced axes, got {kind}.")
    return UnreducedKind.sum if kind is None and unreduced else kind


def _checked_reductions(entries: tuple, unreduced, reduced) -> tuple[frozenset, frozenset]:
    """Return the unreduced and reduced axes; raise if they are no sets, or overlap with each other or with the entries."""
    sharded_axes = [axis for entry in entries for axis in axes_of(entry)]
    for name, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if not isinstance(axes, (set, frozenset)):
            raise TypeError(f"{name} of a PartitionSpec must be a set of axis names, got {axes!r}.")
        if None in axes:
            raise ValueError(f"{name} of a PartitionSpec cannot contain None: {axes}.")
        if both := sorted(map(str, axes.intersection(sharded_axes))):
            raise ValueError(f"the axes {both} of a PartitionSpec are {name} and also split a dimension: {entries}. Each axis "
                             f"can do only one of these.")
    if both := sorted(map(str, unreduced & reduced)):
        raise ValueError(f"the axes {both} of a PartitionSpec are both unreduced and reduced.")
    return frozenset(unreduced), frozenset(reduced)


_no_axes: frozenset = frozenset()
_specs = Interned(4096)


class P:
    """A sharding of array dimensions over the axes of a mesh.

    Each entry is for one dimension: the mesh axis, or the tuple of axes, that shard it; None for an unsharded dimension; or
    `UNCONSTRAINED` to leave it to the compiler. Further dimensions are unsharded. Specs with equal contents are the same
    object, so that comparisons are cheap.

    Args:
        partitions: Entries for the dimensions.
        unreduced: Axes over which partial sums are still to be reduced.
        reduced: Axes over which the partial sums of cotangents are still to be reduced.
        unreduced_kind: How the values along `unreduced` are to be reduced. Default: summed.

    Example:
        >>> P("data", None, ("x", "y"))
        P('data', None, ('x', 'y'))
    """

    __slots__ = ("_partitions", "unreduced", "reduced", "unreduced_kind", "_hash", "__weakref__")

    UNCONSTRAINED = _unconstrained

    _partitions: tuple
    unreduced: frozenset
    reduced: frozenset
    unreduced_kind: UnreducedKind | None

    def __new__(cls, *partitions, unreduced=_no_axes, reduced=_no_axes, unreduced_kind=None):
        try:  # fast path: the entries are in canonical form
            spec = _specs.get((partitions, unreduced, reduced, unreduced_kind))
            if spec is not None:
                return spec
        except TypeError:
            pass
        entries = tuple([_entry(p) for p in partitions])
        if unreduced is not _no_axes or reduced is not _no_axes:
            unreduced, reduced = _checked_reductions(entries, unreduced, reduced)
        if unreduced or unreduced_kind is not None:
            unreduced_kind = _checked_kind(unreduced, unreduced_kind)
        key = (entries, unreduced, reduced, unreduced_kind)
        spec = _specs.get(key)
        if spec is None:
            spec = object.__new__(cls)
            spec._partitions, spec.unreduced, spec.reduced, spec.unreduced_kind = key
            spec._hash = hash(key)
            spec = _specs.add(key, spec)
        return spec

    def __init_subclass__(cls, **_):
        raise TypeError(f"{cls.__name__} cannot be a subclass of PartitionSpec: specs with equal contents are one object. "
                        "Write a function that returns specs.")

    partitions = property(lambda self: self._partitions)

    def __repr__(self):
        if not (self.unreduced or self.reduced):
            return f"P{self._partitions!r}"
        fields = [repr(p) for p in self._partitions]
        fields += [f"{name}={{{', '.join(map(repr, sorted(axes, key=str)))}}}" for name, axes in (
            ("unreduced", self.unreduced), ("reduced", self.reduced)) if axes]
        if self.unreduced_kind is not None:
            fields.append(f"unreduced_kind={self.unreduced_kind.name}")
        return f"P({', '.join(fields)})"

    def __reduce__(self):
        return _make_spec, (self._partitions, self.unreduced, self.reduced, self.unreduced_kind)

    def __len__(self):
        return len(self._partitions)

    def __iter__(self):
        return iter(self._partitions)

    def __getitem__(self, index):
        return self._partitions[index]

    def __eq__(self, other):
        return self is other or (isinstance(other, P) and self._partitions == other._partitions
                                 and self.unreduced == other.unreduced and self.reduced == other.reduced
                                 and self.unreduced_kind is other.unreduced_kind)

    def __hash__(self):
        return self._hash

    def __add__(self, other):
        if isinstance(other, P):
            if self.unreduced_kind is not other.unreduced_kind:
                raise TypeError(f"{self} and {other} cannot be joined: their unreduced_kinds differ.")
            return P(*self, *other, unreduced=self.unreduced | other.unreduced, reduced=self.reduced | other.reduced,
                     unreduced_kind=self.unreduced_kind)
        if isinstance(other, tuple) and not (self.unreduced or self.reduced):
            return P(*self, *other)
        return NotImplemented

    def __radd__(self, other):
        return self.update(partitions=other + self._partitions) if isinstance(other, tuple) else NotImplemented

    def index(self, value) -> int:
        return self._partitions.index(_entry(value))

    def count(self, value) -> int:
        return self._partitions.count(_entry(value))

    def update(self, partitions=None, unreduced=None, reduced=None, unreduced_kind=None) -> P:
        """Return the spec with some of its fields replaced. Without unreduced axes, `unreduced_kind` becomes None."""
        unreduced = self.unreduced if unreduced is None else unreduced
        return P(*(self._partitions if partitions is None else partitions), unreduced=unreduced,
                 reduced=self.reduced if reduced is None else reduced,
                 unreduced_kind=(unreduced_kind or self.unreduced_kind) if unreduced else unreduced_kind)

    def to_tangent_spec(self) -> P:
        return self

    def to_ct_spec(self) -> P:
        """Return the spec of cotangents, in which unreduced and reduced axes are swapped."""
        if self.unreduced_kind not in (None, UnreducedKind.sum):
            raise ValueError(f"an array over {self} has no cotangent: expected unreduced_kind={UnreducedKind.sum}, got "
                             f"{self.unreduced_kind}. Reduce it first, with reshard(x, P(...)).")
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def to_lo(self) -> P:
        return self

    def padded(self, rank: int) -> tuple:
        """Return one entry for each dimension of an array of this rank."""
        return self._partitions + (None,) * (rank - len(self._partitions))


PartitionSpec = P


def _make_spec(partitions, unreduced, reduced, unreduced_kind=None) -> P:
    return P(*partitions, unreduced=unreduced, reduced=reduced, unreduced_kind=unreduced_kind)


class ManualAxisType:
    """The type of a value along the manual axes of a mesh: the axes over which it varies, is unreduced, or is reduced.

    Args:
        varying: Axes over which devices have different values.
        unreduced: Axes over which partial sums are still to be reduced.
        reduced: Axes over which the partial sums of cotangents are still to be reduced.
        unreduced_kind: How the values along `unreduced` are to be reduced. Default: summed.

    Example:
        >>> ManualAxisType(varying=frozenset({"x"})).varying
        frozenset({'x'})
    """

    __slots__ = ("varying", "unreduced", "reduced", "unreduced_kind")

    def __init__(self, *, varying=frozenset(), unreduced=frozenset(), reduced=frozenset(), unreduced_kind=None):
        for name, axes in (("varying", varying), ("unreduced", unreduced), ("reduced", reduced)):
            if not isinstance(axes, (set, frozenset)):
                raise TypeError(f"{name} of a ManualAxisType must be a set of axis names, got {axes!r}.")
        self.varying, self.unreduced, self.reduced = frozenset(varying), frozenset(unreduced), frozenset(reduced)
        for first, second in (("varying", "unreduced"), ("varying", "reduced"), ("unreduced", "reduced")):
            both = getattr(self, first) & getattr(self, second)
            if both:
                raise ValueError(f"an axis is either {first} or {second}, but {sorted(map(str, both))} are both.")

        self.unreduced_kind = _checked_kind(self.unreduced, unreduced_kind)

    @property
    def empty(self) -> bool:
        return not (self.varying or self.unreduced or self.reduced)

    @property
    def vur(self) -> frozenset:
        return self.varying | self.unreduced | self.reduced

    def invarying(self, mesh) -> frozenset:
        """Return the manual axes of a mesh over which the value is the same."""
        return frozenset(mesh.manual_axes) - self.vur

    def update(self, **changes) -> ManualAxisType:
        fields = {name: getattr(self, name) for name in self.__slots__}
        if "unreduced" in changes and not changes["unreduced"]:
            fields["unreduced_kind"] = None
        return ManualAxisType(**(fields | changes))

    def to_ct_mat(self) -> ManualAxisType:
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def _contents(self):
        return self.varying, self.unreduced, self.reduced, self.unreduced_kind

    def __eq__(self, other):
        return isinstance(other, ManualAxisType) and self._contents() == other._contents()

    def __hash__(self):
        return hash(self._contents())

    def __repr__(self):
        return (f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, reduced={self.reduced}, "
                f"unreduced_kind={self.unreduced_kind})")


def check_rank(spec: P, shape: Sequence) -> None:
    """Raise if a spec has more entries than an array of this shape has dimensions."""
    if len(spec) > len(shape):
        raise RankError(f"{spec} has {len(spec)} entries, and so is only valid for arrays of rank at least {len(spec)}, but "
                        f"the array has shape {tuple(shape)}. Leave out entries.")
