"""Export of jitted functions as portable StableHLO modules, for other processes and other runtimes.

    exported = export.export(xf.jit(f))(xf.ShapeDtypeStruct((8,), "float32"))
    open("f.exported", "wb").write(exported.serialize(vjp_order=1))

    f = export.deserialize(open("f.exported", "rb").read()).call   # in any process

This and later versions can read the file. The StableHLO in it is targeted to a version that jaxlibs up to twelve weeks older
than the writing one can read, and every newer one for five years, as long as it calls only custom calls that `export` allows.
`deserialize` also reads files of jax (0.6 to 0.12 are tested).

Shapes may be symbolic: types with shapes from `symbolic_shape("b, 3")` give one module for every `b`.

Without xlafront, and without Python: `exported.mlir_module_serialized` is a portable StableHLO artifact, which IREE and every
plugin with PJRT's C API take. On the command line:

    python -m xlafront export model.py:predict 'float32[b,128]' --out predict.mlir --platforms cpu
    iree-compile --iree-input-type=stablehlo --iree-hal-target-backends=llvm-cpu predict.mlirbc -o predict.vmfb
    iree-run-module --module=predict.vmfb --device=local-task --function=main --input=@x.npy --output=@y.npy

The last command is a C++ program. `pip install 'xlafront[iree]'` installs both. IREE's compiler supports StableHLO operations
only: a program that calls LAPACK or cuSOLVER kernels needs XLA.

A custom C++ program needs a PJRT plugin and the header `pjrt_c_api.h`. The package `xla-cpu-pjrt` has both for CPUs
(`pip install 'xlafront[pjrt]'`). `notebooks/from_cpp/run.cc` in the repository is such a program:

    python -m xlafront export model.py:predict 'float32[2,3]' 'float32[3,4]' --out predict.mlir --platforms cpu
    g++ -std=c++17 -I xla_plugins/xla_cpu_pjrt/include run.cc -o run -ldl
    ./run xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so predict.mlirbc 2x3:x.bin 3x4:w.bin

A plugin compiles modules with static shapes, lowered for one platform.

There is no export to TensorFlow SavedModel or to ONNX, as tools that read StableHLO need neither. stablehlo-coreml converts
StableHLO to Apple's Core ML; jax2onnx converts jax programs to ONNX and supports a subset of their operations.
"""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.symbolic.dimensions": "is_symbolic_dim",
    "xlafront.symbolic.shapes": "SymbolicScope symbolic_args_specs symbolic_dim_bounds symbolic_shape",
    "xlafront.exporting.checks":
        "DisabledSafetyCheck maximum_supported_calling_convention_version minimum_supported_calling_convention_version",
    "xlafront.exporting.export": "default_export_platform export",
    "xlafront.exporting.exported": "Exported deserialize",
    "xlafront.exporting.structures": "register_namedtuple_serialization register_pytree_node_serialization",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
