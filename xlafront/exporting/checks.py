"""Safety checks of exports that can be disabled, and the supported calling conventions."""

from __future__ import annotations

minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


class DisabledSafetyCheck:
    """A safety check of an export that is disabled, made by `platform()` or `custom_call(name)`."""

    __slots__ = ("_impl",)

    def __init__(self, _impl: str):
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Allow calls of the exported function on platforms that it was not exported for.

        Returns:
            The disabled check.

        Example:
            >>> xf.export.DisabledSafetyCheck.platform()
            platform
        """
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Allow a custom call without compatibility guarantees in the module.

        Args:
            target_name: Name under which the kernel is registered.

        Returns:
            The disabled check.

        Example:
            >>> xf.export.DisabledSafetyCheck.custom_call("my_kernel").is_custom_call()
            'my_kernel'
        """
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """Return the name of the custom call that is allowed, or None for other checks.

        Returns:
            Name or None.

        Example:
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
