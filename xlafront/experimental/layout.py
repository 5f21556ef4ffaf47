"""How arrays lie in the memory of devices."""

from xlafront.runtime.layouts import Format as Format, Layout as Layout

__all__ = ["Format", "Layout"]
