"""Mutable references: their primitives, and the public functions and class.

`new_ref`, `get`, `swap`, `addupdate` and `freeze` are primitives of jaxprs. Eagerly they work on a `Ref`, which holds an array.
Before a jaxpr is lowered they are discharged: replaced by operations on values (`core.discharge`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.base.layouts import MemorySpace
from xlafront.base.meshes import active
from xlafront.base.specs import PartitionSpec
from xlafront.core import dtypes, errors, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import convert_element_type_p, get_p, move_dim, pvary_p, swap_p, to_dtype
from xlafront.core.discharge import ended
from xlafront.core.ir import AccumEffect, ReadEffect, WriteEffect, internal_refs
from xlafront.core.primitive import MeshRules, Primitive, Structured, Traits
from xlafront.core.refs import AbstractRef, RefBox, is_ref
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.tangents import zeros_of
from xlafront.core.traceback_filter import boundary
from xlafront.core.tracing import StagedTracer, StagingTrace, Tracer
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import put_leaf
from xlafront.lax.ref_indexing import Indexer, accumulate, plan_key, read, selected_shape, text, write, write_tangent
from xlafront.lax.shapes import broadcast_batch
from xlafront.runtime import backends
from xlafront.runtime.sharding import single_device
from xlafront.staging.debug_nans import check_new
from xlafront.staging.jit import jit
from xlafront.staging.library import library

if TYPE_CHECKING:
    from xlafront.core.ir import JaxprEqn
    from xlafront.core.typing import Array, ArrayLike, Dims, Params, Tangent
    from xlafront.transforms.batching.vmap import BatchTrace

# The class


class _RefMeta(type):
    """Makes traced references instances of `Ref` too, although they are tracers."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or isinstance(instance, Tracer) and is_ref(instance)


class Ref(RefBox, metaclass=_RefMeta):
    """A mutable array. Read it with `ref[...]` and `ref[i]`; write it with `ref[...] = x`, `ref[i] = x` and `ref[i] += x`.

    `new_ref` makes one. Functions can take references, close over them and create their own, under `jit`, derivatives, `vmap`
    and in loops. They cannot return them.

    Example:
        >>> ref = new_ref(xnp.zeros(3))
        >>> ref[1] = 5.0
        >>> ref
        Ref([0., 5., 0.], dtype=float32)
    """

    __slots__ = ()

    def __init__(self, aval: AbstractRef, refs: Any) -> None:
        super().__init__(aval, refs)

    shape = property(lambda self: self.aval.shape, doc="The size of each dimension.")
    dtype = property(lambda self: self.aval.dtype, doc="The dtype of the elements. Writes do not change it.")
    ndim = property(lambda self: self.aval.ndim, doc="The number of dimensions.")
    size = property(lambda self: self.aval.size, doc="The number of elements.")
    sharding = property(lambda self: self.value("queried for its sharding").sharding, doc="The sharding of the array.")
    committed = property(lambda self: self.value("queried for its placement").committed,
                         doc="True if the array is committed to its devices; otherwise it follows the other operands.")
    format = property(lambda self: self.value("queried for its format").format, doc="The layout and the sharding of the array.")
    at = property(lambda self: RefAt(self, (), ()), doc="`ref.at[index]` is a view, which reads and writes the reference.")

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the memory that currently holds the array."""
        return self.value("queried for its address").unsafe_buffer_pointer()

    def addupdate(self, x: ArrayLike, idx: Any = ()) -> None:
        """Add `x` to `ref[idx]`; repeated positions accumulate.

        Example:
            >>> new_ref(xnp.zeros(3)).addupdate(1.0, 0)
        """
        addupdate(self, idx, x)

    def __getitem__(self, key: Any) -> Array:
        return get(self, key)

    def __setitem__(self, key: Any, value: ArrayLike) -> None:
        set(self, key, value)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of a reference without dimensions")
        return self.aval.shape[0]

    __iter__ = None  # type: ignore[assignment]  # (Python would read rows until an index raises)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise errors.reference_as_array("NumPy", self.aval)

    def __repr__(self) -> str:
        return f"Ref(ended by {self.end}, {self.aval})" if self.end else f"Ref{repr(self.array)[len('Array'):]}"

    def __copy__(self) -> Any:
        self.shared = True
        return Ref(self.aval, self.value("copied"))

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __reduce__(self) -> Any:
        return new_ref, (self.value("pickled"),)


class RefAt:
    """`ref.at`: index it to get a view of a part of the reference."""

    __slots__ = ("ref", "indexers", "operands")

    def __init__(self, ref: Any, indexers: tuple[Indexer, ...], operands: tuple) -> None:
        self.ref, self.indexers, self.operands = ref, indexers, operands

    def __getitem__(self, key: Any) -> RefView:
        return RefView(self.ref, *_extend_view(self, key))


class RefView:
    """A view of a part of a reference, as `ref.at[key]` returns it. Reads and writes of it go to the reference.

    Example:
        >>> ref.at[0][1:] = xnp.ones(2)
    """

    __slots__ = ("ref", "indexers", "operands")

    def __init__(self, ref: Any, indexers: tuple[Indexer, ...], operands: tuple) -> None:
        self.ref, self.indexers, self.operands = ref, indexers, operands

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension of the view."""
        return selected_shape(tracing.aval_of(self.ref).shape, self.indexers, list(map(np.shape, self.operands)))

    dtype = property(lambda self: tracing.aval_of(self.ref).dtype, doc="The dtype of the elements.")
    ndim = property(lambda self: len(self.shape), doc="The number of dimensions.")
    size = property(lambda self: int(np.prod(self.shape)), doc="The number of elements.")
    at = property(lambda self: RefAt(self.ref, self.indexers, self.operands), doc="`view.at[index]` is a view of the view.")

    def get(self) -> Array:
        """Return the value of the viewed part."""
        return get(self)

    def set(self, value: ArrayLike) -> None:
        """Replace the viewed part."""
        set(self, (), value)

    def swap(self, value: ArrayLike) -> Array:
        """Replace the viewed part and return its previous value."""
        return swap(self, (), value)

    def addupdate(self, value: ArrayLike) -> None:
        """Add to the viewed part."""
        addupdate(self, (), value)

    def __getitem__(self, key: Any) -> Array:
        return get(self, key)

    def __setitem__(self, key: Any, value: ArrayLike) -> None:
        set(self, key, value)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"RefView({self.ref!r}{self._view_text()})"

    def _view_text(self) -> str:
        return text(self.ref.aval.shape, self.indexers, list(map(str, self.operands)), list(map(np.shape, self.operands)))


def _extend_view(view: RefAt | RefView, key: Any) -> tuple[tuple[Indexer, ...], tuple]:
    """Return the indexers of a view followed by the one for `key`, and the operands of them all."""
    shape = selected_shape(tracing.aval_of(view.ref).shape, view.indexers, list(map(np.shape, view.operands)))
    if key is Ellipsis or key is None or type(key) is tuple and not key:
        return view.indexers, view.operands
    indexer, operands = plan_key(shape, key, len(view.operands), _is_staging())
    return (*view.indexers, indexer), (*view.operands, *operands)


def _is_staging() -> bool:
    """True if an enclosing trace stages equations. Integers are static only then: eagerly each needs its own kernel."""
    trace: Any = tracing.thread.trace
    while trace is not None and not isinstance(trace, StagingTrace):
        trace = trace.parent
    return trace is not None


# Primitives. Operands: the reference, the value that is written (if any), the operands of the indexers, which are in `tree`.


def _selected_aval(ref: AbstractRef, indexers: Sequence[Indexer], indices: Sequence[Any]) -> ShapedArray:
    """Return the type of the part that indexers select."""
    _check_ref(ref)
    inner = ref.inner_aval
    shape = selected_shape(inner.shape, indexers, [i.shape for i in indices])
    return inner if shape == inner.shape else inner.update(shape=shape)


def _check_ref(aval: Any) -> None:
    if type(aval) is not AbstractRef:
        raise ValueError(f"expected a reference, made by new_ref, got an array of type {aval}.")


_ON_REFERENCE = {"mesh": MeshRules(states_mesh_types=True), "traits": Traits(takes_refs=True)}  # of operations on references


class _RefConstructor(Primitive):
    __slots__ = ()

    def bind(self, *args: Any, **params: Any) -> Any:
        return tracing.thread.trace.make_ref(self, args, params)


def _new_eagerly(x: Array, *, memory_space: Any, kind: Any, pin: bool) -> Ref:
    if not (memory_space is None or isinstance(memory_space, MemorySpace)):  # of kernels
        raise NotImplementedError(f"a reference in {memory_space} can be made only inside of jit. Pass a MemorySpace here.")
    if pin:
        raise NotImplementedError("a pinned reference can be made only inside of jit. Leave pin out here.")
    aval = tracing.aval_of(x)
    if aval.weak_type:  # a reference has the dtype of its array, whatever is read together with it
        x = convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=False, sharding=None)
    array = _private_copy(_check_nans(x, "new"))
    ref = Ref(AbstractRef(tracing.aval_of(array), memory_space, kind), array)
    ref.shared = array is x
    return ref


def _private_copy(x: Array) -> Array:
    """Copy an array, since the caller may delete, donate or change it, and commit the copy to devices: those that the array
    is committed to, else those of the active mesh, else the default device.
    """
    sharding = getattr(x, "sharding", None)
    if sharding is not None and (x.committed or sharding.num_devices > 1):
        return put_leaf(x, None, may_alias=False)
    mesh = active.mesh
    return put_leaf(x, single_device(backends.default_device()) if mesh is None else NamedSharding(mesh, PartitionSpec()),
                    may_alias=False)


def _get_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, tree: Sequence[Indexer]) -> tuple[Any, Any]:
    result = get_p.bind(*primals, tree=tree)
    return result, _read_tangent(tangents[0], result, tree, primals[1:])


def _read_tangent(cell: Any, result: Array, indexers: Sequence[Indexer], indices: Sequence[Any]) -> Tangent:
    if type(cell) is Zero or type(cell.value) is Zero:
        return Zero(tracing.aval_of(result).to_tangent_aval())
    return read(cell.value, indexers, indices)


def _swap_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, tree: Sequence[Indexer]) -> tuple[Any, Any]:
    result = swap_p.bind(*primals, tree=tree)
    cell = tangents[0]
    tangent = _read_tangent(cell, result, tree, primals[2:])
    _update_tangent("written to", primals[0], cell, tangents[1],
                    lambda current, t: write_tangent(current, tree, primals[2:], t))
    return result, tangent


def _addupdate_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, tree: Sequence[Indexer]) -> tuple[Any, Any]:
    addupdate_p.bind(*primals, tree=tree)
    _update_tangent("added to", primals[0], tangents[0], tangents[1],
                    lambda current, t: accumulate(current, tree, primals[2:], t), adds=True)
    return [], []


def _update_tangent(action: str, ref: Any, cell: Any, tangent: Tangent, update: Callable, adds: bool = False) -> None:
    aval = tracing.aval_of(ref)
    if type(cell) is Zero:
        if type(tangent) is not Zero and aval.differentiable:
            raise ValueError(
                f"a differentiated value is {action} a reference of type {aval} that is not differentiated: it comes from "
                f"outside of the function, and its gradient would be lost. Write lax.stop_gradient(value), make the reference "
                f"inside of the function, or pass it to vjp as an argument that is differentiated too.")
        return
    if type(tangent) is Zero and (adds or type(cell.value) is Zero):
        return
    current, t = [zeros_of(x.aval) if type(x) is Zero else x for x in (cell.value, tangent)]
    cell.value = update(current, t)


def _freeze_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    result = freeze_p.bind(*primals)
    return result, _read_tangent(tangents[0], result, (), ())


def _free_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    free_ref_p.bind(*primals)
    return [], []


# Batching: the entire value of a batched reference is read and written, and indexing is batched as that of arrays. (Once the
# references are discharged, this costs nothing.)


def _batched_compute(trace: BatchTrace, compute: Callable, operands: Sequence[Any], dims: Dims) -> list[tuple[Any, int | None]]:
    """Call `compute` with elements of batches, and return its results as batches with their dimensions."""
    with tracing.current_trace(trace):
        return [trace.unwrap(x) for x in compute(*[trace.wrap(x, d) for x, d in zip(operands, dims)])]


def _get_batch(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, tree: Sequence[Indexer]) -> tuple[Any, Any]:
    value = get_p.bind(operands[0], tree=())
    [result] = _batched_compute(trace, lambda x, *indices: [read(x, tree, indices)], [value, *operands[1:]], dims)
    return result


def _swap_batch(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, tree: Sequence[Indexer]) -> tuple[Any, Any]:
    current = _batched_value("written to", operands[0], dims[0])
    old, new = _batched_compute(trace, lambda x, value, *indices: [
        read(x, tree, indices), write(x, tree, indices, value)], [current, *operands[1:]], dims)
    _write_batched_value(trace, operands[0], dims[0], new)
    return old


def _addupdate_batch(trace: BatchTrace, operands: Sequence[Any], dims: Dims, *, tree: Sequence[Indexer]) -> tuple[Any, Any]:
    current = _batched_value("added to", operands[0], dims[0])
    [new] = _batched_compute(trace, lambda x, value, *indices: [accumulate(x, tree, indices, value)], [current, *operands[1:]],
                        dims)
    _write_batched_value(trace, operands[0], dims[0], new)
    return [], []


def _batched_value(action: str, ref: Any, dim: int | None) -> Array:
    if dim is None:
        raise ValueError(
            f"inside of vmap a value is {action} a reference of type {tracing.aval_of(ref)} that is not batched: which of the "
            f"elements remains is undefined. Pass the reference to the mapped function as a batched argument (in_axes), or "
            f"write to it outside of vmap.")
    return get_p.bind(ref, tree=())


def _write_batched_value(trace: BatchTrace, ref: Any, ref_dim: int, new: tuple[Any, int | None]) -> None:
    value, dim = new
    swap_p.bind(ref, move_dim(broadcast_batch(value, dim, trace.size), 0, ref_dim), tree=())


# Eager evaluation


@library(static="indexers", name="get")
def _read_kernel(x: Array, indices: Sequence[Any], indexers: Sequence[Indexer]) -> Array:
    return read(x, indexers, indices)


def _write_kernel(x: Array, indices: Sequence[Any], new: Array, indexers: Sequence[Indexer]) -> Array:
    return write(x, indexers, indices, new)


def _add_kernel(x: Array, indices: Sequence[Any], new: Array, indexers: Sequence[Indexer]) -> Array:
    return accumulate(x, indexers, indices, new)


_write_kernel.__name__, _add_kernel.__name__ = "swap", "addupdate"


@functools.cache
def _compiled_kernels(kernel: Callable) -> tuple[Callable, Callable]:
    """Return the kernel compiled for arrays that may be shared, and compiled to donate its operand."""
    return library(kernel, static="indexers"), jit(kernel, static_argnames="indexers", donate_argnums=0)


def _get_eagerly(ref: Ref, *indices: Any, tree: Sequence[Indexer]) -> Array:
    array = ref.value("read")
    if tree:
        return _check_nans(_read_kernel(array, indices, tree), "read")
    ref.shared = True
    return _check_nans(array, "read")


def _check_nans(array: Any, attempt: str) -> Any:
    """Return the value of a reference, after the checks of `debug_nans` and `debug_infs`."""
    if config.debug_nans.value or config.debug_infs.value:
        check_new(array, f"the value of a reference, {attempt}, has")
    return array


def _update_eagerly(ref: Ref, kernel: Callable, indices: Sequence[Any], new: Array, indexers: Sequence[Indexer]) -> None:
    array = ref.value("written to")
    sharding = array.sharding
    if not indexers and kernel is _write_kernel:
        if getattr(new, "committed", False) and new.sharding.device_set != sharding.device_set:
            raise ValueError(f"a reference of type {ref.aval} and the value written to it are on incompatible devices, "
                             f"{sharding} and {new.sharding}. Transfer the value with device_put(value, ref.sharding).")
        updated = write(array, (), (), put_leaf(_check_nans(new, "written"), sharding, may_alias=False))
    else:
        shared, in_place = _compiled_kernels(kernel)
        updated = (shared if ref.shared else in_place)(array, indices, new, indexers)
        if not updated.sharding.is_equivalent_to(sharding, updated.ndim):
            updated = put_leaf(updated, sharding)
    ref.replace(updated, shared=False)


def _swap_eagerly(ref: Ref, new: Array, *indices: Any, tree: Sequence[Indexer]) -> Array:
    old = _get_eagerly(ref, *indices, tree=tree)
    _update_eagerly(ref, _write_kernel, indices, new, tree)
    return old


def _addupdate_eagerly(ref: Ref, new: Array, *indices: Any, tree: Sequence[Indexer]) -> list:
    _update_eagerly(ref, _add_kernel, indices, new, tree)
    return []


def _freeze_eagerly(ref: Ref) -> Array:
    array = _check_nans(ref.value("frozen"), "frozen")
    ref.finish("freeze")
    return array


def _free_eagerly(ref: Ref) -> list:
    ref.value("freed")
    ref.finish("free_ref")
    return []


# Rules of the primitives


def _swap_aval(ref: AbstractRef, new: Array, *indices: Any, tree: Sequence[Indexer]) -> ShapedArray:
    return _selected_aval(ref, tree, indices)


def _discharge_get(primitive: Primitive, refs: Sequence[Any], operands: Sequence[Any], params: Params, keep_rules: bool
                   ) -> tuple[list[Any], dict[int, Any]]:
    value, *indices = operands
    return [read(value, params["tree"], indices)], {}


def _discharge_swap(primitive: Primitive, refs: Sequence[Any], operands: Sequence[Any], params: Params, keep_rules: bool
                    ) -> tuple[list[Any], dict[int, Any]]:
    value, new, *indices = operands
    return [lambda: read(value, params["tree"], indices)], {0: write(value, params["tree"], indices, new)}


def _discharge_addupdate(primitive: Primitive, refs: Sequence[Any], operands: Sequence[Any], params: Params, keep_rules: bool
                         ) -> tuple[list[Any], dict[int, Any]]:
    value, new, *indices = operands
    return [], {0: accumulate(value, params["tree"], indices, new)}


def _ref_text(atoms: Sequence[str], eqn: JaxprEqn, first: int) -> str:
    ref, *index_shapes = [v.aval.shape for v in eqn.invars]
    return f"{atoms[0]}{text(ref, eqn.params['tree'], atoms[first:], index_shapes[first - 1:])}"


def _swap_text(left: str, unread: bool, atoms: Sequence[str], eqn: JaxprEqn) -> str:
    target = _ref_text(atoms, eqn, 2)
    return f"{target} <- {atoms[1]}" if unread else f"{left}, {target} <- {target}, {atoms[1]}"


new_ref_p = _RefConstructor(
    "new_ref", **_ON_REFERENCE, impl=_new_eagerly,
    abstract=lambda x, *, memory_space, kind, pin: AbstractRef(x, memory_space, kind),
    effects=lambda *_, **params: frozenset([internal_refs]),
    structured=Structured(discharge=lambda primitive, refs, operands, params, keep_rules: (operands, {})))
empty_ref_p = _RefConstructor(
    "empty_ref", **_ON_REFERENCE, abstract=lambda *, ty, memory_space, pin: AbstractRef(ty, memory_space),
    effects=lambda *_, **params: frozenset([internal_refs]),
    impl=lambda *, ty, **params: _new_eagerly(zeros_of(ty), kind=None, **params),
    structured=Structured(discharge=lambda primitive, refs, operands, params, keep_rules: ([zeros_of(params["ty"])], {})))
get_p.define(
    **_ON_REFERENCE, abstract=lambda ref, *indices, tree: _selected_aval(ref, tree, indices), impl=_get_eagerly, jvp=_get_jvp,
    effects=lambda *_, **params: frozenset([ReadEffect(0)]), batch_with_axis=_get_batch,
    printed_as=lambda left, unread, atoms, eqn: f"{left} <- {_ref_text(atoms, eqn, 1)}",
    structured=Structured(discharge=_discharge_get))
swap_p.define(
    **_ON_REFERENCE, abstract=_swap_aval, impl=_swap_eagerly, jvp=_swap_jvp,
    effects=lambda *_, **params: frozenset([WriteEffect(0)]),
    batch_with_axis=_swap_batch, stage=lambda trace, args, params: None, printed_as=_swap_text,
    structured=Structured(discharge=_discharge_swap))
addupdate_p = Primitive(
    "addupdate", **_ON_REFERENCE, multiple_results=True, abstract=lambda *_, **params: [], impl=_addupdate_eagerly,
    jvp=_addupdate_jvp,
    effects=lambda *_, **params: frozenset([AccumEffect(0)]), batch_with_axis=_addupdate_batch,
    stage=lambda trace, args, params: None,
    printed_as=lambda left, unread, atoms, eqn: f"{_ref_text(atoms, eqn, 2)} += {atoms[1]}",
    structured=Structured(discharge=_discharge_addupdate))
freeze_p = Primitive(
    "freeze", **_ON_REFERENCE, abstract=lambda ref: ref.inner_aval, impl=_freeze_eagerly, jvp=_freeze_jvp,
    batch=lambda size, operands, dims: (freeze_p.bind(*operands), dims[0]), effects=lambda *_: frozenset([ReadEffect(0)]),
    structured=Structured(discharge=lambda primitive, refs, operands, params, keep_rules: (operands, {0: ended})))
free_ref_p = Primitive(
    "free_ref", **_ON_REFERENCE, multiple_results=True, abstract=lambda ref: [], impl=_free_eagerly, jvp=_free_jvp,
    batch=lambda size, operands, dims: (free_ref_p.bind(*operands), []), effects=lambda *_: frozenset([WriteEffect(0)]),
    printed_as=lambda left, unread, atoms, eqn: f"free_ref {atoms[0]}",
    structured=Structured(discharge=lambda primitive, refs, operands, params, keep_rules: ([], {0: ended})))
# vmap calls the rules of writes even if no operand is batched: they then raise an error.


# Public


def _resolve_view(caller: str, ref: Any, idx: Any) -> tuple[Any, tuple[Indexer, ...], tuple]:
    """Return the reference, the indexers and the operands of `ref[idx]`."""
    view = ref if isinstance(ref, RefView) else RefAt(ref, (), ())
    if not is_ref(view.ref):
        raise ValueError(f"{caller} takes a reference, made by new_ref, got {errors.short(ref)} of type {type(ref).__name__}. "
                         f"Arrays do not change: use x.at[...].set(value).")
    return view.ref, *_extend_view(view, idx)


def _check_value(caller: str, ref: Any, indexers: Sequence[Indexer], operands: Sequence[Any], value: Any) -> Any:
    """Return the value to write, converted to the dtype of the reference; check its shape."""
    aval = tracing.aval_of(ref)
    if is_ref(value):
        raise errors.reference_as_array(caller, value.aval)
    value_aval = tracing.aval_of(value, caller)
    shape = selected_shape(aval.shape, indexers, list(map(np.shape, operands)))
    if value_aval.shape != shape:
        raise ValueError(f"{caller} needs a value of the shape that is written, {shape}, to a reference of type {aval}; got "
                         f"{value_aval}. Broadcast it first: numpy.broadcast_to(value, {shape}).")
    if value_aval.dtype == aval.dtype:
        if not value_aval.weak_type:
            return _cast_to_varying(caller, to_dtype(value, value_aval.dtype) if isinstance(value, np.ndarray) else value, aval)
    elif caller != "addupdate" and dtypes.is_integer(value_aval.dtype) and dtypes.is_integer(aval.dtype):
        if not value_aval.weak_type:  # writes convert between integer dtypes
            return _cast_to_varying(caller, to_dtype(value, aval.dtype), aval)
    elif not value_aval.weak_type or _dtype_category(value_aval.dtype) is not _dtype_category(aval.dtype):
        raise ValueError(f"{caller} needs a value of dtype {aval.dtype}, the dtype of the reference of type {aval}; got "
                         f"{value_aval}. Convert it with astype, or write a Python scalar as {aval.dtype}.")
    if type(value) in dtypes.python_scalar_dtypes:
        value = np.asarray(value).astype(aval.dtype)[()]
    else:
        value = convert_element_type_p.bind(value, new_dtype=aval.dtype, weak_type=False, sharding=None)
    return _cast_to_varying(caller, value, aval)


def _cast_to_varying(caller: str, value: Any, aval: AbstractRef) -> Any:
    """Cast a value to vary over the mesh axes that the value of the reference varies over."""
    axes = tracing.aval_of(value).vma
    if axes == aval.vma:
        return value
    if not axes <= aval.vma:
        raise ValueError(f"{caller} got a value that differs between the devices along {sorted(map(str, axes - aval.vma))}, "
                         f"but the reference of type {aval} holds the same on all of them. Make the reference from a varying "
                         f"value, with lax.pcast(..., to='varying'), or shard it over them with the in_specs of shard_map.")
    return pvary_p.bind(value, axes=tuple(sorted(aval.vma - axes, key=str)))


def _dtype_category(dtype: np.dtype) -> Callable | None:
    return next((test for test in (dtypes.is_integer, dtypes.is_float, dtypes.is_complex) if test(dtype)), None)


@boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: str | None = None, pin: bool = False) -> Any:
    """Return a new reference that holds a copy of an array.

    Args:
        init_val: The initial value, an array.
        memory_space: Memory space in the type of the reference, for example `memory.Space.Host`. Those of kernels can be given
            only inside of `jit`. Outside of it the array is in the default memory.
        kind: "no_grad_no_remat" for a reference that derivatives ignore, for example one that values are logged to.
        pin: If True, mark the reference as a buffer of its own in the jaxpr. It can be given only inside of `jit`, and changes
            no value: XLA places the buffers of references.

    Returns:
        The reference, a `Ref`.

    Example:
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
    return new_ref_p.bind(x, memory_space=memory_space, kind=kind, pin=pin)


@boundary
def empty_ref(ty: Any, memory_space: Any = None, pin: bool = False) -> Any:
    """Return a new reference whose initial value does not matter; it is zero.

    Args:
        ty: Type of the array: a `ShapeDtypeStruct`, or an array.
        memory_space: Memory space in the type of the reference, for example `memory.Space.Host`. Those of kernels can be given
            only inside of `jit`. Outside of it the array is in the default memory.
        pin: If True, mark the reference as a buffer of its own in the jaxpr. It can be given only inside of `jit`, and changes
            no value: XLA places the buffers of references.

    Returns:
        The reference, a `Ref`.

    Example:
        >>> xf.empty_ref(xf.ShapeDtypeStruct((3,), "float32"))
        Ref([0., 0., 0.], dtype=float32)
    """
    if isinstance(ty, ShapeDtypeStruct) or not isinstance(ty, ShapedArray):
        ty = ShapedArray(tuple(np.shape(ty)) if not isinstance(ty, ShapeDtypeStruct) else ty.shape, ty.dtype)
    trace = tracing.thread.trace
    if trace is tracing.eval_trace or type(trace) is StagingTrace:
        return empty_ref_p.bind(ty=ty, memory_space=memory_space, pin=pin)
    return new_ref_p.bind(zeros_of(ty), memory_space=memory_space, kind=None, pin=pin)


@boundary
def get(ref: Any, idx: Any = None) -> Any:
    """Return `ref[idx]`, the value of a part of a reference.

    Positions that are known only at run time are clamped to the bounds of the reference.

    Args:
        ref: The reference, or a view of it.
        idx: Index, as in brackets. Default: the entire reference.

    Returns:
        An array.

    Example:
        >>> get(new_ref(xnp.arange(3)), 1)
        Array(1, dtype=int32)
    """
    ref, indexers, operands = _resolve_view("get", ref, idx)
    return get_p.bind(ref, *operands, tree=indexers)


@boundary
def swap(ref: Any, idx: Any, value: Any, _function_name: str = "swap") -> Any:
    """Write `ref[idx] = value` and return the previous value.

    Args:
        ref: The reference, or a view of it.
        idx: Index, as in brackets.
        value: Value to write, of the shape of `ref[idx]`.
        _function_name: Name of the caller in error messages.

    Returns:
        The value of `ref[idx]` before the write.

    Example:
        >>> ref = new_ref(xnp.zeros(2))
        >>> swap(ref, 0, 5.0)
        Array(0., dtype=float32)
    """
    ref, indexers, operands = _resolve_view(_function_name, ref, idx)
    return swap_p.bind(ref, _check_value(_function_name, ref, indexers, operands, value), *operands, tree=indexers)


@boundary
def _set(ref: Any, idx: Any, value: Any) -> None:
    """Write `ref[idx] = value`.

    Args:
        ref: The reference, or a view of it.
        idx: Index, as in brackets.
        value: Value to write, of the shape of `ref[idx]`.

    Example:
        >>> set(new_ref(xnp.zeros(2)), 0, 5.0)
    """
    ref, indexers, operands = _resolve_view("a write to a reference", ref, idx)
    value = _check_value("a write to a reference", ref, indexers, operands, value)
    if tracing.thread.trace is tracing.eval_trace and type(ref) is Ref and not any(
            [isinstance(x, Tracer) for x in (value, *operands)]):
        _update_eagerly(ref, _write_kernel, operands, value, indexers)
    else:
        swap_p.bind(ref, value, *operands, tree=indexers)


set = _set
set.__name__ = set.__qualname__ = "set"


@boundary
def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Add `x` to `ref[idx]`; repeated positions in `idx` accumulate.

    Args:
        ref: The reference, or a view of it.
        idx: Index, as in brackets.
        x: Value to add, of the shape of `ref[idx]`.

    Example:
        >>> addupdate(new_ref(xnp.zeros(2)), 0, 5.0)
    """
    ref, indexers, operands = _resolve_view("addupdate", ref, idx)
    x = _check_value("addupdate", ref, indexers, operands, x)
    aval, value_aval = tracing.aval_of(ref), tracing.aval_of(x)
    if value_aval.shape == aval.shape and value_aval.explicit_sharding != aval.explicit_sharding:
        raise ValueError(f"addupdate needs a value with the sharding of the reference of type {aval}, got {value_aval}. "
                         f"Reshard it first, with reshard.")
    addupdate_p.bind(ref, x, *operands, tree=indexers)


@boundary
def freeze(ref: Any) -> Any:
    """End a reference and return its last value, without a copy.

    Args:
        ref: The reference. End it in the function that made it. An array is returned unchanged.

    Returns:
        The last value of the reference.

    Example:
        >>> xf.freeze(xf.new_ref(xnp.arange(3)))
        Array([0, 1, 2], dtype=int32)
    """
    return freeze_p.bind(_check_made_here("freeze", ref)) if is_ref(ref) else ref


@boundary
def free_ref(ref: Any) -> None:
    """End a reference whose value is no longer needed.

    Args:
        ref: The reference. End it in the function that made it.

    Example:
        >>> xf.free_ref(xf.new_ref(xnp.zeros(3)))
    """
    free_ref_p.bind(_check_made_here("free_ref", ref))


def _check_made_here(caller: str, ref: Any) -> Any:
    """Return a reference; raise an error if the function that is being traced has not made it."""
    if not is_ref(ref):
        raise TypeError(f"{caller} takes a reference, made by new_ref, got {errors.short(ref)} of type {type(ref).__name__}.")
    trace = tracing.thread.trace
    is_own = isinstance(ref, StagedTracer) and ref._trace is trace and ref._var not in trace.invars
    if type(trace) is StagingTrace and not is_own:
        raise ValueError(f"{caller} cannot end a reference of type {ref.aval} that the function has not made itself. End it "
                         f"where it was made; here, read the value with ref[...].")
    return ref


PUBLIC = {"set": _set}
