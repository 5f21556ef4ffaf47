"""XLA's representations of shardings."""

from __future__ import annotations

from xlafront.base.jaxlib_compat import GSPMDSharding as GSPMDSharding, HloSharding, OpSharding
from xlafront.runtime.sharding import hlo_sharding_from_bytes, hlo_sharding_to_bytes


def get_op_sharding_from_serialized_proto(sharding: bytes) -> OpSharding:
    """Return a sharding from its serialized form.

    Example:
        >>> from xlafront.base.jaxlib_compat import HloSharding
        >>> data = get_serialized_proto_from_hlo_sharding(HloSharding.replicate())
        >>> sharding = get_op_sharding_from_serialized_proto(data)
    """
    proto = OpSharding()
    proto.ParseFromString(sharding)
    return proto


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> HloSharding:
    """Return a sharding from its serialized form, as an `HloSharding`.

    Example:
        >>> from xlafront.base.jaxlib_compat import HloSharding
        >>> data = get_serialized_proto_from_hlo_sharding(HloSharding.replicate())
        >>> get_hlo_sharding_from_serialized_proto(data).is_replicated()
        True
    """
    return hlo_sharding_from_bytes(sharding)


def get_serialized_proto_from_hlo_sharding(sharding: HloSharding) -> bytes:
    """Return the serialized form of a sharding.

    Example:
        >>> from xlafront.base.jaxlib_compat import HloSharding
        >>> data = get_serialized_proto_from_hlo_sharding(HloSharding.replicate())
    """
    return hlo_sharding_to_bytes(sharding)
