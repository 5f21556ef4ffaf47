"""Differentiation: `jvp`, `linearize`, `vjp`, `grad` and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import avals, dtypes, errors, tracing, tree
from xlafront.core.refs import AbstractRef, RefTangent
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.device_put import put_leaf
from xlafront.runtime.arrays import ArrayImpl
from xlafront.staging import signatures
from xlafront.staging.jit import jit_p
from xlafront.transforms.ad.core import (
    instantiate,
    jvp_flat,
    jvp_program,
    linearize_flat,
    linearize_program,
    transpose_program,
    zeros_array,
)
from xlafront.transforms.ad.eager_pullback import pull_back


class _Flat:
    """A function of pytrees as one of flat lists; remembers the structure of what it returned."""

    __slots__ = ("fun", "in_tree", "kwargs", "out_tree", "has_aux", "aux")

    def __init__(self, fun: Callable, in_tree, has_aux: bool = False, kwargs: dict | None = None):
        self.fun, self.in_tree, self.has_aux = fun, in_tree, has_aux
        self.kwargs = kwargs or {}
        self.out_tree = self.aux = None

    def __call__(self, *leaves):
        result = self.fun(*self.in_tree.unflatten(leaves), **self.kwargs)
        if self.has_aux:
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise TypeError(f"with has_aux, {signatures.function_name(self.fun)} must return a pair of the result and "
                                f"auxiliary data, got {errors.short(result)}.")
            result, self.aux = result
        flat, self.out_tree = signatures.check_results(self.fun, result)
        return flat


def _strip(x):
    """Auxiliary data without the tracers of a differentiation that has ended."""
    from xlafront.transforms.ad.core import JVPTracer

    def value(leaf):
        while type(leaf) is JVPTracer and not leaf._trace.alive:
            leaf = leaf.primal
        return leaf

    return tree.map(value, x)


def _check_arrays(name: str, fun, args) -> list[Any]:
    leaves = tree.leaves(args)
    for i, x in enumerate(leaves):
        if not tracing.is_arraylike(x):
            raise errors.not_an_array(x, f"{name} of {signatures.function_name(fun)}", tree.path_of(args, i))
    return [tracing.as_operand(x) for x in leaves]


def _array(x):
    """A result as an array, where differentiation found it to be a constant."""
    if isinstance(x, (ArrayImpl, tracing.Tracer)) or isinstance(x, np.ndarray) and x.dtype == dtypes.float0:
        return x
    return put_leaf(x, None)


def _as_derivatives(tangents, values) -> list[Any]:
    """Derivatives as arrays; those of weakly typed values weakly typed."""
    return [_weak_as(_array(instantiate(t)), aval) for t, aval in zip(tangents, values)]


def _weak_as(x, aval):
    """A tangent or cotangent as weakly typed as what it belongs to."""
    if not aval.weak_type or getattr(x, "dtype", None) == dtypes.float0 or tracing.aval_of(x).weak_type:
        return x
    from xlafront.lax.elementwise import convert_element_type_p

    return convert_element_type_p.bind(x, new_dtype=aval.dtype, weak_type=True, sharding=None)


def _with_dtype(x, aval):
    """The type of a tangent or cotangent that a user gave, and the value, for a number with the dtype it belongs to."""
    given = tracing.aval_of(x)
    if type(x) in dtypes.python_scalar_dtypes and given.dtype == aval.dtype:
        return given, x if aval.weak_type else np.asarray(x).astype(aval.dtype)[()]
    return given, x


# Forward mode


@boundary
def jvp(fun: Callable, primals, tangents, has_aux: bool = False):
    """The value of a function and its derivative in a direction: `(fun(*primals), directional derivative)`.

    `tangents` has the structure, shapes and (for numbers) dtypes of `primals`. With `has_aux` the function returns a
    pair of which the second is passed through, as a third result.

    >>> jvp(xnp.sin, (0.0,), (1.0,))
    (0.0, 1.0)
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(f"jvp takes primals and tangents as tuples of arguments, got {type(primals).__name__} and "
                        f"{type(tangents).__name__}.")
    values = _check_arrays("jvp", fun, tuple(primals))
    in_tree, tangent_tree = tree.structure(tuple(primals)), tree.structure(tuple(tangents))
    if in_tree != tangent_tree:
        raise TypeError(f"jvp needs tangents with the structure of the primals: "
                        f"{tree.first_difference(tuple(primals), tuple(tangents))}")
    directions = tree.leaves(tuple(tangents))
    checked = [_tangent(tracing.aval_of(p), t, lambda i=i: tree.path_of(tuple(primals), i))
               for i, (p, t) in enumerate(zip(values, directions))]
    flat = _Flat(fun, in_tree, has_aux)
    results, out_tangents = jvp_flat(flat, values, checked)
    for direction, t in zip(directions, checked):
        if type(t) is RefTangent:
            _refs().set(direction, ..., instantiate(t.value))
    out = (flat.out_tree.unflatten([_array(x) for x in results]),
           flat.out_tree.unflatten(_as_derivatives(out_tangents, map(tracing.aval_of, results))))
    return (*out, _strip(flat.aux)) if has_aux else out


def _tangent(aval, tangent, path: Callable[[], str]):
    """A tangent that fits a primal of this type; `Zero` for integers. That of a reference is a reference."""
    expected = aval.to_tangent_aval()
    if type(aval) is AbstractRef:
        if not _refs().is_ref(tangent):
            raise TypeError(f"the tangent of a reference is a reference, which changes as the other does: argument {path()} is "
                            f"{aval}, its tangent {errors.short(tangent)}. Give new_ref(tangent).")
        held = _tangent(aval.inner_aval, _refs().get(tangent), path)
        return held if type(held) is Zero else RefTangent(held)
    if isinstance(tangent, np.ndarray) and tangent.dtype == dtypes.float0:
        given_dtype, given_shape = dtypes.float0, tangent.shape
    else:
        given, tangent = _with_dtype(tangent, expected)
        given_dtype, given_shape = given.dtype, given.shape
    if given_shape != expected.shape:
        raise ValueError(f"a tangent must have the shape of its primal: argument {path()} has shape {expected.shape}, its "
                         f"tangent {given_shape}.")
    if given_dtype != expected.dtype:
        raise TypeError(f"a tangent must have the dtype of its primal (float0 for integers): argument {path()} is {aval}, its "
                        f"tangent has dtype {given_dtype}, which should be {expected.dtype}.")
    return Zero(expected) if expected.dtype == dtypes.float0 else _weak_as(tangent, expected)


@boundary
def linearize(fun: Callable, *primals, has_aux: bool = False):
    """The value of a function and, as a function, its derivative at this point.

    The derivative can be applied to many tangents without evaluating the function again.

    >>> y, f_jvp = linearize(xnp.sin, 0.5)
    >>> f_jvp(1.0)
    """
    values = _check_arrays("linearize", fun, primals)
    in_tree = tree.structure(primals)
    flat = _Flat(fun, in_tree, has_aux)
    results, program = linearize_flat(flat, values, [True] * len(values))
    derivative = _Derivative(program, in_tree, flat.out_tree, signatures.function_name(fun))
    out = flat.out_tree.unflatten([_array(x) for x in results])
    return (out, derivative, _strip(flat.aux)) if has_aux else (out, derivative)


# Reverse mode


@boundary
def vjp(fun: Callable, *primals, has_aux: bool = False, reduce_axes=()):
    """The value of a function and, as a function, the pullback of cotangents: `(fun(*primals), f_vjp)`.

    `f_vjp(ct)` returns a tuple with a cotangent for each argument.

    >>> y, f_vjp = vjp(xnp.sin, 0.5)
    >>> f_vjp(1.0)
    """
    values = _check_arrays("vjp", fun, primals)
    in_tree = tree.structure(primals)
    flat = _Flat(fun, in_tree, has_aux)
    results, program = linearize_flat(flat, values, [True] * len(values))
    pullback = _Pullback(program, in_tree, flat.out_tree, signatures.function_name(fun))
    out = flat.out_tree.unflatten([_array(x) for x in results])
    return (out, pullback, _strip(flat.aux)) if has_aux else (out, pullback)


def _refs():
    from xlafront.lax import refs  # start-up: few programs have references

    return refs


class _AtAPoint:
    """The derivative of a function at a point, with the structures of arguments and results. A pytree of its residuals."""

    __slots__ = ("program", "in_tree", "out_tree", "name")

    def __init__(self, program, in_tree, out_tree, name):
        self.program, self.in_tree, self.out_tree, self.name = program, in_tree, out_tree, name


class _Derivative(_AtAPoint):
    """What `linearize` returns: maps tangents of the arguments to that of the result."""

    __slots__ = ()

    @boundary
    def __call__(self, *tangents):
        leaves, structure = tree.flatten(tangents)
        if structure != self.in_tree:
            raise TypeError(f"the derivative of {self.name} takes tangents with the structure of the arguments, "
                            f"{self.in_tree}; it was given {structure}.")
        checked = [_tangent(aval, t, lambda i=i: tree.path_of(tangents, i))
                   for i, (aval, t) in enumerate(zip(self.program.in_avals, leaves))]
        checked = [t.value if type(t) is RefTangent else t for t in checked]
        return self.out_tree.unflatten(_as_derivatives(self.program.apply(checked), self.program.out_avals))


class _Pullback(_AtAPoint):
    """What `vjp` returns: maps a cotangent of the result to those of the arguments."""

    __slots__ = ()

    def with_refs(self, *refs):
        """The same function, adding cotangents to references in place of returning them.

        `refs` has an entry for each argument, as a pytree like the arguments: a reference, to which the cotangent is added; or
        anything else, for a cotangent that is returned. Where an argument was a reference, it must be one.

        >>> total = new_ref(0.0)
        >>> vjp(xnp.sin, 0.5)[1].with_refs(total)(1.0)
        (GradRef(),)
        """
        entries, structure = tree.flatten(refs)
        if structure != self.in_tree:
            raise ValueError(f"with_refs of the vjp of {self.name} takes an entry for each argument, a reference or a "
                             f"placeholder that is not None, in the structure of the arguments, {self.in_tree}; it was given "
                             f"{structure}.")

        @boundary
        def pullback(cotangent, *others):
            return self._pulled_back(cotangent, others, entries)

        return pullback

    @boundary
    def __call__(self, cotangent, *others):
        return self._pulled_back(cotangent, others, ())

    def _pulled_back(self, cotangent, others, refs):
        if others:
            raise TypeError(f"the vjp of {self.name} takes one cotangent, a pytree like its result {self.out_tree}; it was "
                            f"given {1 + len(others)} arguments.")
        leaves, structure = tree.flatten(cotangent)
        if structure != self.out_tree:
            raise ValueError(f"the cotangent given to the vjp of {self.name} must have the structure of its result, "
                             f"{self.out_tree}; it has {structure}.")
        checked = []
        for i, (ct, aval) in enumerate(zip(leaves, self.program.out_avals)):
            checked.append(_cotangent(ct, aval, self.name, lambda i=i: tree.path_of(cotangent, i)))
        refs = [x if type(getattr(x, "aval", None)) is AbstractRef else None for x in refs] or [None] * self.in_tree.num_leaves
        for i, (aval, ref) in enumerate(zip(self.program.in_avals, refs)):
            if type(aval) is AbstractRef and ref is None:
                raise ValueError(f"the vjp of {self.name} was not told where to add the cotangent of its argument number {i}, "
                                 f"a reference of type {aval}. Give it a reference: f_vjp.with_refs(new_ref(xnp.zeros(...)), "
                                 "...)(ct).")
        found = [_array(ct) for ct in pull_back(self.program, checked)]
        for i, ref in enumerate(refs):
            if ref is not None:
                _refs().addupdate(ref, ..., found[i])
                found[i] = GradRef()
        return self.in_tree.unflatten(found)


class GradRef:
    """In place of a cotangent that has been added to a reference."""

    def __repr__(self):
        return "GradRef()"


def _cotangent(ct, aval, name, path, error: type[Exception] = ValueError):
    if aval.dtype == dtypes.float0:
        return Zero(aval)
    given, ct = _with_dtype(ct, aval)
    if given.shape != aval.shape or given.dtype != aval.dtype:
        raise error(f"the cotangent given to the vjp of {name} must have the type of its result: result{path()} is "
                    f"{aval}, the cotangent {given}.")
    return ct


def _register(kind: type[_AtAPoint]) -> None:
    def flatten(f):
        program = f.program
        fixed = _Fixed((program.inputs, program.outputs, program.in_avals, program.out_avals))
        return tuple(program.consts), (program.jaxpr, fixed, f.in_tree, f.out_tree, f.name)

    def unflatten(static, consts):
        from xlafront.transforms.ad.core import LinearProgram

        jaxpr, rest, in_tree, out_tree, name = static
        return kind(LinearProgram(jaxpr, list(consts), *rest), in_tree, out_tree, name)

    tree.register_pytree_node(kind, flatten, unflatten)


_register(_Derivative)
_register(_Pullback)


class _Fixed(tuple):
    """Static data that compares by identity of its parts' contents."""

    def __hash__(self):
        return hash(tuple(map(tuple, self)))


def grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
         allow_int: bool = False, reduce_axes: Sequence[Any] = ()) -> Callable:
    """The gradient of a scalar function, as a function of the same arguments.

    - `argnums`: the position of the argument to differentiate in, or several (then the result is a tuple).
    - `has_aux`: `fun` returns a pair; the result is `(gradient, second)`.
    - `holomorphic`: complex derivative of a complex function.
    - `allow_int`: integer arguments get gradients of dtype float0 instead of an error.

    >>> grad(lambda w, x: xnp.sum((w * x) ** 2))(2.0, xnp.arange(3.0))
    """
    with_value = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    def gradient(*args, **kwargs):
        value, result = with_value(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return _dressed(gradient, fun, "grad")


def value_and_grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
                   allow_int: bool = False, reduce_axes: Sequence[Any] = ()) -> Callable:
    """As `grad`, returning the value too: `(value, gradient)`, or `((value, aux), gradient)` with `has_aux`."""
    if not callable(fun):
        raise TypeError(f"grad takes a function, got {type(fun).__name__}: {fun!r}")
    chosen = _argnums("grad", argnums)
    name = signatures.function_name(fun)

    @boundary
    def with_gradient(*args, **kwargs):
        positions = _positions("grad", name, chosen, args)
        dynamic = tuple(args[i] for i in positions)
        values = _check_arrays("grad", fun, dynamic)
        for i, x in enumerate(values):
            _check_input("grad", name, x, lambda i=i: f"{positions[0]}" if len(values) == 1 else (
                _argument_path(positions, dynamic, i)), holomorphic, allow_int)

        def partial(*chosen_args):
            full = list(args)
            for i, x in zip(positions, chosen_args):
                full[i] = x
            return fun(*full, **kwargs)

        partial.__name__ = name
        flat = _Flat(partial, tree.structure(dynamic), has_aux)
        results, program = linearize_flat(flat, values, [True] * len(values))
        value = flat.out_tree.unflatten([_array(x) for x in results])
        _check_scalar(name, value, results, flat.out_tree, holomorphic)
        aval = tracing.aval_of(results[0])
        gradient = flat.in_tree.unflatten([_array(ct) for ct in pull_back(program, [_one(aval)])])
        if isinstance(argnums, int) or hasattr(argnums, "__index__"):
            gradient = gradient[0]
        return ((value, _strip(flat.aux)) if has_aux else value), gradient

    return _dressed(with_gradient, fun, "value_and_grad")


def _one(aval):
    """The cotangent of a scalar itself, as weakly typed as the scalar."""
    one = aval.dtype.type(1)
    return one.item() if aval.weak_type and aval.dtype in map(dtypes.default_dtype, (float, complex)) else one


def fwd_and_bwd(fun: Callable, argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
                ) -> tuple[Callable, Callable]:
    """Two functions for the two passes of reverse mode: `fwd(*args) -> (value, residuals)`, `bwd(residuals, ct) -> grads`.

    The residuals are a pytree of arrays, so that the passes can be compiled and run apart. With `has_aux` the first gives
    `(value, residuals, aux)`. An `argnums` that is an integer gives one gradient, a sequence a tuple.

    >>> fwd, bwd = fwd_and_bwd(xnp.sin, 0)
    >>> y, residuals = fwd(0.5)
    >>> bwd(residuals, 1.0)
    """
    chosen = _argnums("fwd_and_bwd", argnums)
    name = signatures.function_name(fun)

    def fwd(*args, **kwargs):
        positions = _positions("fwd_and_bwd", name, chosen, args)

        def partial(*values):
            full = list(args)
            for i, x in zip(positions, values):
                full[i] = x
            return fun(*full, **kwargs)

        partial.__name__ = name
        return vjp(partial, *[args[i] for i in positions], has_aux=has_aux)

    def bwd(residuals, cotangent):
        found = residuals(cotangent)
        return found[0] if hasattr(argnums, "__index__") else found

    if jitted:
        from xlafront.staging.jit import jit

        return jit(fwd), jit(bwd)
    return fwd, bwd


def _dressed(function, fun, transform: str):
    name = signatures.function_name(fun)
    function.__name__ = getattr(fun, "__name__", name)
    function.__qualname__ = f"{transform}({name})"
    function.__doc__ = fun.__doc__
    function.__wrapped__ = fun
    return function


def _argnums(transform: str, argnums) -> tuple[int, ...]:
    try:
        if hasattr(argnums, "__index__"):
            return (argnums.__index__(),)
        return tuple(i.__index__() for i in argnums)
    except (TypeError, AttributeError):
        raise TypeError(f"{transform} takes argnums as an integer or a tuple of integers, got {argnums!r}.") from None


def _positions(transform: str, name: str, chosen, args) -> list[int]:
    found = []
    for i in chosen:
        if not -len(args) <= i < len(args):
            error = TypeError if i >= 0 and transform == "grad" else ValueError
            raise error(f"{transform} is to differentiate {name} in positional argument {i} (argnums), but it was called "
                        f"with {len(args)} positional argument(s). Pass the argument by position.")
        found.append(i % len(args))
    return found


def _argument_path(positions, dynamic, i) -> str:
    path = tree.path_of(dynamic, i)
    return f"{positions[0]} at {path}" if len(positions) == 1 else path


def _check_input(transform, name, x, path, holomorphic, allow_int):
    d = tracing.aval_of(x).dtype
    if type(tracing.aval_of(x)) is AbstractRef:
        raise TypeError(f"{transform} of {name} cannot return the gradient in argument {path()}, a reference: it belongs into "
                        f"a reference too. Use vjp: y, f_vjp = vjp({name}, ...), and f_vjp.with_refs(gradient_ref, ...)(1.0).")
    if dtypes.is_extended(d) or dtypes.is_integer(d) or d == dtypes.bool_:
        if not allow_int:
            remedy = "or choose other argnums" if transform == "jacfwd" else "choose other argnums, or pass allow_int=True"
            raise TypeError(f"{transform} of {name} needs arguments of real or complex numbers, but argument {path()} has "
                            f"dtype {d}. Convert it to float, {remedy}.")
    elif holomorphic and not dtypes.is_complex(d):
        raise TypeError(f"{transform} with holomorphic=True needs complex arguments, but argument {path()} of {name} has dtype "
                        f"{d}.")


def _check_scalar(name, value, results, out_tree, holomorphic):
    if out_tree.num_leaves != 1 or out_tree.num_nodes != 1:
        raise TypeError(f"grad needs a function that returns a scalar, but {name} returned a pytree {out_tree}. Return the "
                        f"loss alone, or (loss, aux) with has_aux=True.")
    aval = tracing.aval_of(results[0])
    if aval.shape:
        raise TypeError(f"grad needs a function that returns a scalar, but {name} returned shape {aval.shape}. Reduce it "
                        f"(xnp.sum, xnp.mean), or use jacrev or vjp.")
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(f"grad with holomorphic=True needs a complex result, but {name} returned dtype {aval.dtype}.")
    elif dtypes.is_complex(aval.dtype):
        raise TypeError(f"grad needs a real result, but {name} returned dtype {aval.dtype}. For the complex derivative of a "
                        f"holomorphic function pass holomorphic=True; otherwise use vjp.")
    elif not dtypes.is_float(aval.dtype):
        raise TypeError(f"grad needs a result of a floating dtype, but {name} returned dtype {aval.dtype}.")


# Jacobians


def _basis(aval):
    """The unit vectors of a type, stacked along a new first dimension."""
    from xlafront.numpy.creation import eye

    return eye(aval.size, dtype=aval.dtype).reshape((aval.size, *aval.shape))


def jacfwd(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable:
    """The Jacobian by forward mode, a column for each input: best when there are more results than inputs."""
    return _jacobian("jacfwd", fun, argnums, has_aux, holomorphic, False)


def jacrev(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
           allow_int: bool = False) -> Callable:
    """The Jacobian by reverse mode, a row for each result: best when there are more inputs than results."""
    return _jacobian("jacrev", fun, argnums, has_aux, holomorphic, allow_int)


jacobian = jacrev


def _jacobian(transform, fun, argnums, has_aux, holomorphic, allow_int):
    if not callable(fun):
        raise TypeError(f"{transform} takes a function, got {type(fun).__name__}: {fun!r}")
    chosen = _argnums(transform, argnums)
    name = signatures.function_name(fun)

    @boundary
    def jac(*args, **kwargs):
        from xlafront.transforms.batching.vmap import vmap

        positions = _positions(transform, name, chosen, args)
        dynamic = tuple(args[i] for i in positions)
        values = _check_arrays(transform, fun, dynamic)
        for i, x in enumerate(values):
            _check_input(transform, name, x, lambda i=i: _argument_path(positions, dynamic, i), holomorphic, allow_int)
            if transform == "jacfwd" and not holomorphic and dtypes.is_complex(tracing.aval_of(x).dtype):
                raise TypeError(f"jacfwd of {name} needs real arguments; for the complex derivative of a holomorphic function "
                                f"pass holomorphic=True.")

        def partial(*chosen_args):
            full = list(args)
            for i, x in zip(positions, chosen_args):
                full[i] = x
            return fun(*full, **kwargs)

        in_tree = tree.structure(dynamic)
        flat = _Flat(partial, in_tree, has_aux)
        results, program = linearize_flat(flat, values, [True] * len(values))
        for x in results:
            d = tracing.aval_of(x).dtype
            if holomorphic and not dtypes.is_complex(d):
                raise TypeError(f"{transform} with holomorphic=True needs complex results, but {name} returned dtype {d}.")
            if transform == "jacrev" and not holomorphic and not dtypes.is_float(d):
                raise TypeError(f"jacrev needs real results, but {name} returned dtype {d}. For the complex derivative of a "
                                f"holomorphic function pass holomorphic=True.")
        out_shapes = [np.shape(x) for x in results]
        in_avals, out_avals = program.in_avals, program.out_avals
        blocks: list[list] = [[None] * len(values) for _ in results]
        if transform == "jacfwd":
            for j, aval in enumerate(in_avals):
                def column(t, j=j):
                    tangents = [t if i == j else Zero(a) for i, a in enumerate(in_avals)]
                    results = program.apply([instantiate(t) for t in tangents])
                    return [None if x.aval.dtype == dtypes.float0 else instantiate(x) for x in results]

                columns = vmap(column, out_axes=-1)(_basis(aval))
                for i, block in enumerate(columns):
                    shape = (*out_shapes[i], *aval.shape)
                    if block is None:  # integers do not change
                        blocks[i][j] = zeros_array(tracing.aval_of(results[i]).update(shape=shape))
                    else:
                        blocks[i][j] = block.reshape(shape)
        else:
            for i, aval in enumerate(out_avals):
                def row(ct, i=i):
                    cts = [ct if k == i else zeros_array(a) for k, a in enumerate(out_avals)]
                    return [None if x.aval.dtype == dtypes.float0 else instantiate(x) for x in program.transpose(cts)]

                rows = vmap(row)(_basis(aval))
                for j, block in enumerate(rows):
                    shape = (*aval.shape, *in_avals[j].shape)
                    if block is None:  # integers
                        blocks[i][j] = zeros_array(tracing.aval_of(values[j]).update(shape=shape))
                    else:
                        blocks[i][j] = block.reshape(shape)
        single = hasattr(argnums, "__index__")
        nested = [in_tree.unflatten(row) for row in blocks]
        result = flat.out_tree.unflatten([row[0] if single else row for row in nested])
        return (result, _strip(flat.aux)) if has_aux else result

    return _dressed(jac, fun, transform)


def hessian(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable:
    """The matrix of second derivatives, by forward over reverse mode."""
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


@boundary
def linear_transpose(fun: Callable, *primals, reduce_axes=()) -> Callable:
    """The transpose of a linear function, as a function of a cotangent of its result.

    `primals` give shapes and dtypes of the arguments; their values do not matter.
    """
    from xlafront.core.ir import Jaxpr
    from xlafront.transforms.ad.core import _known_part, backward_pass

    leaves, in_tree = tree.flatten(primals)
    in_avals = [avals.ShapedArray(x.shape, x.dtype, bool(getattr(x, "weak_type", False))) if hasattr(x, "shape")
                else tracing.aval_of(x) for x in leaves]
    flat = _Flat(fun, in_tree)
    jaxpr, consts = tracing.trace_to_jaxpr(flat, in_avals)
    out_tree = flat.out_tree
    known: Jaxpr
    known, values = _known_part(jaxpr, consts)

    @boundary
    def transposed(cotangent):
        cts, structure = tree.flatten(cotangent)
        if structure != out_tree:
            raise TypeError(f"the cotangent must have the structure of the result, {out_tree}; it has {structure}.")
        checked = [_cotangent(ct, v.aval, signatures.function_name(fun), lambda i=i: tree.path_of(cotangent, i),
                              TypeError) for i, (ct, v) in enumerate(zip(cts, known.outvars))]
        return in_tree.unflatten(_as_derivatives(backward_pass(known, values, checked), in_avals))

    return transposed


# The rules of nested `jit`


def _pick(items: Sequence[Any], flags: Sequence[bool]) -> tuple:
    return tuple(x for x, flag in zip(items, flags) if flag)


def _call_params(params, in_shardings, out_shardings):
    return params | {"donated_invars": (False,) * len(in_shardings), "in_shardings": tuple(in_shardings),
                     "out_shardings": tuple(out_shardings)}


def _jit_jvp(primals, tangents, *, jaxpr, in_shardings, out_shardings, **params):
    active = tuple(type(t) is not Zero for t in tangents)
    program, nonzero = jvp_program(jaxpr, active)
    ins = (*in_shardings, *_pick(in_shardings, active))
    outs = (*out_shardings, *_pick(out_shardings, nonzero))
    results = jit_p.bind(*primals, *_pick(tangents, active), jaxpr=program, **_call_params(params, ins, outs))
    count = len(nonzero)
    rest = iter(results[count:])
    return results[:count], [next(rest) if nz else Zero(v.to_tangent_aval()) for nz, v in zip(nonzero, jaxpr.out_avals)]


def _jit_linearize(primals, tangents, *, jaxpr, in_shardings, out_shardings, **params):
    from xlafront.staging.sharding_arguments import UNSPECIFIED

    active = tuple(type(t) is not Zero for t in tangents)
    split = linearize_program(jaxpr, active)
    outs = (*out_shardings, *(UNSPECIFIED,) * split.residuals)
    results = jit_p.bind(*primals, jaxpr=split.forward, **_call_params(params, in_shardings, outs))
    count = len(jaxpr.out_avals)
    computed = iter(results[count:])
    residuals = [next(computed) if k is None else primals[k] for k in split.known]
    if any(split.outputs):
        moving = _pick(tangents, active)
        ins = (*(UNSPECIFIED,) * len(residuals), *_pick(in_shardings, active))
        out_tangents = iter(jit_p.bind(*residuals, *moving, jaxpr=split.linear,
                                       **_call_params(params, ins, _pick(out_shardings, split.outputs))))
    else:
        out_tangents = iter(())
    return results[:count], [next(out_tangents) if used else Zero(v.to_tangent_aval())
                             for used, v in zip(split.outputs, jaxpr.out_avals)]


def _jit_transpose(cts, *operands, jaxpr, in_shardings, out_shardings, **params):
    from xlafront.core.zeros import is_undefined

    linear = tuple(is_undefined(x) for x in operands)
    given = tuple(type(ct) is not Zero for ct in cts)
    program, nonzero = transpose_program(jaxpr, linear, given)
    others = [x for x, lin in zip(operands, linear) if not lin]
    ins = (*[s for s, lin in zip(in_shardings, linear) if not lin], *_pick(out_shardings, given))
    outs = _pick(_pick(in_shardings, linear), nonzero)
    results = iter(jit_p.bind(*others, *_pick(cts, given), jaxpr=program, **_call_params(params, ins, outs)))
    flags = iter(nonzero)
    return [(next(results) if next(flags) else Zero(x.aval)) if lin else None for x, lin in zip(operands, linear)]


jit_p.jvp, jit_p.linearize, jit_p.transpose = _jit_jvp, _jit_linearize, _jit_transpose
