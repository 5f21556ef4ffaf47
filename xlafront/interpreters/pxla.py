"""Options of compilation, for extensions that compile modules themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.runtime.compile_options import get_compile_options
from xlafront.runtime.jaxlib_compat import CompileOptions


def create_compile_options(computation: Any, tuple_args: bool, allow_prop_to_inputs: Any, allow_prop_to_outputs: Any,
                           backend: Any, np_dev: Any, compiler_options: dict[str, Any] | None) -> CompileOptions:
    """The options for compiling a module for an array of devices, replicas by partitions.

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
