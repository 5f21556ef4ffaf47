"""Differentiation: `jvp`, `linearize`, `vjp`, `grad` and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlafront.core import avals, dtypes, errors, tracing, tree
from xlafront.core.refs import AbstractRef, RefTangent, is_ref
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.lax.zeros import instantiate
from xlafront.staging import signatures
from xlafront.staging.jit import jit
from xlafront.transforms.ad.arguments import (
    FlatFunction,
    argument_path,
    as_array,
    as_derivatives,
    check_arrays,
    check_input,
    checked_argnums,
    dressed,
    of_positions,
    positions_of,
    weakly_typed_as,
    with_dtype,
    without_tracers,
)
from xlafront.transforms.ad.eager_pullback import pull_back
from xlafront.transforms.ad.jvp import jvp_flat
from xlafront.transforms.ad.linearize import LinearProgram, linearize_flat
from xlafront.transforms.ad.transpose import backward_pass, known_part

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
        raise TypeError(f"jvp takes primals and tangents as tuples or lists of arguments, got "
                        f"{type(primals).__name__} and {type(tangents).__name__}.")
    values = check_arrays("jvp", fun, tuple(primals))
    in_tree, tangent_tree = tree.structure(tuple(primals)), tree.structure(tuple(tangents))
    if in_tree != tangent_tree:
        raise TypeError(f"jvp needs primals and tangents of the same tree structure: "
                        f"{tree.first_difference(tuple(primals), tuple(tangents))}")
    directions = tree.leaves(tuple(tangents))
    checked = [_tangent(tracing.aval_of(p), t, lambda i=i: tree.path_of(tuple(primals), i))
               for i, (p, t) in enumerate(zip(values, directions))]
    flat = FlatFunction(fun, in_tree, has_aux)
    results, out_tangents = jvp_flat(flat, values, checked)
    for direction, t in zip(directions, checked):
        if type(t) is RefTangent:
            _refs().set(direction, ..., instantiate(t.value))
    out = (flat.out_tree.unflatten([as_array(x) for x in results]),
           flat.out_tree.unflatten(as_derivatives(out_tangents, map(tracing.aval_of, results))))
    return (*out, without_tracers(flat.aux)) if has_aux else out


def _tangent(aval, tangent, path: Callable[[], str]):
    """A tangent that fits a primal of this type; `Zero` for integers. That of a reference is a reference."""
    expected = aval.to_tangent_aval()
    if type(aval) is AbstractRef:
        if not is_ref(tangent):
            raise TypeError(f"the tangent of a reference is a reference, which changes as the other does: argument {path()} is "
                            f"{aval}, its tangent {errors.short(tangent)}. Give new_ref(tangent).")
        held = _tangent(aval.inner_aval, _refs().get(tangent), path)
        return held if type(held) is Zero else RefTangent(held)
    if isinstance(tangent, np.ndarray) and tangent.dtype == dtypes.float0:
        given_dtype, given_shape = dtypes.float0, tangent.shape
    else:
        given, tangent = with_dtype(tangent, expected)
        given_dtype, given_shape = given.dtype, given.shape
    if given_shape != expected.shape:
        raise ValueError(f"primal and tangent shapes must match: argument {path()} has shape {expected.shape}, its tangent "
                         f"the different shape {given_shape}.")
    if given_dtype != expected.dtype:
        raise TypeError(f"primal and tangent dtypes must match (float0 is that of tangents of integers): argument {path()} is "
                        f"{aval}, its tangent has dtype {given_dtype}, expected was {expected.dtype}.")
    return Zero(expected) if expected.dtype == dtypes.float0 else weakly_typed_as(tangent, expected)


@boundary
def linearize(fun: Callable, *primals, has_aux: bool = False):
    """The value of a function and, as a function, its derivative at this point.

    The derivative can be applied to many tangents without evaluating the function again.

    >>> y, f_jvp = linearize(xnp.sin, 0.5)
    >>> f_jvp(1.0)
    """
    values = check_arrays("linearize", fun, primals)
    in_tree = tree.structure(primals)
    flat = FlatFunction(fun, in_tree, has_aux)
    results, program = linearize_flat(flat, values, [True] * len(values))
    derivative = _Derivative(program, in_tree, flat.out_tree, signatures.function_name(fun))
    out = flat.out_tree.unflatten([as_array(x) for x in results])
    return (out, derivative, without_tracers(flat.aux)) if has_aux else (out, derivative)


# Reverse mode


@boundary
def vjp(fun: Callable, *primals, has_aux: bool = False, reduce_axes=()):
    """The value of a function and, as a function, the pullback of cotangents: `(fun(*primals), f_vjp)`.

    `f_vjp(ct)` returns a tuple with a cotangent for each argument.

    >>> y, f_vjp = vjp(xnp.sin, 0.5)
    >>> f_vjp(1.0)
    """
    values = check_arrays("vjp", fun, primals)
    in_tree = tree.structure(primals)
    flat = FlatFunction(fun, in_tree, has_aux)
    results, program = linearize_flat(flat, values, [True] * len(values))
    pullback = _Pullback(program, in_tree, flat.out_tree, signatures.function_name(fun))
    out = flat.out_tree.unflatten([as_array(x) for x in results])
    return (out, pullback, without_tracers(flat.aux)) if has_aux else (out, pullback)


def _refs():
    from xlafront.lax import refs  # start-up: 1.2 ms, for programs with references

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
            raise TypeError(f"the linearized function of {self.name} takes tangents with the tree structure of the arguments, "
                            f"expected was {self.in_tree}; it was given {structure}.")
        checked = [_tangent(aval, t, lambda i=i: tree.path_of(tangents, i))
                   for i, (aval, t) in enumerate(zip(self.program.in_avals, leaves))]
        checked = [t.value if type(t) is RefTangent else t for t in checked]
        return self.out_tree.unflatten(as_derivatives(self.program.apply(checked), self.program.out_avals))


class _Pullback(_AtAPoint):
    """What `vjp` returns: maps a cotangent of the result to those of the arguments."""

    __slots__ = ()

    def with_refs(self, *targets):
        """The same function, adding cotangents to references in place of returning them.

        `targets` has an entry for each argument, as a pytree like the arguments: a reference, to which its cotangent is added;
        or anything else, for a cotangent that is returned. Where an argument was a reference, it must be one.

        >>> total = new_ref(0.0)
        >>> vjp(xnp.sin, 0.5)[1].with_refs(total)(1.0)
        (GradRef(),)
        """
        entries, structure = tree.flatten(targets)
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

    def _pulled_back(self, cotangent, others, targets):
        if others:
            raise TypeError(f"the function that vjp of {self.name} returned takes a single argument, the cotangent, a pytree "
                            f"like its result {self.out_tree}; it was given {1 + len(others)} arguments.")
        leaves, structure = tree.flatten(cotangent)
        if structure != self.out_tree:
            raise ValueError(f"the cotangent given to the vjp of {self.name} has an unexpected tree structure, {structure}: it "
                             f"must match that of the result, {self.out_tree}.")
        checked = []
        for i, (ct, aval) in enumerate(zip(leaves, self.program.out_avals)):
            checked.append(_cotangent(ct, aval, self.name, lambda i=i: tree.path_of(cotangent, i)))
        targets = [x if is_ref(x) else None for x in targets] or [None] * self.in_tree.num_leaves
        for i, (aval, ref) in enumerate(zip(self.program.in_avals, targets)):
            if type(aval) is AbstractRef and ref is None:
                raise ValueError(f"the vjp of {self.name} was not told where to add the cotangent of its argument number {i}, "
                                 f"a reference of type {aval}. Give it a reference: f_vjp.with_refs(new_ref(xnp.zeros(...)), "
                                 "...)(ct).")
        found = [as_array(ct) for ct in pull_back(self.program, checked)]
        for i, ref in enumerate(targets):
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
    given, ct = with_dtype(ct, aval)
    if given.shape != aval.shape or given.dtype != aval.dtype:
        raise error(f"the cotangent given to the vjp of {name} has an unexpected type (shape or dtype): expected was the "
                    f"cotangent type {aval}, that of result{path()}, which is the corresponding output of the function, but "
                    f"it is {given}.")
    return ct


def _register(kind: type[_AtAPoint]) -> None:
    def flatten(f):
        program = f.program
        fixed = _Fixed((program.inputs, program.outputs, program.in_avals, program.out_avals))
        return tuple(program.consts), (program.jaxpr, fixed, f.in_tree, f.out_tree, f.name)

    def unflatten(static, consts):
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

    return dressed(gradient, fun, "grad")


def value_and_grad(fun: Callable, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
                   allow_int: bool = False, reduce_axes: Sequence[Any] = ()) -> Callable:
    """As `grad`, returning the value too: `(value, gradient)`, or `((value, aux), gradient)` with `has_aux`."""
    if not callable(fun):
        raise errors.not_callable("grad", fun)
    chosen = checked_argnums("grad", argnums)
    name = signatures.function_name(fun)

    @boundary
    def with_gradient(*args, **kwargs):
        positions = positions_of("grad", name, chosen, args)
        dynamic = tuple(args[i] for i in positions)
        values = check_arrays("grad", fun, dynamic)
        for i, x in enumerate(values):
            check_input("grad", name, x, lambda i=i: f"{positions[0]}" if len(values) == 1 else (
                argument_path(positions, dynamic, i)), holomorphic, allow_int)

        flat = FlatFunction(of_positions(fun, name, positions, args, kwargs), tree.structure(dynamic), has_aux)
        results, program = linearize_flat(flat, values, [True] * len(values))
        value = flat.out_tree.unflatten([as_array(x) for x in results])
        _check_scalar(name, value, results, flat.out_tree, holomorphic)
        aval = tracing.aval_of(results[0])
        gradient = flat.in_tree.unflatten([as_array(ct) for ct in pull_back(program, [_one(aval)])])
        if isinstance(argnums, int) or hasattr(argnums, "__index__"):
            gradient = gradient[0]
        return ((value, without_tracers(flat.aux)) if has_aux else value), gradient

    return dressed(with_gradient, fun, "value_and_grad")


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
    chosen = checked_argnums("fwd_and_bwd", argnums)
    name = signatures.function_name(fun)

    def fwd(*args, **kwargs):
        positions = positions_of("fwd_and_bwd", name, chosen, args)
        return vjp(of_positions(fun, name, positions, args, kwargs), *[args[i] for i in positions], has_aux=has_aux)

    def bwd(residuals, cotangent):
        found = residuals(cotangent)
        return found[0] if hasattr(argnums, "__index__") else found

    if jitted:
        return jit(fwd), jit(bwd)
    return fwd, bwd


def _check_scalar(name, value, results, out_tree, holomorphic):
    if out_tree.num_leaves != 1 or out_tree.num_nodes != 1:
        raise TypeError(f"grad, the gradient, is defined for scalar-output functions, but {name} returned a pytree {out_tree}. "
                        f"Return the loss alone, or (loss, aux) with has_aux=True.")
    aval = tracing.aval_of(results[0])
    if aval.shape:
        raise TypeError(f"grad, the gradient, is defined for scalar-output functions, but {name} returned an output of shape "
                        f"{aval.shape}. Reduce it (xnp.sum, xnp.mean), or use jacrev or vjp.")
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(f"grad with holomorphic=True needs complex outputs, but {name} returned dtype {aval.dtype}.")
    elif dtypes.is_complex(aval.dtype):
        raise TypeError(f"grad needs real-valued outputs (of a floating dtype), but {name} returned dtype {aval.dtype}. For "
                        "the complex derivative of a holomorphic function pass holomorphic=True; otherwise use vjp.")
    elif not dtypes.is_float(aval.dtype):
        raise TypeError(f"grad needs real-valued outputs (of a floating dtype), but {name} returned dtype {aval.dtype}: an "
                        "integer or boolean has no derivative. Leave out the rounding or comparison at the end, or use vjp.")


@boundary
def linear_transpose(fun: Callable, *primals, reduce_axes=()) -> Callable:
    """The transpose of a linear function, as a function of a cotangent of its result.

    `primals` give shapes and dtypes of the arguments; their values do not matter.
    """
    leaves, in_tree = tree.flatten(primals)
    in_avals = [avals.ShapedArray(x.shape, x.dtype, bool(getattr(x, "weak_type", False))) if hasattr(x, "shape")
                else tracing.aval_of(x) for x in leaves]
    flat = FlatFunction(fun, in_tree)
    jaxpr, consts = tracing.trace_to_jaxpr(flat, in_avals)
    out_tree = flat.out_tree
    known, values = known_part(jaxpr, consts)

    @boundary
    def transposed(cotangent):
        cts, structure = tree.flatten(cotangent)
        if structure != out_tree:
            raise TypeError(f"the cotangent tree must match that of the function output: expected was {out_tree}; it has "
                            f"{structure}.")
        checked = [_cotangent(ct, v.aval, signatures.function_name(fun), lambda i=i: tree.path_of(cotangent, i),
                              TypeError) for i, (ct, v) in enumerate(zip(cts, known.outvars))]
        return in_tree.unflatten(as_derivatives(backward_pass(known, values, checked), in_avals))

    return transposed
