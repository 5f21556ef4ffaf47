"""Libraries of kernels that compiled programs call by name: LAPACK in jaxlib, and those that come with the CUDA plugin.

Batched kernels are also registered with XLA's partitioner, which then partitions the batch over devices.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from xlafront.base.jaxlib_compat import _jax
from xlafront.runtime import foreign_functions

_CUDA_MODULES = ("_solver", "_linalg", "_prng", "_sparse", "_rnn", "_hybrid", "_triton")


def site_file(*candidates: str) -> str | None:
    """Return the first of these paths that exists in a directory of `sys.path`."""
    for candidate in candidates:
        for directory in sys.path:
            path = os.path.join(directory, *candidate.split("/"))
            if os.path.isfile(path):
                return path
    return None


@functools.cache
def register_lapack() -> None:
    """Register LAPACK for the CPU, for the first program that needs it. Imports scipy.linalg, which has LAPACK."""
    from jaxlib.cpu import _lapack  # start-up: with scipy.linalg 140 ms

    _lapack.initialize()
    for target, function in _lapack.registrations().items():
        _jax.register_custom_call_target(target, function, "cpu", int(target.endswith("_ffi")))
        _jax.register_custom_call_as_batch_partitionable(target)


@functools.cache
def register_sparse() -> None:
    """Register sparse kernels for the CPU, for the first program that needs them."""
    from jaxlib.cpu import _sparse  # start-up: for sparse arrays

    for target, function in _sparse.registrations().items():
        _jax.register_custom_call_target(target, function, "cpu", 1)


def register_cuda(c_api: Any) -> None:
    """Register kernels for linear algebra, sparse products, random numbers and Python callbacks with a CUDA plugin."""
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
    """Initialize the kernels that use both CUDA and LAPACK on the CPU."""
    module = _cuda_module("_hybrid")
    if module is not None:
        module.initialize()


def prepare(target: str) -> None:
    """Register the library of a kernel, before a program that calls it is compiled."""
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
