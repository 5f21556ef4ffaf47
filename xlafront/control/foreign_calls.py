"""`ffi_call`: calls of foreign functions, by the name under which they are registered.

Nothing is known of what such a function computes but the types of its results. How to differentiate it is for `custom_jvp` and
`custom_vjp` to say, what `vmap` does for `vmap_method`. The kernels of linear algebra are calls of the same operation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.control import vmap_methods
from xlafront.core import errors, keys, tracing
from xlafront.core.avals import ShapedArray, abstract_token, str_short
from xlafront.core.errors import ShardingTypeError
from xlafront.core.ir import Effect
from xlafront.core.primitive import Primitive
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import boundary
from xlafront.lax.shapes import broadcast_batch
from xlafront.runtime import foreign_functions, kernel_libraries
from xlafront.runtime.foreign_functions import TYPED
from xlafront.runtime.layouts import Layout


class FfiEffect(Effect):
    """Of a foreign function that does more than to compute its results."""

    def __repr__(self):
        return "FfiEffect()"


ffi_effect = FfiEffect()


# The operation. Layouts are dimensions from the fastest to the slowest; `attributes` are pairs of a name and an MLIR attribute;
# `num_batch_dims` leading dimensions are those of a batch, along which programs for many devices split the call. It is None
# where that is not known of the function.


def _splits(operands: Sequence[Any], results: Sequence[Any], batch: int) -> str:
    """For Shardy: which dimensions may be split alike. Those of the batch, and no others."""
    operands, results = [[keys.physical(a) for a in side] for side in (operands, results)]
    names: list[str] = []
    sizes: list[int] = []

    def new(size: int) -> str:
        i = len(names)
        names.append(chr(ord("i") + i) if i < 18 else f"z_{i - 17}")
        sizes.append(size)
        return names[-1]

    shared = [new(n) for n in operands[0].shape[:batch]]
    sides = [", ".join(f"[{', '.join((shared if a.ndim else []) + [new(n) for n in a.shape[batch:]])}]" for a in side)
             for side in (operands, results)]
    return (f"#sdy.op_sharding_rule<({sides[0]})->({sides[1]}) "
            f"{{{', '.join(f'{n}={s}' for n, s in zip(names, sizes))}}}, custom>")


def _lower(ctx, *operands, target_name, result_avals, attributes, input_layouts, output_layouts, input_output_aliases,
           has_side_effect, custom_call_api_version, legacy_backend_config, num_batch_dims, vmap_method):
    mlir = lowering.mlir
    kernel_libraries.prepare(target_name)
    typed = custom_call_api_version >= TYPED
    arrays = [aval for aval in (*ctx.avals_in, *result_avals) if aval is not abstract_token]
    shapes, marks = ctx.shape_operands(arrays[len(operands):], len(operands))
    input_layouts = (*input_layouts, *[(0,)] * len(shapes))
    found = lowering.custom_calls.attributes_of_call(
        target_name, len(input_layouts), len(result_avals), has_side_effect=has_side_effect,
        api_version=custom_call_api_version, backend_config=dict(attributes) if typed else legacy_backend_config or "",
        operand_output_aliases=dict(input_output_aliases), operand_layouts=input_layouts, result_layouts=output_layouts)
    if num_batch_dims:
        found["mhlo.frontend_attributes"] = mlir.dictionary({"num_batch_dims": mlir.string(str(num_batch_dims))})
    if num_batch_dims is not None and ctx.avals_in and not ctx.computes(*[aval.shape for aval in arrays]):
        found["sdy.sharding_rule"] = mlir.attribute(_splits(ctx.avals_in, result_avals, num_batch_dims))
    results = ctx.op("stablehlo.custom_call", [*operands, *shapes], result_avals, **found, **marks)
    return results if isinstance(results, list) else [results]


def _jvp(primals, tangents, *, target_name, **params):
    raise ValueError(f"the call of the foreign function {target_name!r} cannot be differentiated: of it only values are known, "
                     f"not its derivative. Give it one with custom_jvp or custom_vjp, or hold its arguments constant with "
                     f"lax.stop_gradient.")


def _wider(order: tuple[int, ...]) -> tuple[int, ...]:
    """A layout with one more dimension in front, the slowest."""
    return (*[d + 1 for d in order], 0)


def _batch(size, operands, dims, *, result_avals, input_layouts, output_layouts, vmap_method, num_batch_dims, **params):
    if vmap_method is None:
        raise NotImplementedError(f"vmap of the foreign function {params['target_name']!r} needs to know how to call it for a "
                                  f"batch: give ffi_call a vmap_method, 'sequential' for one call an element, 'expand_dims' or "
                                  f"'broadcast_all' for one call with the whole batch.")
    params |= {"vmap_method": vmap_method}
    if vmap_method.startswith("sequential"):
        bind = functools.partial(ffi_call_p.bind, result_avals=result_avals, input_layouts=input_layouts,
                                 output_layouts=output_layouts, num_batch_dims=num_batch_dims, **params)
        return vmap_methods.one_by_one(bind, size, operands, dims, result_avals, vmap_method == "sequential_unrolled")
    aliased = {i for i, _ in params["input_output_aliases"]}  # what shares its memory with a result must be as large
    operands = [broadcast_batch(x, d, size) if i in aliased else x for i, (x, d) in enumerate(zip(operands, dims))]
    dims = [0 if i in aliased else d for i, d in enumerate(dims)]
    whole = vmap_methods.batched_operands(vmap_method, size, operands, dims)
    if vmap_method != "broadcast_all":
        num_batch_dims = None
    found = ffi_call_p.bind(
        *whole, result_avals=tuple([aval.update(shape=(size, *aval.shape)) for aval in result_avals]),
        input_layouts=tuple([order if vmap_method == "legacy_vectorized" and d is None else _wider(order)
                             for order, d in zip(input_layouts, dims)]),
        output_layouts=tuple(map(_wider, output_layouts)),
        num_batch_dims=None if num_batch_dims is None else num_batch_dims + 1, **params)
    return found, [0] * len(found)


def split_like_batch(ranks, name, operands, result, params):
    """Types of results are split along the leading dimensions; matrices must be whole."""
    parts = []
    for (aval, entries), rank in zip(operands, ranks):
        lead = aval.ndim - rank
        if any(e is not None for e in entries[lead:]):
            raise ShardingTypeError(f"{name} works on whole matrices, got {str_short(aval)}. Bring it to a sharding that "
                                    f"splits only the leading dimensions, with reshard.")
        parts.append(entries[:lead])
    joint = [next((e for e in of if e is not None), None) for of in zip(*parts)]
    if any(list(part) != joint for part in parts):
        raise ShardingTypeError(f"{name} got operands whose leading dimensions are split differently: "
                                f"{', '.join(str_short(a) for a, _ in operands)}. Bring one to the sharding of the other with "
                                f"reshard.")
    return [*joint, *[None] * (result.ndim - len(joint))]


def _sharding_rule(name, operands, result, params):
    batch = params["num_batch_dims"]
    if batch:
        return split_like_batch([a.ndim - batch for a, _ in operands], params["target_name"], operands, result, params)
    explicit = result.explicit_sharding  # what was asked for
    return [None] * result.ndim if explicit is None else list(explicit.spec.partitions)


ffi_call_p = Primitive(
    "ffi_call", multiple_results=True, lower=_lower, batch=_batch, jvp=_jvp, sharding_rule=_sharding_rule,
    abstract=lambda *operands, result_avals, **params: list(result_avals),
    effects=lambda *operands, has_side_effect, **params: frozenset([ffi_effect] if has_side_effect else ()))


# The function


def _result_type(user: str, promised: Any, where: str):
    if promised is abstract_token:
        return promised
    if isinstance(promised, ShapedArray):
        return promised.update(weak_type=False)
    if not hasattr(promised, "shape") or not hasattr(promised, "dtype"):
        raise ValueError(f"{user} takes as result_shape_dtypes an object with shape and dtype, such as "
                         f"ShapeDtypeStruct((3,), 'float32'), or a sequence of them; {where} is {promised!r:.80}.")
    sharding = promised.sharding if isinstance(promised, ShapeDtypeStruct) else None
    return ShapedArray(tuple(promised.shape), promised.dtype, sharding=sharding)


def _orders(user: str, name: str, wanted: Sequence[Any] | None, avals: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Layouts, as users give them for some arrays, as dimensions from the fastest to the slowest for each."""
    if wanted is None:
        wanted = [None] * len(avals)
    elif len(wanted) != len(avals):
        raise ValueError(f"{user} takes in {name} a layout for each array: {len(avals)} of them, got {len(wanted)}.")
    found = []
    for i, (layout, aval) in enumerate(zip(wanted, avals)):
        default = lowering.custom_calls.default_order(aval)
        if layout is None:
            found.append(default)
            continue
        order = layout.major_to_minor if isinstance(layout, Layout) else layout
        if not isinstance(order, Sequence) or sorted(order, key=repr) != sorted(default, key=repr):
            raise ValueError(f"{user} takes in {name} the dimensions of each array from the slowest to the fastest, or a "
                             f"Layout; {name}[{i}] of an array of shape {aval.shape} is {layout!r:.80}.")
        found.append(tuple(map(int, order))[::-1])
    return tuple(found)


def aliased_pairs(user: str, aliases: Mapping[int, int] | None, avals: Sequence[Any], results: Sequence[Any]
             ) -> tuple[tuple[int, int], ...]:
    found = []
    if aliases is not None and not isinstance(aliases, Mapping):
        raise TypeError(f"{user} takes as input_output_aliases a dict from the number of an argument to that of a result, got "
                        f"{type(aliases).__name__}.")
    for i, j in (aliases or {}).items():
        for number, of, count in ((i, "argument", len(avals)), (j, "result", len(results))):
            if not isinstance(number, (int, np.integer)) or not 0 <= number < count:
                raise ValueError(f"{user} got input_output_aliases={aliases!r:.80}: there is no {of} {number!r}, only {count} "
                                 f"of them, counted from 0.")
        if (avals[i].shape, avals[i].dtype) != (results[j].shape, results[j].dtype):
            raise ValueError(f"{user} got input_output_aliases={aliases!r:.80}, by which argument {i}, {avals[i]}, would share "
                             f"its memory with result {j}, {results[j]}: they must have the same shape and dtype.")
        found.append((int(i), int(j)))
    return tuple(found)


def _attributes(user: str, given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    found = []
    with lowering.mlir.context:
        for name, value in given.items():
            if isinstance(value, list):
                raise TypeError(f"{user} got the attribute {name}={value!r:.80}, a list, which can change: give a NumPy array, "
                                f"np.array([1, 2], np.int32).")
            try:
                found.append((name, lowering.custom_calls.attribute_of(value)))
            except (TypeError, KeyError) as e:
                raise TypeError(f"{user} got the attribute {name}={value!r:.80}, of type {type(value).__name__}. Attributes "
                                f"are booleans, numbers, texts, NumPy arrays and dicts of them; arrays that are computed are "
                                f"arguments.") from e
    return tuple(found)


def _types_of(user: str, args: Sequence[Any]) -> list[Any]:
    found = []
    for i, x in enumerate(args):
        try:
            found.append(tracing.aval_of(x))
        except TypeError:
            raise errors.not_an_array(x, user, str(i)) from None
    return found


@boundary
def _call(target: str, results: Sequence[Any], args: Sequence[Any], given: Mapping[str, Any], *, input_layouts,
          output_layouts, input_output_aliases, **params) -> list[Any]:
    user = f"ffi_call of {target!r}"
    version = params["custom_call_api_version"]
    if version < TYPED and given:
        raise ValueError(f"{user} got the attributes {', '.join(given)}, which need custom_call_api_version={TYPED} or more, "
                         f"not {version}: pass what the function has to know as legacy_backend_config.")
    avals = _types_of(user, args)
    return ffi_call_p.bind(
        *args, target_name=target, result_avals=tuple(results), attributes=_attributes(user, given),
        input_layouts=_orders(user, "input_layouts", input_layouts, avals),
        output_layouts=_orders(user, "output_layouts", output_layouts, results),
        input_output_aliases=aliased_pairs(user, input_output_aliases, avals, results),
        num_batch_dims=0 if target in foreign_functions.batch_partitionable else None, **params)


def ffi_call(target_name: str, result_shape_dtypes: Any, *, has_side_effect: bool = False, vmap_method: str | None = None,
             input_layouts: Sequence[Any] | None = None, output_layouts: Any = None,
             input_output_aliases: dict[int, int] | None = None, custom_call_api_version: int = 4,
             legacy_backend_config: str | None = None) -> Callable[..., Any]:
    """A function that calls a foreign function, which `register_ffi_target` has made known: `call(*arrays, **attributes)`.

    Attributes are booleans, numbers, texts, NumPy arrays and dicts of them; numbers of Python have 64 bits.

    - `target_name`: the name of the function.
    - `result_shape_dtypes`: an object with shape and dtype, for one result, or a sequence of them.
    - `has_side_effect`: whether it is called also where nobody reads its results.
    - `vmap_method`: what `vmap` does. `"sequential"`: one call an element, in a loop; `"sequential_unrolled"`: the loop written
      out; `"expand_dims"`: one call, in which batched arguments have a leading axis and the others one of size 1;
      `"broadcast_all"`: one call, in which all arguments have the leading axis; `"legacy_vectorized"`: only batched ones do.
    - `input_layouts`, `output_layouts`: how arrays lie in memory: for each a `Layout`, its dimensions from the slowest to the
      fastest, or None. `output_layouts` of one result is one of them.
    - `input_output_aliases`: from the number of an argument to that of the result which gets its memory.
    - `custom_call_api_version`: 4 for XLA's FFI; the older interfaces take a `legacy_backend_config`, a text, for attributes.

    >>> call = ffi_call("lapack_spotrf_ffi", (xf.ShapeDtypeStruct((2, 2), "float32"), xf.ShapeDtypeStruct((), "int32")))
    >>> xf.eval_shape(call, xnp.eye(2))
    (ShapeDtypeStruct(shape=(2, 2), dtype=float32), ShapeDtypeStruct(shape=(), dtype=int32))
    """
    if not isinstance(target_name, str):
        raise TypeError(f"ffi_call takes the name of a function, got {type(target_name).__name__}: {target_name!r:.80}.")
    user = f"ffi_call of {target_name!r}"
    vmap_methods.check("ffi_call", vmap_method)
    if custom_call_api_version >= TYPED and legacy_backend_config is not None:
        raise ValueError(f"{user} takes a legacy_backend_config with a custom_call_api_version below {TYPED}, got "
                         f"{custom_call_api_version}: pass attributes, call(*arrays, name=value).")
    kind = type(result_shape_dtypes) if isinstance(result_shape_dtypes, (list, tuple)) else None
    if kind is None:
        results = [_result_type(user, result_shape_dtypes, "it")]
        output_layouts = None if output_layouts is None else _of_one_result(output_layouts)
    else:
        results = [_result_type(user, r, f"element {i}") for i, r in enumerate(result_shape_dtypes)]

    def call(*args: Any, **attributes: Any) -> Any:
        found = _call(target_name, results, args, attributes, input_layouts=input_layouts, output_layouts=output_layouts,
                      input_output_aliases=input_output_aliases, has_side_effect=bool(has_side_effect), vmap_method=vmap_method,
                      custom_call_api_version=custom_call_api_version, legacy_backend_config=legacy_backend_config)
        return found[0] if kind is None else tuple(found) if kind is tuple else list(found)

    return call


def _of_one_result(layouts: Any) -> list[Any]:
    """The layout of the one result, given alone or in a sequence."""
    if isinstance(layouts, Layout) or not layouts or isinstance(layouts[0], (int, np.integer)):
        return [layouts]
    return list(layouts)
