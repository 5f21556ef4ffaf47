"""Python functions that compiled programs call while they run: `pure_callback`, `io_callback`, `debug.callback`, `debug.print`.

Eagerly they just run. In a program each is an equation, lowered to an operation that calls Python with its operands. What
differs is how they count: results of a pure callback may be dropped or computed again, an I/O callback runs exactly when the
program says, a debugging callback leaves differentiation and batching as they are without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront import lowering, random
from xlafront.control import vmap_methods
from xlafront.core import backends, dtypes, errors, keys, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Effect
from xlafront.core.primitive import Primitive
from xlafront.core.traceback_filter import boundary
from xlafront.lax.device_put import put_leaf
from xlafront.lax.manual_computation import automatic_axes, on_each_device
from xlafront.runtime import config, effects as runtime_effects, guards
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.clients import clients
from xlafront.runtime.jaxlib_compat import SingleDeviceSharding
from xlafront.runtime.logs import log
from xlafront.runtime.sharding import single_device
from xlafront.staging import signatures
from xlafront.staging.debug_nans import check_new
from xlafront.staging.moves import put


class _NamedEffect(Effect):
    def __repr__(self):
        return type(self).__name__.removesuffix("Effect")


class IOEffect(_NamedEffect):
    """Of an I/O callback."""


class OrderedIOEffect(_NamedEffect):
    """Of an I/O callback that runs in program order."""

    ordered = ordered_over_devices = True  # one of the devices calls, or each in its own order


class DebugEffect(_NamedEffect):
    """Of a debugging callback."""

    repeatable = True


class OrderedDebugEffect(_NamedEffect):
    """Of a debugging callback that runs in program order."""

    ordered = repeatable = True


io_effect, ordered_io_effect = IOEffect(), OrderedIOEffect()
debug_effect, ordered_debug_effect = DebugEffect(), OrderedDebugEffect()


# Calling the function


class FlatCallback:
    """A user's function as one of flat lists of arrays."""

    __slots__ = ("function", "in_tree", "out_tree", "user")

    def __init__(self, function: Callable, in_tree, out_tree, user: str):
        self.function, self.in_tree, self.out_tree, self.user = function, in_tree, out_tree, user

    def __call__(self, *leaves):
        args, kwargs = self.in_tree.unflatten(leaves)
        returned = self.function(*args, **kwargs)
        results, structure = tree.flatten(returned)
        if len(results) != self.out_tree.num_leaves:  # any tree of as many arrays will do
            raise ValueError(f"{signatures.function_name(self.function)}, which {self.user} called, must return what "
                             f"result_shape_dtypes says, {self.out_tree}; it returned {structure}.")
        return results

    def check(self, index: int, result, aval) -> np.ndarray:
        """A result as the array that was promised."""
        value = np.asarray(result)
        if dtypes.canonicalize_dtype(value.dtype) == aval.dtype and value.shape == aval.shape:
            return value.astype(aval.dtype, copy=False)
        where = tree.path_of(tree.numbered(self.out_tree), index)
        raise ValueError(f"{signatures.function_name(self.function)}, which {self.user} called, must return an array of type "
                         f"{aval}, as result_shape_dtypes says; result{where} is {value.dtype}{list(value.shape)}.")

    def __repr__(self):
        return signatures.function_name(self.function)


def _cpu_sharding() -> SingleDeviceSharding:
    return single_device(clients.get("cpu", backends.settings()).local_devices()[0])


def _host_function(callback: Callable, in_avals: Sequence[Any], out_avals: Sequence[Any], ordered: bool, user: str,
                   raises: bool) -> Callable[..., tuple]:
    """What the program calls: takes and returns NumPy arrays, and first the token where it is `ordered`.

    The user's function gets arrays on the CPU. When nobody may look at the results (not `raises`), errors are logged.
    """
    types = [(ShapedArray(p.shape, p.dtype), aval) for p, aval in ((keys.physical(aval), aval) for aval in in_avals)]
    sharding = _cpu_sharding()

    def run(*args):
        with runtime_effects.host_callback(), tracing.current_trace(tracing.eval_trace):
            # A partitioned callback gets a part, which is smaller than the type says.
            with guards.explicit("device_put"):
                values = [
                    keys.wrap(put(x, words if x.shape == words.shape else words.update(shape=x.shape), sharding, True), aval)
                    for x, (words, aval) in zip(args[ordered:], types)]
            try:
                results = callback(*values)
            except Exception:
                if not raises:
                    log().exception("%s failed: the function given to it raised an error.", user)
                raise
            found = [callback.check(i, x, aval) for i, (x, aval) in enumerate(zip(results, out_avals))] if out_avals else []
        return (None, *found) if ordered else tuple(found)

    return run


def _run_now(*args, callback, result_avals, sharding, user: str) -> list[Any]:
    """The callback on concrete arrays."""
    cpu = _cpu_sharding()
    values = [put_leaf(x, None) for x in args]
    with guards.explicit("device_put"):
        values = [put(x, tracing.aval_of(x), cpu, True) for x in values]
    try:
        results = [callback.check(i, x, aval) for i, (x, aval) in enumerate(zip(callback(*values), result_avals))]
    except errors.JaxRuntimeError:
        raise
    except Exception as e:
        raise errors.JaxRuntimeError(f"{user} called {callback}, which raised {type(e).__name__}: {e}") from e
    if config.debug_nans.value or config.debug_infs.value:
        for x in results:
            check_new(x, f"{user} called {callback}, which returned")
    for x in args:
        if sharding is None and type(x) is ArrayImpl and x.committed and x.sharding.num_devices == 1:
            sharding = single_device(x.sharding._device)
    where = single_device(backends.default_device()) if sharding is None else sharding
    with guards.explicit("device_put"):  # of copies: the function may change its array later
        return [put(np.array(x), aval, where, sharding is not None) for x, aval in zip(results, result_avals)]


def _device_index(ctx, sharding) -> int:
    context = ctx.module_context.sharding_context
    if sharding is None or context is None:
        return 0
    device, devices = sharding._device, list(context.assignment.devices)
    if device not in devices:
        raise ValueError(f"{ctx.primitive} was asked to run for {device}, which is not among the devices of the program: "
                         f"{devices}.")
    return devices.index(device)


# pure_callback and io_callback


def _lower(ctx, *operands, callback, result_avals, sharding, ordered=None, **_):
    if axes := automatic_axes(ctx):
        raise NotImplementedError(f"{callback.user} of {callback} is in a shard_map that leaves the axes {tuple(axes)} of its "
                                  "mesh to the compiler, which cannot divide the call. Name all axes in its axis_names.")
    effect = None if ordered is None else _io_effect(ordered)
    function = _host_function(callback, ctx.avals_in, result_avals, bool(ordered), callback.user, True)
    return lowering.host_callbacks.call_python(
        ctx, function, operands, has_side_effect=effect is not None, effect=effect,
        device_index=_device_index(ctx, sharding))


def _refuse_jvp(user: str, remedy: str):
    def jvp(primals, tangents, *, callback, **_):
        raise ValueError(f"{user} cannot be differentiated, as callbacks do not support JVP: of {callback} only its values "
                         f"are known, not its derivative. {remedy} or hold its arguments constant with lax.stop_gradient.")

    return jvp


def _pure_batch(size, operands, dims, *, result_avals, vmap_method, **params):
    params |= {"vmap_method": vmap_method}
    if vmap_method is None:
        raise NotImplementedError("vmap is only supported for pure_callback with vmap_method, which tells how to call the "
                                  "function for a batch: give vmap_method='sequential' for one call an element, or "
                                  "'expand_dims' or 'broadcast_all' for one call with the whole batch.")
    if vmap_method.startswith("sequential"):
        return vmap_methods.one_by_one(functools.partial(pure_callback_p.bind, result_avals=result_avals, **params), size,
                                       operands, dims, result_avals, vmap_method == "sequential_unrolled")
    batch = vmap_methods.batched_operands(vmap_method, size, operands, dims)
    wider = tuple([aval.update(shape=(size, *aval.shape)) for aval in result_avals])
    return pure_callback_p.bind(*batch, result_avals=wider, **params), [0] * len(wider)


def _io_effect(ordered: bool) -> Effect:
    return ordered_io_effect if ordered else io_effect


def _io_batch(size, operands, dims, *, ordered, result_avals, **params):
    if ordered:
        raise ValueError("cannot vmap an ordered io_callback (ordered=True): the elements of a batch have no order. Leave "
                         "ordered out, or write the loop with lax.scan.")
    bind = functools.partial(io_callback_p.bind, ordered=ordered, result_avals=result_avals, **params)
    return vmap_methods.one_by_one(bind, size, operands, dims, result_avals, False)


pure_callback_p = Primitive(
    "pure_callback", multiple_results=True, memoise=False, lower=_lower, batch=_pure_batch,
    abstract=lambda *_, result_avals, **params: list(result_avals),
    impl=lambda *args, callback, result_avals, sharding, **_: _run_now(
        *args, callback=callback, result_avals=result_avals, sharding=sharding, user="pure_callback"),
    jvp=_refuse_jvp("pure_callback", "Wrap it in custom_jvp,"))

io_callback_p = Primitive(
    "io_callback", multiple_results=True, memoise=False, lower=_lower, batch=_io_batch,
    abstract=lambda *_, result_avals, **params: list(result_avals),
    effects=lambda *_, ordered, **params: frozenset([_io_effect(ordered)]),
    impl=lambda *args, callback, result_avals, sharding, **_: _run_now(
        *args, callback=callback, result_avals=result_avals, sharding=sharding, user="io_callback"),
    jvp=_refuse_jvp("io_callback", "Call it outside of the differentiated function,"))


for _primitive in (pure_callback_p, io_callback_p):  # whose device is one of those of the program
    _primitive.binds_devices = lambda **_: False


def _result_aval(user: str, promised, path: str) -> ShapedArray:
    if not hasattr(promised, "shape") or not hasattr(promised, "dtype"):
        raise AttributeError(f"{user} takes as result_shape_dtypes a pytree of objects with shape and dtype, such as "
                        f"ShapeDtypeStruct((3,), 'float32'); result_shape_dtypes{path} is {promised!r:.60}.")
    dtype = np.dtype(promised.dtype)
    if dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(f"{user} has in result_shape_dtypes the dtype {dtype} for result{path}: 64-bit types cannot be "
                         "specified while the setting enable_x64 (jax_enable_x64) is off. Use "
                         f"{dtypes.canonicalize_dtype(dtype)}.")
    return ShapedArray(tuple(promised.shape), dtype)


def _prepare(user: str, callback, result_shape_dtypes, args, kwargs, sharding):
    """The operands and common parameters of a callback with results, and the tree of its results."""
    if not callable(callback):
        raise errors.not_callable(user, callback)
    if sharding is not None and not isinstance(sharding, SingleDeviceSharding):
        raise NotImplementedError(f"{user} runs for one device of the program: sharding must be a SingleDeviceSharding or "
                                  f"None, got {type(sharding).__name__}.")
    promised, out_tree = tree.flatten(result_shape_dtypes)
    result_avals = tuple([_result_aval(user, p, tree.path_of(result_shape_dtypes, i)) for i, p in enumerate(promised)])
    leaves, in_tree = tree.flatten((args, kwargs))
    operands = []
    for i, x in enumerate(leaves):
        if not _is_array(x):
            raise errors.not_an_array(x, user, tree.path_of((args, kwargs), i)[3:])
        operands.append(_words(x))
    flat = FlatCallback(callback, in_tree, out_tree, user)
    return operands, {"callback": flat, "result_avals": result_avals, "sharding": sharding}, out_tree


def _words(x):
    """Key arrays go to callbacks as their words: NumPy has nothing else for them."""
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
    """Call a Python function that has no side effects, also from inside compiled functions.

    It may be called several times, or not at all where the result is not used.

    - `callback`: gets arrays and returns NumPy arrays (or what converts to them).
    - `result_shape_dtypes`: a pytree of `ShapeDtypeStruct`s or arrays: what it returns.
    - `args`, `kwargs`: its arguments, pytrees of arrays.
    - `sharding`: in a program over several devices, the one for which it runs.
    - `vmap_method`: what `vmap` does. `"sequential"`: one call an element, in a loop; `"sequential_unrolled"`: the loop written
      out; `"expand_dims"`: one call, in which batched arguments have a leading axis and the others one of size 1;
      `"broadcast_all"`: one call, in which all arguments have the leading axis; `"legacy_vectorized"`: only batched ones do.

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
    """Call a Python function that has side effects, also from inside compiled functions.

    It runs even if nothing reads its result.

    - `callback`: the function. It gets arrays, and returns a pytree of arrays as NumPy's.
    - `result_shape_dtypes`: the types of these, a pytree of what has a shape and a dtype; None where it returns None.
    - `args`, `kwargs`: its arguments, pytrees of arrays.
    - `sharding`: on which device it is called, of a program over several: a `SingleDeviceSharding`.
    - `ordered`: calls happen in program order.

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


def _debug_rules(name: str, user: str, make: Callable[..., Callable], effect_of: Callable[..., Effect]) -> Primitive:
    """A primitive without results that calls `make(**params)`, and takes no notice of transformations."""
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
                                      effect.ordered, user, False)
            on_each_device(ctx, operands, lambda body, *values: lowering.host_callbacks.call_python(
                body, function, values, has_side_effect=True, effect=effect))
            return []
        function = _host_function(called, ctx.avals_in, (), effect.ordered, user, False)
        return lowering.host_callbacks.call_python(ctx, function, operands, has_side_effect=True, effect=effect,
                                                   partitioned=partitioned)

    def jvp(primals, tangents, **params):
        return primitive.bind(*primals, **params), []

    def batch(size, operands, dims, **params):
        vmap_methods.elements(functools.partial(primitive.bind, **params), size, operands, dims)
        return [], []

    primitive = Primitive(name, multiple_results=True, memoise=False, shown_as=user, abstract=abstract, impl=impl, lower=lower,
                          jvp=jvp, batch=batch, effects=lambda *_, **params: frozenset([effect_of(**params)]))
    return primitive


class DebugCall:
    """A user's function and what it is called with besides arrays."""

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
    """The arrays among the leaves of a pytree, and what else there is, by position."""
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

    logger = logging.getLogger(name)  # to all handlers: levels are for what the library has to say of itself
    logger.handle(logger.makeRecord(name, logging.INFO, file, line, text, (), None, function))


debug_callback_p = _debug_rules("debug_callback", "debug.callback", lambda *, callback, **_: callback,
                                lambda *, effect, **_: effect)
debug_print_p = _debug_rules("debug_print", "debug.print", _make_printer,
                             lambda *, ordered, **_: ordered_debug_effect if ordered else debug_effect)

__all__ = ["DebugEffect", "IOEffect", "OrderedDebugEffect", "OrderedIOEffect", "io_callback", "pure_callback"]
