"""Memory spaces of devices and their hosts, as targets of `device_put`.

>>> device_put(xnp.ones(3), memory.Space.Host).sharding.memory_kind
'pinned_host'
"""

from xlafront.base.layouts import MemorySpace

Space = MemorySpace

__all__ = ["Space"]
