"""Everything that differs between jaxlib versions, and the one place that names jaxlib's private modules.

The rest of the package imports what it needs of jaxlib's core from here.
"""

from __future__ import annotations

import os

# XLA logs the start of every client; only warnings are for users. Read by the library when it is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import jaxlib.version  # noqa: E402
import numpy as np  # noqa: E402
from jaxlib import _hlo, _jax  # noqa: E402

from xlafront.runtime import jax_names  # noqa: E402

jaxlib_version: tuple[int, ...] = tuple(int(part) for part in jaxlib.version.__version__.split(".")[:3])
jaxlib_version_text: str = jaxlib.version.__version__
# A donated array keeps the handles of its buffers. Given to a fast dispatch over several devices again, it ends the process,
# where later versions raise: see `let_go`.
DONATED_ARRAYS_CRASH = jaxlib_version < (0, 11)
# Whether compile options have efforts, which later versions have given up for levels.
HAS_EFFORTS = jaxlib_version < (0, 11)
# Whether XLA's compiler for GPUs knows sums along an axis as one operation.
HAS_SUMS_ON_GPU = jaxlib_version >= (0, 11)
# Whether XLA has two ways to write kernels for CPUs.
HAS_TWO_EMITTERS = jaxlib_version < (0, 11)


def __getattr__(name: str):
    if name != "xla_client":
        raise AttributeError(f"xlafront.runtime.jaxlib_compat has no {name!r}")
    from jaxlib import xla_client  # start-up: 1 ms, for libraries that look up its exceptions

    return xla_client


def let_go(leaves) -> None:
    """After a call that donates: the arrays among its arguments that are gone know it."""
    for x in leaves:
        if type(x) is ArrayImpl and x.is_deleted():
            x.delete()


Config = _jax.config.Config
pytree = _jax.pytree
Buffer, ExecutionContext, ExecutionStage = _jax.ffi.Buffer, _jax.ffi.ExecutionContext, _jax.ffi.ExecutionStage
ArrayImpl = _jax.ArrayImpl
Array = _jax.Array
Sharding = _jax.Sharding
SingleDeviceSharding = _jax.SingleDeviceSharding
NamedSharding = _jax.NamedSharding
GSPMDSharding = _jax.GSPMDSharding
DeviceList = _jax.DeviceList
Device = _jax.Device
ArrayCopySemantics = _jax.ArrayCopySemantics
Client = _jax.Client
CompileOptions = _jax.CompileOptions
PjRtLayout = _jax.PjRtLayout
PjitFunction = _jax.PjitFunction
PjitFunctionCache = _jax.PjitFunctionCache
HloSharding = _hlo.HloSharding
OpSharding = _hlo.OpSharding
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
start_transfer_server = getattr(_jax, "start_transfer_server", None)  # which not every platform has

jax_names.serve("jax._src.sharding_impls", make_single_device_sharding=SingleDeviceSharding)


def register_jit_states(disable_jit, enable_x64, post_hook) -> None:
    """Give the C++ dispatch the flags that it reads itself. Arrays cannot be made before this."""
    _jax.jax_jit.set_disable_jit_state(disable_jit)
    _jax.jax_jit.set_enable_x64_state(enable_x64)
    _jax.jax_jit.set_post_hook_state(post_hook)


def result_handler(aval, sharding, committed: bool):
    """Makes arrays from the buffers of an execution. Elements of no bytes (float0) are not in buffers: they are NumPy's."""
    if not aval.dtype.itemsize:
        return lambda buffers: np.zeros(aval.shape, aval.dtype)
    if jaxlib_version < (0, 11):
        return _jax.array_result_handler(aval, sharding, committed, _skip_checks=True)
    return _jax.array_result_handler(aval, sharding, committed)


def hlo_computation(bytecode: bytes):
    """The XLA computation of a StableHLO module."""
    return _jax.mlir.mlir_module_to_xla_computation(bytecode)


def hlo_text(computation, places: bool) -> str:
    """An XLA computation as text, with the places and names that its operations come from where those are asked for."""
    options = _hlo.HloPrintOptions.short_parsable()
    options.print_metadata = places
    return computation.as_hlo_module().to_string(options)


def hlo_cost_analysis(client, computation) -> dict[str, float]:
    return _jax.hlo_module_cost_analysis(client, computation.as_hlo_module())


def lets_bodies_sum() -> bool:
    """Whether the bodies of `sdy.manual_computation` may sum over axes that an operand is unreduced over: in jaxlib 0.10."""
    return jaxlib_version < (0, 11)


def know_typed_numbers(typed_int: type, typed_float: type, typed_complex: type) -> None:
    """The kinds of numbers whose attribute `dtype` is that of the buffer that C++ makes of them."""
    _jax.set_typed_int_type(typed_int)
    _jax.set_typed_float_type(typed_float)
    _jax.set_typed_complex_type(typed_complex)
