"""Safety checks of exports that can be left out, and the calling conventions that are known."""

from __future__ import annotations

minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


class DisabledSafetyCheck:
    """A safety check of an export that is to be left out, made by `platform()` or `custom_call(name)`."""

    __slots__ = ("_impl",)

    def __init__(self, _impl: str):
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Let the exported function be called on platforms that it was not exported for.

        >>> xf.export.DisabledSafetyCheck.platform()
        platform
        """
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Let the module call a kernel that nobody promises to keep.

        - `target_name`: the name under which the kernel is registered.

        >>> xf.export.DisabledSafetyCheck.custom_call("my_kernel").is_custom_call()
        'my_kernel'
        """
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The kernel that may be called; None where this is about something else.

        >>> xf.export.DisabledSafetyCheck.platform().is_custom_call() is None
        True
        """
        kind, _, target = self._impl.partition(":")
        return target if kind == "custom_call" else None

    def __eq__(self, other):
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self):
        return hash(self._impl)

    def __repr__(self):
        return self._impl
