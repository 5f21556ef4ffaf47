"""Everything that differs between jaxlib versions, and the one place that names jaxlib's private modules.

The rest of the package imports what it needs of jaxlib's core from here.
"""

from __future__ import annotations

import os
import sys
import types

# XLA logs the start of every client; only warnings are for users. Read by the library when it is loaded.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

if "jax" in sys.modules:
    raise ImportError(
        "xlafront and jax cannot live in one process, because both attach their methods to the same array class of "
        "jaxlib, and jax is already imported. Import only one of them, or run the other in a process of its own.")

import jaxlib.version  # noqa: E402
from jaxlib import _hlo, _jax  # noqa: E402

jaxlib_version: tuple[int, ...] = tuple(int(part) for part in jaxlib.version.__version__.split(".")[:3])
jaxlib_version_text: str = jaxlib.version.__version__
# A donated array keeps the handles of its buffers. Given to a fast dispatch over several devices again, it ends the process,
# where later versions raise: see `let_go`.
DONATED_ARRAYS_CRASH = jaxlib_version < (0, 11)


def let_go(leaves) -> None:
    """After a call that donates: the arrays among its arguments that are gone know it."""
    for x in leaves:
        if type(x) is ArrayImpl and x.is_deleted():
            x.delete()



Config = _jax.config.Config
pytree = _jax.pytree
ArrayImpl = _jax.ArrayImpl
Array = _jax.Array
Sharding = _jax.Sharding
SingleDeviceSharding = _jax.SingleDeviceSharding
NamedSharding = _jax.NamedSharding
GSPMDSharding = _jax.GSPMDSharding
DeviceList = _jax.DeviceList
Device = _jax.Device
Client = _jax.Client
CompileOptions = _jax.CompileOptions
PjRtLayout = _jax.PjRtLayout
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


def register_jit_states(disable_jit, enable_x64, post_hook) -> None:
    """Give the C++ dispatch the flags that it reads itself. Arrays cannot be made before this."""
    _jax.jax_jit.set_disable_jit_state(disable_jit)
    _jax.jax_jit.set_enable_x64_state(enable_x64)
    _jax.jax_jit.set_post_hook_state(post_hook)


def result_handler(aval, sharding, committed: bool):
    """Makes arrays from the buffers of an execution."""
    if jaxlib_version < (0, 11):
        return _jax.array_result_handler(aval, sharding, committed, _skip_checks=True)
    return _jax.array_result_handler(aval, sharding, committed)


# jaxlib's C++ finds a few Python classes by importing them from jax. These modules serve ours instead, whether
# or not jax is installed, and keep jax out of the process.


class _NotJax(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(_refusal)


_refusal = ("jax cannot be imported after xlafront: both attach their methods to the same array class of jaxlib. "
            "Run jax in a process of its own.")


class _JaxRefuser:
    """Finds an installed jax, so that probing for it stays truthful, and refuses to run it."""

    path: tuple = ()  # where jax was not found

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Hot for imports: jaxlib tries one for each buffer that it wraps, and a search of the disk takes 100 us."""
        if name != "jax":
            return None
        imports = sys._getframe(2).f_code.co_name == "_find_and_load_unlocked"  # and not importlib.util.find_spec
        if imports and _JaxRefuser.path == tuple(sys.path):
            raise ModuleNotFoundError("No module named 'jax'", name="jax")
        from importlib.machinery import ModuleSpec, PathFinder

        if PathFinder.find_spec(name, path) is not None:
            return ModuleSpec(name, _JaxRefuser)
        _JaxRefuser.path = tuple(sys.path)
        return None

    @staticmethod
    def create_module(spec):
        raise ImportError(_refusal, name="jax")

    @staticmethod
    def exec_module(module):
        raise ImportError(_refusal, name="jax")


def serve(module: str, **names) -> None:
    """Answer jaxlib's lookup of `module.name` with our object."""
    found = sys.modules.get(module)
    if found is None:
        found = sys.modules[module] = _NotJax(module)
    for name, value in names.items():
        setattr(found, name, value)


def prime(make):
    """What `make()` returns, whose C++ looks one of our objects up; importing a submodule wants its parent."""
    sys.modules["jax"] = _not_jax
    try:
        return make()
    finally:
        sys.modules.pop("jax", None)  # gone, when two threads are here


_not_jax = _NotJax("jax")


def buffers_of(array) -> list:
    """The buffers of an array on several devices; jaxlib makes objects of them when it is first asked."""
    return prime(lambda: array._arrays)


sys.meta_path.insert(0, _JaxRefuser)
serve("jax._src.sharding_impls", make_single_device_sharding=SingleDeviceSharding)


def hlo_computation(bytecode: bytes):
    """The XLA computation of a StableHLO module."""
    return _jax.mlir.mlir_module_to_xla_computation(bytecode)


def hlo_cost_analysis(client, computation) -> dict[str, float]:
    return _jax.hlo_module_cost_analysis(client, computation.as_hlo_module())


def lets_bodies_sum() -> bool:
    """Whether the bodies of `sdy.manual_computation` may sum over axes that an operand is unreduced over: in jaxlib 0.10."""
    return jaxlib_version < (0, 11)
