"""Python functions that run on the hosts of the devices that hold their arguments.

In the runtimes of jaxlib the process that controls a device is on its host. A colocated function is therefore called directly
in this process, with the arrays unchanged; with several processes, it is called in each of them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.base.jaxlib_compat import ArrayImpl
from xlafront.core import errors, tracing, tree
from xlafront.core.traceback_filter import boundary
from xlafront.core.wrapping import wraps
from xlafront.runtime import backends
from xlafront.runtime.keys import KeyArray
from xlafront.runtime.sharding import Mesh
from xlafront.staging.signatures import function_name


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """Return CPU devices on the hosts of the given devices, one for each device.

    Args:
        devices_or_mesh: Sequence of devices, or a mesh.

    Returns:
        List of CPU devices, or a mesh of them with the same shape and axes.

    Example:
        >>> len(colocated_cpu_devices(xf.devices()[:1]))
        1
    """
    if isinstance(devices_or_mesh, Mesh):
        mesh = devices_or_mesh
        found = np.empty(mesh.devices.size, object)
        found[:] = colocated_cpu_devices(list(mesh.devices.flat))
        return Mesh(found.reshape(mesh.devices.shape), mesh.axis_names, mesh.axis_types)
    cpus: dict[int, list[Any]] = {}
    for cpu in backends.devices("cpu"):
        cpus.setdefault(cpu.process_index, []).append(cpu)
    last: dict[int, int] = {}
    result = []
    for device in devices_or_mesh:
        process = device.process_index
        number = last[process] = last.get(process, -1) + 1
        if number >= len(cpus.get(process, ())):
            raise ValueError(f"process {process} has fewer CPU devices ({len(cpus.get(process, ()))}) than devices among those "
                             f"given. Create more with the setting num_cpu_devices.")
        result.append(cpus[process][number])
    return result


def colocated_python(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs on the hosts of the devices of its arguments; for devices of this process, in this process.

    The function takes and returns pytrees of arrays, may read their shards (`x.addressable_shards`) and may hold state. It runs
    as Python and cannot be traced. Its method `specialize` fixes properties before the call: `devices`, which a function
    without arguments needs, and the types `in_specs` and `out_specs_fn` of arguments and results, which are not needed here.

    Args:
        fun: Function to call.

    Returns:
        The colocated function.

    Example:
        >>> add = colocated_python(lambda x, y: x + y)
        >>> add(xnp.ones(2), xnp.ones(2))
        Array([2., 2.], dtype=float32)
        >>> colocated_python(lambda: xnp.zeros(2)).specialize(devices=xf.devices()[:1])()
        Array([0., 0.], dtype=float32)
    """
    if not callable(fun):
        raise errors.not_callable("colocated_python", fun)
    return _specialized(fun, function_name(fun), {})


def _specialized(fun: Callable, name: str, known: dict[str, Any]) -> Callable[..., Any]:
    @wraps(fun)
    def call(*args, **kwargs):
        return _run(fun, name, known.get("devices"), args, kwargs)

    def specialize(in_specs: Any = None, out_specs_fn: Callable[..., Any] | None = None,
                   devices: Sequence[Any] | None = None) -> Callable[..., Any]:
        given = {"in_specs": in_specs, "out_specs_fn": out_specs_fn, "devices": devices}
        given = {key: value for key, value in given.items() if value is not None}
        repeated = [key for key in given if key in known]
        if repeated:
            raise ValueError(f"{repeated[0]} of the colocated function {name} are already specified, as {known[repeated[0]]}.")
        return _specialized(fun, name, known | given)

    call.specialize = specialize
    return call


@boundary
def _run(fun: Callable, name: str, devices: Sequence[Any] | None, args: tuple, kwargs: dict[str, Any]) -> Any:
    leaves = tree.leaves((args, kwargs))
    for i, x in enumerate(leaves):
        where = tree.path_of((args, kwargs), i)[3:]
        if isinstance(x, tracing.Tracer):
            raise AttributeError(f"the colocated function {name} cannot be called inside a transformation, as with its "
                                 f"argument {where}, {x}: it runs as Python on arrays. In compiled code use pure_callback or "
                                 f"io_callback.")
        if not isinstance(x, (ArrayImpl, KeyArray)):
            raise AttributeError(f"the colocated function {name} takes arrays, got {type(x).__name__} as argument {where}: "
                                 f"put it on the devices with device_put.")
    lists = {tuple(x.sharding._device_assignment) for x in leaves}
    if len(lists) > 1:
        raise ValueError(f"all arguments of the colocated function {name} must be on the same devices, in the same order, got "
                         f"arrays on {' and on '.join(map(str, lists))}.")
    if not leaves and not devices:
        raise ValueError(f"the colocated function {name} got no arrays, whose devices determine where it runs: give it devices "
                         f"with specialize(devices=...).")
    with tracing.current_trace(tracing.eval_trace):
        result = fun(*args, **kwargs)
    for x in tree.leaves(result):
        if not isinstance(x, (ArrayImpl, KeyArray)):
            raise ValueError(f"the colocated function {name} must return arrays, it returned {type(x).__name__}: put it on "
                             f"devices with device_put.")
    return result


def colocated_python_class(cls: type) -> type:
    """Return a class whose objects live on the hosts of the devices of their methods' arguments.

    The methods are colocated functions. An object is created when one of them is first called, and holds its state between
    calls. Attributes are not visible from outside.

    Args:
        cls: Class to wrap.

    Returns:
        The colocated class.

    Example:
        >>> @colocated_python_class
        ... class Counter:
        ...     def __init__(self, start):
        ...         self.count = start
        ...     def add(self, x):
        ...         self.count += 1
        ...         return x + self.count
        >>> counter = Counter(3)
        >>> counter.add(xnp.zeros(2)), counter.add(xnp.zeros(2))
        (Array([4., 4.], dtype=float32), Array([5., 5.], dtype=float32))
    """
    if not isinstance(cls, type):
        raise AttributeError(f"colocated_python_class takes a class, got {type(cls).__name__}.")
    methods = [name for base in reversed(cls.__mro__[:-1]) for name, member in vars(base).items()
               if not name.startswith("__") and (isinstance(member, staticmethod) or callable(member))]

    def init(self, *args, **kwargs):
        created: list[Any] = []
        lock = threading.Lock()

        def instance() -> Any:
            with lock:
                if not created:
                    created.append(cls(*args, **kwargs))
                return created[0]

        for name in dict.fromkeys(methods):
            vars(self)[name] = _method(cls, name, instance)

    def missing(self, name: str):
        raise AttributeError(f"an object of the colocated class {cls.__name__} has the methods "
                             f"{', '.join(dict.fromkeys(methods))} and no {name!r}: only its methods can access its state.")

    return type(cls.__name__, (), {"__init__": init, "__getattr__": missing, "__doc__": cls.__doc__,
                                   "__module__": cls.__module__})


def _method(cls: type, name: str, instance: Callable[[], Any]) -> Callable[..., Any]:
    @functools.wraps(getattr(cls, name))
    def method(*args, **kwargs):
        return getattr(instance(), name)(*args, **kwargs)

    return _specialized(method, f"{cls.__name__}.{name}", {})
