"""Arrays that one process offers and another fetches, from device to device over the network, by the runtime's own server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.core import tree
from xlafront.core.avals import ShapedArray
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.runtime import jaxlib_compat
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import Client
from xlafront.runtime.transfers import buffers_of, skip_checks


def _client_of(user: str, x: Any) -> Client:
    sharding = getattr(x, "sharding", None)
    if sharding is None:
        raise AttributeError(f"{user} takes types that say on which devices an array is to be, ShapeDtypeStruct(shape, dtype, "
                             f"sharding=...), got {x!r:.80}.")
    return next(iter(sharding.device_set)).client


def _typed(x: Any, promised: Any) -> ArrayImpl:
    """An array that the runtime made, with its type."""
    aval = ShapedArray(tuple(promised.shape), promised.dtype)
    return ArrayImpl(aval, x._sharding, list(buffers_of(x)), committed=True, **skip_checks)


def make_error_array(aval: Any, message: str) -> Any:
    """An array that has failed: whoever waits for it, or computes with it, gets the error.

    - `aval`: a `ShapeDtypeStruct` with a sharding, or an array, whose type it has.
    - `message`: what the error says.

    >>> sharding = xf.sharding.SingleDeviceSharding(xf.devices()[0])
    >>> x = transfer.make_error_array(xf.ShapeDtypeStruct((3,), "float32", sharding=sharding), "lost on its way")
    >>> try:
    ...     x.block_until_ready()
    ... except xf.errors.JaxRuntimeError as e:
    ...     print(e)
    INTERNAL: lost on its way
    """
    client = _client_of("make_error_array", aval)
    aval = aval if isinstance(aval, ShapeDtypeStruct) else ShapeDtypeStruct.like(aval)
    return _typed(jaxlib_compat.make_error_array(client, aval, str(message)), aval)


class TransferServer:
    """Offers arrays of this process to others; `start_transfer_server` makes one."""

    __slots__ = ("_server",)

    def __init__(self, server: Any):
        self._server = server

    def address(self) -> str:
        """Where other processes reach it.

        >>> transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0").address().split(":")[0]
        '127.0.0.1'
        """
        return self._server.address()

    def await_pull(self, uuid: int, arrays: Any, timeout: Any = None) -> None:
        """Offer arrays under a number, to whoever pulls it first.

        - `uuid`: the number, on which both sides have agreed. `arrays`: a pytree of them.
        - `timeout`: how long they wait for somebody.

        >>> server = transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
        >>> server.await_pull(7, {"x": xnp.ones(3)})
        """
        leaves = tree.leaves(arrays)
        for x in leaves:
            if not hasattr(x, "addressable_shards"):
                raise TypeError(f"await_pull offers arrays on devices, got {type(x).__name__}: put it there with device_put.")
        self._server._await_pull_flat(uuid, leaves, timeout)

    def connect(self, address: str) -> TransferConnection:
        """A connection to the server of another process.

        - `address`: what its `address()` says there.

        >>> server = transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
        >>> connection = server.connect(server.address())
        """
        return TransferConnection(self._server.connect(address))


class TransferConnection:
    """Fetches arrays from another process; `TransferServer.connect` makes one."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Any):
        self._connection = connection

    def pull(self, uuid: int, xs: Any, timeout: Any = None) -> Any:
        """Fetch the arrays that the other side offers under a number. They are there when somebody waits for them.

        - `uuid`: the number. `xs`: a pytree of `ShapeDtypeStruct`s with shardings, the types of what is offered.
        - `timeout`: how long to wait for the other side.

        >>> server = transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
        >>> server.await_pull(7, xnp.ones(3))
        >>> sharding = xf.sharding.SingleDeviceSharding(xf.devices()[0])
        >>> server.connect(server.address()).pull(7, xf.ShapeDtypeStruct((3,), "float32", sharding=sharding))
        Array([1., 1., 1.], dtype=float32)
        """
        leaves, structure = tree.flatten(xs)
        if not leaves:
            return xs
        clients = [_client_of("pull", x) for x in leaves]
        found = self._connection._pull_flat(uuid, clients[0], leaves, timeout)
        return structure.unflatten(list(map(_typed, found, leaves)))


def start_transfer_server(client: Client, address: str = "[::]:0", transport_addresses: Sequence[str] = (),
                          max_num_parallel_copies: int = 8, transfer_size: int = 256 << 20,
                          supports_pinned_allocator: bool = False, use_raw_buffers: bool = False) -> TransferServer:
    """Start a server that offers arrays of this process to others, and fetches theirs.

    - `client`: whose arrays: `devices()[0].client`.
    - `address`: where it listens; port 0 stands for any that is free.
    - `transport_addresses`: where the data goes through, by sockets; without any, both sides must be on this machine.
    - `max_num_parallel_copies`, `transfer_size`: how much is on its way at a time: how many pieces, of how many bytes.
    - `supports_pinned_allocator`, `use_raw_buffers`: what GPUs can do.

    >>> server = transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0")
    """
    if jaxlib_compat.start_transfer_server is None:
        raise NotImplementedError("the jaxlib of this platform has no transfer server: send arrays in other ways, as with "
                                  "experimental.multihost_utils.")
    return TransferServer(jaxlib_compat.start_transfer_server(
        client, address, list(transport_addresses), max_num_parallel_copies, transfer_size, supports_pinned_allocator,
        use_raw_buffers))
