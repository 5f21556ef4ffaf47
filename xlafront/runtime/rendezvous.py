"""How the processes of a program find each other, before the runtime's own service starts.

The service of the runtime ends a process that cannot connect, without an exception. So process 0 first listens on the
port itself: the others connect, say who they are, and hear whether the group is complete and of one mind. Only then
does the service take the port over. What is said is one line of JSON each way.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import socket
import time
from typing import Any, NoReturn

from xlafront.runtime import jaxlib_compat, version

_MAX_MESSAGE_BYTES = 1 << 16
_MUST_AGREE = {"xlafront": "the version of xlafront", "jaxlib": "the version of jaxlib", "num_processes": "num_processes"}


class _PortTaken(Exception):
    """Another program listens on the coordinator's port."""


def introduction(process_id: int, num_processes: int) -> dict[str, Any]:
    """What a process says of itself."""
    return {"process_id": process_id, "num_processes": num_processes, "xlafront": version.__version__,
            "jaxlib": jaxlib_compat.jaxlib_version_text, "host": socket.gethostname(), "pid": os.getpid()}


def split_address(address: str, what: str = "coordinator_address") -> tuple[str, int]:
    """Host and port of `host:port` or `[ipv6]:port`."""
    host, colon, port = str(address).rpartition(":")
    if not colon or not port.isdigit() or not 0 < int(port) < 65536 or not host or (":" in host and host[0] != "["):
        raise ValueError(f"{what} is {address!r}; it must be 'host:port', such as '10.0.0.1:1234' or '[fd00::1]:1234', with a "
                         f"port from 1 to 65535.")
    return host.strip("[]"), int(port)


def _who(member: dict) -> str:
    return f"process {member['process_id']} ({member['host']}, pid {member['pid']})"


def _own_address(connection: socket.socket) -> str:
    """Where the other end reaches this machine; its host name may stand for an address that only it knows."""
    return connection.getsockname()[0].removeprefix("::ffff:")


class Group:
    """Process 0's connections to the others: the group waits on them until it hears `start` or `fail`."""

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
                pass  # it has given up; the service will notice

    def start(self) -> dict[int, tuple[str, socket.socket]]:
        """Let the others go on. Returns who they are, with the connections to them."""
        self._broadcast({"go": _who(self.me)})
        return {number: (_who(self.members[number]), connection) for number, connection in self.connections.items()}

    def fail(self, problem: str, newcomer: socket.socket | None = None) -> NoReturn:
        if newcomer is not None:
            self.connections[-1] = newcomer
        self._broadcast({"error": problem})
        for connection in self.connections.values():
            connection.close()
        raise RuntimeError(problem)

    def add(self, member: dict, connection: socket.socket) -> None:
        """Take a process into the group, or end the group when it does not fit."""
        differing = {key: words for key, words in _MUST_AGREE.items() if member.get(key) != self.me[key]}
        if differing:
            differences = "; ".join(f"{words} is {self.me[key]} in {_who(self.me)} and {member.get(key)} in {_who(member)}"
                             for key, words in differing.items())
            self.fail(f"the processes do not fit together: {differences}. Give all processes the same.", connection)
        number = member["process_id"]
        if number in self.members:
            self.fail(f"process_id {number} was given twice: to {_who(self.members[number])} and to {_who(member)}. Each of "
                      f"the {self.me['num_processes']} processes needs an id of its own, from 0 to "
                      f"{self.me['num_processes'] - 1}.", connection)
        self.members[number], self.connections[number] = member, connection
        if self.own_address is None or self.own_address.startswith("127."):
            self.own_address = _own_address(connection)

    def fail_incomplete(self, timeout: float) -> NoReturn:
        missing = sorted(set(range(self.me["num_processes"])) - set(self.members))
        shown = ", ".join(map(str, missing[:20])) + (", ..." if len(missing) > 20 else "")
        joined = ", ".join(_who(self.members[i]) for i in sorted(self.members)[:20])
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
    """Process 0: wait for all others. They go on waiting for `Group.start`."""
    host, port = split_address(bind_address, "coordinator_bind_address") if bind_address else split_address(address)
    try:
        listener = _listen(host, port, bind_address)
    except _PortTaken:
        try:  # when it is another process 0, it says so to everybody
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
            left = deadline - time.monotonic()
            if left <= 0:
                group.fail_incomplete(timeout)
            for key, _ in selector.select(left):
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connection.setblocking(False)
                    selector.register(connection, selectors.EVENT_READ, bytearray())
                    continue
                member = _receive_introduction(key, selector, group)
                if member is not None:
                    group.add(member, key.fileobj)
                    # It leaves when its own time is up: then the group cannot be complete any more.
                    deadline = min(deadline, time.monotonic() + member["left"])
    return group


def _receive_introduction(key, selector, group: Group) -> dict | None:
    """What came in on a connection: a whole introduction, or None."""
    connection, heard = key.fileobj, key.data
    try:
        data = connection.recv(4096)
    except OSError:
        data = b""
    heard += data
    if data and b"\n" not in heard and len(heard) < _MAX_MESSAGE_BYTES:
        return None
    try:
        member = json.loads(heard)
        if data and isinstance(member["process_id"], int) and isinstance(member["left"], (int, float)):
            heard.clear()
            return member
    except (ValueError, KeyError, TypeError):
        pass
    # A stranger, or a process that went away before the group was complete: it may come again.
    selector.unregister(connection)
    for number, known in list(group.connections.items()):
        if known is connection:
            del group.connections[number], group.members[number]
    connection.close()
    return None


def join(address: str, me: dict, timeout: float) -> tuple[str, str, socket.socket]:
    """The other processes: introduce ourselves to process 0 and wait for the group.

    Returns our own address, who process 0 is, and the connection to it.
    """
    host, port = split_address(address)
    deadline = time.monotonic() + timeout
    problem, pause = "", 0.05
    while (left := deadline - time.monotonic()) > 0:
        try:
            with socket.create_connection((host, port), timeout=min(left, 10)) as connection:
                if connection.getsockname() == connection.getpeername():
                    # On one machine, trying a port on which nobody listens yet may at last connect it with itself.
                    raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
                left = max(deadline - time.monotonic(), 0.0)
                connection.sendall(json.dumps(me | {"left": left * 0.95}).encode() + b"\n")
                connection.settimeout(left + 1)
                with connection.makefile("rb", buffering=0) as file:  # what follows the line is for others to read
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
