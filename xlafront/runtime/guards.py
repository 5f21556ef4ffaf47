"""Guards on transfers, which the runtime logs or refuses, and the guard on arrays that only the cycle collector frees.

jaxlib checks every copy against the level for its direction, set for the thread or else for the process. Copies by `device_put`
and `device_get` are explicit; only the levels `log_explicit` and `disallow_explicit` apply to them.
"""

from __future__ import annotations

from typing import Any

from xlafront.base import config
from xlafront.base.jaxlib_compat import JaxRuntimeError, guard_lib
from xlafront.base.logs import log

DIRECTIONS = ("host_to_device", "device_to_device", "device_to_host")
_is_used = False  # True once a guard was set


def _level(value: str | None) -> Any:
    return None if value is None else getattr(guard_lib.TransferGuardLevel, value.upper())


def _connect_setting(direction: str) -> None:
    """Pass a setting on to jaxlib, now and whenever it changes."""
    def set_level(state: Any, value: str | None) -> None:
        global _is_used
        _is_used = True
        setattr(state, direction, _level(value))

    setting, general_setting = config.settings[f"transfer_guard_{direction}"], config.settings["transfer_guard"]
    if setting.is_set or general_setting.is_set:
        set_level(guard_lib.global_state(), setting.value if setting.is_set else general_setting.value)
    config.on_update(setting.name, lambda value: set_level(guard_lib.global_state(), value))
    config.on_scope(setting.name, lambda value: set_level(guard_lib.thread_local_state(), value))


class explicit:
    """Mark copies as explicit: those of kind `device_put` or `device_get`. Hot: entered for each of them."""

    __slots__ = ("kind", "saved")

    def __init__(self, kind: str):
        self.kind = f"explicit_{kind}"

    def __enter__(self):
        if _is_used:
            state = guard_lib.thread_local_state()
            self.saved = getattr(state, self.kind)
            setattr(state, self.kind, True)

    def __exit__(self, *exception):
        if _is_used:
            setattr(guard_lib.thread_local_state(), self.kind, self.saved)


def check(direction: str, description: str) -> None:
    """Apply the guard of a direction to a copy that jaxlib does not see."""
    if not _is_used:
        return
    state = guard_lib.thread_local_state()
    level = getattr(state, direction) or getattr(guard_lib.global_state(), direction)
    is_explicit = state.explicit_device_get if direction == "device_to_host" else state.explicit_device_put
    if level is None or level is _level("allow") or is_explicit and not level.name.endswith("EXPLICIT"):
        return
    transfer = f"{direction.replace('_', '-')} transfer"
    if level.name.startswith("LOG"):
        log().warning("%s: a %s.", description, transfer)
    else:
        raise JaxRuntimeError(f"Disallowed {transfer} by the setting transfer_guard: {description}. Make it explicit "
                              f"with {'device_get' if direction == 'device_to_host' else 'device_put'}, or allow it where it "
                              f"happens: with transfer_guard('allow').")


class from_host:
    """Allow copies from the host to devices, for constants of a program, which the user did not transfer."""

    __slots__ = ("saved",)
    direction = "host_to_device"

    def __enter__(self):
        if _is_used:
            state = guard_lib.thread_local_state()
            self.saved = getattr(state, self.direction)
            setattr(state, self.direction, _level("allow"))

    def __exit__(self, *exception):
        if _is_used:
            setattr(guard_lib.thread_local_state(), self.direction, self.saved)


class to_host(from_host):
    """Allow copies from devices to the host, for constants that are embedded in a program."""

    __slots__ = ()
    direction = "device_to_host"


class between_devices(from_host):
    """Treat copies from the host to devices as copies between devices, where host memory is the intermediate stop."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval

    def __enter__(self):
        if _is_used:
            check("device_to_device", f"An array of type {self.aval} is copied to other devices")
        super().__enter__()


for _direction in DIRECTIONS:
    _connect_setting(_direction)


def _guard_garbage(state: Any, value: str | None) -> None:
    """Set what happens to arrays in reference cycles, whose memory stays in use until the cycle collector runs."""
    state.garbage_collect_array = None if value is None else getattr(guard_lib.GarbageCollectionGuardLevel, value.upper())


_garbage = config.settings["array_garbage_collection_guard"]
if _garbage.is_set:
    _guard_garbage(guard_lib.global_state(), _garbage.value)
config.on_update(_garbage.name, lambda value: _guard_garbage(guard_lib.global_state(), value))
config.on_scope(_garbage.name, lambda value: _guard_garbage(guard_lib.thread_local_state(), value))


# The thread guard refuses multi-process computations from other threads than the one that set it: they could start in a
# different order than in other processes, and deadlock.
def _guard_threads(_=None) -> None:
    guard_lib.update_thread_guard_global_state(bool(config.settings["thread_guard"].value))


if config.settings["thread_guard"].value:
    _guard_threads()
config.on_update("thread_guard", _guard_threads)
config.on_scope("thread_guard", _guard_threads)
