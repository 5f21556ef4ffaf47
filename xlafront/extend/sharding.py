"""Shardings as XLA writes them."""

from __future__ import annotations

from xlafront.runtime.jaxlib_compat import GSPMDSharding as GSPMDSharding, HloSharding, OpSharding
from xlafront.runtime.sharding import hlo_sharding_from_bytes, hlo_sharding_to_bytes


def get_op_sharding_from_serialized_proto(sharding: bytes) -> OpSharding:
    """A sharding from its serialised form.

    >>> from xlafront.runtime.jaxlib_compat import HloSharding
    >>> data = get_serialized_proto_from_hlo_sharding(HloSharding.replicate())
    >>> sharding = get_op_sharding_from_serialized_proto(data)
    """
    proto = OpSharding()
    proto.ParseFromString(sharding)
    return proto


def get_hlo_sharding_from_serialized_proto(sharding: bytes) -> HloSharding:
    """As `get_op_sharding_from_serialized_proto`, in XLA's class.

    >>> from xlafront.runtime.jaxlib_compat import HloSharding
    >>> data = get_serialized_proto_from_hlo_sharding(HloSharding.replicate())
    >>> get_hlo_sharding_from_serialized_proto(data).is_replicated()
    True
    """
    return hlo_sharding_from_bytes(sharding)


def get_serialized_proto_from_hlo_sharding(sharding: HloSharding) -> bytes:
    """The serialised form of a sharding.

    >>> from xlafront.runtime.jaxlib_compat import HloSharding
    >>> data = get_serialized_proto_from_hlo_sharding(HloSharding.replicate())
    """
    return hlo_sharding_to_bytes(sharding)
