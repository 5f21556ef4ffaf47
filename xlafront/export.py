"""Programs that leave the process: jitted functions as portable StableHLO modules, and files of them.

    exported = export.export(xf.jit(f))(xf.ShapeDtypeStruct((8,), "float32"))
    open("f.exported", "wb").write(exported.serialize(vjp_order=1))

    f = export.deserialize(open("f.exported", "rb").read()).call   # in any process

A file can be read by this and later versions. The StableHLO in it is written so that a jaxlib that is up to twelve weeks older
than the one that wrote it can read it, and every newer one for five years, as long as it calls no kernels but those that
`export` lets pass. `deserialize` reads the files of jax, too (0.6 to 0.12 are tested).

Sizes may stay open: types whose shapes come from `symbolic_shape("b, 3")` make a module for every `b`.

Without xlafront, and without Python: `exported.mlir_module_serialized` is a portable StableHLO artifact, which IREE and every
plugin with PJRT's C API take. On the command line

    python -m xlafront export model.py:predict 'float32[b,128]' --out predict.mlir --platforms cpu
    iree-compile --iree-input-type=stablehlo --iree-hal-target-backends=llvm-cpu predict.mlirbc -o predict.vmfb
    iree-run-module --module=predict.vmfb --device=local-task --function=main --input=@x.npy --output=@y.npy

of which the last is a program in C++. `pip install 'xlafront[iree]'` brings both. IREE's compiler knows StableHLO alone: what
calls kernels of LAPACK or cuSOLVER is for XLA.

A program in C++ of one's own needs a plugin of PJRT and the header `pjrt_c_api.h`, which for CPUs are in the package
`xla-cpu-pjrt` (`pip install 'xlafront[pjrt]'`). `notebooks/from_cpp/run.cc` of the repository is such a program:

    python -m xlafront export model.py:predict 'float32[2,3]' 'float32[3,4]' --out predict.mlir --platforms cpu
    g++ -std=c++17 -I xla_plugins/xla_cpu_pjrt/include run.cc -o run -ldl
    ./run xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so predict.mlirbc 2x3:x.bin 3x4:w.bin

What a plugin compiles has sizes that are known, and is for one platform.

A SavedModel of TensorFlow is not made here, nor a file of ONNX: what reads StableHLO needs neither. For Apple's Core ML there
is stablehlo-coreml, which reads StableHLO; jax2onnx makes ONNX of programs of jax, and knows a part of their operations.
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
