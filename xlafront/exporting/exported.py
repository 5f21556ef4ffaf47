"""`Exported`: an exported function, which can be saved and called in other processes."""

from __future__ import annotations

import functools
from typing import Any

from xlafront.core.traceback_filter import boundary
from xlafront.exporting import files
from xlafront.exporting.calling import call_exported
from xlafront.exporting.record import ExportedModule


class Exported(ExportedModule):
    """An exported function: the result of `export` and of `deserialize`. Its attributes are those of `ExportedModule`."""

    def has_vjp(self) -> bool:
        """Return True if `vjp` is available: files contain derivatives up to the `vjp_order` of `serialize`.

        Returns:
            True or False.

        Example:
            >>> xf.export.export(xf.jit(xnp.sin))(np.float32(1)).has_vjp()
            True
        """
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """Return the exported derivative.

        It takes the flat arguments and a cotangent for each result, and returns the cotangents of the arguments.

        Returns:
            The exported derivative.

        Example:
            >>> xf.export.export(xf.jit(xnp.sin))(np.float32(1)).vjp().call(0.0, 1.0)
            (Array(1., dtype=float32),)
        """
        return self._vjp

    @functools.cached_property
    def _vjp(self) -> Exported:
        if self._get_vjp is None:
            raise ValueError(f"no VJP of {self.fun_name} is available: its file has derivatives to the order that it was "
                             f"serialized with. Write it with serialize(vjp_order=n), n the number of nested derivatives.")
        return self._get_vjp(self)

    @boundary
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the exported function, also inside of `jit`, `grad`, `shard_map` and other exports.

        Args:
            args, kwargs: Arguments with the structure and the types of the export.

        Returns:
            Pytree of results.

        Example:
            >>> xf.export.export(xf.jit(lambda x: 2 * x))(np.float32(1)).call(3.0)
            Array(6., dtype=float32)
        """
        return call_exported(self, args, kwargs)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """Serialize the exported function for `deserialize`.

        Args:
            vjp_order: How many times the deserialized function can be differentiated; each order adds a module.

        Returns:
            The contents of the file.

        Example:
            >>> exported = xf.export.deserialize(xf.export.export(xf.jit(xnp.sin))(np.float32(1)).serialize(vjp_order=1))
            >>> xf.grad(exported.call)(np.float32(0))
            Array(1., dtype=float32)
        """
        return files.serialize(self, vjp_order)


def deserialize(blob: bytearray | bytes | memoryview) -> Exported:
    """Deserialize an exported function.

    Args:
        blob: Result of `Exported.serialize`, of xlafront or of jax (whose files have no checksum). Register the serialized
            types that the function takes or returns first, under the names that they have in the file.

    Returns:
        The exported function.

    Example:
        >>> blob = xf.export.export(xf.jit(xnp.sin))(np.float32(1)).serialize()
        >>> xf.export.deserialize(blob).call(0.0)
        Array(0., dtype=float32)
    """
    header, modules = files.read(blob)
    return files.from_record(header["exported"], modules, Exported)
