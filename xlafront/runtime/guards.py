"""Guards on transfers: copies between the host and devices, and between devices, that the runtime logs or refuses; and the one
on arrays that the cycle collector frees.

jaxlib checks every copy against a level for each direction, of the thread or else of the process. A copy that somebody asked
for (`device_put`, `device_get`) is explicit, and only the levels `log_explicit` and `disallow_explicit` concern it.
"""

from __future__ import annotations

from typing import Any

from xlafront.runtime import config
from xlafront.runtime.jaxlib_compat import JaxRuntimeError, guard_lib
from xlafront.runtime.logs import log

DIRECTIONS = ("host_to_device", "device_to_device", "device_to_host")
_in_use = False  # whether any guard was ever set


def _level(value: str | None) -> Any:
    return None if value is None else getattr(guard_lib.TransferGuardLevel, value.upper())


def _follow(direction: str) -> None:
    """Tell jaxlib of a setting, now and whenever it changes."""
    def tell(state: Any, value: str | None) -> None:
        global _in_use
        _in_use = True
        setattr(state, direction, _level(value))

    setting, both = config.settings[f"transfer_guard_{direction}"], config.settings["transfer_guard"]
    if setting.is_set or both.is_set:
        tell(guard_lib.global_state(), setting.value if setting.is_set else both.value)
    config.on_update(setting.name, lambda value: tell(guard_lib.global_state(), value))
    config.on_scope(setting.name, lambda value: tell(guard_lib.thread_local_state(), value))


class explicit:
    """Inside, the copies of a kind, `device_put` or `device_get`, are asked for. Hot: entered for each of them."""

    __slots__ = ("kind", "saved")

    def __init__(self, kind: str):
        self.kind = f"explicit_{kind}"

    def __enter__(self):
        if _in_use:
            state = guard_lib.thread_local_state()
            self.saved = getattr(state, self.kind)
            setattr(state, self.kind, True)

    def __exit__(self, *exception):
        if _in_use:
            setattr(guard_lib.thread_local_state(), self.kind, self.saved)


def check(direction: str, what: str) -> None:
    """The guard of a direction on a copy that jaxlib does not see; `what` says what is copied."""
    if not _in_use:
        return
    state = guard_lib.thread_local_state()
    level = getattr(state, direction) or getattr(guard_lib.global_state(), direction)
    asked = state.explicit_device_put
    if level is None or level is _level("allow") or asked and not level.name.endswith("EXPLICIT"):
        return
    transfer = f"{direction.replace('_', '-')} transfer"
    if level.name.startswith("LOG"):
        log().warning("%s: a %s.", what, transfer)
    else:
        raise JaxRuntimeError(f"Disallowed {transfer} by the setting transfer_guard: {what}. Ask for it with device_put, or "
                              f"allow it where it happens: with transfer_guard('allow').")


class from_host:
    """Inside, copies from the host to devices are of values that are there for the user: of constants of a program."""

    __slots__ = ("saved",)
    direction = "host_to_device"

    def __enter__(self):
        if _in_use:
            state = guard_lib.thread_local_state()
            self.saved = getattr(state, self.direction)
            setattr(state, self.direction, _level("allow"))

    def __exit__(self, *exception):
        if _in_use:
            setattr(guard_lib.thread_local_state(), self.direction, self.saved)


class to_host(from_host):
    """Inside, copies from devices to the host are of constants that are written into a program."""

    __slots__ = ()
    direction = "device_to_host"


class between_devices(from_host):
    """Inside, host memory stands for that of devices: copies from it are between devices."""

    __slots__ = ("what",)

    def __init__(self, what: Any):
        self.what = what

    def __enter__(self):
        if _in_use:
            check("device_to_device", f"An array of type {self.what} is copied to other devices")
        super().__enter__()


for _direction in DIRECTIONS:
    _follow(_direction)


def _guard_garbage(state: Any, value: str | None) -> None:
    """What happens to arrays that only the cycle collector frees, which keep memory for longer than their users know."""
    state.garbage_collect_array = None if value is None else getattr(guard_lib.GarbageCollectionGuardLevel, value.upper())


_garbage = config.settings["array_garbage_collection_guard"]
if _garbage.is_set:
    _guard_garbage(guard_lib.global_state(), _garbage.value)
config.on_update(_garbage.name, lambda value: _guard_garbage(guard_lib.global_state(), value))
config.on_scope(_garbage.name, lambda value: _guard_garbage(guard_lib.thread_local_state(), value))


# Calls of programs over several processes from another thread than the one that set the guard: they could come in another order
# than in other processes, in which all would wait for each other.
def _guard_threads(_=None) -> None:
    guard_lib.update_thread_guard_global_state(bool(config.settings["thread_guard"].value))


if config.settings["thread_guard"].value:
    _guard_threads()
config.on_update("thread_guard", _guard_threads)
config.on_scope("thread_guard", _guard_threads)
