"""The compilation cache on disk, so that each program is compiled once per machine.

A serialized executable is code. So the directory is private to the user, and an entry is loaded only if the user owns it and
its checksum is correct. Problems with the cache cost a recompilation and at most one warning; they are errors only if
`raise_persistent_cache_errors` is set.
"""

from __future__ import annotations

import os
import platform
import stat
import struct
import sys
import threading
import time
import warnings
from typing import Any

from xlafront.base import config
from xlafront.base.jaxlib_compat import jaxlib_version_text

_MAGIC = b"XLAFRNT2"
_HEADER = struct.Struct("<8s32s32sdQ")  # magic, key, checksum, compile time in seconds, payload length
_SUFFIX = ".xla"
_SAMPLE = 256  # entries whose sizes are read to estimate the size of all


def default_directory() -> str:
    """Return `$XLAFRONT_CACHE_DIR`, or else the platform's user cache directory."""
    directory = os.environ.get("XLAFRONT_CACHE_DIR")
    if directory:
        return os.path.abspath(os.path.expanduser(directory))
    if sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "xlafront")


def _cpu_features() -> str:
    """Return the CPU's features, since code compiled for one machine must not run on another."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.startswith(("flags", "Features")):
                    return platform.machine() + line
    except OSError:
        pass
    return f"{platform.machine()} {platform.processor()} {platform.version()}"


_machine: list[str] = []


def fingerprint(client) -> str:
    """Return a description of the CPU that compiled code depends on; empty for other platforms."""
    if client.platform != "cpu":
        return ""
    if not _machine:
        _machine.append(_cpu_features())
    return _machine[0]


def _blake2b(data: bytes = b"", *, digest_size: int) -> Any:
    try:
        from _blake2 import blake2b  # start-up: hashlib loads OpenSSL besides, 2 to 5 ms
    except ImportError:  # a Python without this module
        from hashlib import blake2b  # start-up: the same
    return blake2b(data, digest_size=digest_size)


def cache_key(module: bytes, options: bytes, client, devices) -> str:
    """Return a hash of all that the executable depends on: module, options, compiler, hardware."""
    components = [_MAGIC, module, options, jaxlib_version_text, client.platform, client.platform_version,
             *[f"{d.id}:{d.device_kind}" for d in devices],
             *[os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]]
    if client.platform == "cpu":
        components.append(fingerprint(client))
    digest = _blake2b(digest_size=32)
    for component in components:
        data = component if isinstance(component, bytes) else component.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class DiskCache:
    """A directory of executables of bounded size, with least-recently-used eviction."""

    def __init__(self, directory: str, max_bytes: float, min_compile_seconds: float):
        self.directory = directory
        self.max_bytes = max_bytes
        self.min_compile_seconds = min_compile_seconds
        self.lock = threading.Lock()
        self.usable: bool | None = None  # None: not checked yet
        self.approximate_size: float | None = None  # None: not estimated yet
        self.warned = False

    # Security

    def _prepare(self) -> bool:
        """Create the directory and check that no other user can write to it."""
        if self.usable is None:
            with self.lock:
                if self.usable is None:
                    self.usable = self._check()
        return self.usable

    def _check(self) -> bool:
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            status = os.stat(self.directory)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(f"{self.directory} is not a directory")
            problem = _untrusted(status) or _insecure_parent(self.directory)
            if problem:
                self._warn(f"its directory {self.directory} {problem}; use another one (XLAFRONT_CACHE_DIR) or "
                           f"`chmod 700` it")
                return False
            return True
        except OSError as e:
            self._warn(f"its directory {self.directory} cannot be used: {e}")
            return False

    def _warn(self, problem: str) -> None:
        text = f"the compile cache is off: {problem}."
        if config.raise_persistent_cache_errors.value:
            raise RuntimeError(text)
        if not self.warned:
            self.warned = True
            warnings.warn(text, stacklevel=3)

    def path(self, key: str) -> str:
        return os.path.join(self.directory, key + _SUFFIX)

    # Reading and writing

    def load(self, key: str) -> tuple[bytes, float] | None:
        """Return a serialized executable and its compile time in seconds."""
        if not self._prepare():
            return None
        path = self.path(key)
        try:
            descriptor = os.open(path, _READ_ONLY)
        except FileNotFoundError:
            return None
        except OSError as e:
            self.discard(key, e)
            return None
        try:
            with os.fdopen(descriptor, "rb") as f:
                status = os.fstat(f.fileno())
                problem = _untrusted(status) or _invalid_entry(status, self.max_bytes)
                if problem:
                    self.discard(key, f"it {problem}")
                    return None
                entry = _unpack(key, f.read(status.st_size))
            os.utime(path)
            return entry
        except (OSError, ValueError) as e:
            self.discard(key, e)
            return None

    def should_store(self, compile_seconds: float) -> bool:
        return compile_seconds >= self.min_compile_seconds

    def store(self, key: str, data: bytes, compile_seconds: float) -> None:
        if not self._prepare() or len(data) + _HEADER.size > self.max_bytes:
            return
        content = _HEADER.pack(_MAGIC, bytes.fromhex(key), _checksum(data), compile_seconds, len(data)) + data
        try:
            try:
                self._write(key, content)
            except FileNotFoundError:  # another process cleared the cache or removed its directory
                self.usable = None
                if self._prepare():
                    self._write(key, content)
        except (FileNotFoundError, IsADirectoryError):
            return  # the directory was deleted again, or the entry's path is a directory
        except OSError as e:
            self._warn(f"{self.directory} cannot be written: {e}")
            self.usable = False
            return
        with self.lock:
            if self.approximate_size is None:
                self.approximate_size = self._estimate_size()
            else:
                self.approximate_size += len(content)
            is_full = self.approximate_size > self.max_bytes
        if is_full:
            self.evict()

    def _write(self, key: str, content: bytes) -> None:
        import tempfile  # start-up: 3 ms

        descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=self.directory)
        try:
            with os.fdopen(descriptor, "wb") as f:
                f.write(content)
            os.replace(temporary, self.path(key))
        except BaseException:
            _remove(temporary)
            raise

    def discard(self, key: str, problem) -> None:
        """Remove an unusable entry and warn."""
        path = self.path(key)
        _remove(path)
        text = f"the compile cache entry {path} cannot be used"
        if config.raise_persistent_cache_errors.value:
            raise RuntimeError(f"{text}: {problem}")
        warnings.warn(f"{text} and the program is compiled again: {problem}", stacklevel=3)

    # Size

    def _estimate_size(self) -> float:
        """Return the size of all entries in bytes: the sum if they are few, else extrapolated from a sample.

        Listing names is cheap. A status of each of 20,000 entries takes longer than compiling a small program.
        """
        try:
            names = sorted(name for name in os.listdir(self.directory) if name.endswith((_SUFFIX, ".tmp")))
        except OSError:
            return 0.0
        sample = names[::len(names) // _SAMPLE + 1]  # names are hashes, so their order says nothing about sizes
        sizes = []
        for name in sample:
            try:
                sizes.append(os.lstat(os.path.join(self.directory, name)).st_size)
            except OSError:
                continue  # another process removed it
        return sum(sizes) * len(names) / max(len(sizes), 1)

    def entries(self) -> list[tuple[str, int, float]]:
        """Return path, size in bytes, and time of last use of each entry, oldest first."""
        entries = []
        try:
            with os.scandir(self.directory) as listing:
                for file in listing:
                    if file.name.endswith((_SUFFIX, ".tmp")):
                        try:
                            status = file.stat(follow_symlinks=False)
                        except OSError:
                            continue
                        entries.append((file.path, status.st_size, status.st_mtime))
        except OSError:
            return []
        return sorted(entries, key=lambda e: e[2])

    def evict(self) -> None:
        """Remove the least recently used entries until a fifth of the capacity is free."""
        with self.lock:
            entries = self.entries()
            total = sum(size for _, size, _ in entries)
            for path, size, last_used in entries:
                abandoned = path.endswith(".tmp") and last_used < time.time() - 3600
                if total <= 0.8 * self.max_bytes and not abandoned:
                    break
                if path.endswith(".tmp") and not abandoned:
                    continue  # another process is writing it
                if _remove(path):
                    total -= size
            self.approximate_size = total

    def clear(self) -> int:
        """Remove all entries and return their number."""
        return sum(_remove(path) for path, _, _ in self.entries())


def _untrusted(status: os.stat_result) -> str | None:
    if not hasattr(os, "getuid"):
        return None
    if status.st_uid != os.getuid():
        return "belongs to another user"
    if stat.S_IMODE(status.st_mode) & 0o022:
        return "can be written by other users"
    return None


def _insecure_parent(directory: str) -> str | None:
    """Return the problem if other users can replace a parent directory."""
    if not hasattr(os, "getuid"):
        return None
    parent = os.path.dirname(directory)
    while True:
        mode = os.stat(parent).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"is inside of {parent}, in which all users can replace what is not theirs"
        if parent == os.path.dirname(parent):
            return None
        parent = os.path.dirname(parent)


# Without blocking on a pipe, and without following a link.
_READ_ONLY = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def _invalid_entry(status: os.stat_result, max_bytes: float) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    return "is larger than the cache may be" if status.st_size > max_bytes else None


def _checksum(data: bytes) -> bytes:
    return _blake2b(data, digest_size=32).digest()


def _unpack(key: str, content: bytes) -> tuple[bytes, float]:
    if len(content) < _HEADER.size:
        raise ValueError("it is truncated")
    magic, stored_key, checksum, compile_seconds, length = _HEADER.unpack_from(content)
    data = content[_HEADER.size:]
    if magic != _MAGIC or stored_key != bytes.fromhex(key):
        raise ValueError("it is not an entry of this cache")
    if len(data) != length or _checksum(data) != checksum:
        raise ValueError("it is damaged")
    return data, compile_seconds


_RECORD = struct.Struct("<8s32sQ")  # magic, checksum, payload length


def pack_record(magic: bytes, data: bytes) -> bytes:
    """Pack data to be stored outside of a cache: magic (kind and version), checksum, data."""
    return _RECORD.pack(magic, _checksum(data), len(data)) + data


def unpack_record(magic: bytes, content: bytes) -> bytes:
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise ValueError(f"it must be bytes, it is {type(content).__name__}")
    content = bytes(content)
    if content[:len(magic) - 1] != magic[:-1]:
        raise ValueError("it is something else")
    if content[:len(magic)] != magic:
        raise ValueError(f"it is of another version ({content[len(magic) - 1:len(magic)]!r}, here is {magic[-1:]!r})")
    if len(content) < _RECORD.size:
        raise ValueError("it is truncated")
    _, checksum, length = _RECORD.unpack_from(content)
    data = content[_RECORD.size:]
    if len(data) < length:
        raise ValueError("it is truncated")
    if len(data) != length or _checksum(data) != checksum:
        raise ValueError("it is damaged")
    return data


def _remove(path: str) -> bool:
    try:
        os.remove(path)
        return True
    except (IsADirectoryError, PermissionError):
        try:
            os.rmdir(path)
            return True
        except OSError:
            return False
    except OSError:
        return False
