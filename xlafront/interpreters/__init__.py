"""The rules that primitives have in each transformation, for programs that define primitives of their own.

`ad`, `batching`, `mlir`, `partial_eval`, `xla` and `pxla` have the names of the reference. Their registries are views
of the records in `core.primitive`.
"""

from xlafront.faces import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {}, "ad batching mlir partial_eval pxla xla")
