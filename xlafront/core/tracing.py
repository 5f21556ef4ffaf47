"""Traces and tracers: how running a Python function becomes a program.

One trace is current in each thread; `Primitive.bind` hands it every operation. `EvalTrace` runs the
operation, `StagingTrace` writes it down as an equation, the transformations add traces that rewrite it and
pass it on to the trace beneath. A `Tracer` stands for a value inside one trace.
"""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import dtypes, errors, source, tree, typed_numbers
from xlafront.core.avals import AbstractToken, AbstractValue, ShapedArray, Token, abstract_token
from xlafront.core.ir import (
    ClosedJaxpr,
    DebugInfo,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    dce_jaxpr,
    effects_on,
    effects_outside,
    no_effects,
    unknown_origin,
)
from xlafront.core.ir_check import check_jaxpr
from xlafront.core.refs import AbstractRef, RefBox
from xlafront.runtime import config
from xlafront.runtime.arrays import ArrayImpl
from xlafront.runtime.jaxlib_compat import NamedSharding, SingleDeviceSharding
from xlafront.runtime.layouts import MemorySpace


class Trace:
    """What happens to an operation while this trace is current."""

    __slots__ = ("parent", "__weakref__")

    alive = True
    composes = False  # whether it makes of the call of a program another such call, for the trace beneath

    def process(self, primitive, args: tuple, params: dict[str, Any]):
        """Traces of extensions define `process_primitive` instead, which runs while no trace is current."""
        if not self.extends:
            raise NotImplementedError(f"{type(self).__name__} must say how it processes an operation: it needs a method "
                                      f"process_primitive(self, primitive, tracers, params).")
        if primitive.for_extensions is not None:
            with current_trace(self):
                written = primitive.for_extensions(*args, **params)
            if written is not None:
                return written
        args = tuple([_as_number(x) for x in args])
        with current_trace(eval_trace):
            if primitive.custom_rule:
                own = getattr(self, f"process_{primitive.name}", None)  # with the function and its rules, to be wrapped
                if own is not None:
                    bound = primitive.get_bind_params(params)
                    return own(primitive, *bound.pop("subfuns"), args, **bound)
            return self.process_primitive(primitive, args, params)

    @property
    def extends(self) -> bool:
        """Whether an extension wrote it."""
        return type(self).process_primitive is not Trace.process_primitive

    def process_primitive(self, primitive, tracers, params):
        with current_trace(self):
            return self.process(primitive, tuple(tracers), params)

    def make_ref(self, primitive, args: tuple, params: dict[str, Any]):
        """As `process`, for operations whose result is a new reference. A trace that keeps something with each of its
        references (their tangents, the dimension of a batch) must see those that are made, whatever they are made from."""
        return self.process(primitive, args, params)

    def end(self) -> None:
        """What it has traced is complete: its tracers are of no more use, and the trace around it is current.

        So it is already, but where Ctrl-C comes when `current_trace` is about to leave: for the `finally` of transformations.
        """
        self.alive = False
        if thread.trace is not self.parent:
            thread.trace = self.parent
            config.trace_state.set_local(None if self.parent is eval_trace else True)

    def is_valid(self) -> bool:
        return self.alive

    def full_raise(self, x):
        """What extensions ask of results: nothing is to be done, any value can be an operand."""
        return x

    @property
    def main(self) -> Trace:
        """What tells the tracers of one transformation from those of another."""
        return self


class EvalTrace(Trace):
    """Runs operations at once. `apply` is set by the eager path of the layer above."""

    __slots__ = ()

    apply: Callable[[Any, tuple, dict[str, Any]], Any]

    def process(self, primitive, args, params):
        for x in args:
            if isinstance(x, Tracer):
                outer = trace_of(args, primitive.shown_as)
                with current_trace(outer):
                    return outer.process(primitive, args, params)
        if primitive.own_impl is not None:
            return primitive.own_impl(*args, **params)
        return EvalTrace.apply(primitive, args, params)


eval_trace = EvalTrace()
eval_trace.parent = None


class _Thread(threading.local):
    trace: Trace = eval_trace
    axes: tuple = ()  # the named axes in scope, innermost last
    # Where types leave open how a result is split, `(trace, atoms)` makes the operands whole; None: that is an error.
    make_whole: Callable[[StagingTrace, list], list] | None = None


thread = _Thread()


class MeshAxis(tuple):
    """A named axis in scope that is one of a mesh: `(name, size)`, and whether types say which values vary along it.

    `cast_varying` is the operation that makes a value one that varies: who brings the axis into scope brings it along.
    """

    checked: bool
    mesh: Any
    cast_varying: Any

    def __new__(cls, name, size: int, checked: bool, mesh, cast_varying):
        axis = super().__new__(cls, (name, size))
        axis.checked, axis.mesh, axis.cast_varying = checked, mesh, cast_varying
        return axis

    def __eq__(self, other):
        return (type(other) is MeshAxis and tuple.__eq__(self, other) and self.checked == other.checked
                and self.mesh == other.mesh)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((tuple.__hash__(self), self.checked))


def checked_axes() -> frozenset:
    """The named axes in scope along which types say what varies."""
    found = {}
    for axis in thread.axes:
        found[axis[0]] = type(axis) is MeshAxis and axis.checked
    return frozenset(name for name, checked in found.items() if checked)


def as_varying(x, axes: frozenset):
    """The value as one that varies along these axes too, where it is checked what does."""
    missing = (axes & checked_axes()) - aval_of(x).vma if axes else axes
    if not missing:
        return x
    axis = next(axis for axis in thread.axes if type(axis) is MeshAxis)
    return axis.cast_varying.bind(x, axes=tuple(sorted(missing, key=str)))


class VaryingMismatch(Exception):
    """Operands vary along different axes of a mesh; `args[0]` is all of them."""


def joint_vma(avals: Sequence[AbstractValue]) -> frozenset:
    """The manual axes of a mesh that operands of these types vary over, each of them over all."""
    joint = frozenset().union(*[aval.vma for aval in avals])
    if any([aval.vma != joint for aval in avals]):
        raise VaryingMismatch(joint)
    return joint


class current_trace:
    """Make a trace current. C++ dispatch steps aside while any but `eval_trace` is.

    Hot: entered for each operation of a function that is being transformed.
    """

    __slots__ = ("trace", "saved", "switches")

    def __init__(self, trace: Trace):
        self.trace = trace

    def __enter__(self):
        trace = self.trace
        self.saved = saved = thread.trace
        thread.trace = trace
        self.switches = (trace is eval_trace) is not (saved is eval_trace)
        if self.switches:
            config.trace_state.set_local(None if trace is eval_trace else True)
        return trace

    def __exit__(self, *exception):
        thread.trace = self.saved
        if self.switches:
            config.trace_state.set_local(None if self.saved is eval_trace else True)


class ensure_compile_time_eval(current_trace):
    """Run operations on known values at once, even inside a traced function. Also a decorator.

    Operations on traced values become part of the program as everywhere.

    >>> with ensure_compile_time_eval():
    ...     table = xnp.arange(3) * 2  # computed now, a constant of the program
    """

    __slots__ = ()

    def __init__(self):
        super().__init__(eval_trace)

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def evaluated(*args, **kwargs):
            with ensure_compile_time_eval():
                return function(*args, **kwargs)

        return evaluated


def trace_of(values, user: str) -> Trace | None:
    """The innermost trace that one of the values belongs to, where nothing is traced at the moment but some are traced values:
    inside of `ensure_compile_time_eval`. `user` is who was given them, for the error about values of a trace that has ended."""
    found = None
    for x in values:
        if isinstance(x, Tracer):
            trace = x._trace
            if not trace.alive:
                raise errors.leaked_tracer(x, user)
            if found is None or _is_inside(trace, found):
                found = trace
    return found


def _is_inside(trace: Trace | None, other: Trace) -> bool:
    while trace is not None and trace is not other:
        trace = trace.parent
    return trace is not None


def eval_context() -> current_trace:
    """Outside of every trace: operations inside run at once.

    >>> with eval_context():
    ...     table = xnp.arange(3) * 2
    """
    return current_trace(eval_trace)


def is_tracing() -> bool:
    return thread.trace is not eval_trace


def writing_trace() -> StagingTrace | None:
    """The trace to which operations on values that nobody traces come, where one writes them down."""
    trace = thread.trace
    while trace is not eval_trace and trace is not None:
        if isinstance(trace, StagingTrace) and trace.writes_values:
            return trace
        trace = getattr(trace, "parent", None)  # those of extensions need not have one
    return None


# Tracers


class Tracer:
    """A value of a function that is being traced. Operators and array methods are attached by `xlafront.numpy`."""

    __slots__ = ("_trace", "aval", "__weakref__")

    __array_priority__ = 1000
    _trace: Trace
    aval: AbstractValue

    def __init__(self, trace: Trace, aval: AbstractValue):
        self._trace = trace
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: self.aval.ndim)
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)
    itemsize = property(lambda self: self.aval.dtype.itemsize)
    nbytes = property(lambda self: self.aval.size * self.aval.dtype.itemsize)

    @property
    def sharding(self):
        raise AttributeError(f"a traced array, {self.aval}, lies nowhere yet, so that it has no attribute 'sharding'. What its "
                             f"type says of explicit mesh axes is in typeof(x).sharding.")

    @property
    def vma(self):
        return self.aval.vma

    mat = property(lambda self: self.aval.mat)

    def _concrete(self):
        """The value, where this trace knows it (as eager differentiation does), else None."""
        return self.to_concrete_value()

    def to_concrete_value(self):
        """What tracers of extensions define for `_concrete`."""
        return None

    def full_lower(self):
        """The same value with as few tracers around it as possible, which extensions may define."""
        return self

    def _origin(self) -> str | None:
        """Where the value comes from, for messages."""
        return None

    def _known(self, error):
        value = self._concrete()
        if value is None:
            raise error(self)
        return value

    def __bool__(self):
        if self.aval.shape and self.aval.size != 1:
            raise errors.ambiguous_truth(self.aval.shape)
        return bool(self._known(errors.TracerBoolConversionError))

    def __index__(self):
        if self.aval.shape or not dtypes.is_integer(self.aval.dtype):
            raise errors.not_an_index(self.aval)
        return self._known(errors.TracerIntegerConversionError).__index__()

    def __int__(self):
        if self.aval.shape:
            raise errors.not_a_scalar("int", self.aval.shape)
        return int(self._known(lambda x: errors.python_number(x, "int(x)")))

    # What gives numbers to go on computing with is an error even where the value is known: the derivative would lose a term.

    def __float__(self):
        if self.aval.shape:
            raise errors.not_a_scalar("float", self.aval.shape)
        raise errors.python_number(self, "float(x), or a function of the math module,")

    def __complex__(self):
        if self.aval.shape:
            raise errors.not_a_scalar("complex", self.aval.shape)
        raise errors.python_number(self, "complex(x)")

    def tolist(self):
        raise errors.python_number(self, "x.tolist()")

    def tobytes(self, order="C"):
        raise errors.python_number(self, "x.tobytes()")

    def __array__(self, *args, **kwargs):
        raise errors.TracerArrayConversionError(self)

    def __dlpack__(self, **options):
        raise errors.python_number(self, "x.__dlpack__()")

    __dlpack_device__ = __dlpack__

    def item(self, *args):
        return self._known(lambda x: errors.python_number(x, "x.item()")).item(*args)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self):
        if not self.aval.shape:
            raise TypeError("len() of an unsized object: a traced array without dimensions (0-d)")
        return int(self.aval.shape[0])

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    def __reduce__(self):
        raise errors.ConcretizationTypeError(self, "It was pickled (serialized, by __reduce__).")

    def __repr__(self):
        return f"Traced<{self.aval!r}>"

    def __format__(self, spec):
        if spec:
            raise TypeError(f"unsupported format string {spec!r} passed to {type(self).__name__}.__format__: "
                            f"{errors.no_number(self)}")
        return repr(self)


def _of_buffers(name: str, method: bool):
    """What only an array that is in memory has."""
    def missing(self, *args):
        raise errors.ConcretizationTypeError(self, f"The function asked for x.{name}{'()' if method else ''}.")

    missing.__name__ = name
    return missing if method else property(missing)


for _name in ("addressable_data", "delete", "devices", "is_deleted", "on_device_size_in_bytes", "unsafe_buffer_pointer"):
    setattr(Tracer, _name, _of_buffers(_name, True))
for _name in ("addressable_shards", "committed", "global_shards", "is_fully_addressable", "is_fully_replicated", "traceback"):
    setattr(Tracer, _name, _of_buffers(_name, False))


# What can be an operand


class _Abstractors(dict):
    """`type -> function from a value of it to its aval`; subclasses are found on first use, those of Python's numbers each
    time: what is not in here is made an operand first."""

    def __missing__(self, kind):
        if kind.__name__ == "MaskedArray" and issubclass(kind, np.ndarray):
            raise ValueError("NumPy's masked arrays are not supported: the mask would be lost. Use m.filled(value), or the "
                             "mask with xnp.where, or as `where` of a reduction.")
        for base in kind.__mro__[1:]:
            found = self.get(base)
            if found is not None:
                if base not in dtypes.python_scalar_dtypes:
                    self[kind] = found
                return found
        if hasattr(kind, "__jax_array__") or hasattr(kind, "__xlafront_array__"):
            return _refuse_convertible
        raise KeyError(kind)


def _refuse_convertible(x):
    raise ValueError(f"an object of type {type(x).__name__} was given where an array is needed. It offers __jax_array__, which "
                     f"is only called where somebody asks for a conversion, and not during abstractification: pass "
                     f"xlafront.numpy.asarray(x).")


abstractors: dict[type, Callable[[Any], AbstractValue]] = _Abstractors()
# What is written down in place of values that are computed when a program runs (`core.dimensions`): `type -> function`.
lifted: dict[type, Callable[[Any], Any]] = {}
# The same of values that consist of others (`interpreters.hijax`), which have types but are no operands.
composites: dict[type, Callable[[Any], AbstractValue]] = {}


def aval_of(x, user: str = "this operation") -> AbstractValue:
    """The abstract value of an array, a NumPy value or a Python scalar; `user` is who asks, for the error."""
    try:
        abstractor = abstractors[type(x)]
    except KeyError:
        raise errors.not_an_array(x, user, None) from None
    return abstractor(x)


def as_operand(x):
    """Unwrap objects that offer `__jax_array__` (as module parameters of the ecosystem do), and members of an `IntEnum`."""
    unwrap = getattr(x, "__xlafront_array__", None) or getattr(x, "__jax_array__", None)
    return dtypes.plain_number(x) if unwrap is None else unwrap()


def node_as_operand(x):
    """As `as_operand` for nodes of pytrees, which C++ takes apart where it repeats a program. It refuses others that offer an
    array, and so does this."""
    if not is_convertible(x):
        return x
    if type(x) not in tree.registered_nodes:
        _refuse_convertible(x)
    return as_operand(x)


def is_arraylike(x) -> bool:
    """Whether it can be an operand; what only converts to one is refused."""
    try:
        abstractor = abstractors[type(x)]
    except KeyError:
        return False
    if abstractor is _refuse_convertible:
        abstractor(x)
    return True


def is_convertible(x) -> bool:
    """Whether it offers to be converted to an array."""
    return hasattr(type(x), "__jax_array__") or hasattr(type(x), "__xlafront_array__")


def _numpy_aval(x) -> ShapedArray:
    if not x.dtype.isnative:  # C++ would read the bytes as they lie
        raise TypeError(f"an array of NumPy has dtype {x.dtype.str}: the bytes of its numbers are in the other order than this "
                        f"machine's. Convert it with xlafront.numpy.asarray(x), or x.astype(x.dtype.newbyteorder('=')).")
    return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype, allow_extended_dtype=True))


def is_cut(x) -> bool:
    """Whether it is a scalar of NumPy that loses bits, as 64-bit types are off. Beside an array that has them, made while they
    were on, it keeps its own."""
    return (isinstance(x, (np.generic, np.ndarray)) and x.dtype.itemsize > 4 and not x.ndim
            and _numpy_aval(x).dtype != x.dtype)


def _array_aval(x) -> ShapedArray:
    """What the type says of explicit axes and of memories is what the array's sharding does."""
    sharding = x._sharding
    kind = type(sharding)
    aval = x._aval
    if not aval.plain:
        aval = ShapedArray(aval.shape, aval.dtype, aval.weak_type)
    if kind is NamedSharding:
        if sharding.mesh.explicit:
            return aval.update(sharding=sharding, memory_space=_memory_of(sharding))
    elif kind is not SingleDeviceSharding:
        return aval
    if sharding._memory_kind not in _own_memory:
        return aval.update(memory_space=_memory_of(sharding))
    return aval


_own_memory = (None, "device")


def _memory_of(sharding) -> MemorySpace | None:
    return None if sharding._memory_kind in _own_memory else MemorySpace.Host


abstractors[np.ndarray] = abstractors[np.generic] = _numpy_aval
abstractors[Token] = lambda x: abstract_token
abstractors[AbstractToken] = lambda x: x
abstractors[ShapedArray] = lambda x: x.bare
abstractors[AbstractRef] = lambda x: x
abstractors[Tracer] = lambda x: x.aval
abstractors[ArrayImpl] = _array_aval
abstractors[RefBox] = lambda x: x.aval


def _scalar_aval(kind: type, x) -> ShapedArray:
    aval = _scalar_type(kind, config.enable_x64.value)
    if kind is int:
        dtypes.check_int_fits(x, aval.dtype)
    return aval


@functools.cache
def _scalar_type(kind: type, x64: bool) -> ShapedArray:
    """Of a kind of Python's numbers, while `enable_x64` is that. Hot: each number in a program asks for one."""
    return ShapedArray((), dtypes.canonicalize_dtype(dtypes.python_scalar_dtypes[kind]), kind is not bool)


for _scalar in (bool, int, float, complex):
    abstractors[_scalar] = functools.partial(_scalar_aval, _scalar)


# Staging


class StagedTracer(Tracer):
    """A value of a program under construction."""

    __slots__ = ("_var",)

    def __init__(self, trace, aval, var):
        self._trace = trace
        self.aval = aval
        self._var = var

    def _concrete(self):
        return None if self._trace.evaluate is None else self._trace.value_of(self._var)

    def _origin(self):
        return self._trace.origin_of(self._var)

    def __repr__(self):
        return f"JitTracer({self.aval})"


def identity(x) -> int:
    """What tells a value from others: tracers of one variable are one."""
    return id(x._var) if type(x) is StagedTracer else id(x)


class StagingTrace(Trace):
    """Writes operations down as equations. Where values may be asked for, `evaluate(program, constants)` knows them or None."""

    __slots__ = ("eqns", "invars", "constants", "effects", "debug_info", "alive", "evaluate")

    writes_values = True  # whether what does not depend on its arguments is written down too

    def __init__(self, parent: Trace, debug_info: DebugInfo, evaluate: Callable[[Jaxpr, list], Any] | None = None):
        self.parent = parent
        self.evaluate = evaluate
        self.eqns: list[JaxprEqn] = []
        self.invars: list[Var] = []
        self.constants: dict[int, tuple[Var, Any]] = {}  # by identity; the value is kept so that it stays taken
        self.effects: frozenset = no_effects
        self.debug_info = debug_info
        self.alive = True

    def new_arg(self, aval, source_info: Any = None) -> StagedTracer:
        """One more input. BrainState adds some while its functions are traced, and says where."""
        var = Var(aval)
        self.invars.append(var)
        return StagedTracer(self, aval, var)

    def process(self, primitive, args, params):
        """Append an equation. Hot: about 1.5 us, watched by the trace benchmarks."""
        invars = []
        for x in args:
            invars.append(x._var if type(x) is StagedTracer and x._trace is self else self.lift(x, primitive))
        avals = tuple([v.aval for v in invars])
        types = primitive.types.get(avals) if not params else None
        if types is None:
            if primitive.stage is not None:
                staged = primitive.stage(self, args, params)
                if staged is not None:
                    return staged
            elif primitive.of_number is not None and invars[0].is_literal:
                number = primitive.of_number(invars[0], params)
                if number is not None:
                    return StagedTracer(self, number.aval, number)
            try:
                types = primitive.result_types(avals, params)
            except VaryingMismatch as mismatch:
                if not config.auto_pcast.value:
                    raise errors.not_varying_alike(primitive.shown_as, avals) from None
                invars = self.make_varying(invars, mismatch.args[0])
                avals = tuple([v.aval for v in invars])
                types = primitive.result_types(avals, params)
            except errors.ShardingTypeError:
                if thread.make_whole is None:
                    raise
                invars = thread.make_whole(self, invars)
                avals = tuple([v.aval for v in invars])
                types = primitive.result_types(avals, params)
            except TypeError:
                if not any([is_cut(x) for x in args]):
                    raise
                invars = [Literal(x[()], ShapedArray((), x.dtype)) if is_cut(x) else v for x, v in zip(args, invars)]
                avals = tuple([v.aval for v in invars])
                types = primitive.result_types(avals, params)
        effects = no_effects
        if primitive.effects is not None:
            effects = primitive.effects(*avals, **params)
            if effects:
                effects = effects_on(effects, invars)
                self.check_refs(primitive, invars)
                self.effects |= effects
        if not params and primitive.defaults:
            params = dict(primitive.defaults)
        if primitive.multiple_results:
            outvars = [Var(aval) for aval in types]
            self.eqns.append(JaxprEqn(invars, outvars, primitive, params, effects, source.current_site()))
            return [StagedTracer(self, v.aval, v) for v in outvars]
        var = Var(types)
        self.eqns.append(JaxprEqn(invars, [var], primitive, params, effects, source.current_site()))
        return StagedTracer(self, types, var)

    def write_down(self, program: ClosedJaxpr, operands: Sequence[Any], site: source.Site | None = None) -> list[Any]:
        """Append the operations of a program without effects, all of them at the place where it is called from; its results.

        Hot: about 1 us and 0.5 us an operation."""
        literals, steps, results = program.jaxpr.tape()
        takes_numbers = False
        atoms: list[Any] = []
        for x in operands:
            if type(x) is StagedTracer and x._trace is self:
                atoms.append(x._var)
            else:
                atoms.append(self.lift(x))
                takes_numbers = takes_numbers or atoms[-1].is_literal
        if program.consts:
            atoms += map(self.lift, program.consts)
        atoms += literals
        if site is None:
            site = source.current_site()
        append, define = self.eqns.append, atoms.append
        for primitive, params, read, types in steps:
            invars = list(read(atoms))
            if takes_numbers and primitive.of_number is not None and invars[0].is_literal:
                number = primitive.of_number(invars[0], params)
                if number is not None:
                    define(number)
                    continue
            if type(types) is list:
                outvars = [Var(aval) for aval in types]
                atoms += outvars
            else:
                var = Var(types)
                define(var)
                outvars = [var]
            append(JaxprEqn(invars, outvars, primitive, params, no_effects, site))
        return [StagedTracer(self, aval, atoms[place]) for place, aval in results]

    def write_like(self, eqn: JaxprEqn, operands: Sequence[Any]) -> list[StagedTracer]:
        """Append the operation of an equation without effects, of other operands; its results. Hot."""
        invars = [x._var if type(x) is StagedTracer and x._trace is self else self.lift(x) for x in operands]
        if len(eqn.outvars) == 1:
            aval = eqn.outvars[0].aval
            var = Var(aval)
            self.eqns.append(JaxprEqn(invars, [var], eqn.primitive, eqn.params, no_effects, source.current_site()))
            return [StagedTracer(self, aval, var)]
        outvars = [Var(v.aval) for v in eqn.outvars]
        self.eqns.append(JaxprEqn(invars, outvars, eqn.primitive, eqn.params, no_effects, source.current_site()))
        return [StagedTracer(self, v.aval, v) for v in outvars]

    def check_refs(self, primitive, atoms) -> None:
        """An operation with an effect takes a reference once: who writes to one name must not change another."""
        refs = [v for v in atoms if type(v.aval) is AbstractRef]
        if len(set(refs)) < len(refs) and not primitive.takes_refs_twice:
            twice = next(v for v in refs if refs.count(v) > 1)
            raise errors.reference_twice(primitive.shown_as, twice.aval, self.origin_of(twice))

    def make_varying(self, atoms, axes: frozenset) -> list:
        """Operands that all vary along these axes, as the types of operations inside of a `shard_map` ask for."""
        made = []
        for v in atoms:
            missing = axes - v.aval.vma
            if not missing:
                made.append(v)
            elif v.is_literal:
                made.append(Literal(v.val, v.aval.update(vma=axes)))
            else:
                axis = next(axis for axis in thread.axes if type(axis) is MeshAxis)
                cast = self.process(axis.cast_varying, (StagedTracer(self, v.aval, v),),
                                    {"axes": tuple(sorted(missing, key=str))})
                made.append(cast._var)
        return made

    def lift(self, x, primitive=None):
        """The atom for a value from outside: a scalar in place, an array or an outer tracer as a constant."""
        kind = type(x)
        aval = _fixed_scalars.get(kind)
        if aval is not None:
            return Literal(x, aval)
        if kind in literal_kinds:
            return Literal(x, abstractors[kind](x))
        key = id(x._var) if kind is StagedTracer else id(x)
        found = self.constants.get(key)
        if found is not None:
            return found[0]
        if kind in lifted:
            with current_trace(self):
                return lifted[kind](x)._var
        if isinstance(x, Tracer):
            if not x._trace.alive:
                raise errors.leaked_tracer(x, primitive.shown_as if primitive else "this function")
            if x._trace is self:  # a tracer of a subclass of this trace
                return x._var
        elif isinstance(x, (np.ndarray, np.generic)) and x.ndim == 0 and x.dtype.kind in "biufcV":
            aval = _numpy_aval(x)
            return Literal(np.asarray(x).astype(aval.dtype)[()], aval)
        elif (plain := dtypes.plain_number(x)) is not x:
            return self.lift(plain, primitive)
        var = Var(aval_of(x))
        self.constants[key] = (var, x)
        return var

    def constant(self, x) -> StagedTracer:
        """A value from outside as one of this trace."""
        atom = self.lift(x)
        return StagedTracer(self, atom.aval, atom)

    def to_atom(self, x):
        return x._var if type(x) is StagedTracer and x._trace is self else self.lift(x)

    def finish(self, results: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
        outvars = [self.to_atom(x) for x in results]
        constvars = [var for var, _ in self.constants.values()]
        consts = [value for _, value in self.constants.values()]
        effects = effects_outside(self.effects, (*constvars, *self.invars)) if self.effects else no_effects
        jaxpr = Jaxpr(constvars, self.invars, outvars, self.eqns, effects, self.debug_info)
        return jaxpr, consts

    def value_of(self, var):
        """What the program so far gives for a variable, without its side effects."""
        eqns = [eqn for eqn in self.eqns if eqn.outvars or not eqn.effects]
        whole = Jaxpr([v for v, _ in self.constants.values()], self.invars, [var], eqns, no_effects, self.debug_info)
        jaxpr, _ = dce_jaxpr(whole, [True], instantiate=True)
        return self.evaluate(jaxpr, [value for _, value in self.constants.values()])

    def origin_of(self, var) -> str | None:
        for index, candidate in enumerate(self.invars):
            if candidate is var:
                name = self.debug_info.safe_arg_names(len(self.invars))[index] or f"number {index}"
                return f"argument {name} of {self.debug_info.func_src_info}"
        for eqn in self.eqns:
            if var in eqn.outvars:
                where = source.describe(eqn.site)
                return f"created as the result of {eqn.primitive.shown_as} at {where}{self.depends_on(var)}"
        return None

    def depends_on(self, var) -> str:
        """The arguments that a value is computed from, in words."""
        needed = {var}
        for eqn in reversed(self.eqns):
            if not needed.isdisjoint(eqn.outvars):
                needed.update(v for v in eqn.invars if not v.is_literal)
        names = [name for v, name in zip(self.invars, self.debug_info.safe_arg_names(len(self.invars))) if name and v in needed]
        if not names:
            return ""
        shown = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
        return f", which depends on the value of the argument{'s' if len(names) > 1 else ''} {shown}"


literal_kinds = {bool, int, float, complex}  # of numbers that are written in place
for _, _typed in typed_numbers.KINDS.values():
    literal_kinds.add(_typed)
    abstractors[_typed] = lambda x: ShapedArray((), x.dtype, weak_type=True)


def _as_number(x: Any) -> Any:
    """For extensions: a scalar of NumPy as a number of Python that knows its dtype, other operands as they are."""
    if not isinstance(x, np.generic) or is_cut(x):
        return x
    dtype = aval_of(x).dtype
    found = typed_numbers.KINDS.get("f" if dtypes.issubdtype(dtype, np.floating) else dtype.kind)
    return x if found is None else found[1](found[0](x), dtype)


# NumPy scalars whose type does not depend on settings.
_fixed_scalars = {d.type: ShapedArray((), d) for d in dtypes.supported if d.itemsize in (1, 2, 4) and d.kind in "biufV"}


_SELDOM = 20_000  # new containers between collections of the young: most of a program stays
_NO_FULL_COLLECTION = 1_000_003  # the last threshold of the cycle collector while it does none


def without_full_collections(function: Callable, *args):
    """What a function returns that writes a program.

    Nothing of a program under construction can be freed, and full collections would make tracing more than linear.
    """
    thresholds = gc.get_threshold()
    if thresholds[2] == _NO_FULL_COLLECTION:  # so it is in another one, or another thread is
        return function(*args)
    try:
        gc.set_threshold(max(thresholds[0], _SELDOM) if thresholds[0] else 0, thresholds[1], _NO_FULL_COLLECTION)
        return function(*args)
    finally:
        gc.set_threshold(*thresholds)  # by no function of Python: nothing interrupts before it


def trace_to_jaxpr(function: Callable[..., Sequence[Any]], in_avals: Sequence[AbstractValue],
                   debug_info: DebugInfo = unknown_origin, evaluate: Callable | None = None,
                   kind: type[StagingTrace] | None = None) -> tuple[Jaxpr, list[Any]]:
    """Run `function` on tracers of these types; the program it wrote, and the values of its constants.

    `function` takes and returns flat sequences. Constants may be tracers of enclosing traces. `kind` is that of the trace.
    """
    trace = (kind or StagingTrace)(thread.trace, debug_info, evaluate)
    tracers = [trace.new_arg(aval) for aval in in_avals]
    saved_site = source.thread.site
    if saved_site is not source.NOWHERE:
        source.thread.site = None
    saved_scope = source.current_scope.set(source.scope_of_bodies())
    try:
        with current_trace(trace):
            results = without_full_collections(function, *tracers)
            jaxpr, consts = trace.finish(results)
    finally:
        source.thread.site = saved_site
        source.current_scope.reset(saved_scope)
        trace.end()
    if config.check_tracer_leaks.value:
        name, ended = trace.debug_info.func_src_info, weakref.ref(trace)
        del tracers, results, trace
        check_leaks(ended, name)
    if config.enable_checks.value:
        check_jaxpr(jaxpr)
    if config.debug_key_reuse.value:
        from xlafront.core import key_use  # start-up: only with the setting

        key_use.use_of_program(jaxpr)
    return jaxpr, consts


def trace_to_closed_jaxpr(function, in_avals, debug_info: DebugInfo = unknown_origin) -> ClosedJaxpr:
    return ClosedJaxpr(*trace_to_jaxpr(function, in_avals, debug_info))


def check_leaks(ended: weakref.ref[Trace], name: str) -> None:
    """With `check_tracer_leaks`: nothing outside may still hold a tracer of a finished trace, the caller neither."""
    from xlafront.core import leaks  # start-up: 0.5 ms, for those who look for leaks

    leaks.check_leaks(ended, Tracer, name)
