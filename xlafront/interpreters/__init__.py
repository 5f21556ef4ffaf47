"""The transformation rules of primitives, for programs that define their own primitives.

`ad`, `batching`, `mlir`, `partial_eval`, `xla` and `pxla` have the names of JAX's modules. Their registries are views of the
fields of `core.primitive.Primitive`.
"""

from xlafront.lazy_module import attach

__getattr__, __dir__, __all__ = attach(__name__, {}, "ad batching mlir partial_eval pxla xla")
