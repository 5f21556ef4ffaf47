"""Memory spaces of arrays, and layouts of their elements in memory."""

from __future__ import annotations

import enum
from collections.abc import Callable

from xlafront.base.jaxlib_compat import ArrayImpl, PjRtLayout, Sharding


class MemorySpace(enum.Enum):
    """The memory of a value: device memory, or that of the device's host. A target of `device_put`."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self):
        return f"MemorySpace.{self.name}"


class _Use:
    """Tracks if any array of this process may have a non-default layout.

    Until a layout is requested, no layouts are checked.
    """

    relayout: Callable[[ArrayImpl, Layout], ArrayImpl]  # set by `staging.array_transfers`, for modules below it

    def __init__(self) -> None:
        self.others = False


use = _Use()


class _Auto:
    def __repr__(self):
        return "AutoLayout"


class Layout:
    """The order of dimensions in memory, and the tiles in which elements are stored.

    `Layout.AUTO` leaves the choice to the compiler.

    Args:
        major_to_minor: Dimensions from major (slowest varying) to minor.
        tiling: Shapes of the tiles, from the largest on. Default: no tiles.
        sub_byte_element_size_in_bits: Bits per element for packed elements of less than a byte; 0 if elements are not packed.

    Example:
        >>> Layout((1, 0)).major_to_minor
        (1, 0)
    """

    __slots__ = ("major_to_minor", "tiling", "sub_byte_element_size_in_bits")

    AUTO = _Auto()

    def __init__(self, major_to_minor, tiling=None, sub_byte_element_size_in_bits: int = 0):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    @staticmethod
    def from_pjrt_layout(layout: PjRtLayout) -> Layout:
        """Convert a layout that the runtime reports."""
        xla_layout = layout._xla_layout()
        return Layout(xla_layout.minor_to_major()[::-1], xla_layout.tiling(), xla_layout.element_size_in_bits())

    def check_compatible_aval(self, aval_shape) -> None:
        """Raise for arrays of another rank."""
        if sorted(self.major_to_minor) != list(range(len(aval_shape))):
            raise ValueError(f"{self} orders {len(self.major_to_minor)} dimensions and cannot be that of an array of shape "
                             f"{tuple(aval_shape)}: major_to_minor must name each of its {len(aval_shape)} dimensions once.")

    def of_rank(self, rank: int) -> Layout:
        """Extend the layout by the physical dimensions of elements (keys have words), which stay contiguous."""
        return self.update(major_to_minor=(*self.major_to_minor, *range(len(self.major_to_minor), rank)))

    def update(self, **changes) -> Layout:
        return Layout(**({name: getattr(self, name) for name in self.__slots__} | changes))

    def mode(self) -> str:
        """Return the layout's text for modules, with the minor dimension first: `{0,1:T(8,128)}`."""
        tiles = "".join(f"({','.join(map(str, tile))})" for tile in self.tiling or ())
        return f"{{{','.join(map(str, self.major_to_minor[::-1]))}{':T' + tiles if tiles else ''}}}"

    def fits(self, other: Layout) -> bool:
        """Return True if memory with layout `other` satisfies this layout. Without a tiling, any tiling does."""
        return self.major_to_minor == other.major_to_minor and (self.tiling is None or self.tiling == other.tiling)

    def _contents(self):
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def __eq__(self, other):
        return isinstance(other, Layout) and self._contents() == other._contents()

    def __hash__(self):
        return hash(self._contents())

    def __repr__(self):
        return (f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling}, "
                f"sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})")


class Format:
    """The layout of an array in memory and its sharding.

    Args:
        layout: A `Layout`, `Layout.AUTO`, or None for the default layout.
        sharding: A sharding, or None if unspecified.

    Example:
        >>> Format().layout is None
        True
    """

    __slots__ = ("layout", "sharding")

    def __init__(self, layout=None, sharding=None):
        if not (layout is None or layout is Layout.AUTO or isinstance(layout, Layout)):
            raise TypeError(f"Format takes a Layout, Layout.AUTO or None, got {type(layout).__name__}: {layout!r}.")
        if not (sharding is None or isinstance(sharding, Sharding)):
            raise TypeError(f"Format takes a sharding or None, got {type(sharding).__name__}: {sharding!r}. For one device "
                            f"write SingleDeviceSharding(device).")
        if isinstance(layout, Layout) and (sharding is None or not sharding.device_set):
            raise ValueError(f"Format with {layout} needs a sharding over devices, got {sharding}: layouts differ between "
                             f"kinds of devices. Give it a NamedSharding or SingleDeviceSharding.")
        self.layout, self.sharding = layout, sharding

    def __eq__(self, other):
        return isinstance(other, Format) and self.layout == other.layout and self.sharding == other.sharding

    def __hash__(self):
        return hash((self.layout, self.sharding))

    def __repr__(self):
        return f"Format(layout={self.layout}, sharding={self.sharding})"
