"""`buffer_callback`: Python callbacks that read and write the buffers of a running compiled program.

Nothing is copied: the function sees the arguments in place and writes its results to the buffers that the program allocated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlafront import lowering
from xlafront.control import vmap_methods
from xlafront.control.foreign_calls import aliased_pairs
from xlafront.core import tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Effect
from xlafront.core.primitive import Primitive, Traits
from xlafront.core.traceback_filter import boundary
from xlafront.lax.shapes import broadcast_batch
from xlafront.runtime import effects as runtime_effects
from xlafront.staging import signatures


class BufferCallbackEffect(Effect):
    """The effect of a buffer callback with side effects."""

    def __repr__(self):
        return "BufferCallback"


_effect = BufferCallbackEffect()


@boundary
def buffer_callback(callback: Callable[..., None], result_shape_dtypes: Any, *, has_side_effect: bool = False,
                    vmap_method: str | None = None, input_output_aliases: Mapping[int, int] | None = None,
                    command_buffer_compatible: bool = False) -> Callable[..., Any]:
    """Return a function of arrays that calls a Python function with the buffers of its arguments and results, on CPUs and GPUs.

    Args:
        callback: Function to call, as `callback(context, results, *args)`. `results` has the structure of `result_shape_dtypes`
            and `args` that of the arguments, with `Buffer`s in place of arrays: `numpy.asarray` gives a view of one on a CPU,
            DLPack and `__cuda_array_interface__` on a GPU, where `context.stream` is the stream of the computation. It must
            write all of `results`, and returns None.
        result_shape_dtypes: Pytree of objects with shape and dtype: the types of the results.
        has_side_effect: If True, call the function even if its results are not used.
        vmap_method: How `vmap` calls it; see `pure_callback`.
        input_output_aliases: Mapping from indices of arguments to indices of results that may share their buffer.
        command_buffer_compatible: True if a GPU may record the work of the function once and replay it without Python.

    Returns:
        A function of pytrees of arrays.

    Example:
        >>> def add_one(context, result, x):
        ...     np.asarray(result)[...] = np.asarray(x) + 1
        >>> from xlafront.experimental.buffer_callback import buffer_callback
        >>> buffer_callback(add_one, xf.ShapeDtypeStruct((2,), "float32"))(xnp.zeros(2))
        Array([1., 1.], dtype=float32)
    """
    vmap_methods.check("buffer_callback", vmap_method)
    expected, out_tree = tree.flatten(result_shape_dtypes)
    for i, p in enumerate(expected):
        if not hasattr(p, "shape") or not hasattr(p, "dtype"):
            raise AttributeError(f"buffer_callback takes as result_shape_dtypes a pytree of objects with shape and dtype, such "
                                 f"as ShapeDtypeStruct((3,), 'float32'); "
                                 f"result_shape_dtypes{tree.path_of(result_shape_dtypes, i)} is {p!r:.60}.")
    result_avals = tuple([ShapedArray(tuple(p.shape), p.dtype) for p in expected])

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten((args, kwargs))
        avals = [tracing.aval_of(x, "buffer_callback") for x in leaves]
        aliases = aliased_pairs("buffer_callback", input_output_aliases, avals, result_avals)
        return out_tree.unflatten(buffer_callback_p.bind(
            *leaves, callback=callback, in_tree=in_tree, out_tree=out_tree, result_avals=result_avals,
            has_side_effect=bool(has_side_effect), vmap_method=vmap_method, input_output_aliases=aliases,
            command_buffer_compatible=bool(command_buffer_compatible)))

    return call


def _lower(ctx, *operands, callback, in_tree, out_tree, has_side_effect, input_output_aliases, command_buffer_compatible, **_):
    def run(context, *buffers):
        count = in_tree.num_leaves
        args, kwargs = in_tree.unflatten(buffers[:count])
        with runtime_effects.host_callback(), tracing.current_trace(tracing.eval_trace):
            callback(context, out_tree.unflatten(buffers[count:]), *args, **kwargs)

    return lowering.host_callbacks.call_python(
        ctx, run, operands, has_side_effect=has_side_effect, kind="buffer", recordable=command_buffer_compatible,
        aliases=dict(input_output_aliases))


def _jvp(primals, tangents, *, callback, **_):
    raise ValueError(f"buffer_callback cannot be differentiated, as callbacks do not support JVP: the derivative of "
                     f"{signatures.function_name(callback)} is unknown. Wrap it in custom_jvp, or hold its arguments "
                     f"constant with lax.stop_gradient.")


def _batch(size, operands: Sequence[Any], dims, *, result_avals, vmap_method, **params):
    if vmap_method is None:
        raise NotImplementedError("vmap is only supported for buffer_callback with vmap_method, which defines how the "
                                  "function is called for a batch: give vmap_method='sequential' for one call per element, "
                                  "or 'expand_dims' or 'broadcast_all' for one call with the entire batch.")
    bind = functools.partial(buffer_callback_p.bind, vmap_method=vmap_method, **params)
    if vmap_method.startswith("sequential"):
        return vmap_methods.one_by_one(functools.partial(bind, result_avals=result_avals), size, operands, dims, result_avals,
                                       vmap_method == "sequential_unrolled")
    aliased = {i for i, _ in params["input_output_aliases"]}  # an operand and a result in one buffer have one size
    operands = [broadcast_batch(x, d, size) if i in aliased else x for i, (x, d) in enumerate(zip(operands, dims))]
    dims = [0 if i in aliased else d for i, d in enumerate(dims)]
    batched_avals = tuple([aval.update(shape=(size, *aval.shape)) for aval in result_avals])
    batch = vmap_methods.batched_operands(vmap_method, size, operands, dims)
    return bind(*batch, result_avals=batched_avals), [0] * len(batched_avals)


buffer_callback_p = Primitive(
    "buffer_callback", multiple_results=True, lower=_lower, batch=_batch, jvp=_jvp,
    abstract=lambda *_, result_avals, **params: list(result_avals),
    effects=lambda *_, has_side_effect, **params: frozenset([_effect] if has_side_effect else ()), traits=Traits(memoise=False))
