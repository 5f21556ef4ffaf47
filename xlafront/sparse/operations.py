"""Operations on the arrays that a sparse array consists of: primitives made of functions that are linear in their values.

A sparse operation moves, multiplies and adds values to and from places that arrays of indices give. It is linear in each array
of values, so that its rules follow from the function that computes it: the derivative is the operation at the tangent, the
transpose that of the function, and a batch the function mapped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import dtypes, tracing
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import ClosedJaxpr
from xlafront.core.memo import Memo
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero, is_undefined
from xlafront.lax.families import add_any_p
from xlafront.lax.zeros import instantiate
from xlafront.numpy.manipulation import broadcast_to
from xlafront.runtime import config
from xlafront.staging.jit import jit
from xlafront.transforms.ad.derivatives import linear_transpose
from xlafront.transforms.batching.vmap import batch_flat, vmap

_programs = Memo(2048)
_kernels = Memo(1024)


def _results(function: Callable, params: dict[str, Any]) -> Callable:
    """The function of arrays alone, with a sequence of results."""
    def run(*arrays):
        found = function(*arrays, **params)
        return list(found) if isinstance(found, (tuple, list)) else [found]

    return run


def _program(function: Callable, avals: tuple, params: dict[str, Any]) -> ClosedJaxpr:
    """What the function does to arrays of these types; traced once for its type and its lowering."""
    key = (function, avals, tuple(params.items()), config.trace_context_key())
    found = _programs.get(key)
    return found if found is not None else _programs.keep(key, tracing.trace_to_closed_jaxpr(_results(function, params), avals))


def _compiled(function: Callable, params: dict[str, Any]) -> Callable:
    """The function with these parameters, as one program where it is called."""
    key = (function, tuple(params.items()))
    found = _kernels.get(key)
    return found if found is not None else _kernels.keep(key, jit(_results(function, params)))


def _fixed(x: Any) -> Any:
    """A static argument as one that can be a key."""
    return tuple(map(_fixed, x)) if isinstance(x, (list, range)) else x


def at_once(function: Callable, /, *operands: Any, **params: Any) -> Any:
    """`function(*operands, **params)` of pytrees of arrays: outside of transformations as one compiled program."""
    if tracing.is_tracing():
        return function(*operands, **params)
    key = ("at once", function, *params.items())
    found = _kernels.get(key)
    if found is None:
        found = _kernels.keep(key, jit(functools.partial(function, **params)))
    return found(*operands)


def one_program(function: Callable) -> Callable:
    """A function of sparse arrays, its first argument, and of static ones: outside of transformations one compiled program."""
    @functools.wraps(function)
    def run(operand, *static, **named):
        if tracing.is_tracing():
            return function(operand, *static, **named)
        return at_once(_with_static, tuple(operand) if isinstance(operand, list) else operand, function=function,
                       static=_fixed(static), named=tuple((name, _fixed(x)) for name, x in named.items()))

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


def operation(name: str, function: Callable, linear: Sequence[int], *, multiple_results: bool = False,
              jvp: Callable | None = None, on_cpu: Callable | None = None, to_transpose: Callable | None = None) -> Primitive:
    """A primitive that computes `function(*arrays, **params)`.

    - `name`: under which programs show it.
    - `linear`: the operands in each of which the results of floating dtype are linear; the others are indices.
    - `multiple_results`: whether the function returns several arrays.
    - `jvp`: the derivative rule, where it is not the sum of the operation at each tangent.
    - `on_cpu`: `on_cpu(avals, **params)` is the function that programs for one CPU call in its place, or None.
    - `to_transpose`: `to_transpose(wanted, avals, **params)` is a function that does the same, and whose transpose with respect
      to operand number `wanted` is faster, or None.
    """
    def abstract(*avals, **params):
        found = list(_program(function, avals, params).jaxpr.out_avals)
        return found if multiple_results else found[0]

    def lower(ctx, *operands, **params):
        avals = tuple([a.update(vma=frozenset()) if a.vma else a for a in ctx.avals_in])
        module, written = ctx.body.module, None
        if on_cpu is not None and ctx.platform == "cpu" and module.num_partitions == 1 and not module.leaves:
            written = on_cpu(avals, **params)
        results = ctx.inline(_program(written or function, avals, params), operands)
        return results if multiple_results else results[0]

    def bind(operands, params) -> list:
        found = primitive.bind(*operands, **params)
        return list(found) if multiple_results else [found]

    def derivative(primals, tangents, **params):
        results = bind(primals, params)
        avals = [tracing.aval_of(x) for x in results]
        moved = [bind([instantiate(tangents[i]) if j == i else x for j, x in enumerate(primals)], params)
                 for i in linear if type(tangents[i]) is not Zero]
        out = [_sum([terms[k] for terms in moved], aval) if _is_value(aval) else Zero(aval.to_tangent_aval())
               for k, aval in enumerate(avals)]
        return (results, out) if multiple_results else (results[0], out[0])

    def transpose(cotangents, *operands, **params):
        [wanted] = [i for i, x in enumerate(operands) if is_undefined(x)]
        aval = operands[wanted].aval
        avals = [aval if i == wanted else tracing.aval_of(x) for i, x in enumerate(operands)]
        same = to_transpose and to_transpose(wanted, avals, **params) or function
        given = list(cotangents) if multiple_results else [cotangents]

        def of_cotangents(*known_and_cotangents):
            known, cts = known_and_cotangents[:len(operands) - 1], known_and_cotangents[len(operands) - 1:]

            def of_one(x):
                found = _results(same, params)(*known[:wanted], x, *known[wanted:])
                return [y for y in found if _is_value(tracing.aval_of(y))]

            return linear_transpose(of_one, aval)(list(cts))

        cts = [instantiate(ct) for ct in given if _is_value(ct.aval if type(ct) is Zero else tracing.aval_of(ct))]
        known = [x for i, x in enumerate(operands) if i != wanted]
        [ct] = _transposed(same, wanted, aval, params, of_cotangents)(*known, *cts)
        return [ct if i == wanted else None for i in range(len(operands))]

    def batch(size, values, dims, **params):
        found, out_dims = batch_flat(_compiled(function, params), values, dims, size)
        return (found, out_dims) if multiple_results else (found[0], out_dims[0])

    primitive = Primitive(name, abstract=abstract, lower=lower, jvp=jvp or derivative, transpose=transpose, batch=batch,
                          multiple_results=multiple_results)
    return primitive


def _transposed(function: Callable, wanted: int, aval: ShapedArray, params: dict[str, Any], transpose: Callable) -> Callable:
    """The transpose as one program, kept for the operation, its parameters and the operand's type."""
    key = ("transpose", function, wanted, aval, tuple(params.items()))
    found = _kernels.get(key)
    return found if found is not None else _kernels.keep(key, jit(transpose))


def fromdense_jvp(make: Callable, extract: Callable) -> Callable:
    """The derivative rule of an operation that makes `(values, *indices)` of a dense array.

    - `make`: the operation. `extract(parts, array)`: the values of another array at the places of `parts`.
    """
    def rule(primals, tangents, **params):
        [mat], [moved] = primals, tangents
        parts = make(mat, **params)
        zeros = [Zero(tracing.aval_of(x).to_tangent_aval()) for x in parts]
        return list(parts), zeros if type(moved) is Zero else [extract(parts, moved), *zeros[1:]]

    return rule


def over_batches(function: Callable, n_batch: int) -> Callable:
    """A function of arrays without batch dimensions, over `n_batch` leading ones; those of size one go with all others."""
    if n_batch == 0:
        return function

    def mapped(*arrays):
        sizes = {x.shape[0] for x in arrays}
        size = next(iter(sizes - {1}), 1)
        shared = [x.shape[0] == 1 and size != 1 for x in arrays]
        inner = over_batches(function, n_batch - 1)
        return vmap(inner, tuple([None if alone else 0 for alone in shared]), axis_size=size)(
            *[x[0] if alone else x for x, alone in zip(arrays, shared)])

    return mapped


def broadcast_to_batch(x: Any, batch: Sequence[int]) -> Any:
    """The same array for each element of a batch of this shape."""
    return broadcast_to(x, (*batch, *x.shape))
