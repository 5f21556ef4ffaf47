"""What `linearize`, `vjp` and `linear_transpose` return: the derivative of a function at a point, to be applied to tangents or
cotangents. Each is a pytree of the values that it keeps from the point.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.ir import Jaxpr
from xlafront.core.refs import AbstractRef, RefTangent, is_ref
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.transforms.ad.arguments import as_derivatives, as_results
from xlafront.transforms.ad.eager_pullback import pull_back
from xlafront.transforms.ad.linearize import LinearProgram
from xlafront.transforms.ad.transpose import backward_pass


def _refs():
    from xlafront.lax import refs  # start-up: 1.2 ms, for programs with references

    return refs


# Tangents and cotangents that users give


def checked_tangent(aval, tangent, path: Callable[[], str], error: type[Exception] = TypeError):
    """A tangent that fits a primal of this type; `Zero` for integers. That of a reference is a reference. `error` is for other
    dtypes."""
    expected = aval.to_tangent_aval()
    if type(aval) is AbstractRef:
        if not is_ref(tangent):
            raise TypeError(f"the tangent of a reference is a reference, which changes as the other does: argument {path()} is "
                            f"{aval}, its tangent {errors.short(tangent)}. Give new_ref(tangent).")
        held = checked_tangent(aval.inner_aval, _refs().get(tangent), path)
        return held if type(held) is Zero else RefTangent(held)
    if expected.is_high:
        return _of_type(expected, tangent, f"the tangent of argument {path()}, a {aval},", error)
    if isinstance(tangent, np.ndarray) and tangent.dtype == dtypes.float0:
        given_dtype, given_shape = dtypes.float0, tangent.shape
    else:
        given = tracing.aval_of(tangent)
        given_dtype, given_shape = given.dtype, given.shape
    if given_dtype != expected.dtype:
        raise error(f"primal and tangent dtypes must match (float0 is that of tangents of integers): argument {path()} is "
                    f"{aval}, its tangent has dtype {given_dtype}, expected was {expected.dtype}.")
    if given_shape != expected.shape:
        raise ValueError(f"primal and tangent shapes must match: argument {path()} has shape {expected.shape}, its tangent the "
                         f"different shape {given_shape}.")
    return Zero(expected) if expected.dtype == dtypes.float0 else tangent


def _of_type(expected, x, what: str, error: type[Exception]):
    """A value of a type whose values consist of others (`core.parts`)."""
    given = tracing.aval_of(x)
    if given != expected:
        raise error(f"{what} must be of the type {expected}, but it is a {given}.")
    return x


def _checked_cotangents(name: str, cotangent, out_tree, avals, of_structure: type[Exception],
                        of_types: type[Exception]) -> list[Any]:
    leaves, structure = tree.flatten(cotangent)
    if structure != out_tree:
        raise of_structure(f"the cotangent given to {name} has an unexpected tree structure, {structure}: it must match that "
                           f"of the result, {out_tree}.")
    checked = []
    for i, (ct, aval) in enumerate(zip(leaves, avals)):
        if aval.is_high:
            what = f"the cotangent given to {name} for result{tree.path_of(cotangent, i)}"
            checked.append(_of_type(aval, ct, what, of_types))
            continue
        if aval.dtype == dtypes.float0:
            checked.append(Zero(aval))
            continue
        given = tracing.aval_of(ct)
        if given.shape != aval.shape or given.dtype != aval.dtype:
            raise of_types(f"the cotangent given to {name} has an unexpected type (shape or dtype): expected was the "
                           f"cotangent type {aval}, that of result{tree.path_of(cotangent, i)}, the corresponding output, but "
                           f"it is {given}.")
        _check_split(f"the cotangent given to {name} for result{tree.path_of(cotangent, i)}", given, aval, of_types)
        _check_varies(f"the cotangent given to {name} for result{tree.path_of(cotangent, i)}", given, aval, of_types)
        checked.append(ct)
    return checked


def _check_split(what: str, given, expected, error: type[Exception]) -> None:
    """Over axes of type Explicit, what is split in another way is of another type; what is whole everywhere is taken."""
    own, wanted = given.explicit_sharding, expected.explicit_sharding
    if own is not None and (wanted is None or own.spec.partitions != wanted.spec.partitions):
        raise error(f"{what} has an unexpected type: it is {given}, expected was {expected}, which is split differently. Bring "
                    "it there with reshard.")


def _check_varies(what: str, given, expected, error: type[Exception] = ValueError) -> None:
    """Inside of a `shard_map`, a derivative at a point is for tangents that vary along the axes that the values do: of others
    it would lack a sum."""
    if given.vma != expected.vma:
        axes = tuple(sorted(map(str, given.vma ^ expected.vma)))
        raise error(f"{what} is of type {given}, which varies along other mesh axes than {expected}. Give the one the axes of "
                    f"the other with pcast(x, {axes}, to='varying'), before the derivative is taken if it is the value.")


# The functions


class Derivative:
    """What `linearize` returns: maps tangents of the arguments to that of the result."""

    __slots__ = ("program", "in_tree", "out_tree", "name")

    def __init__(self, program: LinearProgram, in_tree, out_tree, name: str):
        self.program, self.in_tree, self.out_tree, self.name = program, in_tree, out_tree, name

    @boundary
    def __call__(self, *tangents):
        leaves, structure = tree.flatten(tangents)
        if structure != self.in_tree:
            raise TypeError(f"the linearized function of {self.name} takes tangents with the tree structure of the arguments, "
                            f"expected was {self.in_tree}; it was given {structure}.")
        checked = [checked_tangent(aval, t, lambda i=i: tree.path_of(tangents, i), ValueError)
                   for i, (aval, t) in enumerate(zip(self.program.in_avals, leaves))]
        for i, (aval, t) in enumerate(zip(self.program.in_avals, checked)):
            if type(t) not in (Zero, RefTangent):
                _check_split(f"the tangent given to the derivative of {self.name}{tree.path_of(tangents, i)}",
                             tracing.aval_of(t), aval.to_tangent_aval(), ValueError)
            if isinstance(t, tracing.Tracer):
                _check_varies(f"the derivative of {self.name}: tangent{tree.path_of(tangents, i)}", t.aval, aval)
        checked = [t.value if type(t) is RefTangent else t for t in checked]
        return self.out_tree.unflatten(as_derivatives(self.program.apply(checked)))


class Transpose:
    """What `linear_transpose` returns: maps a cotangent of the result to those of the arguments."""

    __slots__ = ("jaxpr", "values", "in_avals", "in_tree", "out_tree", "name")

    def __init__(self, jaxpr: Jaxpr, values: list, in_avals: Sequence[Any], in_tree, out_tree, name: str):
        self.jaxpr, self.values, self.in_avals = jaxpr, values, in_avals
        self.in_tree, self.out_tree, self.name = in_tree, out_tree, name

    @boundary
    def __call__(self, cotangent):
        checked = _checked_cotangents(f"the transpose of {self.name}", cotangent, self.out_tree,
                                      [v.aval for v in self.jaxpr.outvars], TypeError, TypeError)
        return self.in_tree.unflatten(as_derivatives(backward_pass(self.jaxpr, self.values, checked)))


class NotNeeded:
    """In `args_res` of what `vjp` returns: the place of an argument that the pullback does not read."""

    __slots__ = ()

    def __repr__(self):
        return "NotNeeded()"


class GradRef(NamedTuple):
    """In place of a cotangent that has been added to a reference."""


class DidntWant(NamedTuple):
    """In place of a cotangent that nobody wanted."""


class DontWant:
    """For `with_refs`: the cotangent of this argument is not needed."""

    __slots__ = ()
    __repr__ = lambda self: "DontWant()"


class GradValue:
    """For `with_refs`: the cotangent of this argument is to be returned."""

    __slots__ = ()
    __repr__ = lambda self: "GradValue()"


ad = SimpleNamespace(DidntWant=DidntWant, DontWant=DontWant, GradRef=GradRef, GradValue=GradValue)


def _is_leaf(structure) -> bool:
    return structure.num_nodes == structure.num_leaves == 1


class Pullback:
    """What `vjp` returns: maps a cotangent of the result to those of the arguments.

    - `args_res`: for each argument its value, where the pullback reads it (a tuple of its leaves where it is a pytree), else
      `NotNeeded()`. `opaque_residuals`: what else was kept. Both are lists in which values can be exchanged.
    - `jaxpr`: the linear program; `fun`: the function of `(args_res, opaque_residuals, cotangent)`.

    >>> y, f_vjp = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> f_vjp.args_res
    [2.0, 3.0]
    """

    __slots__ = ("program", "places", "in_tree", "out_tree", "name", "parts")

    def __init__(self, program: LinearProgram, places: Sequence[int | None], in_tree, out_tree, name: str,
                 parts: tuple[list, list] | None = None):
        """`places` has for each constant of the program the number of the leaf of the arguments that it is, None for others.
        `parts` are `args_res` and `opaque_residuals`, once somebody has asked for them: then the constants are in there."""
        self.program, self.places, self.in_tree, self.out_tree, self.name = program, places, in_tree, out_tree, name
        self.parts = parts

    @classmethod
    def at(cls, program: LinearProgram, primals: Sequence[Any], in_tree, out_tree, name: str) -> Pullback:
        """`primals` are the leaves of the arguments. Hot: once an eager `vjp`."""
        places = {tracing.identity(x): i for i, x in enumerate(primals)}
        return cls(program, tuple([places.get(tracing.identity(c)) for c in program.consts]), in_tree, out_tree, name)

    def _divided(self) -> tuple[list, list]:
        if self.parts is None:
            program, places = self.program, self.places
            read = {i: c for i, c in zip(places, program.consts) if i is not None}
            rest = iter([read.get(i, NotNeeded()) for i in range(self.in_tree.num_leaves)])
            args_res = [next(rest) if _is_leaf(child) else tuple([next(rest) for _ in range(child.num_leaves)])
                        for child in self.in_tree.children()]
            self.parts = args_res, [c for i, c in zip(places, program.consts) if i is None]
            self.program = program.at([])
        return self.parts

    def _consts(self, args_res: Sequence[Any], opaque_residuals: Sequence[Any]) -> list[Any]:
        leaves = [x for child, found in zip(self.in_tree.children(), args_res) for x in ([found] if _is_leaf(child) else found)]
        number = itertools.count()
        return [opaque_residuals[next(number)] if i is None else leaves[i] for i in self.places]

    @property
    def args_res(self) -> list[Any]:
        return self._divided()[0]

    @args_res.setter
    def args_res(self, values: list[Any]) -> None:
        self.parts = values, self._divided()[1]

    @property
    def opaque_residuals(self) -> list[Any]:
        return self._divided()[1]

    @opaque_residuals.setter
    def opaque_residuals(self, values: list[Any]) -> None:
        self.parts = self._divided()[0], values

    @property
    def jaxpr(self) -> Jaxpr:
        return self.program.jaxpr

    @property
    def fun(self) -> Callable:
        return lambda args_res, opaque_residuals, cotangent: self._pulled_back_from(
            self.program.at(self._consts(args_res, opaque_residuals)), cotangent, ())

    def with_refs(self, *targets):
        """The same function, adding cotangents to references in place of returning them.

        `targets` has an entry for each argument, as a pytree like the arguments: a reference, to which its cotangent is added;
        `ad.DontWant()`, for one that is not needed; or anything else (`ad.GradValue()`), for one that is returned. Where an
        argument was a reference, it must be a reference.

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
        program = self.program if self.parts is None else self.program.at(self._consts(*self.parts))
        return self._pulled_back_from(program, cotangent, targets)

    def _pulled_back_from(self, program: LinearProgram, cotangent, targets):
        checked = _checked_cotangents(f"the vjp of {self.name}", cotangent, self.out_tree, program.out_avals, ValueError,
                                      ValueError)
        unwanted = [type(x) is DontWant for x in targets] or [False] * self.in_tree.num_leaves
        targets = [x if is_ref(x) else None for x in targets] or [None] * self.in_tree.num_leaves
        for i, (aval, ref) in enumerate(zip(program.in_avals, targets)):
            if type(aval) is AbstractRef and ref is None:
                raise ValueError(f"the vjp of {self.name} was not told where to add the cotangent of its argument number {i}, "
                                 f"a reference of type {aval}. Give it a reference: f_vjp.with_refs(new_ref(xnp.zeros(...)), "
                                 "...)(ct).")
        found = as_results(pull_back(program, checked, [not x for x in unwanted]))
        for i, ref in enumerate(targets):
            if ref is not None:
                _refs().addupdate(ref, ..., found[i])
                found[i] = GradRef()
            elif unwanted[i]:
                found[i] = DidntWant()
        return self.in_tree.unflatten(found)


# As pytrees


class _Fixed(tuple):
    """Static data that compares by identity of its parts' contents."""

    __slots__ = ()

    def __hash__(self):
        return hash(tuple(map(tuple, self)))


def _kept(program: LinearProgram) -> _Fixed:
    return _Fixed((program.inputs, program.outputs, program.in_avals, program.out_avals))


def _derivative_from(static, consts):
    jaxpr, kept, *rest = static
    return Derivative(LinearProgram(jaxpr, list(consts), *kept), *rest)


def _transpose_from(static, values):
    jaxpr, [in_avals], *rest = static
    return Transpose(jaxpr, list(values), in_avals, *rest)


def _pullback_from(static, residuals):
    jaxpr, kept, *rest = static
    return Pullback(LinearProgram(jaxpr, [], *kept), *rest, residuals)


tree.register_pytree_node(Derivative, lambda f: (
    tuple(f.program.consts), (f.program.jaxpr, _kept(f.program), f.in_tree, f.out_tree, f.name)), _derivative_from)
tree.register_pytree_node(Transpose, lambda f: (
    tuple(f.values), (f.jaxpr, _Fixed([f.in_avals]), f.in_tree, f.out_tree, f.name)), _transpose_from)
tree.register_pytree_node(Pullback, lambda f: (
    (f.args_res, f.opaque_residuals), (f.jaxpr, _kept(f.program), f.places, f.in_tree, f.out_tree, f.name)), _pullback_from)
tree.register_pytree_node(NotNeeded, lambda _: ((), ()), lambda *_: NotNeeded())
