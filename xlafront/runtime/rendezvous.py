"""The rendezvous of the processes of a program, before the runtime's own service starts.

The runtime's service ends a process that cannot connect, without an exception. So process 0 first listens on the port itself.
The others connect, introduce themselves, and learn if the group is complete and consistent. Only then does the service take
over the port. Messages are one line of JSON in each direction.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import socket
import time
from typing import Any, NoReturn

from xlafront.base import jaxlib_compat, version

_MAX_MESSAGE_BYTES = 1 << 16
_MUST_AGREE = {"xlafront": "the version of xlafront", "jaxlib": "the version of jaxlib", "num_processes": "num_processes"}


class _PortTaken(Exception):
    """Another program listens on the coordinator's port."""


def introduction(process_id: int, num_processes: int) -> dict[str, Any]:
    """Return the message with which a process introduces itself."""
    return {"process_id": process_id, "num_processes": num_processes, "xlafront": version.__version__,
            "jaxlib": jaxlib_compat.jaxlib_version_text, "host": socket.gethostname(), "pid": os.getpid()}


def split_address(address: str, argument: str = "coordinator_address") -> tuple[str, int]:
    """Split `host:port` or `[ipv6]:port` into host and port."""
    host, colon, port = str(address).rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536 or not host or (":" in host and host[0] != "["):
        raise ValueError(f"{argument} is {address!r}; it must be 'host:port', such as '10.0.0.1:1234' or '[fd00::1]:1234', "
                         f"with a port from 1 to 65535.")
    return host.strip("[]"), int(port)


def _describe(member: dict) -> str:
    return f"process {member['process_id']} ({member['host']}, pid {member['pid']})"


def _own_address(connection: socket.socket) -> str:
    """Return the address by which the peer reaches this machine; the host name may resolve differently there."""
    return connection.getsockname()[0].removeprefix("::ffff:")


class Group:
    """Process 0's connections to the others, which wait until it sends `start` or `fail`."""

    def __init__(self, me: dict):
        self.me = me
        self.members: dict[int, dict] = {0: me}
        self.connections: dict[int, socket.socket] = {}
        self.own_address: str | None = None

    def _broadcast(self, message: dict) -> None:
        line = json.dumps(message).encode() + b"\n"
        for connection in self.connections.values():
            try:
                connection.settimeout(5)
                connection.sendall(line)
            except OSError:
                pass  # the peer has given up; the service will notice

    def start(self) -> dict[int, tuple[str, socket.socket]]:
        """Let the other processes start. Return their descriptions and the connections to them, by process id."""
        self._broadcast({"go": _describe(self.me)})
        return {number: (_describe(self.members[number]), connection) for number, connection in self.connections.items()}

    def fail(self, problem: str, newcomer: socket.socket | None = None) -> NoReturn:
        if newcomer is not None:
            self.connections[-1] = newcomer
        self._broadcast({"error": problem})
        for connection in self.connections.values():
            connection.close()
        raise RuntimeError(problem)

    def add(self, member: dict, connection: socket.socket) -> None:
        """Add a process to the group, or fail the group if the process does not fit."""
        differing = {key: label for key, label in _MUST_AGREE.items() if member.get(key) != self.me[key]}
        if differing:
            own, other = _describe(self.me), _describe(member)
            differences = "; ".join(f"{label} is {self.me[key]} in {own} and {member.get(key)} in {other}"
                                    for key, label in differing.items())
            self.fail(f"the processes do not fit together: {differences}. Give all processes the same.", connection)
        number = member["process_id"]
        if number in self.members:
            self.fail(f"process_id {number} was given twice: to {_describe(self.members[number])} and to {_describe(member)}. "
                      f"Each of the {self.me['num_processes']} processes needs an id of its own, from 0 to "
                      f"{self.me['num_processes'] - 1}.", connection)
        self.members[number], self.connections[number] = member, connection
        if self.own_address is None or self.own_address.startswith("127."):
            self.own_address = _own_address(connection)

    def fail_incomplete(self, timeout: float) -> NoReturn:
        missing = sorted(set(range(self.me["num_processes"])) - set(self.members))
        shown = ", ".join(map(str, missing[:20])) + (", ..." if len(missing) > 20 else "")
        joined = ", ".join(_describe(self.members[i]) for i in sorted(self.members)[:20])
        self.fail(f"the group of {self.me['num_processes']} processes was not complete within {timeout:g} s: missing "
                  f"process_id {shown}; joined: {joined}. Start the missing processes with the same coordinator_address, or "
                  f"raise initialization_timeout.")


def _listen(host: str, port: int, bind_address: str | None) -> socket.socket:
    try:
        if bind_address is None and socket.has_dualstack_ipv6():
            try:
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
            except OSError as e:
                if e.errno == errno.EADDRINUSE:
                    raise
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host if bind_address else "", port), family=family, backlog=1024)
    except OSError as e:
        if e.errno == errno.EADDRINUSE:
            raise _PortTaken from None
        raise RuntimeError(f"process 0 cannot listen on {host or 'any address'}, port {port}: {e}. coordinator_address must be "
                           f"an address of the machine of process 0; where it is known there by another one, give that as "
                           f"coordinator_bind_address.") from None


def gather(address: str, bind_address: str | None, me: dict, timeout: float) -> Group:
    """Wait in process 0 for all other processes. They wait for `Group.start`."""
    host, port = split_address(bind_address, "coordinator_bind_address") if bind_address else split_address(address)
    try:
        listener = _listen(host, port, bind_address)
    except _PortTaken:
        try:  # if it is another process 0, it reports the conflict to all
            join(address, me, min(timeout, 2.0))
        except RuntimeError as e:
            if "given twice" in str(e) or "fit together" in str(e):
                raise
        raise RuntimeError(
            f"process 0 cannot coordinate: port {port} of this machine is taken. Either another process was started with "
            f"process_id=0, or an earlier run still lives, or the port belongs to another program: choose another port in "
            f"coordinator_address.") from None
    group = Group(me)
    deadline = time.monotonic() + timeout
    with listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while len(group.members) < me["num_processes"]:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                group.fail_incomplete(timeout)
            for key, _ in selector.select(remaining):
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connection.setblocking(False)
                    selector.register(connection, selectors.EVENT_READ, bytearray())
                    continue
                member = _receive_introduction(key, selector, group)
                if member is not None:
                    group.add(member, key.fileobj)
                    # The process leaves when its own timeout ends; then the group cannot become complete.
                    deadline = min(deadline, time.monotonic() + member["left"])
    return group


def _receive_introduction(key, selector, group: Group) -> dict | None:
    """Read from a connection: return a complete introduction, or None."""
    connection, received = key.fileobj, key.data
    try:
        data = connection.recv(4096)
    except OSError:
        data = b""
    received += data
    if data and b"\n" not in received and len(received) < _MAX_MESSAGE_BYTES:
        return None
    try:
        member = json.loads(received)
        if data and isinstance(member["process_id"], int) and isinstance(member["left"], (int, float)):
            received.clear()
            return member
    except (ValueError, KeyError, TypeError):
        pass
    # A foreign client, or a process that disconnected before the group was complete and may reconnect.
    selector.unregister(connection)
    for number, member_connection in list(group.connections.items()):
        if member_connection is connection:
            del group.connections[number], group.members[number]
    connection.close()
    return None


def join(address: str, me: dict, timeout: float) -> tuple[str, str, socket.socket]:
    """Introduce this process to process 0 and wait for the group, in all processes but process 0.

    Return this process's address, the description of process 0, and the connection to it.
    """
    host, port = split_address(address)
    deadline = time.monotonic() + timeout
    problem, pause = "", 0.05
    while (remaining := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((host, port), timeout=min(remaining, 10)) as connection:
                if connection.getsockname() == connection.getpeername():
                    # On one machine, connecting to a port without a listener can connect the socket with itself.
                    raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
                remaining = max(deadline - time.monotonic(), 0.0)
                connection.sendall(json.dumps(me | {"left": remaining * 0.95}).encode() + b"\n")
                connection.settimeout(remaining + 1)
                with connection.makefile("rb", buffering=0) as file:  # leave the bytes after the line to other readers
                    answer = file.readline(_MAX_MESSAGE_BYTES)
                verdict = json.loads(answer)
                if "error" in verdict:
                    raise RuntimeError(verdict["error"])
                if "go" in verdict:
                    return _own_address(connection), verdict["go"], connection.dup()
                raise ValueError
        except ValueError:  # no answer, or not one of ours
            problem = ("something else answers there, or the group has started without this process" if answer else
                       "the connection was closed without an answer")
        except OSError as e:
            problem = (e.strerror or str(e) or type(e).__name__).lower()
        time.sleep(min(pause, max(deadline - time.monotonic(), 0)))
        pause = min(pause * 1.5, 1.0)
    raise RuntimeError(
        f"process {me['process_id']} found no coordinator at {address} within {timeout:g} s ({problem}). Process 0 has to run "
        f"on that host and be given the same coordinator_address; check the address, the port and the firewalls between them.")
