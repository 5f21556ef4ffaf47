"""Primitives on the component arrays of sparse arrays, made from functions that are linear in their values.

A sparse operation reads, multiplies and adds values at positions given by index arrays. It is linear in each array of values,
so its rules follow from the function that computes it: the JVP is the operation on the tangent, the transpose is that of the
function, and a batch is the function under vmap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.api.derivatives import linear_transpose
from xlafront.api.vmap import vmap
from xlafront.base import config
from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.basic_primitives import add_any_p
from xlafront.core.bounded_cache import BoundedCache
from xlafront.core.ir import Jaxpr
from xlafront.core.primitive import Primitive
from xlafront.core.tangents import instantiate
from xlafront.core.zeros import Zero, is_undefined
from xlafront.numpy.manipulation import broadcast_to
from xlafront.numpy.promotion import promotes_freely
from xlafront.staging.jit import jit
from xlafront.transforms.batching.vmap import batch_flat

_jaxprs = BoundedCache(2048)
_kernels = BoundedCache(1024)


def _results(function: Callable, params: dict[str, Any]) -> Callable:
    """Return the function of arrays alone, which returns a list of results."""
    @promotes_freely
    def run(*arrays):
        results = function(*arrays, **params)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    return run


def _jaxpr_of(function: Callable, avals: tuple, params: dict[str, Any]) -> Jaxpr:
    """Return the jaxpr of the function for these types. It is traced once for abstract evaluation and lowering."""
    key = (function, avals, tuple(params.items()), config.trace_context_key())
    jaxpr = _jaxprs.get(key)
    return jaxpr if jaxpr is not None else _jaxprs.put(key, tracing.trace_to_closed_jaxpr(_results(function, params), avals))


def _compiled(function: Callable, params: dict[str, Any]) -> Callable:
    """Return the jitted function with these parameters."""
    key = (function, tuple(params.items()))
    compiled = _kernels.get(key)
    return compiled if compiled is not None else _kernels.put(key, jit(_results(function, params)))


def _hashable(x: Any) -> Any:
    """Return a static argument in a hashable form."""
    return tuple(map(_hashable, x)) if isinstance(x, (list, range)) else x


@promotes_freely
def call_jitted(function: Callable, /, *operands: Any, **params: Any) -> Any:
    """Call `function(*operands, **params)` on pytrees of arrays, jitted unless a transformation is active."""
    if tracing.is_tracing():
        return function(*operands, **params)
    key = ("at once", function, *params.items())
    compiled = _kernels.get(key)
    if compiled is None:
        compiled = _kernels.put(key, jit(functools.partial(function, **params)))
    return compiled(*operands)


def jitted(function: Callable) -> Callable:
    """Decorate a function of a sparse array, its first argument, and static arguments.

    It is jitted unless a transformation is active.
    """
    @promotes_freely
    @functools.wraps(function)
    def run(operand, *static, **kwargs):
        if tracing.is_tracing():
            return function(operand, *static, **kwargs)
        return call_jitted(_with_static, tuple(operand) if isinstance(operand, list) else operand, function=function,
                       static=_hashable(static), named=tuple((name, _hashable(x)) for name, x in kwargs.items()))

    return run


def _with_static(operand: Any, *, function: Callable, static: tuple, named: tuple) -> Any:
    return function(operand, *static, **dict(named))


def _sum(terms: Sequence[Any], aval: ShapedArray) -> Any:
    total = Zero(aval.to_tangent_aval())
    for term in terms:
        total = term if type(total) is Zero else add_any_p.bind(total, term)
    return total


def _is_value(aval: ShapedArray) -> bool:
    return dtypes.is_inexact(aval.dtype)


def linear_primitive(name: str, function: Callable, linear: Sequence[int], *, multiple_results: bool = False,
                     jvp: Callable | None = None, transpose: Callable | None = None, on_cpu: Callable | None = None,
                     to_transpose: Callable | None = None) -> Primitive:
    """Make a primitive that computes `function(*arrays, **params)`.

    Args:
        name: Name of the primitive in jaxprs.
        function: Function that computes the results.
        linear: Operands in each of which the floating results are linear. The others are indices.
        multiple_results: True if the function returns several arrays.
        jvp: JVP rule, if it is not the sum of the operation over the tangents.
        transpose: Transpose rule, if it is not the transpose of the function.
        on_cpu: `on_cpu(avals, **params)` returns a function that lowerings for a single CPU use instead, or None.
        to_transpose: `to_transpose(index, avals, **params)` returns an equivalent function whose transpose with respect to
            operand `index` is faster, or None.
    """
    def abstract(*avals, **params):
        out_avals = list(_jaxpr_of(function, avals, params).out_avals)
        return out_avals if multiple_results else out_avals[0]

    def lower(ctx, *operands, **params):
        avals = tuple([a.update(vma=frozenset()) if a.vma else a for a in ctx.avals_in])
        module, replacement = ctx.body.module, None
        if on_cpu is not None and ctx.platform == "cpu" and module.num_partitions == 1 and not module.target.for_export:
            replacement = on_cpu(avals, **params)
        results = ctx.inline(_jaxpr_of(replacement or function, avals, params), operands)
        return results if multiple_results else results[0]

    def bind(operands, params) -> list:
        results = primitive.bind(*operands, **params)
        return list(results) if multiple_results else [results]

    def derivative(primals, tangents, **params):
        results = bind(primals, params)
        avals = [tracing.aval_of(x) for x in results]
        terms = [bind([instantiate(tangents[i]) if j == i else x for j, x in enumerate(primals)], params)
                 for i in linear if type(tangents[i]) is not Zero]
        out = [_sum([term[k] for term in terms], aval) if _is_value(aval) else Zero(aval.to_tangent_aval())
               for k, aval in enumerate(avals)]
        return (results, out) if multiple_results else (results[0], out[0])

    def transpose_function(cotangents, *operands, **params):
        [index] = [i for i, x in enumerate(operands) if is_undefined(x)]
        aval = operands[index].aval
        avals = [aval if i == index else tracing.aval_of(x) for i, x in enumerate(operands)]
        equivalent = to_transpose and to_transpose(index, avals, **params) or function
        cts_in = list(cotangents) if multiple_results else [cotangents]

        def transposed(*known_and_cts):
            known, cts = known_and_cts[:len(operands) - 1], known_and_cts[len(operands) - 1:]

            def of_operand(x):
                results = _results(equivalent, params)(*known[:index], x, *known[index:])
                return [y for y in results if _is_value(tracing.aval_of(y))]

            return linear_transpose(of_operand, aval)(list(cts))

        cts = [instantiate(ct) for ct in cts_in if _is_value(ct.aval if type(ct) is Zero else tracing.aval_of(ct))]
        known = [x for i, x in enumerate(operands) if i != index]
        [ct] = _compiled_transpose(equivalent, index, aval, params, transposed)(*known, *cts)
        return [ct if i == index else None for i in range(len(operands))]

    def batch(size, values, dims, **params):
        results, out_dims = batch_flat(_compiled(function, params), values, dims, size)
        return (results, out_dims) if multiple_results else (results[0], out_dims[0])

    primitive = Primitive(name, abstract=abstract, lower=lower, jvp=jvp or derivative, batch=batch,
                          transpose=transpose or transpose_function, multiple_results=multiple_results)
    return primitive


def _compiled_transpose(function: Callable, index: int, aval: ShapedArray, params: dict[str, Any],
                        transpose: Callable) -> Callable:
    """Return the jitted transpose, cached by operation, parameters and operand type."""
    key = ("transpose", function, index, aval, tuple(params.items()))
    compiled = _kernels.get(key)
    return compiled if compiled is not None else _kernels.put(key, jit(transpose))


def fromdense_jvp(make: Callable, extract: Callable) -> Callable:
    """Make the JVP rule of an operation that converts a dense array to `(values, *indices)`.

    Args:
        make: The operation.
        extract: `extract(components, array)` returns the values of another array at the positions of `components`.
    """
    def rule(primals, tangents, **params):
        [mat], [tangent] = primals, tangents
        components = make(mat, **params)
        zeros = [Zero(tracing.aval_of(x).to_tangent_aval()) for x in components]
        return list(components), zeros if type(tangent) is Zero else [extract(components, tangent), *zeros[1:]]

    return rule


def map_batches(function: Callable, n_batch: int) -> Callable:
    """Map a function of arrays without batch dimensions over `n_batch` leading ones.

    Arrays of batch size 1 are shared by the whole batch.
    """
    if n_batch == 0:
        return function

    def mapped(*arrays):
        sizes = {x.shape[0] for x in arrays}
        size = next(iter(sizes - {1}), 1)
        shared = [x.shape[0] == 1 and size != 1 for x in arrays]
        inner = map_batches(function, n_batch - 1)
        return vmap(inner, tuple([None if is_shared else 0 for is_shared in shared]), axis_size=size)(
            *[x[0] if is_shared else x for x, is_shared in zip(arrays, shared)])

    return mapped


def broadcast_to_batch(x: Any, batch: Sequence[int]) -> Any:
    """Broadcast an array to a batch of this shape."""
    return broadcast_to(x, (*batch, *x.shape))
