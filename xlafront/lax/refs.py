"""Mutable references: the operations on them, and the functions and the class that users know.

`new_ref`, `get`, `swap`, `addupdate` and `freeze` are operations of programs. Outside of programs they work on a `Ref`, which
holds an array. Before a program is lowered they become operations on values (`core.discharge`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import backends, dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.discharge import RuleNeedsReference, ended
from xlafront.core.ir import AccumEffect, ReadEffect, WriteEffect, eval_jaxpr, internal_refs
from xlafront.core.primitive import Primitive
from xlafront.core.refs import AbstractRef, RefBox, is_ref
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import StagedTracer, StagingTrace, Tracer
from xlafront.core.zeros import Zero
from xlafront.lax.all_reductions import pvary_p
from xlafront.lax.device_put import put_leaf
from xlafront.lax.elementwise import convert_element_type_p, to_dtype
from xlafront.lax.ref_indexing import Indexer, accumulate, part_shape, plan_key, read, text, write, write_tangent
from xlafront.lax.shapes import broadcast_batch, move_dim, zeros_of
from xlafront.runtime import config
from xlafront.runtime.jaxlib_compat import NamedSharding
from xlafront.runtime.meshes import active
from xlafront.runtime.sharding import single_device
from xlafront.runtime.specs import PartitionSpec
from xlafront.staging.debug_nans import check_new
from xlafront.staging.jit import jit
from xlafront.staging.library import lax_function

# The class


class _RefMeta(type):
    """References in programs under construction are tracers, and instances of `Ref` too."""

    def __instancecheck__(cls, instance):
        return type.__instancecheck__(cls, instance) or isinstance(instance, Tracer) and is_ref(instance)


class Ref(RefBox, metaclass=_RefMeta):
    """A mutable array. It is read with `ref[...]` and `ref[i]`, and written with `ref[...] = x`, `ref[i] = x`, `ref[i] += x`.

    Made by `new_ref`; functions can take references, close over them, and make their own, under `jit`, derivatives, `vmap`
    and in loops. They cannot return them.

    >>> ref = new_ref(xnp.zeros(3))
    >>> ref[1] = 5.0
    >>> ref
    Ref([0., 5., 0.], dtype=float32)
    """

    __slots__ = ()

    def __init__(self, aval: AbstractRef, refs: Any):
        super().__init__(aval, refs)

    shape = property(lambda self: self.aval.shape, doc="The size of each dimension.")
    dtype = property(lambda self: self.aval.dtype, doc="The dtype of the elements, which it keeps.")
    ndim = property(lambda self: self.aval.ndim, doc="The number of dimensions.")
    size = property(lambda self: self.aval.size, doc="The number of elements.")
    sharding = property(lambda self: self.value("asked for its sharding").sharding, doc="How the array is split over devices.")
    committed = property(lambda self: self.value("asked for its placement").committed,
                         doc="Whether the array stays on its devices, or follows what it is computed with.")
    format = property(lambda self: self.value("asked for its format").format, doc="The layout and the sharding of the array.")
    at = property(lambda self: RefAt(self, (), ()), doc="`ref.at[index]`: a part, which is read and written as the reference.")

    def unsafe_buffer_pointer(self) -> int:
        """The address of the memory that holds the array now."""
        return self.value("asked for its address").unsafe_buffer_pointer()

    def addupdate(self, x, idx=()) -> None:
        """Add `x` to `ref[idx]`; positions that occur twice get both.

        >>> new_ref(xnp.zeros(3)).addupdate(1.0, 0)
        """
        addupdate(self, idx, x)

    def __getitem__(self, key):
        return get(self, key)

    def __setitem__(self, key, value):
        set(self, key, value)

    def __len__(self):
        if not self.aval.shape:
            raise TypeError("len() of a reference without dimensions")
        return self.aval.shape[0]

    __iter__ = None  # type: ignore[assignment]  # (Python would read rows until an index is refused)

    def __array__(self, *args, **kwargs):
        raise errors.reference_as_array("NumPy", self.aval)

    def __repr__(self):
        return f"Ref(ended by {self.end}, {self.aval})" if self.end else f"Ref{repr(self.array)[len('Array'):]}"

    def __copy__(self):
        self.shared = True
        return Ref(self.aval, self.value("copied"))

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self):
        return new_ref, (self.value("pickled"),)


class RefAt:
    """`ref.at`: index it for a view of a part of the reference, which is read and written as references are."""

    __slots__ = ("ref", "indexers", "operands")

    def __init__(self, ref: Any, indexers: tuple[Indexer, ...], operands: tuple):
        self.ref, self.indexers, self.operands = ref, indexers, operands

    def __getitem__(self, key) -> RefView:
        return RefView(self.ref, *_extended(self, key))


class RefView:
    """A part of a reference, as `ref.at[key]` gives it. Reading and writing it reads and writes the reference.

    >>> ref.at[0][1:] = xnp.ones(2)
    """

    __slots__ = ("ref", "indexers", "operands")

    def __init__(self, ref: Any, indexers: tuple[Indexer, ...], operands: tuple):
        self.ref, self.indexers, self.operands = ref, indexers, operands

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension of the part."""
        return part_shape(tracing.aval_of(self.ref).shape, self.indexers, list(map(np.shape, self.operands)))

    dtype = property(lambda self: tracing.aval_of(self.ref).dtype, doc="The dtype of the elements.")
    ndim = property(lambda self: len(self.shape), doc="The number of dimensions.")
    size = property(lambda self: int(np.prod(self.shape)), doc="The number of elements.")
    at = property(lambda self: RefAt(self.ref, self.indexers, self.operands), doc="`view.at[index]`: a part of the part.")

    def get(self):
        """The value of the part."""
        return get(self)

    def set(self, value) -> None:
        """Replace the part."""
        set(self, (), value)

    def swap(self, value):
        """Replace the part; what it was before."""
        return swap(self, (), value)

    def addupdate(self, value) -> None:
        """Add to the part."""
        addupdate(self, (), value)

    def __getitem__(self, key):
        return get(self, key)

    def __setitem__(self, key, value):
        set(self, key, value)

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"RefView({self.ref!r}{self._brackets()})"

    def _brackets(self) -> str:
        return text(self.ref.aval.shape, self.indexers, list(map(str, self.operands)), list(map(np.shape, self.operands)))


def _extended(view: RefAt | RefView, key) -> tuple[tuple[Indexer, ...], tuple]:
    """The indexers of a view with one more, and their operands."""
    shape = part_shape(tracing.aval_of(view.ref).shape, view.indexers, list(map(np.shape, view.operands)))
    if key is Ellipsis or key is None or type(key) is tuple and not key:
        return view.indexers, view.operands
    indexer, operands = plan_key(shape, key, len(view.operands), _writes_programs())
    return (*view.indexers, indexer), (*view.operands, *operands)


def _writes_programs() -> bool:
    """Whether integers may be part of the operation: outside of programs each would be compiled anew."""
    trace: Any = tracing.thread.trace
    while trace is not None and not isinstance(trace, StagingTrace):
        trace = trace.parent
    return trace is not None


# The operations. After the reference, and what is written, come the operands of the indexers, which are the parameter `tree`.


def _part(ref: AbstractRef, indexers, indices: Sequence[Any]):
    """The type of the part that indexers select."""
    _check_ref(ref)
    inner = ref.inner_aval
    shape = part_shape(inner.shape, indexers, [i.shape for i in indices])
    return inner if shape == inner.shape else inner.update(shape=shape)


def _check_ref(aval) -> None:
    if type(aval) is not AbstractRef:
        raise ValueError(f"this is done to references, made by new_ref, and not to an array of type {aval}.")


class _RefPrimitive(Primitive):
    """An operation on a reference, its first operand."""

    __slots__ = ()

    ref_primitive = own_types = True


class _MakesRef(_RefPrimitive):
    __slots__ = ()

    def bind(self, *args, **params):
        return tracing.thread.trace.make_ref(self, args, params)


def _in_own_memory(memory_space) -> None:
    if memory_space is not None:
        raise NotImplementedError(f"a reference in {memory_space} can be made only inside of jit. Leave memory_space out here.")


def _new_eagerly(x, *, memory_space, kind):
    _in_own_memory(memory_space)
    array = _settled(_looked_at(x, "new"))
    ref = Ref(AbstractRef(tracing.aval_of(array), None, kind), array)
    ref.shared = array is x
    return ref


def _settled(x):
    """A copy of what the user holds and may delete, donate or change, on devices on which it stays: those on which the user has
    put it, else those of the mesh in force, else the default one."""
    own = getattr(x, "sharding", None)
    if own is not None and (x.committed or own.num_devices > 1):
        return put_leaf(x, None, may_alias=False)
    mesh = active.mesh
    return put_leaf(x, single_device(backends.default_device()) if mesh is None else NamedSharding(mesh, PartitionSpec()),
                    may_alias=False)


def _get_jvp(primals, tangents, *, tree):
    result = get_p.bind(*primals, tree=tree)
    return result, _tangent_part(tangents[0], result, tree, primals[1:])


def _tangent_part(cell, result, indexers, indices):
    if type(cell) is Zero or type(cell.value) is Zero:
        return Zero(tracing.aval_of(result).to_tangent_aval())
    return read(cell.value, indexers, indices)


def _swap_jvp(primals, tangents, *, tree):
    result = swap_p.bind(*primals, tree=tree)
    cell = tangents[0]
    tangent = _tangent_part(cell, result, tree, primals[2:])
    _change_tangent("written to", primals[0], cell, tangents[1], lambda held, t: write_tangent(held, tree, primals[2:], t))
    return result, tangent


def _addupdate_jvp(primals, tangents, *, tree):
    addupdate_p.bind(*primals, tree=tree)
    _change_tangent("added to", primals[0], tangents[0], tangents[1],
                    lambda held, t: accumulate(held, tree, primals[2:], t), adds=True)
    return [], []


def _change_tangent(what: str, ref, cell, tangent, change: Callable, adds: bool = False) -> None:
    aval = tracing.aval_of(ref)
    if type(cell) is Zero:
        if type(tangent) is not Zero and aval.differentiable:
            raise ValueError(
                f"a differentiated value is {what} a reference of type {aval} that is not differentiated: it comes from "
                f"outside of the function, and its gradient would be lost. Write lax.stop_gradient(value), make the reference "
                f"inside of the function, or pass it to vjp as an argument that is differentiated too.")
        return
    if type(tangent) is Zero and (adds or type(cell.value) is Zero):
        return
    held, t = [zeros_of(x.aval) if type(x) is Zero else x for x in (cell.value, tangent)]
    cell.value = change(held, t)


def _freeze_jvp(primals, tangents):
    result = freeze_p.bind(*primals)
    return result, _tangent_part(tangents[0], result, (), ())


def _free_jvp(primals, tangents):
    free_ref_p.bind(*primals)
    return [], []


# In transformations an operation that contains programs, and touches references there, is one on values between reads
# and writes: those carry tangents and batches.


def bind_on_values(trace, primitive, args: tuple, params: dict[str, Any], touched: frozenset[int]) -> list[Any]:
    with tracing.current_trace(trace):
        held: dict[int, Any] = {}
        for i in sorted(touched):
            if id(args[i]) not in held:
                held[id(args[i])] = get_p.bind(args[i], tree=())
        refs = [id(x) if i in touched else None for i, x in enumerate(args)]
        operands = [x if r is None else held[r] for x, r in zip(args, refs)]
        try:
            results, written = primitive.discharge(primitive, refs, operands, params, True)
        except RuleNeedsReference:
            if not primitive.calls_program:
                raise
            closed = params["jaxpr"]  # its operations one by one
            return eval_jaxpr(closed.jaxpr, closed.consts, *args)
        for i, new in written.items():
            swap_p.bind(args[i], new, tree=())
        return results


# Batches: a batched reference is read and written as a whole, and its parts are those of values. (Once the program is one of
# values, that is the same.)


def _on_batches(trace, compute: Callable, operands, dims) -> list[tuple[Any, int | None]]:
    """Values computed from elements, as batches."""
    with tracing.current_trace(trace):
        return [trace.unwrap(x) for x in compute(*[trace.wrap(x, d) for x, d in zip(operands, dims)])]


def _get_batch(trace, operands, dims, *, tree):
    held = get_p.bind(operands[0], tree=())
    [found] = _on_batches(trace, lambda x, *indices: [read(x, tree, indices)], [held, *operands[1:]], dims)
    return found


def _swap_batch(trace, operands, dims, *, tree):
    held = _held_batch("written to", operands[0], dims[0])
    old, new = _on_batches(trace, lambda x, value, *indices: [
        read(x, tree, indices), write(x, tree, indices, value)], [held, *operands[1:]], dims)
    _write_batch(trace, operands[0], dims[0], new)
    return old


def _addupdate_batch(trace, operands, dims, *, tree):
    held = _held_batch("added to", operands[0], dims[0])
    [new] = _on_batches(trace, lambda x, value, *indices: [accumulate(x, tree, indices, value)], [held, *operands[1:]],
                        dims)
    _write_batch(trace, operands[0], dims[0], new)
    return [], []


def _held_batch(what: str, ref, dim):
    if dim is None:
        raise ValueError(
            f"inside of vmap a value is {what} a reference of type {tracing.aval_of(ref)} that all elements share: which of "
            f"them would count is not defined. Pass the reference to the mapped function as an argument with an element for "
            f"each (in_axes), or write to it outside of vmap.")
    return get_p.bind(ref, tree=())


def _write_batch(trace, ref, wanted: int, new: tuple[Any, int | None]) -> None:
    value, dim = new
    swap_p.bind(ref, move_dim(broadcast_batch(value, dim, trace.size), 0, wanted), tree=())


# Outside of programs


@lax_function(static="indexers", name="get")
def _read_kernel(x, indices, indexers):
    return read(x, indexers, indices)


def _write_kernel(x, indices, new, indexers):
    return write(x, indexers, indices, new)


def _add_kernel(x, indices, new, indexers):
    return accumulate(x, indexers, indices, new)


_write_kernel.__name__, _add_kernel.__name__ = "swap", "addupdate"


@functools.cache
def _compiled(kernel: Callable) -> tuple[Callable, Callable]:
    """For arrays that somebody else may hold, and for others, in place."""
    return lax_function(kernel, static="indexers"), jit(kernel, static_argnames="indexers", donate_argnums=0)


def _get_eagerly(ref, *indices, tree):
    array = ref.value("read")
    if tree:
        return _looked_at(_read_kernel(array, indices, tree), "read")
    ref.shared = True
    return _looked_at(array, "read")


def _looked_at(array: Any, attempt: str) -> Any:
    """The value of a reference, in which `debug_nans` and `debug_infs` look for theirs."""
    if config.debug_nans.value or config.debug_infs.value:
        check_new(array, f"the value of a reference, {attempt}, has")
    return array


def _change_eagerly(ref, kernel, indices, new, indexers) -> None:
    array = ref.value("written to")
    place = array.sharding
    if not indexers and kernel is _write_kernel:
        if getattr(new, "committed", False) and new.sharding.device_set != place.device_set:
            raise ValueError(f"a reference of type {ref.aval} and what is written to it are on incompatible devices, {place} "
                             f"and {new.sharding}. Move the value there with device_put(value, ref.sharding).")
        changed = write(array, (), (), put_leaf(_looked_at(new, "written"), place, may_alias=False))
    else:
        shared, alone = _compiled(kernel)
        changed = (shared if ref.shared else alone)(array, indices, new, indexers)
        if not changed.sharding.is_equivalent_to(place, changed.ndim):
            changed = put_leaf(changed, place)
    ref.replace(changed, shared=False)


def _swap_eagerly(ref, new, *indices, tree):
    old = _get_eagerly(ref, *indices, tree=tree)
    _change_eagerly(ref, _write_kernel, indices, new, tree)
    return old


def _addupdate_eagerly(ref, new, *indices, tree):
    _change_eagerly(ref, _add_kernel, indices, new, tree)
    return []


def _freeze_eagerly(ref):
    array = _looked_at(ref.value("frozen"), "frozen")
    ref.finish("freeze")
    return array


def _free_eagerly(ref):
    ref.value("freed")
    ref.finish("free_ref")
    return []


# The records


def _swap_type(ref, new, *indices, tree):
    return _part(ref, tree, indices)


def _discharge_get(primitive, refs, operands, params, keep_rules):
    held, *indices = operands
    return [read(held, params["tree"], indices)], {}


def _discharge_swap(primitive, refs, operands, params, keep_rules):
    held, new, *indices = operands
    return [lambda: read(held, params["tree"], indices)], {0: write(held, params["tree"], indices, new)}


def _discharge_addupdate(primitive, refs, operands, params, keep_rules):
    held, new, *indices = operands
    return [], {0: accumulate(held, params["tree"], indices, new)}


def _brackets(atoms, eqn, first: int) -> str:
    ref, *others = [v.aval.shape for v in eqn.invars]
    return f"{atoms[0]}{text(ref, eqn.params['tree'], atoms[first:], others[first - 1:])}"


def _swap_text(left: str, unread: bool, atoms, eqn) -> str:
    place = _brackets(atoms, eqn, 2)
    return f"{place} <- {atoms[1]}" if unread else f"{left}, {place} <- {place}, {atoms[1]}"


new_ref_p = _MakesRef(
    "new_ref", abstract=lambda x, *, memory_space, kind: AbstractRef(x, memory_space, kind), impl=_new_eagerly,
    effects=lambda *_, **params: frozenset([internal_refs]),
    discharge=lambda primitive, refs, operands, params, keep_rules: (operands, {}))
empty_ref_p = _MakesRef(
    "empty_ref", abstract=lambda *, ty, memory_space: AbstractRef(ty, memory_space),
    effects=lambda *_, **params: frozenset([internal_refs]),
    impl=lambda *, ty, memory_space: _new_eagerly(zeros_of(ty), memory_space=memory_space, kind=None),
    discharge=lambda primitive, refs, operands, params, keep_rules: ([zeros_of(params["ty"])], {}))
get_p = _RefPrimitive(
    "get", abstract=lambda ref, *indices, tree: _part(ref, tree, indices), impl=_get_eagerly, jvp=_get_jvp,
    effects=lambda *_, **params: frozenset([ReadEffect(0)]), discharge=_discharge_get)
swap_p = _RefPrimitive(
    "swap", abstract=_swap_type, impl=_swap_eagerly, jvp=_swap_jvp, effects=lambda *_, **params: frozenset([WriteEffect(0)]),
    discharge=_discharge_swap)
addupdate_p = _RefPrimitive(
    "addupdate", multiple_results=True, abstract=lambda *_, **params: [], impl=_addupdate_eagerly, jvp=_addupdate_jvp,
    effects=lambda *_, **params: frozenset([AccumEffect(0)]), discharge=_discharge_addupdate)
freeze_p = _RefPrimitive(
    "freeze", abstract=lambda ref: ref.inner_aval, impl=_freeze_eagerly, jvp=_freeze_jvp,
    batch=lambda size, operands, dims: (freeze_p.bind(*operands), dims[0]),
    effects=lambda *_: frozenset([ReadEffect(0)]),
    discharge=lambda primitive, refs, operands, params, keep_rules: (operands, {0: ended}))
free_ref_p = _RefPrimitive(
    "free_ref", multiple_results=True, abstract=lambda ref: [], impl=_free_eagerly, jvp=_free_jvp,
    batch=lambda size, operands, dims: (free_ref_p.bind(*operands), []), effects=lambda *_: frozenset([WriteEffect(0)]),
    discharge=lambda primitive, refs, operands, params, keep_rules: ([], {0: ended}))
get_p.batch_with_axis, swap_p.batch_with_axis, addupdate_p.batch_with_axis = _get_batch, _swap_batch, _addupdate_batch
# vmap asks the rules of writes even where neither reference nor value is of a batch, which they refuse.
swap_p.stage = addupdate_p.stage = lambda trace, args, params: None
get_p.printed_as = lambda left, unread, atoms, eqn: f"{left} <- {_brackets(atoms, eqn, 1)}"
swap_p.printed_as = _swap_text
addupdate_p.printed_as = lambda left, unread, atoms, eqn: f"{_brackets(atoms, eqn, 2)} += {atoms[1]}"
free_ref_p.printed_as = lambda left, unread, atoms, eqn: f"free_ref {atoms[0]}"


# Public


def _located(what: str, ref: Any, idx: Any) -> tuple[Any, tuple[Indexer, ...], tuple]:
    """The reference, indexers and operands of `ref[idx]`."""
    view = ref if isinstance(ref, RefView) else RefAt(ref, (), ())
    if not is_ref(view.ref):
        raise ValueError(f"{what} takes a reference, made by new_ref, got {errors.short(ref)} of type {type(ref).__name__}. "
                         f"Arrays do not change: use x.at[...].set(value).")
    return view.ref, *_extended(view, idx)


def _fitting(what: str, ref, indexers, operands, value):
    """A value to be written to a part, in the dtype of the reference."""
    aval = tracing.aval_of(ref)
    if is_ref(value):
        raise errors.reference_as_array(what, value.aval)
    given = tracing.aval_of(value, what)
    shape = part_shape(aval.shape, indexers, list(map(np.shape, operands)))
    if given.shape != shape:
        raise ValueError(f"{what} needs a value of the shape that is written, {shape}, of a reference of type {aval}; got "
                         f"{given}. Broadcast it first: xnp.broadcast_to(value, {shape}).")
    if given.dtype == aval.dtype:
        if not given.weak_type:
            return _varying(what, to_dtype(value, given.dtype) if isinstance(value, np.ndarray) else value, aval)
    elif what != "addupdate" and dtypes.is_integer(given.dtype) and dtypes.is_integer(aval.dtype):
        if not given.weak_type:  # integers that are written become those of the reference
            return _varying(what, to_dtype(value, aval.dtype), aval)
    elif not given.weak_type or _category(given.dtype) is not _category(aval.dtype):
        raise ValueError(f"{what} needs a value of dtype {aval.dtype}, that of the reference of type {aval}; got {given}. "
                         f"Convert it with astype, or write a number as {aval.dtype}.")
    if type(value) in dtypes.python_scalar_dtypes:
        value = np.asarray(value).astype(aval.dtype)[()]
    else:
        value = convert_element_type_p.bind(value, new_dtype=aval.dtype, weak_type=False, sharding=None)
    return _varying(what, value, aval)


def _varying(what: str, value, aval: AbstractRef):
    """A value that differs between devices as what the reference holds does."""
    axes = tracing.aval_of(value).vma
    if axes == aval.vma:
        return value
    if not axes <= aval.vma:
        raise ValueError(f"{what} got a value that differs between the devices along {sorted(map(str, axes - aval.vma))}, and "
                         f"the reference of type {aval} holds the same on all of them. Make it from a value that differs, with "
                         f"lax.pcast(..., to='varying'), or split it over these axes by the in_specs of shard_map.")
    return pvary_p.bind(value, axes=tuple(sorted(aval.vma - axes, key=str)))


def _category(dtype):
    return next((test for test in (dtypes.is_integer, dtypes.is_float, dtypes.is_complex) if test(dtype)), None)


@boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None) -> Any:
    """A new reference that holds an array.

    - `init_val`: the array.
    - `memory_space`: in which memory it is, only inside of `jit`.
    - `kind`: "no_grad_no_remat" for one that derivatives do not see, as what is written to it for logs.

    >>> ref = xf.new_ref(xnp.arange(3.0))
    >>> ref[0] += 10.0
    >>> ref[...]
    Array([10.,  1.,  2.], dtype=float32)
    """
    x = init_val
    if not tracing.is_arraylike(x):
        raise errors.not_an_array(x, "new_ref", None)
    if is_ref(x):
        raise TypeError(f"new_ref takes an array, got a reference of type {x.aval}: there are no references to references. For "
                        f"one with the same value use new_ref(ref[...]).")
    if isinstance(x, np.ndarray):
        x = to_dtype(x, tracing.aval_of(x).dtype)
    return new_ref_p.bind(x, memory_space=memory_space, kind=kind)


@boundary
def empty_ref(ty: Any, memory_space: Any = None) -> Any:
    """A new reference to an array whose first value does not matter; it is zero.

    - `ty`: the type of the array: a `ShapeDtypeStruct`, or an array.
    - `memory_space`: in which memory it is, only inside of `jit`.

    >>> xf.empty_ref(xf.ShapeDtypeStruct((3,), "float32"))
    Ref([0., 0., 0.], dtype=float32)
    """
    if isinstance(ty, ShapeDtypeStruct) or not isinstance(ty, ShapedArray):
        ty = ShapedArray(tuple(np.shape(ty)) if not isinstance(ty, ShapeDtypeStruct) else ty.shape, ty.dtype)
    trace = tracing.thread.trace
    if trace is tracing.eval_trace or type(trace) is StagingTrace:
        return empty_ref_p.bind(ty=ty, memory_space=memory_space)
    return new_ref_p.bind(zeros_of(ty), memory_space=memory_space, kind=None)


@boundary
def get(ref: Any, idx: Any = None) -> Any:
    """`ref[idx]`: the value of a part of a reference, of all of it without `idx`.

    Positions that are known only when the program runs are moved inside where they are outside.

    >>> get(new_ref(xnp.arange(3)), 1)
    Array(1, dtype=int32)
    """
    ref, indexers, operands = _located("get", ref, idx)
    return get_p.bind(ref, *operands, tree=indexers)


@boundary
def swap(ref: Any, idx: Any, value: Any, _function_name: str = "swap") -> Any:
    """Write `ref[idx] = value`; the result is what was there before.

    - `ref`: the reference. `idx`: the index, as in brackets. `value`: what to write.
    - `_function_name`: for messages.

    >>> ref = new_ref(xnp.zeros(2))
    >>> swap(ref, 0, 5.0)
    Array(0., dtype=float32)
    """
    ref, indexers, operands = _located(_function_name, ref, idx)
    return swap_p.bind(ref, _fitting(_function_name, ref, indexers, operands, value), *operands, tree=indexers)


@boundary
def _set(ref: Any, idx: Any, value: Any) -> None:
    """Write `ref[idx] = value`.

    - `ref`: the reference. `idx`: the index, as in brackets. `value`: what to write.

    >>> set(new_ref(xnp.zeros(2)), 0, 5.0)
    """
    ref, indexers, operands = _located("a write to a reference", ref, idx)
    value = _fitting("a write to a reference", ref, indexers, operands, value)
    if tracing.thread.trace is tracing.eval_trace and type(ref) is Ref and not any(
            [isinstance(x, Tracer) for x in (value, *operands)]):
        _change_eagerly(ref, _write_kernel, operands, value, indexers)
    else:
        swap_p.bind(ref, value, *operands, tree=indexers)


set = _set
set.__name__ = set.__qualname__ = "set"


@boundary
def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add `x` to `ref[idx]`; positions that occur twice in `idx` get both.

    >>> addupdate(new_ref(xnp.zeros(2)), 0, 5.0)
    """
    ref, indexers, operands = _located("addupdate", ref, idx)
    x = _fitting("addupdate", ref, indexers, operands, x)
    aval, given = tracing.aval_of(ref), tracing.aval_of(x)
    if given.shape == aval.shape and given.explicit_sharding != aval.explicit_sharding:
        raise ValueError(f"addupdate needs a value that is split as what the reference of type {aval} holds, got {given}. "
                         f"Split it so first, with reshard.")
    addupdate_p.bind(ref, x, *operands, tree=indexers)


@boundary
def freeze(ref: Any) -> Any:
    """End a reference; the result is the value that it has last, without a copy.

    - `ref`: the reference, which must be ended where it was made. (An array is its own value.)

    >>> xf.freeze(xf.new_ref(xnp.arange(3)))
    Array([0, 1, 2], dtype=int32)
    """
    return freeze_p.bind(_own("freeze", ref)) if is_ref(ref) else ref


@boundary
def free_ref(ref: Any) -> None:
    """End a reference whose value is not needed any more.

    - `ref`: the reference.

    >>> xf.free_ref(xf.new_ref(xnp.zeros(3)))
    """
    free_ref_p.bind(_own("free_ref", ref))


def _own(what: str, ref: Any) -> Any:
    """The reference, which the function that is being traced has made."""
    if not is_ref(ref):
        raise TypeError(f"{what} takes a reference, made by new_ref, got {errors.short(ref)} of type {type(ref).__name__}.")
    trace = tracing.thread.trace
    own = isinstance(ref, StagedTracer) and ref._trace is trace and ref._var not in trace.invars
    if type(trace) is StagingTrace and not own:
        raise ValueError(f"{what} would end a reference of type {ref.aval} that the function has not made itself. End it where "
                         f"it was made; here, read the value with ref[...].")
    return ref


PUBLIC = {"set": _set}
