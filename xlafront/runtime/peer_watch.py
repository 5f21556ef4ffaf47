"""Reports on processes of a group that have died or do not respond, and on why the others are about to end.

The runtime ends all processes if one has sent no heartbeat for the timeout, but its messages give no remedy, and often not the
process. So the connections of the rendezvous between process 0 and the others stay open, with regular messages on them. This
module only reports and ends nothing, since a busy process may miss its time here.
"""

from __future__ import annotations

import selectors
import socket
import sys
import threading
import time
from collections.abc import Mapping

_ALIVE, _LEAVING = b".", b"bye"
_MAX_LINE_BYTES = 1 << 14


class PeerWatch:
    """The connections of this process to others of its group: `{number: (description, connection)}`."""

    def __init__(self, peers: Mapping[int, tuple[str, socket.socket]], num_processes: int, heartbeat_timeout: float):
        self.names = {number: name for number, (name, _) in peers.items()}
        self.connections = {number: connection for number, (_, connection) in peers.items()}
        self.last_seen_at = dict.fromkeys(peers, time.monotonic())
        self.pending = {number: b"" for number in peers}
        self.silent: set[int] = set()
        self.reports: list[str] = []
        self.reported = threading.Event()
        self.num_processes, self.heartbeat_timeout = num_processes, heartbeat_timeout
        self.selector = selectors.DefaultSelector()
        for number, connection in self.connections.items():
            connection.setblocking(False)
            self.selector.register(connection, selectors.EVENT_READ, number)
        self.waker, self.woken = socket.socketpair()
        self.selector.register(self.woken, selectors.EVENT_READ, None)
        self.thread = threading.Thread(target=self._run, name="xlafront-peer-watch", daemon=True)
        self.thread.start()

    def leave(self) -> None:
        """Notify the others that this process ends normally, and stop watching."""
        self.waker.close()
        self.thread.join(timeout=5)

    def wait_for_all_to_end(self, timeout: float) -> None:
        """Wait until no other process is connected, for at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.connections and time.monotonic() < deadline:
            time.sleep(0.01)

    def first_report(self, timeout: float) -> str | None:
        """Return the first report. Wait for it briefly, since other processes may notice a failure earlier."""
        return self.reports[0] if self.reported.wait(timeout) else None

    def _run(self) -> None:
        pause = self.heartbeat_timeout / 5
        send_at = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= send_at:
                self._send(_ALIVE)
                send_at = now + pause
            for key, _ in self.selector.select(max(0.0, send_at - now)):
                if key.data is None:
                    self._send(_LEAVING)
                    for resource in (*self.connections.values(), self.woken, self.selector):
                        resource.close()
                    return
                if key.data in self.connections:
                    self._receive(key.data)
            self._check_for_silent()

    def _send(self, line: bytes, except_to: int | None = None) -> None:
        for number, connection in self.connections.items():
            if number != except_to:
                try:
                    connection.send(line + b"\n")
                except OSError:
                    pass  # full, because the other process does not read, or broken: both are noticed by _receive

    def _receive(self, number: int) -> None:
        try:
            data = self.connections[number].recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self.pending[number] = (self.pending[number] + data).split(b"\n")
        self.last_seen_at[number] = time.monotonic()
        for line in lines:
            if line not in (_ALIVE, _LEAVING):  # process 0 reports on another process
                self._report(line.decode(errors="replace"))
        if _LEAVING in lines or not data or len(self.pending[number]) > _MAX_LINE_BYTES:
            self.selector.unregister(self.connections[number])
            self.connections.pop(number).close()
            if _LEAVING not in lines:
                self._report_to_all(number, (
                    f"{self.names[number]} of {self.num_processes} has ended without distributed.shutdown. What went wrong is "
                    f"in its output, or in the log of its machine or scheduler. The others cannot continue without it: they "
                    f"end with an error at once, or after heartbeat_timeout_seconds={self.heartbeat_timeout:g}."))

    def _check_for_silent(self) -> None:
        now = time.monotonic()
        for number in list(self.connections):
            since = now - self.last_seen_at[number]
            if since < self.heartbeat_timeout * 0.6:
                self.silent.discard(number)
            elif number not in self.silent:
                self.silent.add(number)
                self._report_to_all(number, (
                    f"{self.names[number]} of {self.num_processes} has not been heard of for {since:.1f} s: it is stopped, or "
                    f"its machine is overloaded or cannot be reached. Unless it comes back, all processes end once "
                    f"heartbeat_timeout_seconds={self.heartbeat_timeout:g} have passed. Look at that process and its machine; "
                    f"where such pauses are normal, give distributed.initialize a larger heartbeat_timeout_seconds."))

    def _report_to_all(self, number: int, text: str) -> None:
        self._report(text)
        self._send(text.encode(), except_to=number)

    def _report(self, text: str) -> None:
        self.reports.append(text)
        self.reported.set()
        try:
            sys.stderr.write(f"xlafront: {text}\n")
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # closed during interpreter shutdown
            pass
