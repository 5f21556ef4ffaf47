"""How dimensions of arrays are split over the axes of a mesh, by name; what values are along axes that a program handles."""

from __future__ import annotations

from xlafront.runtime.interned import Interned


class DuplicateSpecError(ValueError):
    """A spec names a mesh axis twice."""


class RankError(ValueError):
    """A spec has more entries than an array has dimensions."""


class MissingDimensionError(RankError, IndexError):
    """A spec splits a dimension that an array does not have."""


class IndivisibleError(ValueError):
    """A dimension cannot be cut into as many equal parts as a sharding asks for."""


class _Unconstrained:
    def __repr__(self):
        return "UNCONSTRAINED"

    def __reduce__(self):
        return "_unconstrained"


_unconstrained = _Unconstrained()


def axes_of(partition) -> tuple:
    """The mesh axes of one entry of a spec."""
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


def _checked_sums(entries: tuple, unreduced, reduced) -> tuple[frozenset, frozenset]:
    """The axes of open sums; an error where they are no sets, or axes that the spec uses otherwise too."""
    split = [axis for entry in entries for axis in axes_of(entry)]
    for name, axes in (("unreduced", unreduced), ("reduced", reduced)):
        if not isinstance(axes, (set, frozenset)):
            raise TypeError(f"{name} of a PartitionSpec must be a set of axis names, got {axes!r}.")
        if None in axes:
            raise ValueError(f"{name} of a PartitionSpec cannot contain None: {axes}.")
        if both := sorted(map(str, axes.intersection(split))):
            raise ValueError(f"the axes {both} of a PartitionSpec are {name} and also split a dimension: {entries}. Each axis "
                             f"can do only one of these.")
    if both := sorted(map(str, unreduced & reduced)):
        raise ValueError(f"the axes {both} of a PartitionSpec are both unreduced and reduced.")
    return frozenset(unreduced), frozenset(reduced)


_no_axes: frozenset = frozenset()
_specs = Interned(4096)


class P:
    """How an array is split over the axes of a mesh.

    - `partitions`: for each dimension the mesh axis, or the tuple of axes, that split it, None (it is whole), or
      `UNCONSTRAINED` (the compiler decides); further dimensions are whole.
    - `unreduced`: the axes over which sums of the parts are still to be made.
    - `reduced`: those over which sums of the cotangent's parts are still to be made.

    >>> P("data", None, ("x", "y"))
    P('data', None, ('x', 'y'))

    Two with equal contents are one object, so that comparing them costs a pointer.
    """

    __slots__ = ("_partitions", "unreduced", "reduced", "_hash", "__weakref__")

    UNCONSTRAINED = _unconstrained

    _partitions: tuple
    unreduced: frozenset
    reduced: frozenset

    def __new__(cls, *partitions, unreduced=_no_axes, reduced=_no_axes):
        try:  # entries as they are kept
            found = _specs.get((partitions, unreduced, reduced))
            if found is not None:
                return found
        except TypeError:
            pass
        entries = tuple([_entry(p) for p in partitions])
        if unreduced is not _no_axes or reduced is not _no_axes:
            unreduced, reduced = _checked_sums(entries, unreduced, reduced)
        key = (entries, unreduced, reduced)
        found = _specs.get(key)
        if found is None:
            found = object.__new__(cls)
            found._partitions, found.unreduced, found.reduced = key
            found._hash = hash(key)
            found = _specs.add(key, found)
        return found

    partitions = property(lambda self: self._partitions)

    def __repr__(self):
        if not (self.unreduced or self.reduced):
            return f"P{self._partitions!r}"
        parts = [repr(p) for p in self._partitions]
        parts += [f"{name}={{{', '.join(map(repr, sorted(axes, key=str)))}}}" for name, axes in (
            ("unreduced", self.unreduced), ("reduced", self.reduced)) if axes]
        return f"P({', '.join(parts)})"

    def __reduce__(self):
        return _make_spec, (self._partitions, self.unreduced, self.reduced)

    def __len__(self):
        return len(self._partitions)

    def __iter__(self):
        return iter(self._partitions)

    def __getitem__(self, index):
        return self._partitions[index]

    def __eq__(self, other):
        return self is other or (isinstance(other, P) and self._partitions == other._partitions
                                 and self.unreduced == other.unreduced and self.reduced == other.reduced)

    def __hash__(self):
        return self._hash

    def __add__(self, other):
        if isinstance(other, P):
            return P(*self, *other, unreduced=self.unreduced | other.unreduced, reduced=self.reduced | other.reduced)
        if isinstance(other, tuple) and not (self.unreduced or self.reduced):
            return P(*self, *other)
        return NotImplemented

    def __radd__(self, other):
        return self.update(partitions=other + self._partitions) if isinstance(other, tuple) else NotImplemented

    def index(self, value) -> int:
        return self._partitions.index(_entry(value))

    def count(self, value) -> int:
        return self._partitions.count(_entry(value))

    def update(self, partitions=None, unreduced=None, reduced=None) -> P:
        """The spec with some of its fields changed."""
        return P(*(self._partitions if partitions is None else partitions),
                 unreduced=self.unreduced if unreduced is None else unreduced,
                 reduced=self.reduced if reduced is None else reduced)

    def to_tangent_spec(self) -> P:
        return self

    def to_ct_spec(self) -> P:
        """The spec of cotangents: what is unreduced in one is reduced in the other."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def to_lo(self) -> P:
        return self

    def padded(self, rank: int) -> tuple:
        """One entry for each dimension of an array of this rank."""
        return self._partitions + (None,) * (rank - len(self._partitions))


PartitionSpec = P


def _make_spec(partitions, unreduced, reduced) -> P:
    return P(*partitions, unreduced=unreduced, reduced=reduced)


class ManualAxisType:
    """How a value relates to the manual axes of a mesh: over which it varies, and over which sums are still to be made.

    >>> ManualAxisType(varying=frozenset({"x"})).varying
    frozenset({'x'})
    """

    __slots__ = ("varying", "unreduced", "reduced")

    def __init__(self, *, varying=frozenset(), unreduced=frozenset(), reduced=frozenset()):
        self.varying, self.unreduced, self.reduced = frozenset(varying), frozenset(unreduced), frozenset(reduced)
        for first, second in (("varying", "unreduced"), ("varying", "reduced"), ("unreduced", "reduced")):
            both = getattr(self, first) & getattr(self, second)
            if both:
                raise ValueError(f"an axis is either {first} or {second}, but {sorted(map(str, both))} are both.")

    @property
    def empty(self) -> bool:
        return not (self.varying or self.unreduced or self.reduced)

    @property
    def vur(self) -> frozenset:
        return self.varying | self.unreduced | self.reduced

    def invarying(self, mesh) -> frozenset:
        """The manual axes of a mesh over which the value is the same."""
        return frozenset(mesh.manual_axes) - self.vur

    def update(self, **changes) -> ManualAxisType:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return ManualAxisType(**(fields | changes))

    def to_ct_mat(self) -> ManualAxisType:
        return self.update(unreduced=self.reduced, reduced=self.unreduced)

    def _contents(self):
        return self.varying, self.unreduced, self.reduced

    def __eq__(self, other):
        return isinstance(other, ManualAxisType) and self._contents() == other._contents()

    def __hash__(self):
        return hash(self._contents())

    def __repr__(self):
        return f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, reduced={self.reduced})"
