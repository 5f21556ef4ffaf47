"""Differences between jaxlib versions, and the only module that names jaxlib's private modules.

The rest of the package imports jaxlib's core names from here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

# XLA logs the start of every client; show only warnings. jaxlib reads the variable when it is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import jaxlib.version  # noqa: E402
import numpy as np  # noqa: E402
from jaxlib import _hlo, _jax  # noqa: E402

from xlafront.base import jax_names  # noqa: E402

jaxlib_version: tuple[int, ...] = tuple(int(part) for part in jaxlib.version.__version__.split(".")[:3])
jaxlib_version_text: str = jaxlib.version.__version__
# A donated array keeps the handles of its buffers. Passing it to a fast dispatch over several devices crashes the process,
# where later versions raise an error: see `delete_handle`.
DONATED_ARRAYS_CRASH = jaxlib_version < (0, 11)
# True if the processes of a program can encrypt their connections.
HAS_MTLS = "mtls_cert_file" in (_jax.get_distributed_runtime_client.__doc__ or "")
# True if topologies can be written to files.
HAS_TOPOLOGY_FILES = hasattr(_jax.DeviceTopology, "serialize")
# True if compile options have efforts, which later versions replace by levels.
HAS_EFFORTS = jaxlib_version < (0, 11)
# True if XLA's GPU compiler has reductions along an axis as one operation.
HAS_SUMS_ON_GPU = jaxlib_version >= (0, 11)
# True if XLA has two emitters of CPU kernels.
HAS_TWO_EMITTERS = jaxlib_version < (0, 11)


def __getattr__(name: str):
    if name == "gpu_triton":
        from jaxlib import gpu_triton  # start-up: for jax-triton

        return gpu_triton
    if name not in ("xla_client", "jaxlib_extension_version"):
        raise AttributeError(f"xlafront.base.jaxlib_compat has no {name!r}")
    from jaxlib import xla_client  # start-up: 1 ms, for libraries that look up its exceptions or its version

    return xla_client if name == "xla_client" else xla_client._version


def delete_handle(leaves) -> None:
    """Delete donated arrays among the arguments of a call, so that they are marked as deleted."""
    for x in leaves:
        if type(x) is ArrayImpl and x.is_deleted():
            x.delete()


Config = _jax.config.Config
pytree = _jax.pytree
Buffer, ExecutionContext, ExecutionStage = _jax.ffi.Buffer, _jax.ffi.ExecutionContext, _jax.ffi.ExecutionStage
if TYPE_CHECKING:
    from xlafront.base.jaxlib_types import Device, GSPMDSharding, NamedSharding, Sharding, SingleDeviceSharding
    from xlafront.numpy.array_methods import Array as ArrayImpl
else:
    ArrayImpl, Device, Sharding = _jax.ArrayImpl, _jax.Device, _jax.Sharding
    SingleDeviceSharding, NamedSharding, GSPMDSharding = _jax.SingleDeviceSharding, _jax.NamedSharding, _jax.GSPMDSharding
Array = _jax.Array
DeviceList: TypeAlias = _jax.DeviceList
ArrayCopySemantics: TypeAlias = _jax.ArrayCopySemantics
Client: TypeAlias = _jax.Client
CompileOptions: TypeAlias = _jax.CompileOptions
PjRtLayout: TypeAlias = _jax.PjRtLayout
PjitFunction: TypeAlias = _jax.PjitFunction
PjitFunctionCache = _jax.PjitFunctionCache
HloSharding: TypeAlias = _hlo.HloSharding
OpSharding: TypeAlias = _hlo.OpSharding
OpShardingType = _hlo.OpSharding_Type
JaxRuntimeError = _jax.JaxRuntimeError
pjit = _jax.pjit
batched_device_put = _jax.batched_device_put
batched_block_until_ready = _jax.batched_block_until_ready
encode_inspect_sharding_callback = _jax.encode_inspect_sharding_callback
set_tracer_class = _jax.set_tracer_class
collect_garbage = _jax.collect_garbage
guard_lib = _jax.guard_lib
ifrt_programs = _jax.ifrt_programs
make_error_array = _jax._make_error_array
start_transfer_server = getattr(_jax, "start_transfer_server", None)  # not on every platform

jax_names.serve("jax._src.sharding_impls", make_single_device_sharding=SingleDeviceSharding)


def register_jit_states(disable_jit, enable_x64, post_hook) -> None:
    """Set the flags that C++ dispatch reads itself. Required before arrays are created."""
    _jax.jax_jit.set_disable_jit_state(disable_jit)
    _jax.jax_jit.set_enable_x64_state(enable_x64)
    _jax.jax_jit.set_post_hook_state(post_hook)


def result_handler(aval, sharding, committed: bool):
    """Return a function that makes arrays from output buffers. float0 has no buffers and gives NumPy arrays."""
    if not aval.dtype.itemsize:
        return lambda buffers: np.zeros(aval.shape, aval.dtype)
    if jaxlib_version < (0, 11):
        return _jax.array_result_handler(aval, sharding, committed, _skip_checks=True)
    return _jax.array_result_handler(aval, sharding, committed)


def hlo_computation(bytecode: bytes):
    """Convert a StableHLO module to an XLA computation."""
    return _jax.mlir.mlir_module_to_xla_computation(bytecode)


def hlo_text(computation, print_metadata: bool) -> str:
    """Return the text of an XLA computation, with source locations and names of operations if `print_metadata`."""
    options = _hlo.HloPrintOptions.short_parsable()
    options.print_metadata = print_metadata
    return computation.as_hlo_module().to_string(options)


def hlo_cost_analysis(client, computation) -> dict[str, float]:
    return _jax.hlo_module_cost_analysis(client, computation.as_hlo_module())


def allows_sums_in_bodies() -> bool:
    """True if bodies of `sdy.manual_computation` can sum over axes over which an operand is unreduced: in jaxlib 0.10."""
    return jaxlib_version < (0, 11)


def allows_open_extremes() -> bool:
    """True if the compiler represents arrays that are unreduced maxima or minima: not in jaxlib 0.10."""
    return jaxlib_version >= (0, 11)


def register_typed_scalars(typed_int: type, typed_float: type, typed_complex: type) -> None:
    """Register the scalar types whose attribute `dtype` is the dtype of the buffer that C++ makes of them."""
    _jax.set_typed_int_type(typed_int)
    _jax.set_typed_float_type(typed_float)
    _jax.set_typed_complex_type(typed_complex)
