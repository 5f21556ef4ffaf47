"""Functions of jaxprs that libraries call under jax's private names."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xlafront.api.vmappable_types import element, is_mapped_type as is_vmappable
from xlafront.base.jaxlib_compat import NamedSharding, result_handler
from xlafront.base.meshes import Mesh, active, empty_mesh
from xlafront.core import dtypes, tracing, tree
from xlafront.core.avals import AbstractValue, ShapedArray
from xlafront.core.ir import DebugInfo, Jaxpr, Var
from xlafront.lax.arguments import named_sharding
from xlafront.lax.creation import iota
from xlafront.lax.elementwise import as_array, as_type
from xlafront.lax.shapes import canonical_axis, static_shape
from xlafront.numpy import promotion
from xlafront.runtime import backends
from xlafront.runtime.clients import clients
from xlafront.symbolic.dimensions import as_array as array_of_size, is_symbolic_dim
from xlafront.transforms.batching.vmap import BatchTrace

global_result_handlers = {ShapedArray: result_handler}


def separate_consts(jaxpr: Jaxpr) -> tuple[Jaxpr, list[Any]]:
    """Return the jaxpr with its constants as first arguments, and the values of the constants."""
    return jaxpr.with_constants_as_inputs(), jaxpr.consts


def canonicalize_axis(axis: int, num_dims: int) -> int:
    """Return an axis as a nonnegative number, given the number of dimensions."""
    return canonical_axis(axis, num_dims)


def canonicalize_shape(shape: Any, context: str = "") -> tuple:
    """Return a shape as a tuple of ints and symbolic dimensions."""
    return static_shape(context or "a shape", shape)


def dimension_as_value(d: Any) -> Any:
    """Return a size for computations: a symbolic dimension as an array."""
    return array_of_size(d) if is_symbolic_dim(d) else d


def _dtype(x: Any) -> Any:
    """Return the dtype of an operand in jaxprs."""
    return tracing.aval_of(x).dtype


def abstract_eval_fun(fun: Callable, *avals: AbstractValue, debug_info: DebugInfo, **params) -> list[AbstractValue]:
    """Return the types of the results of a function that returns a sequence of arrays, given the types of its arguments."""
    jaxpr, _ = tracing.trace_to_jaxpr(functools.partial(fun, **params), list(avals), debug_info)
    return jaxpr.out_avals


def _merge_common_consts(jaxprs: Sequence[Jaxpr], all_consts: Sequence[Sequence[Any]]
                         ) -> tuple[list[Jaxpr], list[Any]]:
    """Merge the constants of jaxprs: return jaxprs that take the constants of all of them first, each constant once."""
    consts = list({id(x): x for own in all_consts for x in own}.values())
    positions = {id(x): i for i, x in enumerate(consts)}
    avals = [tracing.aval_of(x) for x in consts]
    merged = []
    for closed, own in zip(jaxprs, all_consts):
        first = [Var(a) for a in avals]
        for v, x in zip(closed.invars, own):
            first[positions[id(x)]] = v
        merged.append(closed.replace(invars=[*first, *closed.invars[len(own):]]))
    return merged, consts


def make_iota(axis_size: int) -> Any:
    """Return the indices of the elements of a mapped axis."""
    return iota(np.int32, axis_size)


def to_elt(trace: BatchTrace, get_idx: Callable, x: Any, spec: Any) -> Any:
    """Return an element of a batch as a tracer; `spec` is the batch axis. `get_idx` is not needed."""
    return element(trace, x, spec) if is_vmappable(x) else trace.wrap(x, spec)


# Pytrees

tracing_registry = tree.default_registry


def prefix_errors(prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
                  ) -> list[Callable[[str], ValueError]]:
    """Return, for each mismatch of a tree prefix, a function that makes an error from the name of the argument."""
    def error_at(path: tuple, reason: str) -> Callable[[str], ValueError]:
        return lambda name: ValueError(f"{name} is no tree prefix: at key path {name}{tree.keystr(path)} {reason}.")

    return [error_at(*found) for found in tree.mismatches((), prefix_tree, full_tree, is_leaf)]


def backends_are_initialized() -> bool:
    """Return True if a client has been started, after which settings of devices have no effect."""
    return bool(clients.started)


def is_cuda_compute_capability_at_least(capability: str) -> bool:
    """Return True if the devices are NVIDIA GPUs of this compute capability, such as "9.0", or a higher one."""
    device = getattr(backends.devices()[0], "compute_capability", "")
    return device[:1].isdigit() and [int(n) for n in device.split(".")] >= [int(n) for n in capability.split(".")]


_TOLERANCES = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-6, "complex64": 1e-6, "float64": 1e-15, "complex128": 1e-15}


def check_close(xs: Any, ys: Any, atol: float | dict | None = None, rtol: float | dict | None = None,
                err_msg: str = "") -> None:
    """Assert that two pytrees of arrays are equal up to tolerances, given as numbers or by dtype.

    The default tolerance is that of the less precise dtype.
    """
    def compare(x, y):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape, f"shapes {x.shape} and {y.shape} differ. {err_msg}"
        names = [dtypes.canonicalize_dtype(z.dtype).name for z in (x, y)]

        def tolerance(given):
            if given is not None and not isinstance(given, dict):
                return given
            table = _TOLERANCES | {dtypes.dtype(d).name: value for d, value in (given or {}).items()}
            return max([table.get(name, 0.0) for name in names])

        inexact = any([name in _TOLERANCES for name in names])
        wide = [z.astype(np.complex128 if dtypes.is_complex(z.dtype) else np.float64) if inexact else z for z in (x, y)]
        np.testing.assert_allclose(*wide, atol=tolerance(atol), rtol=tolerance(rtol), err_msg=err_msg)

    tree.map(compare, xs, ys)


# Meshes


def get_concrete_mesh() -> Mesh:
    """Return the mesh that `set_mesh` put in context, also while a function is traced; an empty one if there is none."""
    return active.mesh or empty_mesh


# Sequences and mappings


class FrozenDict(Mapping):
    """A hashable mapping, equal to those of its class with the same entries. It is a leaf of pytrees."""

    def __init__(self, d: Mapping):
        self._entries = dict(d)

    def __getitem__(self, key: Any) -> Any:
        return self._entries[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return type(other) is FrozenDict and self._entries == other._entries

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return f"FrozenDict({self._entries})"


def safe_zip(*columns: Iterable) -> list[tuple]:
    """Zip sequences of equal length."""
    return list(zip(*columns, strict=True))


def split_list(args: Sequence, ns: Sequence[int]) -> list[list]:
    """Split a list into pieces of these lengths, and the rest."""
    rest, pieces = list(args), []
    for n in ns:
        pieces.append(rest[:n])
        rest = rest[n:]
    return [*pieces, rest]


def unzip2(xys: Iterable[tuple[Any, Any]]) -> tuple[tuple, tuple]:
    """Return the first and the second elements of pairs."""
    pairs = list(xys)
    return tuple(x for x, _ in pairs), tuple(y for _, y in pairs)


# Functions


def infer_argnums_and_argnames(sig: inspect.Signature, argnums: int | Iterable[int] | None, argnames: str | Iterable[str] | None
                               ) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return arguments by position and by name, inferring either from the other if only one is given."""
    nums = () if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
    names = () if argnames is None else (argnames,) if isinstance(argnames, str) else tuple(argnames)
    positional = [(n, p.name) for n, p in enumerate(sig.parameters.values()) if p.kind is p.POSITIONAL_OR_KEYWORD]
    if argnames is None:
        names = tuple(name for n, name in positional if n in nums)
    elif argnums is None:
        nums = tuple(n for n, name in positional if name in names)
    return nums, names


def wrap_name(transform_name: str, name: str) -> str:
    return f"{transform_name}({name})"


class HashableFunction:
    """A function that is equal to functions with the same code and closure."""

    def __init__(self, f: Callable, closure: Any):
        self.f, self.closure = f, closure
        self._comparison_key = f.__code__, closure

    def __call__(self, *args, **kwargs):
        return self.f(*args, **kwargs)

    def __eq__(self, other):
        return isinstance(other, HashableFunction) and self._comparison_key == other._comparison_key

    def __hash__(self):
        return hash(self._comparison_key)


class HashablePartial:
    """A `functools.partial` that is equal to those with the same code and arguments."""

    def __init__(self, f: Callable, *args, **kwargs):
        self.f, self.args, self.kwargs = f, args, kwargs

    def __call__(self, *args, **kwargs):
        return self.f(*self.args, *args, **self.kwargs | kwargs)

    def _comparison_key(self):
        return getattr(self.f, "__code__", self.f), self.args, tuple(sorted(self.kwargs.items()))

    def __eq__(self, other):
        return type(other) is HashablePartial and self._comparison_key() == other._comparison_key()

    def __hash__(self):
        return hash(self._comparison_key())


def _returns_arrays(promote: Callable) -> Callable:
    """Wrap a promotion function to return arrays: it may return Python scalars here, but libraries read shapes and dtypes."""
    return functools.wraps(promote)(lambda *args: [as_array(x) for x in promote(*args)])


@_returns_arrays
def promote_dtypes_complex(*args):
    """Promote arguments to their common complex dtype."""
    d, weak = dtypes.lattice_result_type(*args)
    return [as_type(x, dtypes.to_complex(dtypes.to_inexact(d)), weak) for x in args]


promote_dtypes, promote_dtypes_inexact, promote_args, promote_args_inexact = map(_returns_arrays, (
    promotion.promote_dtypes, promotion.promote_dtypes_inexact, promotion.promote_args, promotion.promote_args_inexact))


def canonicalize_sharding(sharding: Any, api_name: str, check_mesh_consistency: bool = True) -> NamedSharding | None:
    """Return `out_sharding` in the form of types, over an abstract mesh; None if it is unspecified."""
    if not check_mesh_consistency and isinstance(sharding, NamedSharding):
        return sharding
    named = named_sharding(sharding, api_name)
    return named and NamedSharding(named.mesh.abstract_mesh, named.spec)


def weakref_lru_cache(f: Callable | None = None, *, maxsize: int | None = 2048, trace_context_in_key: bool = True,
                      explain: Callable | None = None) -> Callable:
    """Cache the results of a function while their first arguments are alive, up to `maxsize` results for each."""
    if f is None:
        return functools.partial(weakref_lru_cache, maxsize=maxsize, trace_context_in_key=trace_context_in_key, explain=explain)
    results: weakref.WeakKeyDictionary[Any, Callable] = weakref.WeakKeyDictionary()

    @functools.wraps(f)
    def cached(first, *args, **kwargs):
        cache = results.get(first)
        if cache is None:
            reference = weakref.ref(first)
            cache = results[first] = functools.lru_cache(maxsize)(lambda *args, **kwargs: f(reference(), *args, **kwargs))
        return cache(*args, **kwargs)

    cached.cache_clear = results.clear  # type: ignore[attr-defined]
    return cached
