"""Compiler annotations: XLA attributes of all operations in a scope, of the operation that computes a value, and of calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xlafront import lowering
from xlafront.base.layouts import MemorySpace
from xlafront.core import source, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.wrapping import wraps
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import move_memory_p
from xlafront.transforms.calls.programs import trace_function

if TYPE_CHECKING:
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir

__all__ = ["attr_get", "compute_on", "compute_on2", "dce_jaxpr_xla_metadata_rule", "fuse_limit", "fused", "must_fuse_call",
           "scheduling_group", "set_xla_metadata", "xla_metadata_call", "xla_metadata_call2"]


def _attribute_string(value: Any) -> str:
    """Convert an attribute value to a string for the compiler."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _trace_call(role: str, f: Callable, args: tuple, kwargs: dict[str, Any]) -> tuple[Jaxpr, list[Any], Any]:
    """Trace a user's function; return its jaxpr, the operands, and the tree of its results."""
    if kwargs:
        function, args = f, (args, kwargs)
        f = wraps(function)(lambda args, kwargs: function(*args, **kwargs))
    leaves, structure = tree.flatten(args)
    jaxpr, consts, out_tree = trace_function(f, structure, [tracing.aval_of(x, role) for x in leaves], role)
    return jaxpr, [*consts, *leaves], out_tree


# Attributes of a scope, and of a value


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Attach metadata to operations, as XLA frontend attributes.

    For a value, the metadata is attached to the operation that computes it and to its tangent's. Metadata of a scope is
    attached to
    all operations inside, including those of their derivatives.

    Args:
        x: Value, or pytree of values, whose operations are annotated. If None, return a context manager or decorator for a
            scope.
        kwargs: Names and values of the metadata, passed to XLA as strings. Within another scope, None removes a name.

    Returns:
        The value, or the context manager.

    Example:
        >>> def f(x):
        ...     with set_xla_metadata(placed="first"):
        ...         y = xnp.sin(x)
        ...     return set_xla_metadata(y * 2, unit="rad")
        >>> text = xf.jit(f).lower(1.0).as_text()
        >>> 'placed = "first"' in text, 'unit = "rad"' in text
        (True, True)
    """
    if x is None:
        hash(tuple(kwargs.values()))  # the metadata is part of cache keys
        return source.annotated({name: None if value is None else _attribute_string(value) for name, value in kwargs.items()})
    metadata = tuple(kwargs.items())
    hash(metadata)
    leaves, structure = tree.flatten(x)
    return structure.unflatten([xla_metadata_value_p.bind(leaf, xla_metadata_kvs=metadata) for leaf in leaves])


def _lower_value(ctx: RuleContext, x: ir.Value, *, xla_metadata_kvs: Any) -> ir.Value:
    m = lowering.mlir
    if xla_metadata_kvs and isinstance(x, m.ir.OpResult):
        attributes = x.owner.attributes
        key = "mhlo.frontend_attributes"
        merged = {key: attributes[key]} if key in attributes else {}
        m.add_frontend_attributes(merged, {name: _attribute_string(value) for name, value in xla_metadata_kvs})
        attributes[key] = merged[key]
    return x


def _value_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    annotate = functools.partial(xla_metadata_value_p.bind, **params)
    return annotate(*primals), tangents[0] if type(tangents[0]) is Zero else annotate(*tangents)


xla_metadata_value_p = Primitive(
    "xla_metadata_value", abstract=lambda x, **_: x, lower=_lower_value, jvp=_value_jvp,
    transpose=lambda ct, x, **_: [ct],
    batch=lambda size, xs, dims, **params: (xla_metadata_value_p.bind(xs[0], **params), dims[0]))


# Attributes of calls


def xla_metadata_call(f: Callable | None = None, /, **meta: Any) -> Callable:
    """Make compiled code call a function as one unit, with metadata for XLA.

    The calls of its derivatives have the same metadata; `xla_metadata_call2` sets others.

    Args:
        f: Function to call. If None, return a decorator.
        meta: Names and values of the metadata: strings, bools and numbers, which are passed to XLA as strings.

    Returns:
        A function like `f`, or the decorator.

    Example:
        >>> f = xla_metadata_call(lambda x: xnp.sin(x) * 2, unit="rad")
        >>> 'unit = "rad"' in xf.jit(f).lower(1.0).as_text()
        True
    """
    return xla_metadata_call2(f, meta)


def xla_metadata_call2(f: Any = None, /, metadata: dict[str, Any] | None = None, *,
                       ad_metadata: str | dict[str, Any] = "same") -> Callable:
    """Make compiled code call a function as one unit, with metadata for XLA and other metadata for its derivatives.

    Args:
        f: Function to call. If None, or if it is the dict of metadata, return a decorator.
        metadata: Names and values of the metadata: strings, bools and numbers, which are passed to XLA as strings.
        ad_metadata: Metadata of the calls that linearize the function and pull cotangents back: "same" as of the function,
            "drop" for none, or a dict. Under `jvp`, the function and its tangents are one call with `metadata`.

    Returns:
        A function like `f`, or the decorator.

    Example:
        >>> @xla_metadata_call2({"layer": 3}, ad_metadata={"layer": "3 backward"})
        ... def f(x):
        ...     return xnp.sin(x)
        >>> text = xf.jit(xf.value_and_grad(f)).lower(1.0).as_text()
        >>> 'layer = "3"' in text, 'layer = "3 backward"' in text
        (True, True)
    """
    if isinstance(f, dict):
        f, metadata = None, f
    own = _metadata({} if metadata is None else metadata, "metadata must be a dict")
    if ad_metadata in ("same", "drop"):
        of_derivatives: Any = ad_metadata if ad_metadata == "same" else ()
    else:
        of_derivatives = _metadata(ad_metadata, "ad_metadata must be 'same', 'drop' or a dict of metadata")

    def decorate(f: Callable) -> Callable:
        @wraps(f)
        def called(*args: Any, **kwargs: Any) -> Any:
            jaxpr, leaves, structure = _trace_call("xla_metadata_call", f, args, kwargs)
            return structure.unflatten(xla_metadata_call_p.bind(
                *leaves, jaxpr=jaxpr, xla_metadata=own, ad_metadata=of_derivatives))

        return called

    return decorate if f is None else decorate(f)


def _metadata(metadata: Any, expected: str) -> tuple[tuple[str, str], ...]:
    """Return the names and values of metadata as sorted strings."""
    if not isinstance(metadata, dict):
        raise TypeError(f"xla_metadata_call2: {expected}, got {metadata!r}.")
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, (str, bool, int, float)):
            raise TypeError(f"xla_metadata_call metadata values must be str, bool, int or float, and their names strings; got "
                            f"{name!r}: {value!r}.")
    return tuple(sorted([(name, _attribute_string(value)) for name, value in metadata.items()]))


def must_fuse_call(identifier: str) -> Callable[[Callable], Callable]:
    """Return a decorator that makes XLA fuse all operations of a function into one kernel, where its backend can.

    Args:
        identifier: Name of the fusion, in the metadata `MUST_FUSE`.

    Returns:
        The decorator.

    Example:
        >>> f = must_fuse_call("1")(lambda x: xnp.square(x).sum())
        >>> 'MUST_FUSE = "1"' in xf.jit(f).lower(xnp.ones(3)).as_text()
        True
    """
    return xla_metadata_call2(metadata={"MUST_FUSE": identifier})


def fuse_limit() -> source.annotated:
    """Return a context manager whose operations XLA does not fuse with those outside, where its backend can.

    The operations have the metadata `FUSE_LIMIT`.

    Returns:
        The context manager.

    Example:
        >>> def f(x):
        ...     with fuse_limit():
        ...         y = xnp.sin(x)
        ...     return 2 * y
        >>> xf.jit(f).lower(1.0).as_text().count('FUSE_LIMIT = "true"')
        1
    """
    return set_xla_metadata(FUSE_LIMIT=True)


def scheduling_group(name: str) -> Callable[[Callable], Callable]:
    """Return a decorator that makes XLA's scheduler keep the operations of a function together.

    Args:
        name: Name of the group.

    Returns:
        The decorator.

    Example:
        >>> f = scheduling_group("first")(lambda x: xnp.sin(x) * 2)
        >>> float(f(0.0))
        0.0
    """
    _check_string("name", name)
    return xla_metadata_call(scheduling_group=name)


def attr_get(x: str) -> Any:
    """Return the MLIR attribute for a metadata value of a call.

    Args:
        x: String value.

    Returns:
        A string attribute.

    Example:
        >>> from xlafront.extend.mlir import ir
        >>> with ir.Context():
        ...     str(attr_get("a"))
        '"a"'
    """
    _check_string("x", x)
    return lowering.mlir.string(x)


def _check_string(name: str, value: Any) -> None:
    if not isinstance(value, str):
        kind = type(value).__name__
        raise NotImplementedError(f"{name}={value!r}: metadata of calls must be strings, got {kind}. Pass str({name}).")


def dce_jaxpr_xla_metadata_rule(used_outputs: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """Eliminate dead code in an equation of `xla_metadata_call`.

    Args:
        used_outputs: For each result, True if it is used.
        eqn: Equation to simplify.

    Returns:
        For each operand, True if it is used; and the simplified equation, or None if it is dead.

    Example:
        >>> f = xla_metadata_call(lambda x, y: (x + 1, y * 2), unit="m")
        >>> [eqn] = xf.make_jaxpr(f)(1.0, 2.0).eqns
        >>> read, less = dce_jaxpr_xla_metadata_rule([True, False], eqn)
        >>> read, len(less.outvars)
        ([True, False], 1)
    """
    pruned = eqn.primitive.structured.dce(list(used_outputs), eqn)
    if pruned is None:
        return [False] * len(eqn.invars), None
    used_vars = {id(v) for v in pruned.invars}
    return [id(v) in used_vars for v in eqn.invars], pruned


class _MetadataCall(ProgramCall):
    """A call with metadata: the calls of derivatives may have other metadata."""

    __slots__ = ()

    def call(self, params: dict[str, Any], program: Jaxpr, operands: Sequence[Any], ins: Sequence[int | None],
             outs: Sequence[int | None]) -> list[Any]:
        if params["ad_metadata"] != "same":
            params = params | {"xla_metadata": params["ad_metadata"], "ad_metadata": "same"}
        return super().call(params, program, operands, ins, outs)


def _lower_metadata_call(ctx: RuleContext, *operands: ir.Value, jaxpr: Jaxpr, xla_metadata: tuple, ad_metadata: Any
                         ) -> list[ir.Value]:
    m = lowering.mlir
    attributes: dict[str, Any] = {}
    if xla_metadata:
        attributes["mhlo.frontend_attributes"] = m.ir.DictAttr.get({name: attr_get(value) for name, value in xla_metadata})
    return ctx.call(jaxpr, operands, "xla_metadata_call", **attributes)


xla_metadata_call_p = _MetadataCall("xla_metadata_call", lower=_lower_metadata_call)


# Place of computation

_COMPUTE_TYPES = {"device_host": "host", "device": "dense", "tpu_sparsecore": "sparseoffload"}
_STREAM_PREFIX = "gpu_stream:"


def _compute_type_attributes(caller: str, compute_type: Any) -> dict[str, str]:
    if not isinstance(compute_type, str):
        raise TypeError(f"{caller} takes compute_type as a string, got {type(compute_type).__name__}: {compute_type!r}.")
    if compute_type.startswith(_STREAM_PREFIX):
        return {"_xla_stream_annotation": compute_type.removeprefix(_STREAM_PREFIX), "inlineable": "false"}
    if compute_type not in _COMPUTE_TYPES:
        raise ValueError(
            f"{caller}: Invalid compute type {compute_type!r}; it can be {', '.join(map(repr, _COMPUTE_TYPES))} and "
                         f"'{_STREAM_PREFIX}1' with a stream number.")
    return {"_xla_compute_type": _COMPUTE_TYPES[compute_type]}


def compute_on(f: Callable | str | None = None, /, compute_type: str | None = None, *, out_memory_spaces: Any = None,
               compiler_options: dict[str, Any] | None = None) -> Any:
    """Set where operations are computed: those of a function that is called as one unit, or those in a context.

    `compute_on(f, compute_type=..., out_memory_spaces=...)` returns a function like `f`. With the compute type alone, as in
    `with compute_on("device_host"):`, return a context manager and decorator, whose operations may be computed one by one.
    Compute types that a platform does not have are ignored: the device computes these operations.

    Args:
        f: Function to call, or the compute type of a context. If None, return a decorator.
        compute_type: "device_host", the host's processors; "tpu_sparsecore"; "gpu_stream:1", a GPU stream; "device", the
            device.
        out_memory_spaces: Pytree prefix of the results of `f` with `memory.Space.Device` or `memory.Space.Host`: where to put
            each result.
        compiler_options: Compiler options for the calls of `f`, by name.

    Returns:
        A function like `f`, the decorator, or the context manager.

    Example:
        >>> f = compute_on(xnp.sin, compute_type="device_host", out_memory_spaces=xf.memory.Space.Device)
        >>> '_xla_compute_type = "host"' in xf.jit(f).lower(1.0).as_text()
        True
    """
    if callable(f) or out_memory_spaces is not None:
        if compute_type is None or out_memory_spaces is None:
            missing = "compute_type" if compute_type is None else "out_memory_spaces"
            raise TypeError(f"compute_on of a function needs compute_type and out_memory_spaces; {missing} is missing.")
        return _compute_on("compute_on", f, compute_type, out_memory_spaces, compiler_options)
    others: dict[str, str | None] = {"_xla_compute_type": None, "_xla_stream_annotation": None, "inlineable": None}
    return source.annotated(others | _compute_type_attributes("compute_on", compute_type if f is None else f))


def compute_on2(f: Callable | None = None, *, compute_type: str, out_memory_spaces: Any,
                compiler_options: dict[str, Any] | None = None) -> Callable:
    """Make compiled code call a function as one unit on a given part of the machine: an older name of `compute_on` with `f`.

    Args:
        f: Function to call. If None, return a decorator.
        compute_type: Where to compute, as for `compute_on`.
        out_memory_spaces: Pytree prefix of the results with `memory.Space.Device` or `memory.Space.Host`: where to put each
            result.
        compiler_options: Compiler options for this unit, by name.

    Returns:
        A function like `f`, or the decorator.

    Example:
        >>> f = compute_on2(xnp.sin, compute_type="device_host", out_memory_spaces=xf.memory.Space.Device)
        >>> float(xf.jit(f)(0.0))
        0.0
    """
    return _compute_on("compute_on2", f, compute_type, out_memory_spaces, compiler_options)


def _compute_on(caller: str, f: Any, compute_type: str, out_memory_spaces: Any, compiler_options: dict[str, Any] | None
                ) -> Callable:
    import json  # start-up: rarely needed

    _compute_type_attributes(caller, compute_type)
    options = None if compiler_options is None else json.dumps(compiler_options)

    def decorate(f: Callable) -> Callable:
        @wraps(f)
        def called(*args: Any, **kwargs: Any) -> Any:
            jaxpr, leaves, structure = _trace_call("compute_on", f, args, kwargs)
            spaces = _flat_spaces(f"{caller}: out_memory_spaces", out_memory_spaces, structure)
            return structure.unflatten(compute_on_p.bind(
                *leaves, jaxpr=jaxpr, compute_type=compute_type, out_memory_spaces=spaces, compiler_options_json=options))

        return called

    return decorate if f is None else decorate(f)


def fused(*, out_spaces: Any) -> Callable[[Callable], Callable]:
    """Return a decorator that compiles a function to a single GPU kernel.

    On other platforms, the function is compiled as usual.

    Args:
        out_spaces: Pytree like the results with `memory.Space.Device` or `memory.Space.Host`: where to put each result.

    Returns:
        The decorator.

    Example:
        >>> f = fused(out_spaces=(xf.memory.Space.Device,))(lambda x: (xnp.sin(x) * 2,))
        >>> float(xf.jit(f)(0.0)[0])
        0.0
    """
    def decorate(f: Callable) -> Callable:
        @wraps(f)
        def called(*args: Any) -> Any:
            jaxpr, leaves, structure = _trace_call("fused", f, args, {})
            spaces = tuple(tree.leaves(out_spaces))
            if len(spaces) != len(jaxpr.out_avals) or not all([isinstance(space, MemorySpace) for space in spaces]):
                raise ValueError(f"fused: out_spaces must have a memory.Space for each of {len(jaxpr.out_avals)} results, "
                                 f"got {out_spaces!r}.")
            return structure.unflatten(fused_p.bind(*leaves, jaxpr=jaxpr, out_spaces=spaces))

        return called

    return decorate


def _flat_spaces(caller: str, spaces: Any, structure: Any) -> tuple[MemorySpace, ...]:
    flat = tree.leaves_by_prefix(caller, spaces, tree.leaf_indices(structure),
                                 lambda x: not isinstance(x, (tuple, list, dict)))
    for space in flat:
        if not isinstance(space, MemorySpace):
            raise TypeError(f"{caller} takes memory.Space.Device and memory.Space.Host, got {type(space).__name__}: {space!r}")
    return tuple(flat)


class _MemorySpaceCall(ProgramCall):
    """A call whose results are put into given memory spaces."""

    __slots__ = ("spaces",)

    def __init__(self, name: str, spaces: str, **fields: Any) -> None:
        super().__init__(name, abstract=self._abstract, **fields)
        self.spaces = spaces  # the name of the parameter with the memory spaces

    def _abstract(self, *_: Any, **params: Any) -> list[ShapedArray]:
        return [aval.update(memory_space=None if space is MemorySpace.Device else space)
                for aval, space in zip(params["jaxpr"].out_avals, params[self.spaces])]

    def derived(self, params: dict[str, Any], program: Jaxpr, ins: Sequence[int | None], outs: Sequence[int | None]
                ) -> dict[str, Any]:
        count, memory_spaces = len(params["jaxpr"].in_avals), params[self.spaces]
        spaces = [memory_spaces[i - count] if i is not None and i >= count else MemorySpace.Device for i in outs]
        return params | {"jaxpr": program, self.spaces: tuple(spaces)}


def _lower_compute_on(ctx: RuleContext, *operands: ir.Value, jaxpr: Jaxpr, compute_type: str, out_memory_spaces: Any,
                      compiler_options_json: Any) -> list[ir.Value]:
    m = lowering.mlir
    annotated_ctx = ctx.replace()
    annotated_ctx.frontend_attributes = (ctx.frontend_attributes or {}) | _compute_type_attributes("compute_on2", compute_type)
    attributes: dict[str, Any] = {}
    if compiler_options_json is not None:
        m.add_frontend_attributes(attributes, {"backend_config": compiler_options_json})
    results = annotated_ctx.call(jaxpr, operands, "compute_on", **attributes)
    move_to_memory = move_memory_p.lowering_for(ctx.platform)
    return [move_to_memory(ctx.replace(avals_in=[aval], avals_out=[aval]), x,
                           memory_kind="device" if space is MemorySpace.Device else "pinned_host")
            for x, aval, space in zip(results, jaxpr.out_avals, out_memory_spaces)]


def _lower_fused(ctx: RuleContext, *operands: ir.Value, jaxpr: Jaxpr, out_spaces: Any) -> list[ir.Value]:
    if ctx.platform != "cuda":
        return ctx.inline(jaxpr, operands)
    m = lowering.mlir
    symbol = lowering.equations.function_of(ctx.module_context, jaxpr, "fused")
    attributes = {
        "call_target_name": m.string("fused"), "backend_config": m.string(""),
        "called_computations": m.array([m.ir.FlatSymbolRefAttr.get(symbol)]),
        "mhlo.backend_config": m.ir.DictAttr.get({
            "MUST_FUSE": m.boolean(True), "inlineable": m.boolean(False),
            "out_spaces": m.array([m.string(str(space)) for space in out_spaces])}),
    }
    operation = m.create("stablehlo.custom_call", results=[m.type_of(a) for a in jaxpr.out_avals], operands=operands,
                         attributes=attributes, loc=ctx.loc)
    return list(operation.results)


compute_on_p = _MemorySpaceCall("compute_on", "out_memory_spaces", lower=_lower_compute_on)
fused_p = _MemorySpaceCall("fused_call", "out_spaces", lower=_lower_fused)
