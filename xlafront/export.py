"""Programs that leave the process: jitted functions as portable StableHLO modules, and files of them.

    exported = export.export(xf.jit(f))(xf.ShapeDtypeStruct((8,), "float32"))
    open("f.exported", "wb").write(exported.serialize(vjp_order=1))

    f = export.deserialize(open("f.exported", "rb").read()).call   # in any process

A file can be read by this and later versions. The StableHLO in it is written so that a jaxlib that is up to twelve weeks older
than the one that wrote it can read it, and every newer one for five years, as long as it calls no kernels but those that
`export` lets pass.
"""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.core.dimensions": "is_symbolic_dim",
    "xlafront.core.symbolic_shapes": "SymbolicScope symbolic_args_specs symbolic_shape",
    "xlafront.exporting.checks":
        "DisabledSafetyCheck maximum_supported_calling_convention_version minimum_supported_calling_convention_version",
    "xlafront.exporting.export": "default_export_platform export",
    "xlafront.exporting.exported": "Exported deserialize",
    "xlafront.exporting.structures": "register_namedtuple_serialization register_pytree_node_serialization",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
