"""Names of platforms."""

from __future__ import annotations

NAMES = {"cpu", "cuda", "tpu"}  # `runtime.clients` adds those of plugins
ALIASES = {"gpu": "cuda"}


class PlatformError(RuntimeError):
    """A requested platform is not available on this machine."""


def canonical_platform(name: str) -> str:
    """Return the name of a platform without alias and in lower case."""
    name = name.strip().lower()
    name = ALIASES.get(name, name)
    if name not in NAMES:
        names = ", ".join(sorted([*NAMES, *ALIASES]))
        raise PlatformError(f"unknown backend: there is no platform {name!r}; the platforms are {names}.")
    return name
