"""`ffi_call`: calls of registered foreign functions.

A foreign function is opaque except for the types of its results. `custom_jvp` and `custom_vjp` define its derivative, and
`vmap_method` defines how it is batched. The linear algebra kernels use the same primitive.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlafront import lowering
from xlafront.base.layouts import Layout
from xlafront.control import vmap_methods
from xlafront.core import errors, tracing
from xlafront.core.avals import ShapedArray, abstract_token, str_short
from xlafront.core.errors import ShardingTypeError
from xlafront.core.ir import Effect
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import boundary
from xlafront.lax.shapes import broadcast_batch
from xlafront.runtime import foreign_functions, kernel_libraries, keys
from xlafront.runtime.foreign_functions import TYPED

if TYPE_CHECKING:
    from xlafront.core.typing import Aval, Dims, Params, Tangent


class FfiEffect(Effect):
    """The effect of foreign functions that do more than compute their results."""

    def __repr__(self) -> str:
        return "FfiEffect()"


ffi_effect = FfiEffect()


# The primitive. Layouts list dimensions in minor-to-major order; `attributes` are pairs of a name and an MLIR attribute. The
# first `num_batch_dims` dimensions are batch dimensions, along which the call can be partitioned over devices; it is None if
# the function does not declare any.


def _sharding_rule_attribute(operands: Sequence[Any], results: Sequence[Any], num_batch_dims: int) -> str:
    """Return the Shardy sharding rule of a call: batch dimensions can be sharded together, no others."""
    operands, results = [[keys.physical(a) for a in avals] for avals in (operands, results)]
    names: list[str] = []
    sizes: list[int] = []

    def new_factor(size: int) -> str:
        i = len(names)
        names.append(chr(ord("i") + i) if i < 18 else f"z_{i - 17}")
        sizes.append(size)
        return names[-1]

    batch_factors = [new_factor(n) for n in operands[0].shape[:num_batch_dims]]
    mappings = [", ".join(
        f"[{', '.join((batch_factors if a.ndim else []) + [new_factor(n) for n in a.shape[num_batch_dims:]])}]" for a in avals)
                for avals in (operands, results)]
    return (f"#sdy.op_sharding_rule<({mappings[0]})->({mappings[1]}) "
            f"{{{', '.join(f'{n}={s}' for n, s in zip(names, sizes))}}}, custom>")


def _lower(ctx: Any, *operands: Any, target_name: str, result_avals: Sequence[Aval], attributes: Sequence[tuple[str, Any]],
           input_layouts: Sequence[tuple[int, ...]], output_layouts: Sequence[tuple[int, ...]],
           input_output_aliases: Sequence[tuple[int, int]], has_side_effect: bool, custom_call_api_version: int,
           legacy_backend_config: Any, num_batch_dims: int | None, vmap_method: str | None) -> list[Any]:
    mlir = lowering.mlir
    kernel_libraries.prepare(target_name)
    typed = custom_call_api_version >= TYPED
    arrays = [aval for aval in (*ctx.avals_in, *result_avals) if aval is not abstract_token]
    shapes, marks = ctx.shape_operands(arrays[len(operands):], len(operands))
    input_layouts = (*input_layouts, *[(0,)] * len(shapes))
    call_attributes = lowering.custom_calls.attributes_of_call(
        target_name, len(input_layouts), len(result_avals), has_side_effect=has_side_effect,
        api_version=custom_call_api_version, backend_config=dict(attributes) if typed else legacy_backend_config or "",
        operand_output_aliases=dict(input_output_aliases), operand_layouts=input_layouts, result_layouts=output_layouts)
    if num_batch_dims:
        call_attributes["mhlo.frontend_attributes"] = mlir.dictionary({"num_batch_dims": mlir.string(str(num_batch_dims))})
    if num_batch_dims is not None and ctx.avals_in and not ctx.has_computed_sizes(*[aval.shape for aval in arrays]):
        call_attributes["sdy.sharding_rule"] = mlir.attribute(_sharding_rule_attribute(ctx.avals_in, result_avals,
                                                                                       num_batch_dims))
    results = ctx.op("stablehlo.custom_call", [*operands, *shapes], result_avals, **call_attributes, **marks)
    return results if isinstance(results, list) else [results]


def _jvp(primals: Sequence[Any], tangents: Sequence[Tangent], *, target_name: str, **params: Any) -> NoReturn:
    raise ValueError(f"the call of the foreign function {target_name!r} cannot be differentiated: it has no derivative rule. "
                     f"Define one with custom_jvp or custom_vjp, or hold its arguments constant with lax.stop_gradient.")


def _add_leading_dim(order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the layout with an additional leading dimension, the most major one."""
    return (*[d + 1 for d in order], 0)


def _batch(size: int, operands: Sequence[Any], dims: Dims, *, result_avals: Sequence[Aval],
           input_layouts: Sequence[tuple[int, ...]], output_layouts: Sequence[tuple[int, ...]], vmap_method: str | None,
           num_batch_dims: int | None, **params: Any) -> tuple[list[Any], list[int | None]]:
    if vmap_method is None:
        raise NotImplementedError(
            f"vmap of the foreign function {params['target_name']!r} has no batching method: pass ffi_call a "
                                  f"vmap_method, 'sequential' for one call per element, 'expand_dims' or 'broadcast_all' for "
                                  f"one call with the whole batch.")
    params |= {"vmap_method": vmap_method}
    if vmap_method.startswith("sequential"):
        bind = functools.partial(ffi_call_p.bind, result_avals=result_avals, input_layouts=input_layouts,
                                 output_layouts=output_layouts, num_batch_dims=num_batch_dims, **params)
        return vmap_methods.one_by_one(bind, size, operands, dims, result_avals, vmap_method == "sequential_unrolled")
    aliased = {i for i, _ in params["input_output_aliases"]}  # an operand aliased with a result must have its size
    operands = [broadcast_batch(x, d, size) if i in aliased else x for i, (x, d) in enumerate(zip(operands, dims))]
    dims = [0 if i in aliased else d for i, d in enumerate(dims)]
    batched = vmap_methods.batched_operands(vmap_method, size, operands, dims)
    if vmap_method != "broadcast_all":
        num_batch_dims = None
    results = ffi_call_p.bind(
        *batched, result_avals=tuple([aval.update(shape=(size, *aval.shape)) for aval in result_avals]),
        input_layouts=tuple([order if vmap_method == "legacy_vectorized" and d is None else _add_leading_dim(order)
                             for order, d in zip(input_layouts, dims)]),
        output_layouts=tuple(map(_add_leading_dim, output_layouts)),
        num_batch_dims=None if num_batch_dims is None else num_batch_dims + 1, **params)
    return results, [0] * len(results)


def split_like_batch(ranks: Sequence[int], name: str, operands: Sequence[tuple[Aval, Sequence[Any]]], result: Aval,
                     params: Params) -> list[Any]:
    """Shard results like the leading dimensions of the operands; the matrix dimensions must be unsharded."""
    batch_entries = []
    for (aval, entries), rank in zip(operands, ranks):
        num_batch_dims = aval.ndim - rank
        if any(e is not None for e in entries[num_batch_dims:]):
            raise ShardingTypeError(f"{name} needs unsharded matrices, got {str_short(aval)}. Use reshard to shard only "
                                    f"the leading dimensions.")
        batch_entries.append(entries[:num_batch_dims])
    common = [next((e for e in candidates if e is not None), None) for candidates in zip(*batch_entries)]
    if any(list(batch) != common for batch in batch_entries):
        raise ShardingTypeError(f"{name} got operands whose leading dimensions are sharded differently: "
                                f"{', '.join(str_short(a) for a, _ in operands)}. Give them equal shardings with reshard.")
    return [*common, *[None] * (result.ndim - len(common))]


def _sharding_rule(name: str, operands: Sequence[tuple[Aval, Sequence[Any]]], result: Aval, params: Params) -> list[Any]:
    batch = params["num_batch_dims"]
    if batch:
        return split_like_batch([a.ndim - batch for a, _ in operands], params["target_name"], operands, result, params)
    explicit = result.explicit_sharding  # the requested sharding
    return [None] * result.ndim if explicit is None else list(explicit.spec.partitions)


ffi_call_p = Primitive(
    "ffi_call", multiple_results=True, lower=_lower, batch=_batch, jvp=_jvp,
    abstract=lambda *operands, result_avals, **params: list(result_avals),
    effects=lambda *operands, has_side_effect, **params: frozenset([ffi_effect] if has_side_effect else ()),
    mesh=MeshRules(_sharding_rule))


# The function


def _result_type(caller: str, declared: Any, name: str) -> Aval:
    if declared is abstract_token:
        return declared
    if isinstance(declared, ShapedArray):
        return declared.update(weak_type=False)
    if not hasattr(declared, "shape") or not hasattr(declared, "dtype"):
        raise ValueError(f"{caller} takes an object with shape and dtype as result_shape_dtypes, such as "
                         f"ShapeDtypeStruct((3,), 'float32'), or a sequence of them; {name} is {declared!r:.80}.")
    sharding = declared.sharding if isinstance(declared, ShapeDtypeStruct) else None
    return ShapedArray(tuple(declared.shape), declared.dtype, sharding=sharding)


def _minor_to_major(caller: str, name: str, layouts: Sequence[Any] | None, avals: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Return the layouts of arrays in minor-to-major order, with default layouts for None."""
    if layouts is None:
        layouts = [None] * len(avals)
    elif len(layouts) != len(avals):
        raise ValueError(f"{caller} takes one layout per array in {name}: {len(avals)} layouts, got {len(layouts)}.")
    orders = []
    for i, (layout, aval) in enumerate(zip(layouts, avals)):
        default = lowering.custom_calls.default_minor_to_major(aval)
        if layout is None:
            orders.append(default)
            continue
        order = layout.major_to_minor if isinstance(layout, Layout) else layout
        if not isinstance(order, Sequence) or sorted(order, key=repr) != sorted(default, key=repr):
            raise ValueError(f"{caller} takes the dimensions of each array in major-to-minor order, or a Layout, in "
                             f"{name}; {name}[{i}] of an array of shape {aval.shape} is {layout!r:.80}.")
        orders.append(tuple(map(int, order))[::-1])
    return tuple(orders)


def aliased_pairs(caller: str, aliases: Mapping[int, int] | None, avals: Sequence[Any], results: Sequence[Any]
             ) -> tuple[tuple[int, int], ...]:
    pairs = []
    if aliases is not None and not isinstance(aliases, Mapping):
        raise TypeError(f"{caller} takes a dict from argument indices to result indices as input_output_aliases, got "
                        f"{type(aliases).__name__}.")
    for i, j in (aliases or {}).items():
        for index, kind, count in ((i, "argument", len(avals)), (j, "result", len(results))):
            if not isinstance(index, (int, np.integer)) or not 0 <= index < count:
                raise ValueError(
                    f"{caller} got input_output_aliases={aliases!r:.80}: there is no {kind} {index!r}, only {count} "
                                 f"{kind}s, counted from 0.")
        if (avals[i].shape, avals[i].dtype) != (results[j].shape, results[j].dtype):
            raise ValueError(f"{caller} got input_output_aliases={aliases!r:.80}, which aliases argument {i}, {avals[i]}, "
                             f"with result {j}, {results[j]}: they must have the same shape and dtype.")
        pairs.append((int(i), int(j)))
    return tuple(pairs)


def _attributes(caller: str, attributes: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    converted = []
    with lowering.mlir.context:
        for name, value in attributes.items():
            if isinstance(value, list):
                raise TypeError(
                    f"{caller} got the attribute {name}={value!r:.80}, a list, which is mutable: pass a NumPy array, "
                                f"np.array([1, 2], np.int32).")
            try:
                converted.append((name, lowering.custom_calls.attribute_of(value)))
            except (TypeError, KeyError) as e:
                raise TypeError(f"{caller} got the attribute {name}={value!r:.80}, of type {type(value).__name__}. Attributes "
                                f"are booleans, numbers, strings, NumPy arrays and dicts of them; pass computed arrays as "
                                f"arguments.") from e
    return tuple(converted)


def _types_of(caller: str, args: Sequence[Any]) -> list[Any]:
    avals = []
    for i, x in enumerate(args):
        try:
            avals.append(tracing.aval_of(x))
        except TypeError:
            raise errors.not_an_array(x, caller, str(i)) from None
    return avals


@boundary
def _call(target_name: str, result_avals: Sequence[Any], args: Sequence[Any], attributes: Mapping[str, Any], *,
          input_layouts: Sequence[Any] | None, output_layouts: Sequence[Any] | None,
          input_output_aliases: Mapping[int, int] | None, **params: Any) -> list[Any]:
    caller = f"ffi_call of {target_name!r}"
    version = params["custom_call_api_version"]
    if version < TYPED and attributes:
        raise ValueError(
            f"{caller} got the attributes {', '.join(attributes)}, which need custom_call_api_version={TYPED} or more, "
                         f"not {version}: pass a legacy_backend_config instead.")
    avals = _types_of(caller, args)
    return ffi_call_p.bind(
        *args, target_name=target_name, result_avals=tuple(result_avals), attributes=_attributes(caller, attributes),
        input_layouts=_minor_to_major(caller, "input_layouts", input_layouts, avals),
        output_layouts=_minor_to_major(caller, "output_layouts", output_layouts, result_avals),
        input_output_aliases=aliased_pairs(caller, input_output_aliases, avals, result_avals),
        num_batch_dims=0 if target_name in foreign_functions.batch_partitionable else None, **params)


def ffi_call(target_name: str, result_shape_dtypes: Any, *, has_side_effect: bool = False, vmap_method: str | None = None,
             input_layouts: Sequence[Any] | None = None, output_layouts: Any = None,
             input_output_aliases: dict[int, int] | None = None, custom_call_api_version: int = 4,
             legacy_backend_config: str | None = None) -> Callable[..., Any]:
    """Return a function that calls a foreign function registered with `register_ffi_target`.

    Call it as `call(*arrays, **attributes)`. Attributes are booleans, numbers, strings, NumPy arrays and dicts of them; Python
    numbers are passed as 64-bit values.

    Args:
        target_name: Name under which the foreign function is registered.
        result_shape_dtypes: Object with `shape` and `dtype` for a single result, or a sequence of such objects.
        has_side_effect: If True, the call is executed even if its results are unused.
        vmap_method: Batching method. `"sequential"`: one call per element, in a loop; `"sequential_unrolled"`: the same, with
            the
            loop unrolled; `"expand_dims"`: one call, in which batched arguments have a leading axis and the others one of size
            1;
            `"broadcast_all"`: one call, in which all arguments have the leading axis; `"legacy_vectorized"`: one call, in
            which
            only batched arguments have it. Default: `vmap` raises an error.
        input_layouts: Memory layouts of the arguments: for each a `Layout`, its dimensions in major-to-minor order, or None.
        output_layouts: Memory layouts of the results, in the same form; a single one for a single result.
        input_output_aliases: Dict from the index of an argument to the index of the result that reuses its memory.
        custom_call_api_version: Version of the call interface: 4 for XLA's FFI. Older versions take `legacy_backend_config`.
        legacy_backend_config: String passed to functions of older interfaces in place of attributes.

    Returns:
        The function that binds the call.

    Example:
        >>> call = ffi_call("lapack_spotrf_ffi", (xf.ShapeDtypeStruct((2, 2), "float32"), xf.ShapeDtypeStruct((), "int32")))
        >>> xf.eval_shape(call, xnp.eye(2))
        (ShapeDtypeStruct(shape=(2, 2), dtype=float32), ShapeDtypeStruct(shape=(), dtype=int32))
    """
    if not isinstance(target_name, str):
        raise TypeError(
            f"ffi_call takes the name of a function, got {type(target_name).__name__}: {target_name!r:.80}.")
    caller = f"ffi_call of {target_name!r}"
    vmap_methods.check("ffi_call", vmap_method)
    if custom_call_api_version >= TYPED and legacy_backend_config is not None:
        raise ValueError(f"{caller} takes a legacy_backend_config with a custom_call_api_version below {TYPED}, got "
                         f"{custom_call_api_version}: pass attributes, call(*arrays, name=value).")
    sequence_type = type(result_shape_dtypes) if isinstance(result_shape_dtypes, (list, tuple)) else None
    if sequence_type is None:
        results = [_result_type(caller, result_shape_dtypes, "it")]
        output_layouts = None if output_layouts is None else _layouts_of_single_result(output_layouts)
    else:
        results = [_result_type(caller, r, f"element {i}") for i, r in enumerate(result_shape_dtypes)]

    def call(*args: Any, **attributes: Any) -> Any:
        outputs = _call(target_name, results, args, attributes, input_layouts=input_layouts, output_layouts=output_layouts,
                        input_output_aliases=input_output_aliases, has_side_effect=bool(has_side_effect),
                        vmap_method=vmap_method,
                        custom_call_api_version=custom_call_api_version, legacy_backend_config=legacy_backend_config)
        return outputs[0] if sequence_type is None else tuple(outputs) if sequence_type is tuple else list(outputs)

    return call


def _layouts_of_single_result(layouts: Any) -> list[Any]:
    """Return the layouts of a single result, given as a layout or a sequence of one."""
    if isinstance(layouts, Layout) or not layouts or isinstance(layouts[0], (int, np.integer)):
        return [layouts]
    return list(layouts)
