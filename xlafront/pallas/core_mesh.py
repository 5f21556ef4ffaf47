"""Kernels that run once on each core of a device: meshes of cores, and `pl.kernel`.

A kernel on a mesh of cores is a `pallas_call` whose grid is the mesh; its references are unblocked, in main memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from xlafront.core import errors, tracing, tree
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.traceback_filter import boundary
from xlafront.core.varying import IndexedAxis
from xlafront.lax.named_axes import axis_index, resolve_axes
from xlafront.pallas.call import pallas_call
from xlafront.pallas.kernel_functions import when
from xlafront.pallas.primitives import program_id
from xlafront.pallas.sparse_core_mesh import ScalarSubcoreMesh, VectorSubcoreMesh
from xlafront.pallas.specs import ANY, BlockSpec
from xlafront.pallas.tpu import CompilerParams, CoreType, GridDimensionSemantics
from xlafront.pallas.tpu_info import active_chip, get_tpu_info


def _default_cores() -> int:
    return 1 if active_chip() is None else get_tpu_info().num_cores


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorCoreMesh:
    """The tensor cores of a TPU, as a mesh of one axis for `pl.kernel`.

    Args:
        axis_name: Name of the axis. `lax.axis_index(axis_name)` in the kernel returns the index of the core.
        num_cores: Number of cores. Default: that of the TPU that is compiled for, or 1.

    Example:
        >>> pl.tpu.TensorCoreMesh(axis_name="core", num_cores=2).shape
        {'core': 2}
    """

    axis_name: str
    num_cores: int = dataclasses.field(default_factory=_default_cores)

    core_type = CoreType.TC
    default_memory_space = ANY
    dimension_semantics = (GridDimensionSemantics.PARALLEL,)

    def __post_init__(self) -> None:
        if isinstance(self.num_cores, bool) or not isinstance(self.num_cores, (int, np.integer)) or self.num_cores < 1:
            raise ValueError(f"TensorCoreMesh takes a number of cores of 1 at least, got num_cores={self.num_cores!r}.")

    shape = property(lambda self: {self.axis_name: self.num_cores}, doc="The size of the axis, by its name.")


@boundary
def create_tensorcore_mesh(axis_name: str, devices: Sequence[Any] | None = None, num_cores: int | None = None
                           ) -> TensorCoreMesh:
    """Return the mesh of the tensor cores of a TPU.

    Args:
        axis_name: Name of the axis.
        devices: Devices, whose kind says how many cores there are. Default: the TPU that is compiled for.
        num_cores: Number of cores. Default: that of the device.

    Returns:
        The mesh.

    Example:
        >>> pl.tpu.create_tensorcore_mesh("core", num_cores=2).num_cores
        2
    """
    if devices is not None and num_cores is not None:
        raise ValueError("create_tensorcore_mesh takes devices or num_cores, not both.")
    if devices is not None:
        num_cores = getattr(devices[0], "num_cores", None) or 1
    return TensorCoreMesh(axis_name=axis_name, **({} if num_cores is None else {"num_cores": num_cores}))


def run_on_first_core(core_axis_name: Hashable) -> Callable[[Callable[[], None]], None]:
    """Make a decorator that calls a function immediately, on the first core along an axis. For use in kernels.

    Args:
        core_axis_name: Name of the axis of cores.

    Returns:
        The decorator.

    Example:
        >>> def kernel(x_ref, o_ref):
        ...     @pl.tpu.run_on_first_core("core")
        ...     def _():
        ...         pl.tpu.sync_copy(x_ref, o_ref)
    """
    _, count = resolve_axes(core_axis_name, "run_on_first_core")
    return when(count == 1 or axis_index(core_axis_name) == 0)


_no_body: Any = object()


@boundary
def kernel(body: Any = _no_body, out_type: Any = (), *, mesh: Any, scratch_types: Any = (), compiler_params: Any = None,
           interpret: Any = False, cost_estimate: Any = None, debug: bool = False, name: str | None = None,
           metadata: Mapping[str, str] | None = None) -> Callable:
    """Make a function of arrays that runs a kernel once on each core of a mesh.

    The kernel gets references to the whole arrays, in main memory: it copies blocks itself, for example with
    `pltpu.emit_pipeline`.

    Args:
        body: Function of a reference for each argument, for each result, and for scratch memory. It returns nothing. Without
            it, `kernel` makes a decorator of the function.
        out_type: Pytree of the shapes and dtypes of the results, such as `ShapeDtypeStruct`.
        mesh: The cores: a `pltpu.TensorCoreMesh`, or a mesh of SparseCores (`pallas.tpu_sc`).
        scratch_types: Scratch memory of each core: a tuple, or a dict for keyword arguments.
        compiler_params: Options for the compiler of the platform.
        interpret: If True, run the kernel as a loop over the cores, on any platform. Required on CPU.
        cost_estimate: A `pl.CostEstimate` for the compiler of the platform.
        debug: If True, print the jaxpr of the kernel.
        name: Name of the kernel. Default: that of the function.
        metadata: Texts by name, for the compiler of the platform.

    Returns:
        A function of the arguments, which returns the results in the structure of `out_type`.

    Example:
        >>> @pl.kernel(out_type=xf.ShapeDtypeStruct((4,), "float32"), mesh=pl.tpu.TensorCoreMesh(axis_name="core", num_cores=1),
        ...            interpret=True)
        ... def copy(x_ref, o_ref):
        ...     pl.tpu.sync_copy(x_ref, o_ref)
        >>> copy(xnp.arange(4.0))
        Array([0., 1., 2., 3.], dtype=float32)
    """
    options = {"scratch_shapes": scratch_types, "interpret": interpret, "cost_estimate": cost_estimate, "debug": debug,
               "metadata": metadata, "compiler_params": _with_cores(mesh, compiler_params)}
    if body is _no_body:
        return lambda function: _call_on_cores(function, out_type, mesh, name, options)
    return _call_on_cores(body, out_type, mesh, name, options)


def _with_cores(mesh: Any, params: Any) -> Any:
    """Check the mesh, and return the compiler's options with the semantics of its axis."""
    if not isinstance(mesh, (TensorCoreMesh, ScalarSubcoreMesh, VectorSubcoreMesh)):
        raise TypeError(f"pl.kernel takes a mesh, such as pltpu.TensorCoreMesh, got {errors.short(mesh)}.")
    if mesh.core_type is CoreType.TC and mesh.num_cores == 1 or params is not None and not isinstance(params, CompilerParams):
        return params
    if params is not None and params.dimension_semantics is not None:
        raise ValueError("pl.kernel takes compiler_params without dimension_semantics, which are those of the mesh, got "
                         f"{params.dimension_semantics}.")
    return (params or CompilerParams()).replace(dimension_semantics=mesh.dimension_semantics)


def _call_on_cores(body: Any, out_type: Any, mesh: Any, name: str | None, options: dict[str, Any]) -> Callable:
    if not callable(body):
        raise errors.not_callable("pl.kernel", body)

    def on_core(*refs: Any, **named: Any) -> None:
        saved = tracing.thread.axes
        axes = [IndexedAxis(name, n, program_id(i)) for i, (name, n) in enumerate(mesh.shape.items())]
        tracing.thread.axes = (*saved, *axes)
        try:
            return body(*refs, **named)
        finally:
            tracing.thread.axes = saved

    on_core.core_mesh = None if mesh.core_type is CoreType.TC else mesh  # type: ignore[attr-defined]
    on_core.__wrapped__ = body  # type: ignore[attr-defined]  # messages name its line
    on_core.__name__ = name or getattr(body, "__name__", "kernel")
    calls: BoundedCache = BoundedCache(8)  # by the structure of the arguments
    main = BlockSpec(memory_space=mesh.default_memory_space)

    @boundary
    def call(*args: Any) -> Any:
        structure = tree.structure(args)
        found = calls.get(structure)
        if found is None:
            specs = tree.map(lambda _: main, args), tree.map(lambda _: main, out_type)
            found = calls.put(structure, pallas_call(on_core, out_type, grid=tuple(mesh.shape.values()), in_specs=specs[0],
                                                     out_specs=specs[1], name=name, **options))
        return found(*args)

    call.__name__ = on_core.__name__
    return call
