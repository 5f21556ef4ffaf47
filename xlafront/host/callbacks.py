"""Python callbacks of compiled programs: `pure_callback`, `io_callback`, `debug.callback`, `debug.print`.

Eagerly, a callback calls its function directly. In a jaxpr it is an equation, which is lowered to an operation that calls
Python with its operands. The callbacks differ in their guarantees: the results of a pure callback may be dropped or recomputed;
an I/O callback runs exactly when the program calls it; a debugging callback does not affect differentiation and batching.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from xlafront import lowering, random
from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl, SingleDeviceSharding
from xlafront.base.logs import log
from xlafront.control import vmap_methods
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Effect
from xlafront.core.primitive import MeshRules, Primitive, Traits
from xlafront.core.traceback_filter import boundary
from xlafront.lax.device_put import put_leaf
from xlafront.lax.manual_computation import automatic_axes, in_fully_manual_body
from xlafront.runtime import backends, effects as runtime_effects, guards, keys
from xlafront.runtime.clients import clients
from xlafront.runtime.sharding import single_device
from xlafront.staging import signatures
from xlafront.staging.array_transfers import put
from xlafront.staging.debug_nans import check_new


class _NamedEffect(Effect):
    def __repr__(self):
        return type(self).__name__.removesuffix("Effect")


class IOEffect(_NamedEffect):
    """The effect of an I/O callback."""


class OrderedIOEffect(_NamedEffect):
    """The effect of an I/O callback that runs in program order."""

    ordered = ordered_over_devices = True  # one device calls, or each device in its own order


class DebugEffect(_NamedEffect):
    """The effect of a debugging callback."""

    repeatable = True


class OrderedDebugEffect(_NamedEffect):
    """The effect of a debugging callback that runs in program order."""

    ordered = repeatable = True


io_effect, ordered_io_effect = IOEffect(), OrderedIOEffect()
debug_effect, ordered_debug_effect = DebugEffect(), OrderedDebugEffect()


# Calling the function


class FlatCallback:
    """A Python function of pytrees, wrapped to take and return flat lists of arrays."""

    __slots__ = ("function", "in_tree", "out_tree", "caller")

    def __init__(self, function: Callable, in_tree, out_tree, caller: str):
        self.function, self.in_tree, self.out_tree, self.caller = function, in_tree, out_tree, caller

    def __call__(self, *leaves):
        args, kwargs = self.in_tree.unflatten(leaves)
        returned = self.function(*args, **kwargs)
        results, structure = tree.flatten(returned)
        if len(results) != self.out_tree.num_leaves:  # any tree with the same number of arrays is accepted
            raise ValueError(f"{signatures.function_name(self.function)}, which {self.caller} called, must return a result "
                             f"of the structure of result_shape_dtypes, {self.out_tree}; it returned {structure}.")
        return results

    def check(self, index: int, result, aval) -> np.ndarray:
        """Return a result as a NumPy array; raise an error if it has not the expected shape and dtype."""
        value = np.asarray(result)
        if dtypes.canonicalize_dtype(value.dtype) == aval.dtype and value.shape == aval.shape:
            return value.astype(aval.dtype, copy=False)
        where = tree.path_of(tree.leaf_indices(self.out_tree), index)
        raise ValueError(f"{signatures.function_name(self.function)}, which {self.caller} called, must return an array of type "
                         f"{aval}, as given in result_shape_dtypes; result{where} is {value.dtype}{list(value.shape)}.")

    def __repr__(self):
        return signatures.function_name(self.function)


def _cpu_sharding() -> SingleDeviceSharding:
    return single_device(clients.get("cpu", backends.settings()).local_devices()[0])


def _host_function(callback: Callable, in_avals: Sequence[Any], out_avals: Sequence[Any], ordered: bool, caller: str,
                   raises: bool) -> Callable[..., tuple]:
    """Return the function that the compiled program calls; it takes and returns NumPy arrays, preceded by a token if `ordered`.

    The callback gets arrays on the CPU. Without `raises` nothing reads the results, and errors are also logged.
    """
    types = [(ShapedArray(p.shape, p.dtype), aval) for p, aval in ((keys.physical(aval), aval) for aval in in_avals)]
    sharding = _cpu_sharding()

    def run(*args):
        with runtime_effects.host_callback(), tracing.current_trace(tracing.eval_trace):
            # A partitioned callback gets a shard, which is smaller than its type.
            with guards.explicit("device_put"):
                values = [
                    keys.wrap(put(x, words if x.shape == words.shape else words.update(shape=x.shape), sharding, True), aval)
                    for x, (words, aval) in zip(args[ordered:], types)]
            try:
                results = callback(*values)
            except (SystemExit, KeyboardInterrupt) as e:
                _raise_in_main_thread(e)
                results = [np.zeros(aval.shape, aval.dtype) for aval in out_avals]
            except Exception:
                if not raises:
                    log().exception("%s failed: the function given to it raised an error.", caller)
                raise
            found = [callback.check(i, x, aval) for i, (x, aval) in enumerate(zip(results, out_avals))] if out_avals else []
        return (None, *found) if ordered else tuple(found)

    return run


def _raise_in_main_thread(error: BaseException) -> None:
    """Raise an exit or an interrupt of a callback in the main thread once the callback returns.

    The runtime would turn it into an INTERNAL error. The callback may be called in the main thread, where the error must not be
    raised before the runtime has left the callback: another thread gets the interpreter's lock at that moment.
    """
    import _thread  # start-up: rarely used

    kind = type(error)
    lock, done = _thread.allocate_lock(), []  # `done` is not empty once the error was raised, or the process ends

    def init(self: BaseException) -> None:
        kind.__init__(self, *error.args)
        if not _drops_errors(sys._getframe()):
            done.append(self)

    def raise_soon() -> None:
        with lock:
            if not done:
                _set_async_error(raised)

    # the interpreter takes a class, and calls it without arguments
    raised = type(kind.__name__, (kind,), {"__init__": init, "__module__": kind.__module__})
    if isinstance(error, SystemExit):
        atexit.register(_end_process_unless, done, lock, error)
    _thread.start_new_thread(raise_soon, ())


def _set_async_error(kind: type[BaseException] | None) -> None:
    """Let the main thread raise an error at its next instruction; None takes back one that it has not raised."""
    import ctypes  # start-up: rarely used
    import threading

    main = ctypes.c_ulong(threading.main_thread().ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, None if kind is None else ctypes.py_object(kind))


def _drops_errors(frame: FrameType | None) -> bool:
    """True in functions whose errors the interpreter drops: callbacks of its garbage collector, and its end."""
    while frame is not None:
        if frame.f_code.co_name in ("_collect_runtime_garbage", "_shutdown"):
            return True
        frame = frame.f_back
    return False


def _end_process_unless(done: list, lock: Any, error: SystemExit) -> None:
    """End the process with the status of an exit, unless the exit was raised as an error with its status.

    It was not if the program ended before, or if Python 3.11 found no handler for it. The functions of `atexit` that were
    registered before are called here.
    """
    with lock:
        if done:
            return
        done.append(error)
        _set_async_error(None)
    atexit.unregister(_end_process_unless)
    atexit._run_exitfuncs()
    if error.code is not None and not isinstance(error.code, int):
        print(error.code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None))


def _call_eagerly(*args, callback, result_avals, sharding, caller: str) -> list[Any]:
    """Call the callback on concrete arrays."""
    cpu = _cpu_sharding()
    values = [put_leaf(x, None) for x in args]
    with guards.explicit("device_put"):
        values = [put(x, tracing.aval_of(x), cpu, True) for x in values]
    try:
        results = [callback.check(i, x, aval) for i, (x, aval) in enumerate(zip(callback(*values), result_avals))]
    except errors.JaxRuntimeError:
        raise
    except Exception as e:
        raise errors.JaxRuntimeError(f"{caller} called {callback}, which raised {type(e).__name__}: {e}") from e
    if config.debug_nans.value or config.debug_infs.value:
        for x in results:
            check_new(x, f"{caller} called {callback}, which returned")
    for x in args:
        if sharding is None and type(x) is ArrayImpl and x.committed and x.sharding.num_devices == 1:
            [device] = x.sharding.device_set
            sharding = single_device(device)
    where = single_device(backends.default_device()) if sharding is None else sharding
    with guards.explicit("device_put"):  # copied, as the function may change its array later
        return [put(np.array(x), aval, where, sharding is not None) for x, aval in zip(results, result_avals)]


def _device_index(ctx, sharding) -> int:
    context = ctx.module_context.sharding_context
    if sharding is None or context is None:
        return 0
    device, devices = sharding._device, list(context.assignment.devices)
    if device not in devices:
        raise ValueError(f"{ctx.primitive} has a sharding on {device}, which is not among the devices of the program: "
                         f"{devices}.")
    return devices.index(device)


# pure_callback and io_callback


def _lower(ctx, *operands, callback, result_avals, sharding, ordered=None, **_):
    if axes := automatic_axes(ctx):
        raise NotImplementedError(f"{callback.caller} of {callback} is in a shard_map whose mesh axes {tuple(axes)} are "
                                  "automatic, and the compiler cannot partition the call. Name all axes in its axis_names.")
    effect = None if ordered is None else _io_effect(ordered)
    function = _host_function(callback, ctx.avals_in, result_avals, bool(ordered), callback.caller, True)
    return lowering.host_callbacks.call_python(
        ctx, function, operands, has_side_effect=effect is not None, effect=effect,
        device_index=_device_index(ctx, sharding))


def _refuse_jvp(caller: str, remedy: str):
    def jvp(primals, tangents, *, callback, **_):
        raise ValueError(f"{caller} cannot be differentiated, as callbacks do not support JVP: the derivative of {callback} is "
                         f"unknown. {remedy} or hold its arguments constant with lax.stop_gradient.")

    return jvp


def _pure_batch(size, operands, dims, *, result_avals, vmap_method, **params):
    params |= {"vmap_method": vmap_method}
    if vmap_method is None:
        raise NotImplementedError("vmap is only supported for pure_callback with vmap_method, which defines how the function "
                                  "is called for a batch: give vmap_method='sequential' for one call per element, or "
                                  "'expand_dims' or 'broadcast_all' for one call with the entire batch.")
    if vmap_method.startswith("sequential"):
        return vmap_methods.one_by_one(functools.partial(pure_callback_p.bind, result_avals=result_avals, **params), size,
                                       operands, dims, result_avals, vmap_method == "sequential_unrolled")
    batch = vmap_methods.batched_operands(vmap_method, size, operands, dims)
    batched_avals = tuple([aval.update(shape=(size, *aval.shape)) for aval in result_avals])
    return pure_callback_p.bind(*batch, result_avals=batched_avals, **params), [0] * len(batched_avals)


def _io_effect(ordered: bool) -> Effect:
    return ordered_io_effect if ordered else io_effect


def _io_batch(size, operands, dims, *, ordered, result_avals, **params):
    if ordered:
        raise ValueError("cannot vmap an ordered io_callback (ordered=True): the elements of a batch have no order. Leave "
                         "ordered out, or write the loop with lax.scan.")
    bind = functools.partial(io_callback_p.bind, ordered=ordered, result_avals=result_avals, **params)
    return vmap_methods.one_by_one(bind, size, operands, dims, result_avals, False)


_ON_ANY_DEVICE = MeshRules(binds_devices=lambda **_: False)  # their device is one of those of the program

pure_callback_p = Primitive(
    "pure_callback", multiple_results=True, lower=_lower, batch=_pure_batch,
    abstract=lambda *_, result_avals, **params: list(result_avals),
    impl=lambda *args, callback, result_avals, sharding, **_: _call_eagerly(
        *args, callback=callback, result_avals=result_avals, sharding=sharding, caller="pure_callback"),
    jvp=_refuse_jvp("pure_callback", "Wrap it in custom_jvp,"), mesh=_ON_ANY_DEVICE, traits=Traits(memoise=False))

io_callback_p = Primitive(
    "io_callback", multiple_results=True, lower=_lower, batch=_io_batch,
    abstract=lambda *_, result_avals, **params: list(result_avals),
    effects=lambda *_, ordered, **params: frozenset([_io_effect(ordered)]),
    impl=lambda *args, callback, result_avals, sharding, **_: _call_eagerly(
        *args, callback=callback, result_avals=result_avals, sharding=sharding, caller="io_callback"),
    jvp=_refuse_jvp("io_callback", "Call it outside of the differentiated function,"), mesh=_ON_ANY_DEVICE,
    traits=Traits(memoise=False))


def _result_aval(caller: str, expected, path: str) -> ShapedArray:
    if not hasattr(expected, "shape") or not hasattr(expected, "dtype"):
        raise AttributeError(f"{caller} takes as result_shape_dtypes a pytree of objects with shape and dtype, such as "
                        f"ShapeDtypeStruct((3,), 'float32'); result_shape_dtypes{path} is {expected!r:.60}.")
    dtype = np.dtype(expected.dtype)
    if dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(f"{caller} has in result_shape_dtypes the dtype {dtype} for result{path}: 64-bit types cannot be "
                         "specified while the setting enable_x64 (jax_enable_x64) is off. Use "
                         f"{dtypes.canonicalize_dtype(dtype)}.")
    return ShapedArray(tuple(expected.shape), dtype)


def _prepare(caller: str, callback, result_shape_dtypes, args, kwargs, sharding):
    """Return the operands and common parameters of a callback with results, and the tree of its results."""
    if not callable(callback):
        raise errors.not_callable(caller, callback)
    if sharding is not None and not isinstance(sharding, SingleDeviceSharding):
        raise NotImplementedError(f"{caller} runs for one device of the program: sharding must be a SingleDeviceSharding or "
                                  f"None, got {type(sharding).__name__}.")
    expected, out_tree = tree.flatten(result_shape_dtypes)
    result_avals = tuple([_result_aval(caller, p, tree.path_of(result_shape_dtypes, i)) for i, p in enumerate(expected)])
    leaves, in_tree = tree.flatten((args, kwargs))
    operands = []
    for i, x in enumerate(leaves):
        if not _is_array(x):
            raise errors.not_an_array(x, caller, tree.path_of((args, kwargs), i)[3:])
        operands.append(_key_data_of(x))
    flat = FlatCallback(callback, in_tree, out_tree, caller)
    return operands, {"callback": flat, "result_avals": result_avals, "sharding": sharding}, out_tree


def _key_data_of(x):
    """Return the key data of a key array, as NumPy has no key dtypes; return other operands unchanged."""
    if isinstance(getattr(x, "dtype", None), dtypes.ExtendedDType):
        return random.key_data(x)
    return x


def _is_array(x) -> bool:
    try:
        tracing.aval_of(x)
    except (TypeError, OverflowError):
        return False
    return True


@boundary
def pure_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None,
                  vmap_method: str | None = None, **kwargs: Any) -> Any:
    """Call a Python function without side effects, also from inside compiled functions.

    The function may be called several times, or not at all if its result is not used.

    Args:
        callback: Function to call. It gets arrays and returns a pytree of NumPy arrays or of values convertible to them.
        result_shape_dtypes: Pytree of `ShapeDtypeStruct`s or arrays: the structure and the types of the results.
        args, kwargs: Arguments of `callback`, pytrees of arrays.
        sharding: In a program over several devices, a `SingleDeviceSharding` of the device that calls the function.
        vmap_method: How `vmap` calls the function. `"sequential"`: one call per element, in a loop; `"sequential_unrolled"`:
            the same with the loop unrolled; `"expand_dims"`: one call, in which batched arguments have a leading batch axis
            and the others a leading axis of size 1; `"broadcast_all"`: one call, in which all arguments have the batch axis;
            `"legacy_vectorized"`: one call, in which only batched arguments have it.

    Returns:
        Pytree of arrays with the structure of `result_shape_dtypes`.

    Example:
        >>> xf.pure_callback(np.sort, xf.ShapeDtypeStruct((3,), "float32"), xnp.array([3.0, 1.0, 2.0]))
        Array([1., 2., 3.], dtype=float32)
    """
    vmap_methods.check("pure_callback", vmap_method)
    operands, params, out_tree = _prepare("pure_callback", callback, result_shape_dtypes, args, kwargs, sharding)
    results = pure_callback_p.bind(*operands, vmap_method=vmap_method, **params) if params["result_avals"] else []
    return out_tree.unflatten(results)


@boundary
def io_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, sharding: Any = None, ordered: bool = False,
                **kwargs: Any) -> Any:
    """Call a Python function with side effects, also from inside compiled functions.

    The function is called even if its result is not used.

    Args:
        callback: Function to call. It gets arrays and returns a pytree of NumPy arrays.
        result_shape_dtypes: Pytree of objects with shape and dtype: the types of the results. None if it returns None.
        args, kwargs: Arguments of `callback`, pytrees of arrays.
        sharding: In a program over several devices, a `SingleDeviceSharding` of the device that calls the function.
        ordered: If True, calls happen in program order.

    Returns:
        Pytree of arrays with the structure of `result_shape_dtypes`.

    Example:
        >>> from xlafront.experimental import io_callback
        >>> total = []
        >>> xf.jit(lambda x: io_callback(lambda v: total.append(float(v)), None, x))(2.0)
        >>> xf.effects_barrier()
        >>> total
        [2.0]
    """
    operands, params, out_tree = _prepare("io_callback", callback, result_shape_dtypes, args, kwargs, sharding)
    return out_tree.unflatten(io_callback_p.bind(*operands, ordered=bool(ordered), **params))


# Debugging


def _debug_primitive(name: str, caller: str, make: Callable[..., Callable], effect_of: Callable[..., Effect]) -> Primitive:
    """Return a primitive without results that calls `make(**params)` on its operands; transformations leave it unchanged."""
    def abstract(*_, **params):
        return []

    def impl(*args, **params):
        make(**params)(*[put_leaf(x, None) for x in args])
        return []

    def lower(ctx, *operands, partitioned, **params):
        called, effect = make(**params), effect_of(**params)
        if automatic_axes(ctx):  # one of the devices that have the same part calls the function
            number = ShapedArray((), np.dtype(np.int32))
            function = _host_function(lambda here, *values: None if here else called(*values), [number, *ctx.avals_in], (),
                                      effect.ordered, caller, False)
            in_fully_manual_body(ctx, operands, lambda body, *values: lowering.host_callbacks.call_python(
                body, function, values, has_side_effect=True, effect=effect))
            return []
        function = _host_function(called, ctx.avals_in, (), effect.ordered, caller, False)
        return lowering.host_callbacks.call_python(ctx, function, operands, has_side_effect=True, effect=effect,
                                                   partitioned=partitioned)

    def jvp(primals, tangents, **params):
        return primitive.bind(*primals, **params), []

    def batch(size, operands, dims, **params):
        vmap_methods.elements(functools.partial(primitive.bind, **params), size, operands, dims)
        return [], []

    primitive = Primitive(
        name, multiple_results=True, shown_as=caller, abstract=abstract, impl=impl, lower=lower, jvp=jvp, batch=batch,
        effects=lambda *_, **params: frozenset([effect_of(**params)]), traits=Traits(memoise=False))
    return primitive


class DebugCall:
    """A Python function with the non-array leaves of its arguments; it is called with the arrays."""

    __slots__ = ("function", "in_tree", "static")

    def __init__(self, function: Callable, in_tree, static: tuple):
        self.function, self.in_tree, self.static = function, in_tree, static

    def __call__(self, *arrays):
        fixed, rest = dict(self.static), iter(arrays)
        leaves = [fixed[i] if i in fixed else next(rest) for i in range(self.in_tree.num_leaves)]
        args, kwargs = self.in_tree.unflatten(leaves)
        self.function(*args, **kwargs)
        return ()

    def __repr__(self):
        return signatures.function_name(self.function)


def split_static(leaves: Sequence[Any]) -> tuple[list[Any], tuple]:
    """Split the leaves of a pytree into arrays and other objects, the latter with their positions."""
    static = tuple([(i, x) for i, x in enumerate(leaves) if not _is_array(x)])
    others = {i for i, _ in static}
    return [x for i, x in enumerate(leaves) if i not in others], static


def _make_printer(*, fmt, has_placeholders, in_tree, static_args, np_printoptions, logging_record, **_):
    def show(*args, **kwargs):
        with np.printoptions(**dict(np_printoptions)):
            if has_placeholders:
                text = fmt.format(*args, **kwargs)
            else:
                text = " ".join([fmt, *map(str, args), *[f"{name}={x}" for name, x in kwargs.items()]])
        if logging_record is None:
            print(text)
        else:
            _log_line(*logging_record, text)

    return DebugCall(show, in_tree, static_args)


def _log_line(name: str, file: str, line: int, function: str, text: str) -> None:
    import logging  # start-up: 2.6 ms

    logger = logging.getLogger(name)  # handled at every level: levels filter the library's own messages
    logger.handle(logger.makeRecord(name, logging.INFO, file, line, text, (), None, function))


debug_callback_p = _debug_primitive("debug_callback", "debug.callback", lambda *, callback, **_: callback,
                                lambda *, effect, **_: effect)
debug_print_p = _debug_primitive("debug_print", "debug.print", _make_printer,
                             lambda *, ordered, **_: ordered_debug_effect if ordered else debug_effect)

__all__ = ["DebugEffect", "IOEffect", "OrderedDebugEffect", "OrderedIOEffect", "io_callback", "pure_callback"]
