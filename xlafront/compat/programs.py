"""Functions on programs that libraries call by their private names."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xlafront.core import backends, dtypes, tracing, tree
from xlafront.core.avals import AbstractValue, ShapedArray
from xlafront.core.ir import ClosedJaxpr, DebugInfo, Jaxpr, Var
from xlafront.core.linear_util import transformation_with_aux2
from xlafront.lax.arguments import named_sharding
from xlafront.lax.creation import iota
from xlafront.lax.elementwise import as_array, as_type
from xlafront.lax.shapes import canonical_axis
from xlafront.numpy import promotion
from xlafront.runtime.clients import clients
from xlafront.runtime.jaxlib_compat import NamedSharding, result_handler
from xlafront.transforms.batching.vmap import BatchTrace, batch_flat
from xlafront.transforms.batching.vmappable_types import element, is_mapped_type as is_vmappable

global_result_handlers = {ShapedArray: result_handler}


def close_jaxpr(jaxpr: Jaxpr) -> ClosedJaxpr:
    """A program without constants, as one that has the values of its constants."""
    return ClosedJaxpr(jaxpr, ())


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """A program that takes its constants first."""
    return jaxpr.with_constants_as_inputs()


def separate_consts(jaxpr: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """A program that takes its constants first, and what they are."""
    return close_jaxpr(convert_constvars_jaxpr(jaxpr.jaxpr)), jaxpr.consts


def canonicalize_axis(axis: int, num_dims: int) -> int:
    """An axis of an array with so many, counted from the first."""
    return canonical_axis(axis, num_dims)


def _dtype(x: Any) -> Any:
    """The dtype that an operand has in programs."""
    return tracing.aval_of(x).dtype


def abstract_eval_fun(fun: Callable, *avals: AbstractValue, debug_info: DebugInfo, **params) -> list[AbstractValue]:
    """The types of the results, a sequence of arrays, of a function of arrays of these types."""
    jaxpr, _ = tracing.trace_to_jaxpr(functools.partial(fun, **params), list(avals), debug_info)
    return jaxpr.out_avals


def _merge_common_consts(jaxprs: Sequence[ClosedJaxpr], all_consts: Sequence[Sequence[Any]]
                         ) -> tuple[list[ClosedJaxpr], list[Any]]:
    """Programs that take constants of their own first, as programs that take those of all of them, each once."""
    consts = list({id(x): x for own in all_consts for x in own}.values())
    places = {id(x): i for i, x in enumerate(consts)}
    avals = [tracing.aval_of(x) for x in consts]
    merged = []
    for closed, own in zip(jaxprs, all_consts):
        first = [Var(a) for a in avals]
        for v, x in zip(closed.jaxpr.invars, own):
            first[places[id(x)]] = v
        merged.append(ClosedJaxpr(closed.jaxpr.replace(invars=[*first, *closed.jaxpr.invars[len(own):]]), closed.consts))
    return merged, consts


@transformation_with_aux2
def batch_subtrace(f: Callable, store: Any, tag: Any, axis_data: Any, in_dims: Any, *values: Any) -> tuple:
    """Transforms a function of flat elements into one of batches; the dimensions of its results are read when it has run."""
    dims = in_dims() if callable(in_dims) else in_dims
    results, out_dims = batch_flat(f, values, dims, axis_data.size, axis_data.name, axis_data.spmd_name)
    store.store(tuple(out_dims))
    return tuple(results)


def make_iota(axis_size: int) -> Any:
    """The numbers of the elements."""
    return iota(np.int32, axis_size)


def to_elt(trace: BatchTrace, get_idx: Callable, x: Any, spec: Any) -> Any:
    """An element of a batch in the trace that maps over it; `spec` says along which axis. `get_idx` is not needed."""
    return element(trace, x, spec) if is_vmappable(x) else trace.wrap(x, spec)


# Pytrees

tracing_registry = tree.default_registry


def prefix_errors(prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None
                  ) -> list[Callable[[str], ValueError]]:
    """For each place where one tree is no prefix of another, what makes the error of it from the name of the argument."""
    def error_at(path: tuple, what: str) -> Callable[[str], ValueError]:
        return lambda name: ValueError(f"{name} is no tree prefix: at key path {name}{tree.keystr(path)} {what}.")

    return [error_at(*found) for found in tree.mismatches((), prefix_tree, full_tree, is_leaf)]


def backends_are_initialized() -> bool:
    """Whether a client of devices has been started: settings about them come too late then."""
    return bool(clients.started)


def is_cuda_compute_capability_at_least(capability: str) -> bool:
    """Whether the devices are NVIDIA GPUs of this generation, as in "9.0", or a later one."""
    found = getattr(backends.devices()[0], "compute_capability", "")
    return found[:1].isdigit() and [int(n) for n in found.split(".")] >= [int(n) for n in capability.split(".")]


_CLOSE = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-6, "complex64": 1e-6, "float64": 1e-15, "complex128": 1e-15}


def check_close(xs: Any, ys: Any, atol: float | dict | None = None, rtol: float | dict | None = None,
                err_msg: str = "") -> None:
    """Assert that two pytrees of arrays are equal, up to what the coarser of two dtypes can tell apart, or to tolerances, which
    may be given by dtype."""
    def compare(x, y):
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape, f"shapes {x.shape} and {y.shape} differ. {err_msg}"
        names = [dtypes.canonicalize_dtype(z.dtype).name for z in (x, y)]

        def tolerance(given):
            if given is not None and not isinstance(given, dict):
                return given
            table = _CLOSE | {dtypes.dtype(d).name: value for d, value in (given or {}).items()}
            return max([table.get(name, 0.0) for name in names])

        inexact = any([name in _CLOSE for name in names])
        wide = [z.astype(np.complex128 if dtypes.is_complex(z.dtype) else np.float64) if inexact else z for z in (x, y)]
        np.testing.assert_allclose(*wide, atol=tolerance(atol), rtol=tolerance(rtol), err_msg=err_msg)

    tree.map(compare, xs, ys)


# Sequences


def safe_zip(*columns: Iterable) -> list[tuple]:
    """As `zip` of sequences that must be equally long."""
    return list(zip(*columns, strict=True))


def split_list(args: Sequence, ns: Sequence[int]) -> list[list]:
    """Cut into pieces of these lengths, and the rest."""
    rest, pieces = list(args), []
    for n in ns:
        pieces.append(rest[:n])
        rest = rest[n:]
    return [*pieces, rest]


def unzip2(xys: Iterable[tuple[Any, Any]]) -> tuple[tuple, tuple]:
    """The first and the second of each pair."""
    pairs = list(xys)
    return tuple(x for x, _ in pairs), tuple(y for _, y in pairs)


# Functions


def infer_argnums_and_argnames(sig: inspect.Signature, argnums: int | Iterable[int] | None, argnames: str | Iterable[str] | None
                               ) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Arguments by position and by name, either completed from the other where only one is given."""
    nums = () if argnums is None else (argnums,) if isinstance(argnums, int) else tuple(argnums)
    found = () if argnames is None else (argnames,) if isinstance(argnames, str) else tuple(argnames)
    positions = [(n, p.name) for n, p in enumerate(sig.parameters.values()) if p.kind is p.POSITIONAL_OR_KEYWORD]
    if argnames is None:
        found = tuple(name for n, name in positions if n in nums)
    elif argnums is None:
        nums = tuple(n for n, name in positions if name in found)
    return nums, found


def wrap_name(transform_name: str, name: str) -> str:
    return f"{transform_name}({name})"


class HashableFunction:
    """A function that is equal to another of the same code and closure."""

    def __init__(self, f: Callable, closure: Any):
        self.f, self.closure = f, closure
        self._what_it_does = f.__code__, closure

    def __call__(self, *args, **kwargs):
        return self.f(*args, **kwargs)

    def __eq__(self, other):
        return isinstance(other, HashableFunction) and self._what_it_does == other._what_it_does

    def __hash__(self):
        return hash(self._what_it_does)


class HashablePartial:
    """As `functools.partial`; equal to another of the same code and arguments."""

    def __init__(self, f: Callable, *args, **kwargs):
        self.f, self.args, self.kwargs = f, args, kwargs

    def __call__(self, *args, **kwargs):
        return self.f(*self.args, *args, **self.kwargs | kwargs)

    def _what_it_does(self):
        return getattr(self.f, "__code__", self.f), self.args, tuple(sorted(self.kwargs.items()))

    def __eq__(self, other):
        return type(other) is HashablePartial and self._what_it_does() == other._what_it_does()

    def __hash__(self):
        return hash(self._what_it_does())


def _giving_arrays(promote: Callable) -> Callable:
    """Here numbers stay numbers where they can; libraries ask the results for shapes and dtypes."""
    return functools.wraps(promote)(lambda *args: [as_array(x) for x in promote(*args)])


@_giving_arrays
def promote_dtypes_complex(*args):
    """The arguments at the complex dtype that holds them all."""
    d, weak = dtypes.lattice_result_type(*args)
    return [as_type(x, dtypes.to_complex(dtypes.to_inexact(d)), weak) for x in args]


promote_dtypes, promote_dtypes_inexact, promote_args, promote_args_inexact = map(_giving_arrays, (
    promotion.promote_dtypes, promotion.promote_dtypes_inexact, promotion.promote_args, promotion.promote_args_inexact))


def canonicalize_sharding(sharding: Any, api_name: str, check_mesh_consistency: bool = True) -> NamedSharding | None:
    """What `out_sharding` says, as types say it: over an abstract mesh, None where nothing is said."""
    if not check_mesh_consistency and isinstance(sharding, NamedSharding):
        return sharding
    found = named_sharding(sharding, api_name)
    return found and NamedSharding(found.mesh.abstract_mesh, found.spec)


def weakref_lru_cache(f: Callable | None = None, *, maxsize: int | None = 2048, trace_context_in_key: bool = True,
                      explain: Callable | None = None) -> Callable:
    """Remember a function's results as long as their first arguments live, the last `maxsize` of each."""
    if f is None:
        return functools.partial(weakref_lru_cache, maxsize=maxsize, trace_context_in_key=trace_context_in_key, explain=explain)
    results: weakref.WeakKeyDictionary[Any, Callable] = weakref.WeakKeyDictionary()

    @functools.wraps(f)
    def cached(first, *args, **kwargs):
        found = results.get(first)
        if found is None:
            reference = weakref.ref(first)
            found = results[first] = functools.lru_cache(maxsize)(lambda *args, **kwargs: f(reference(), *args, **kwargs))
        return found(*args, **kwargs)

    cached.cache_clear = results.clear  # type: ignore[attr-defined]
    return cached
