"""`Exported`: a function that can leave the process, and be called in others."""

from __future__ import annotations

import functools
from typing import Any

from xlafront.core.traceback_filter import boundary
from xlafront.exporting import files
from xlafront.exporting.calling import call_exported
from xlafront.exporting.record import ExportedModule


class Exported(ExportedModule):
    """An exported function: what `export` makes and `deserialize` reads. Its attributes are those of `ExportedModule`."""

    def has_vjp(self) -> bool:
        """Whether `vjp` gives something: files have it to the order that `serialize` was asked for.

        >>> xf.export.export(xf.jit(xnp.sin))(np.float32(1)).has_vjp()
        True
        """
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The exported derivative: of the flat arguments and a cotangent for each result, the cotangents of the arguments.

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
        """Call the exported function, outside or inside of `jit`, `grad`, `shard_map` and other exports.

        - `args`, `kwargs`: as those with which it was exported.

        >>> xf.export.export(xf.jit(lambda x: 2 * x))(np.float32(1)).call(3.0)
        Array(6., dtype=float32)
        """
        return call_exported(self, args, kwargs)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The bytes of a file from which `deserialize` makes this again, in any process.

        - `vjp_order`: how often it can be differentiated then; each order adds a module.

        >>> exported = xf.export.deserialize(xf.export.export(xf.jit(xnp.sin))(np.float32(1)).serialize(vjp_order=1))
        >>> xf.grad(exported.call)(np.float32(0))
        Array(1., dtype=float32)
        """
        return files.serialize(self, vjp_order)


def deserialize(blob: bytearray | bytes | memoryview) -> Exported:
    """The exported function of a file.

    - `blob`: the bytes that `Exported.serialize` has made, here or in jax, whose files have no checksum. Types that it
      takes or returns and that were registered for serialization are registered again, under the same names, before.

    >>> blob = xf.export.export(xf.jit(xnp.sin))(np.float32(1)).serialize()
    >>> xf.export.deserialize(blob).call(0.0)
    Array(0., dtype=float32)
    """
    header, modules = files.read(blob)
    return files.from_record(header["exported"], modules, Exported)
