"""Transfer of arrays from one process to another, between devices over the network, by the runtime's own server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.base import jaxlib_compat
from xlafront.base.jaxlib_compat import ArrayImpl, Client
from xlafront.core import tree
from xlafront.core.avals import ShapedArray
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.runtime.transfers import buffers_of, skip_checks


def _client_of(caller: str, x: Any) -> Client:
    sharding = getattr(x, "sharding", None)
    if sharding is None:
        raise AttributeError(f"{caller} takes types with shardings, ShapeDtypeStruct(shape, dtype, sharding=...), got "
                             f"{x!r:.80}.")
    return next(iter(sharding.device_set)).client


def _typed(x: Any, expected: Any) -> ArrayImpl:
    """Wrap an array of the runtime as an `ArrayImpl` of the expected type."""
    aval = ShapedArray(tuple(expected.shape), expected.dtype)
    return ArrayImpl(aval, x._sharding, list(buffers_of(x)), committed=True, **skip_checks)


def make_error_array(aval: Any, message: str) -> Any:
    """Return an array that has failed: waiting for it, or computing with it, raises the error.

    Args:
        aval: A `ShapeDtypeStruct` with a sharding, or an array: the type of the result.
        message: Message of the error.

    Returns:
        The failed array.

    Example:
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
    """A server that offers arrays of this process to others; created by `start_transfer_server`."""

    __slots__ = ("_server",)

    def __init__(self, server: Any):
        self._server = server

    def address(self) -> str:
        """Return the address at which other processes reach the server.

        Example:
            >>> transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0").address().split(":")[0]
            '127.0.0.1'
        """
        return self._server.address()

    def await_pull(self, uuid: int, arrays: Any, timeout: Any = None) -> None:
        """Offer arrays under a number, to the first process that pulls it.

        Args:
            uuid: Number on which both sides have agreed.
            arrays: Pytree of arrays.
            timeout: How long the arrays are offered.

        Example:
            >>> server = transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
            >>> server.await_pull(7, {"x": xnp.ones(3)})
        """
        leaves = tree.leaves(arrays)
        for x in leaves:
            if not hasattr(x, "addressable_shards"):
                raise TypeError(f"await_pull offers arrays on devices, got {type(x).__name__}: put it there with device_put.")
        self._server._await_pull_flat(uuid, leaves, timeout)

    def connect(self, address: str) -> TransferConnection:
        """Connect to the server of another process.

        Args:
            address: `address()` of that server.

        Returns:
            The connection.

        Example:
            >>> server = transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0", ["127.0.0.1:0"])
            >>> connection = server.connect(server.address())
        """
        return TransferConnection(self._server.connect(address))


class TransferConnection:
    """A connection that fetches arrays from another process; created by `TransferServer.connect`."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Any):
        self._connection = connection

    def pull(self, uuid: int, xs: Any, timeout: Any = None) -> Any:
        """Fetch the arrays that the other side offers under a number, without waiting for them.

        Args:
            uuid: Number of the offer.
            xs: Pytree of `ShapeDtypeStruct`s with shardings, the types of the offered arrays.
            timeout: How long to wait for the other side.

        Returns:
            Pytree of arrays with the structure of `xs`.

        Example:
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
    """Start a server that offers arrays of this process to others and fetches theirs.

    Args:
        client: Client of the devices that hold the arrays: `devices()[0].client`.
        address: Address on which the server listens; port 0 selects a free port.
        transport_addresses: Addresses of the sockets for the data. Without any, both sides must be on this machine.
        max_num_parallel_copies: Maximum number of concurrent copies.
        transfer_size: Size of each copy, in bytes.
        supports_pinned_allocator, use_raw_buffers: Capabilities of GPU runtimes.

    Returns:
        The server.

    Example:
        >>> server = transfer.start_transfer_server(xf.devices()[0].client, "127.0.0.1:0")
    """
    if jaxlib_compat.start_transfer_server is None:
        raise NotImplementedError("the jaxlib of this platform has no transfer server: transfer arrays with "
                                  "experimental.multihost_utils instead.")
    return TransferServer(jaxlib_compat.start_transfer_server(
        client, address, list(transport_addresses), max_num_parallel_copies, transfer_size, supports_pinned_allocator,
        use_raw_buffers))
