"""Libraries of kernels that compiled programs call by name: LAPACK in jaxlib, and those beside the CUDA plugin.

A kernel that works on a batch of matrices is also known to XLA's partitioner, which then splits the batch over devices.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from xlafront.runtime import foreign_functions
from xlafront.runtime.jaxlib_compat import _jax

_CUDA_MODULES = ("_solver", "_linalg", "_prng", "_sparse", "_rnn", "_hybrid", "_triton")


def site_file(*candidates: str) -> str | None:
    """The first of these paths that exists in a directory of `sys.path`."""
    for candidate in candidates:
        for directory in sys.path:
            path = os.path.join(directory, *candidate.split("/"))
            if os.path.isfile(path):
                return path
    return None


@functools.cache
def register_lapack() -> None:
    """For the CPU, when the first program asks for it: this imports scipy.linalg, where LAPACK is."""
    from jaxlib.cpu import _lapack  # start-up: with scipy.linalg 140 ms

    _lapack.initialize()
    for target, function in _lapack.registrations().items():
        _jax.register_custom_call_target(target, function, "cpu", int(target.endswith("_ffi")))
        _jax.register_custom_call_as_batch_partitionable(target)


@functools.cache
def register_sparse() -> None:
    """For the CPU, when the first program asks for it."""
    from jaxlib.cpu import _sparse  # start-up: for sparse arrays

    for target, function in _sparse.registrations().items():
        _jax.register_custom_call_target(target, function, "cpu", 1)


def register_cuda(c_api: Any) -> None:
    """Make linear algebra, sparse products, random numbers and calls of Python known to the plugin with this interface."""
    extension = _cuda_module("cuda_plugin_extension")
    if extension is None:
        return
    for name, ids in extension.ffi_types().items():
        extension.register_custom_type(c_api, name, ids)
    tables = [extension.ffi_handlers()]
    tables += [module.registrations() for module in map(_cuda_module, _CUDA_MODULES) if module is not None]
    for table in tables:
        for target, function in table.items():
            extension.register_custom_call_target(c_api, target, function, "CUDA", 1)
            _jax.register_custom_call_as_batch_partitionable(target, c_api)
    foreign_functions.plugin_loaded("cuda", c_api, extension)


@functools.cache
def register_hybrid() -> None:
    """Tell the kernels that use both the CPU and CUDA where LAPACK is."""
    module = _cuda_module("_hybrid")
    if module is not None:
        module.initialize()


def prepare(target: str) -> None:
    """What has to be done before a program calls this kernel."""
    if target.startswith(("lapack_", "tridiagonal_")):
        register_lapack()
    elif target.startswith("cpu_csr_"):
        register_sparse()
    elif target.startswith("cuhybrid"):
        register_hybrid()


@functools.cache
def _cuda_module(name: str) -> Any:
    import importlib.util  # start-up: on machines with CUDA only

    for package in ("jax_cuda13_plugin", "jax_cuda12_plugin"):
        path = site_file(f"{package}/{name}.so")
        if path is not None:
            spec = importlib.util.spec_from_file_location(f"{package}.{name}", path)
            module = sys.modules[f"{package}.{name}"] = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
            spec.loader.exec_module(module)  # type: ignore[union-attr]
            return module
    return None
