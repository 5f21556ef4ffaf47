"""Compile options, result handlers and the current mesh, for extensions that compile modules themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import CompileOptions, result_handler
from xlafront.base.meshes import Mesh, active, empty_mesh
from xlafront.core.avals import ShapedArray
from xlafront.runtime.compile_options import get_compile_options
from xlafront.runtime.keys import physical, wrap
from xlafront.staging.compiling import LoweredModule

MeshComputation = LoweredModule


def create_compile_options(computation: Any, tuple_args: bool, allow_prop_to_inputs: Any, allow_prop_to_outputs: Any,
                           backend: Any, np_dev: Any, compiler_options: dict[str, Any] | None) -> CompileOptions:
    """Return the options for compiling a module for an array of devices, replicas by partitions.

    Example:
        >>> import numpy
        >>> module = xf.jit(lambda x: x * 2).lower(1.0).compiler_ir("stablehlo")
        >>> options = create_compile_options(module, False, [False], [False], None, numpy.array([xf.devices()[:1]]), None)
    """
    attributes = computation.operation.attributes
    replicas, partitions = (int(attributes[f"mhlo.num_{name}"].value) if f"mhlo.num_{name}" in attributes else 1
                            for name in ("replicas", "partitions"))
    devices = np.vectorize(lambda d: d.id, otypes=[int])(np.asarray(np_dev)).reshape(replicas, partitions)
    options = get_compile_options(replicas, partitions, devices, compiler_options, backend=backend)
    options.parameter_is_tupled_arguments = tuple_args
    build = options.executable_build_options
    build.allow_spmd_sharding_propagation_to_parameters = list(allow_prop_to_inputs)
    build.allow_spmd_sharding_propagation_to_output = list(allow_prop_to_outputs)
    if partitions > 1:
        build.use_shardy_partitioner = True
    return options


class ResultsHandler:
    """A function from the buffers of an execution to its results, with one handler per result."""

    def __init__(self, handlers: Sequence[Callable], out_shardings: Sequence[Any], out_avals: Sequence[Any]):
        self.handlers, self.out_shardings, self.out_avals = handlers, out_shardings, out_avals

    def __call__(self, out_bufs: Sequence[Any]) -> list[Any]:
        return [handler(buffers) for handler, buffers in zip(self.handlers, out_bufs, strict=True)]


def global_avals_to_results_handler(global_out_avals: Sequence[ShapedArray], shardings: Sequence[Any], committed: bool
                                    ) -> ResultsHandler:
    """Return a function that makes arrays from the buffers returned by an executable of jaxlib.

    Args:
        global_out_avals: Types of the results.
        shardings: Shardings of the results.
        committed: True if the results are committed to their devices.

    Returns:
        The `ResultsHandler`.

    Example:
        >>> x = xnp.ones(2)
        >>> global_avals_to_results_handler([xf.typeof(x)], [x.sharding], True)([[x]])
        [Array([1., 1.], dtype=float32)]
    """
    def handler(aval, sharding):
        make = result_handler(physical(aval), sharding, committed)
        return make if isinstance(aval.dtype, np.dtype) else lambda buffers: wrap(make(buffers), aval)

    return ResultsHandler([handler(aval, sharding) for aval, sharding in zip(global_out_avals, shardings, strict=True)],
                          shardings, global_out_avals)


def global_aval_to_result_handler(aval: ShapedArray, out_sharding: Any, committed: bool) -> Callable:
    """Return a function that makes an array from the buffers of one result; see `global_avals_to_results_handler`."""
    return global_avals_to_results_handler([aval], [out_sharding], committed).handlers[0]


class _Resources:
    """The context of the caller: `physical_mesh` is the mesh of `with mesh:`, and an empty one outside."""

    @property
    def physical_mesh(self) -> Mesh:
        return active.entered or empty_mesh


class _ThreadResources:
    env = _Resources()


thread_resources = _ThreadResources()
