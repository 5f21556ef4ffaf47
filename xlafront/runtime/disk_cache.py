"""Compiled programs on disk, so that a program is compiled once a machine.

A serialised executable is code. So the directory is private to the user, an entry is loaded only when the user
owns it, and its checksum is verified first. Whatever goes wrong here costs a recompilation and at most one
warning, never the program, unless `raise_persistent_cache_errors` asks for that.
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

from xlafront.runtime import config
from xlafront.runtime.jaxlib_compat import jaxlib_version_text

_MAGIC = b"XLAFRNT2"
_HEADER = struct.Struct("<8s32s32sdQ")  # magic, key, checksum, seconds that compiling took, payload length
_SUFFIX = ".xla"


def default_directory() -> str:
    """`$XLAFRONT_CACHE_DIR`, else the platform's user cache directory."""
    given = os.environ.get("XLAFRONT_CACHE_DIR")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    if sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "xlafront")


def _cpu_features() -> str:
    """What the CPU can do: code compiled for one machine must not reach another."""
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
    """Which machine it is, as far as code for a CPU depends on it."""
    if client.platform != "cpu":
        return ""
    if not _machine:
        _machine.append(_cpu_features())
    return _machine[0]


def cache_key(module: bytes, options: bytes, client, devices) -> str:
    """All that the executable depends on, hashed: program, options, compiler, hardware."""
    import hashlib  # start-up: 5 ms

    parts = [_MAGIC, module, options, jaxlib_version_text, client.platform, client.platform_version,
             *[f"{d.id}:{d.device_kind}" for d in devices],
             *[os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]]
    if client.platform == "cpu":
        parts.append(fingerprint(client))
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class DiskCache:
    """A directory of compiled programs, bounded in size; the least recently used go first."""

    def __init__(self, directory: str, max_bytes: float, min_compile_seconds: float):
        self.directory = directory
        self.max_bytes = max_bytes
        self.min_compile_seconds = min_compile_seconds
        self.lock = threading.Lock()
        self.usable: bool | None = None  # None: not looked at yet
        self.approximate_size = 0
        self.warned = False

    # Trust

    def _prepare(self) -> bool:
        """Make the directory and see that nobody else can write to it."""
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
            problem = _untrusted(status) or _open_to_all_above(self.directory)
            if problem:
                self._warn(f"its directory {self.directory} {problem}; use another one (XLAFRONT_CACHE_DIR) or "
                           f"`chmod 700` it")
                return False
            self.approximate_size = sum(size for _, size, _ in self.entries())
            return True
        except OSError as e:
            self._warn(f"its directory {self.directory} cannot be used: {e}")
            return False

    def _warn(self, why: str) -> None:
        text = f"the compile cache is off: {why}."
        if config.raise_persistent_cache_errors.value:
            raise RuntimeError(text)
        if not self.warned:
            self.warned = True
            warnings.warn(text, stacklevel=3)

    def path(self, key: str) -> str:
        return os.path.join(self.directory, key + _SUFFIX)

    # Reading and writing

    def load(self, key: str) -> tuple[bytes, float] | None:
        """An executable, and how many seconds compiling it took."""
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
                problem = _untrusted(status) or _no_entry(status, self.max_bytes)
                if problem:
                    self.discard(key, f"it {problem}")
                    return None
                found = _unpack(key, f.read(status.st_size))
            os.utime(path)
            return found
        except (OSError, ValueError) as e:
            self.discard(key, e)
            return None

    def wants(self, compile_seconds: float) -> bool:
        return compile_seconds >= self.min_compile_seconds

    def store(self, key: str, data: bytes, compile_seconds: float) -> None:
        if not self._prepare() or len(data) + _HEADER.size > self.max_bytes:
            return
        content = _HEADER.pack(_MAGIC, bytes.fromhex(key), _checksum(data), compile_seconds, len(data)) + data
        try:
            try:
                self._write(key, content)
            except FileNotFoundError:  # somebody cleared the cache, or removed its directory
                self.usable = None
                if self._prepare():
                    self._write(key, content)
        except (FileNotFoundError, IsADirectoryError):
            return  # somebody did again, or what stands in the place of the entry cannot be replaced by one
        except OSError as e:
            self._warn(f"{self.directory} cannot be written: {e}")
            self.usable = False
            return
        self.approximate_size += len(content)
        if self.approximate_size > self.max_bytes:
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

    def discard(self, key: str, why) -> None:
        """Drop an entry that cannot be used, and say so."""
        path = self.path(key)
        _remove(path)
        text = f"the compile cache entry {path} cannot be used"
        if config.raise_persistent_cache_errors.value:
            raise RuntimeError(f"{text}: {why}")
        warnings.warn(f"{text} and the program is compiled again: {why}", stacklevel=3)

    # Size

    def entries(self) -> list[tuple[str, int, float]]:
        """(path, bytes, time of last use), oldest first."""
        found = []
        try:
            with os.scandir(self.directory) as listing:
                for entry in listing:
                    if entry.name.endswith((_SUFFIX, ".tmp")):
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except OSError:
                            continue
                        found.append((entry.path, status.st_size, status.st_mtime))
        except OSError:
            return []
        return sorted(found, key=lambda e: e[2])

    def evict(self) -> None:
        """Remove the least recently used entries until a fifth of the room is free again."""
        with self.lock:
            entries = self.entries()
            total = sum(size for _, size, _ in entries)
            for path, size, used in entries:
                abandoned = path.endswith(".tmp") and used < time.time() - 3600
                if total <= 0.8 * self.max_bytes and not abandoned:
                    break
                if path.endswith(".tmp") and not abandoned:
                    continue  # another process is writing it
                if _remove(path):
                    total -= size
            self.approximate_size = total

    def clear(self) -> int:
        """Remove every entry; how many there were."""
        return sum(_remove(path) for path, _, _ in self.entries())


def _untrusted(status: os.stat_result) -> str | None:
    if not hasattr(os, "getuid"):
        return None
    if status.st_uid != os.getuid():
        return "belongs to another user"
    if stat.S_IMODE(status.st_mode) & 0o022:
        return "can be written by other users"
    return None


def _open_to_all_above(directory: str) -> str | None:
    """Where others can put another directory in the place of this one."""
    if not hasattr(os, "getuid"):
        return None
    above = os.path.dirname(directory)
    while True:
        mode = os.stat(above).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return f"is inside of {above}, in which all users can replace what is not theirs"
        if above == os.path.dirname(above):
            return None
        above = os.path.dirname(above)


# Without waiting for who writes to a pipe; a link is not followed.
_READ_ONLY = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def _no_entry(status: os.stat_result, max_bytes: float) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    return "is larger than the cache may be" if status.st_size > max_bytes else None


def _checksum(data: bytes) -> bytes:
    import hashlib  # start-up: 5 ms

    return hashlib.blake2b(data, digest_size=32).digest()


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
    """What is stored outside of a cache: its kind and version, a checksum, the data."""
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
