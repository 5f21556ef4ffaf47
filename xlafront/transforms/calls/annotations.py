"""What compilers are told of operations: attributes of all that is written in a scope, of the operation that made a value, and
of calls of programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlafront import lowering
from xlafront.core import source, tracing, tree
from xlafront.core.ir import ClosedJaxpr, JaxprEqn
from xlafront.core.primitive import Primitive
from xlafront.core.program_call import ProgramCall
from xlafront.core.wrapping import wraps
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import move_memory_p
from xlafront.runtime.layouts import MemorySpace
from xlafront.transforms.calls.programs import trace_function

__all__ = ["attr_get", "compute_on", "compute_on2", "dce_jaxpr_xla_metadata_rule", "fused", "scheduling_group",
           "set_xla_metadata", "xla_metadata_call"]


def _text(value: Any) -> str:
    """A value as compilers are told it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _program_of(role: str, f: Callable, args: tuple, kwargs: dict[str, Any]) -> tuple[ClosedJaxpr, list[Any], Any]:
    """A function of the user's as a program, its operands, and the structure of its results."""
    if kwargs:
        given, args = f, (args, kwargs)
        f = wraps(given)(lambda args, kwargs: given(*args, **kwargs))
    leaves, structure = tree.flatten(args)
    program, consts, out_tree = trace_function(f, structure, [tracing.aval_of(x, role) for x in leaves], role)
    return program, [*consts, *leaves], out_tree


# Of what is in a scope, and of one value


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Tell XLA something of operations, as their frontend attributes.

    - `x`: the value (or pytree of values) whose operations are meant; None makes it a context manager or decorator, for all
      operations inside.
    - `kwargs`: names and values, which XLA gets as text; inside of another scope None takes a name back.

    A value is meant as the operation computes it, and so is its tangent; operations in a scope bring what is told of them to
    those of all derivatives.

    >>> def f(x):
    ...     with set_xla_metadata(placed="first"):
    ...         y = xnp.sin(x)
    ...     return set_xla_metadata(y * 2, unit="rad")
    >>> text = xf.jit(f).lower(1.0).as_text()
    >>> 'placed = "first"' in text, 'unit = "rad"' in text
    (True, True)
    """
    if x is None:
        hash(tuple(kwargs.values()))  # what is told of operations is part of what programs are known by
        return source.annotated({name: None if value is None else _text(value) for name, value in kwargs.items()})
    told = tuple(kwargs.items())
    hash(told)
    leaves, structure = tree.flatten(x)
    return structure.unflatten([xla_metadata_value_p.bind(leaf, xla_metadata_kvs=told) for leaf in leaves])


def _lower_value(ctx, x, *, xla_metadata_kvs):
    m = lowering.mlir
    if xla_metadata_kvs and isinstance(x, m.ir.OpResult):
        attributes = x.owner.attributes
        named = "mhlo.frontend_attributes"
        merged = {named: attributes[named]} if named in attributes else {}
        m.tell(merged, {name: _text(value) for name, value in xla_metadata_kvs})
        attributes[named] = merged[named]
    return x


def _value_jvp(primals, tangents, **params):
    told = functools.partial(xla_metadata_value_p.bind, **params)
    return told(*primals), tangents[0] if type(tangents[0]) is Zero else told(*tangents)


xla_metadata_value_p = Primitive(
    "xla_metadata_value", abstract=lambda x, **_: x, lower=_lower_value, jvp=_value_jvp,
    transpose=lambda ct, x, **_: [ct],
    batch=lambda size, xs, dims, **params: (xla_metadata_value_p.bind(xs[0], **params), dims[0]))


# Of calls of programs


def xla_metadata_call(f: Callable | None = None, **meta: str) -> Callable:
    """A function that compiled programs call as one unit, of which XLA is told something.

    - `f`: the function; a decorator when left out.
    - `meta`: names and values.

    >>> f = xla_metadata_call(lambda x: xnp.sin(x) * 2, unit="rad")
    >>> 'unit = "rad"' in xf.jit(f).lower(1.0).as_text()
    True
    """
    if f is None:
        return functools.partial(xla_metadata_call, **meta)
    for name, value in meta.items():
        _check_text(name, value)

    @wraps(f)
    def called(*args: Any, **kwargs: Any) -> Any:
        program, leaves, structure = _program_of("xla_metadata_call", f, args, kwargs)
        return structure.unflatten(xla_metadata_call_p.bind(*leaves, jaxpr=program, **meta))

    return called


def scheduling_group(name: str) -> Callable[[Callable], Callable]:
    """A decorator of functions whose operations XLA's scheduler keeps together.

    - `name`: of the group.

    >>> f = scheduling_group("first")(lambda x: xnp.sin(x) * 2)
    >>> float(f(0.0))
    0.0
    """
    return xla_metadata_call(scheduling_group=name)


def attr_get(x: str) -> Any:
    """The attribute of MLIR that stands for what XLA is told of a call.

    - `x`: a text.

    >>> from xlafront.extend.mlir import ir
    >>> with ir.Context():
    ...     str(attr_get("a"))
    '"a"'
    """
    _check_text("x", x)
    return lowering.mlir.string(x)


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        kind = type(value).__name__
        raise NotImplementedError(f"{name}={value!r}: of calls XLA is told texts, got {kind}. Give str({name}).")


def dce_jaxpr_xla_metadata_rule(used_outputs: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
    """What is left of an equation of `xla_metadata_call` when some of its results are not read.

    - `used_outputs`: whether each result is read.
    - `eqn`: the equation.

    Which operands it reads then, and the equation; None when nothing is left.

    >>> f = xla_metadata_call(lambda x, y: (x + 1, y * 2), unit="m")
    >>> [eqn] = xf.make_jaxpr(f)(1.0, 2.0).eqns
    >>> read, less = dce_jaxpr_xla_metadata_rule([True, False], eqn)
    >>> read, len(less.outvars)
    ([True, False], 1)
    """
    less = eqn.primitive.dce(list(used_outputs), eqn)
    if less is None:
        return [False] * len(eqn.invars), None
    read = {id(v) for v in less.invars}
    return [id(v) in read for v in eqn.invars], less


def _lower_metadata_call(ctx, *operands, jaxpr, **meta):
    m = lowering.mlir
    attributes = {}
    if meta:
        attributes["mhlo.frontend_attributes"] = m.ir.DictAttr.get({name: attr_get(value) for name, value in meta.items()})
    return ctx.call(jaxpr, operands, "xla_metadata_call", **attributes)


xla_metadata_call_p = ProgramCall("xla_metadata_call", lower=_lower_metadata_call)


# Where something is computed

_TYPES = {"device_host": "host", "device": "dense", "tpu_sparsecore": "sparseoffload"}
_STREAM = "gpu_stream:"


def _attributes_of(user: str, compute_type: Any) -> dict[str, str]:
    if not isinstance(compute_type, str):
        raise TypeError(f"{user} takes compute_type as a text, got {type(compute_type).__name__}: {compute_type!r}.")
    if compute_type.startswith(_STREAM):
        return {"_xla_stream_annotation": compute_type.removeprefix(_STREAM), "inlineable": "false"}
    if compute_type not in _TYPES:
        raise ValueError(f"{user}: Invalid compute type {compute_type!r}; it can be {', '.join(map(repr, _TYPES))} and "
                         f"'{_STREAM}1' with the number of a stream.")
    return {"_xla_compute_type": _TYPES[compute_type]}


def compute_on(compute_type: str) -> source.annotated:
    """A context manager or decorator: the operations inside are computed on a certain part of the machine.

    - `compute_type`: "device_host", the processors of the host; "tpu_sparsecore"; "gpu_stream:1", a stream of a GPU;
      "device", the device itself.

    What a platform does not have is computed on the device.

    >>> @compute_on("device_host")
    ... def f(x):
    ...     return xnp.sin(x)
    >>> '_xla_compute_type = "host"' in xf.jit(f).lower(1.0).as_text()
    True
    """
    others: dict[str, str | None] = {"_xla_compute_type": None, "_xla_stream_annotation": None, "inlineable": None}
    return source.annotated(others | _attributes_of("compute_on", compute_type))


def compute_on2(f: Callable | None = None, *, compute_type: str, out_memory_spaces: Any,
                compiler_options: dict[str, Any] | None = None) -> Callable:
    """A function that compiled programs call as one unit on a certain part of the machine.

    - `f`: the function; a decorator when left out.
    - `compute_type`: which part, as of `compute_on`.
    - `out_memory_spaces`: a pytree prefix of its results: `memory.Space.Device` or `memory.Space.Host`, where each is put.
    - `compiler_options`: for this unit, by name.

    >>> f = compute_on2(xnp.sin, compute_type="device_host", out_memory_spaces=xf.memory.Space.Device)
    >>> float(xf.jit(f)(0.0))
    0.0
    """
    if f is None:
        return functools.partial(compute_on2, compute_type=compute_type, out_memory_spaces=out_memory_spaces,
                                 compiler_options=compiler_options)
    import json  # start-up: for those who say where something is computed

    _attributes_of("compute_on2", compute_type)
    options = None if compiler_options is None else json.dumps(compiler_options)

    @wraps(f)
    def called(*args: Any, **kwargs: Any) -> Any:
        program, leaves, structure = _program_of("compute_on", f, args, kwargs)
        spaces = _spaces("compute_on2: out_memory_spaces", out_memory_spaces, structure)
        return structure.unflatten(compute_on_p.bind(
            *leaves, jaxpr=program, compute_type=compute_type, out_memory_spaces=spaces, compiler_options_json=options))

    return called


def fused(*, out_spaces: Any) -> Callable[[Callable], Callable]:
    """A decorator of functions that GPUs compute by one kernel.

    - `out_spaces`: a pytree of the structure of the results, `memory.Space.Device` or `memory.Space.Host`, where each is put.

    Where there are no such kernels, the function is computed as any other.

    >>> f = fused(out_spaces=(xf.memory.Space.Device,))(lambda x: (xnp.sin(x) * 2,))
    >>> float(xf.jit(f)(0.0)[0])
    0.0
    """
    def decorate(f: Callable) -> Callable:
        @wraps(f)
        def called(*args: Any) -> Any:
            program, leaves, structure = _program_of("fused", f, args, {})
            spaces = tuple(tree.leaves(out_spaces))
            if len(spaces) != len(program.out_avals) or not all([isinstance(space, MemorySpace) for space in spaces]):
                raise ValueError(f"fused: out_spaces has to name a memory.Space for each of {len(program.out_avals)} results, "
                                 f"got {out_spaces!r}.")
            return structure.unflatten(fused_p.bind(*leaves, jaxpr=program, out_spaces=spaces))

        return called

    return decorate


def _spaces(user: str, spaces: Any, structure: Any) -> tuple[MemorySpace, ...]:
    found = tree.leaves_by_prefix(user, spaces, tree.numbered(structure),
                                  lambda x: not isinstance(x, (tuple, list, dict)))
    for space in found:
        if not isinstance(space, MemorySpace):
            raise TypeError(f"{user} takes memory.Space.Device and memory.Space.Host, got {type(space).__name__}: {space!r}")
    return tuple(found)


class _PlacedCall(ProgramCall):
    """A call whose results are put into certain memories."""

    __slots__ = ("spaces",)

    def __init__(self, name: str, spaces: str, **fields: Any):
        super().__init__(name, **fields)
        self.spaces = spaces  # the parameter that names them
        self.abstract = lambda *_, **params: [
            aval.update(memory_space=None if space is MemorySpace.Device else space)
            for aval, space in zip(params["jaxpr"].out_avals, params[spaces])]

    def derived(self, params: dict[str, Any], program: ClosedJaxpr, ins: Sequence[int | None], outs: Sequence[int | None]
                ) -> dict[str, Any]:
        count, known = len(params["jaxpr"].in_avals), params[self.spaces]
        spaces = [known[i - count] if i is not None and i >= count else MemorySpace.Device for i in outs]
        return params | {"jaxpr": program, self.spaces: tuple(spaces)}


def _lower_compute_on(ctx, *operands, jaxpr, compute_type, out_memory_spaces, compiler_options_json):
    m = lowering.mlir
    inside = ctx.replace()
    inside.told = (ctx.told or {}) | _attributes_of("compute_on2", compute_type)
    attributes: dict[str, Any] = {}
    if compiler_options_json is not None:
        m.tell(attributes, {"backend_config": compiler_options_json})
    results = inside.call(jaxpr, operands, "compute_on", **attributes)
    move = move_memory_p.lowering_for(ctx.platform)
    return [move(ctx.replace(avals_in=[aval], avals_out=[aval]), x,
                 memory_kind="device" if space is MemorySpace.Device else "pinned_host")
            for x, aval, space in zip(results, jaxpr.out_avals, out_memory_spaces)]


def _lower_fused(ctx, *operands, jaxpr, out_spaces):
    if ctx.platform != "cuda":
        return ctx.inline(jaxpr, operands)
    m = lowering.mlir
    symbol = ctx.module_context.function_of(jaxpr.jaxpr, jaxpr.consts, "fused")
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


compute_on_p = _PlacedCall("compute_on", "out_memory_spaces", lower=_lower_compute_on)
fused_p = _PlacedCall("fused_call", "out_spaces", lower=_lower_fused)
