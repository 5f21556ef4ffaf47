"""The linear functions that `linearize`, `vjp` and `linear_transpose` return. Each is a pytree of its residuals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from xlafront.api.arguments import as_array, as_derivatives, as_results, tree_of_flags
from xlafront.api.eager_pullback import pull_back, pull_back_with_logs
from xlafront.core import dtypes, errors, tracing, tree
from xlafront.core.ir import Jaxpr
from xlafront.core.refs import AbstractRef, RefTangent, is_ref
from xlafront.core.traceback_filter import boundary
from xlafront.core.zeros import Zero
from xlafront.transforms.ad.linearize import LinearMap
from xlafront.transforms.ad.transpose import backward_pass


def _refs():
    from xlafront.lax import refs  # start-up: 1.2 ms, only for references

    return refs


# Checks of tangents and cotangents


def checked_tangent(aval, tangent, path: Callable[[], str], error: type[Exception] = TypeError):
    """Return a tangent after checks against the type of its primal; `Zero` for integers.

    The tangent of a reference is a reference. `error` is the class of the error for a wrong dtype.
    """
    expected = aval.to_tangent_aval()
    if type(aval) is AbstractRef:
        if not is_ref(tangent):
            raise TypeError(f"the tangent of a reference must be a reference: argument {path()} is {aval}, its tangent "
                            f"{errors.short(tangent)}. Give new_ref(tangent).")
        value = checked_tangent(aval.inner_aval, _refs().get(tangent), path)
        return value if type(value) is Zero else RefTangent(value)
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
    """Return a value of a composite type (`core.composite_lowering`); raise if it is of another."""
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
        _check_sharding(f"the cotangent given to {name} for result{tree.path_of(cotangent, i)}", given, aval, of_types)
        _check_varies(f"the cotangent given to {name} for result{tree.path_of(cotangent, i)}", given, aval, of_types)
        checked.append(ct)
    return checked


def _check_sharding(what: str, given, expected, error: type[Exception]) -> None:
    """Raise if a value is sharded over explicit axes in another way than expected; replicated values are accepted."""
    own, target = given.explicit_sharding, expected.explicit_sharding
    if own is not None and (target is None or own.spec.partitions != target.spec.partitions):
        raise error(f"{what} has an unexpected type: it is {given}, expected was {expected}, which is sharded differently. "
                    "Reshard it with reshard.")


def _check_varies(what: str, given, expected, error: type[Exception] = ValueError) -> None:
    """Raise if a tangent varies over other mesh axes than its primal: the derivative would lack a sum over them."""
    if given.vma != expected.vma:
        axes = tuple(sorted(map(str, given.vma ^ expected.vma)))
        raise error(f"{what} is of type {given}, which varies along other mesh axes than {expected}. Give the one the axes of "
                    f"the other with pcast(x, {axes}, to='varying'), before the derivative is taken if it is the value.")


# The functions


class Derivative:
    """The result of `linearize`: maps tangents of the arguments to the tangent of the result."""

    __slots__ = ("program", "in_tree", "out_tree", "name")

    def __init__(self, program: LinearMap, in_tree, out_tree, name: str):
        self.program, self.in_tree, self.out_tree, self.name = program, in_tree, out_tree, name

    @property
    def out_nzs(self) -> Any:
        """Return a tree of bools, like the result: True for arrays whose tangent is not symbolically zero."""
        return tree_of_flags(self.out_tree, iter(self.program.outputs))

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
                _check_sharding(f"the tangent given to the derivative of {self.name}{tree.path_of(tangents, i)}",
                             tracing.aval_of(t), aval.to_tangent_aval(), ValueError)
            if isinstance(t, tracing.Tracer):
                _check_varies(f"the derivative of {self.name}: tangent{tree.path_of(tangents, i)}", t.aval, aval)
        checked = [t.value if type(t) is RefTangent else t for t in checked]
        return self.out_tree.unflatten(as_derivatives(self.program.apply(checked)))


class Transpose:
    """The result of `linear_transpose`: maps a cotangent of the result to cotangents of the arguments."""

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
    """Placeholder in `args_res` for an argument whose value the pullback does not read."""

    __slots__ = ()

    def __repr__(self):
        return "NotNeeded()"


class NotSaveable(NotNeeded):
    """Placeholder in `args_res` for an argument that must not be saved; replace it before the pullback is called."""

    __slots__ = ()

    def __repr__(self):
        return "NotSaveable()"


class GradRef(NamedTuple):
    """Returned in place of a cotangent that was added to a reference."""


class DidntWant(NamedTuple):
    """Returned in place of a cotangent that was not requested."""


class DontWant:
    """Given to `with_refs` for an argument whose cotangent is not needed."""

    __slots__ = ()
    __repr__ = lambda self: "DontWant()"


class GradValue:
    """Given to `with_refs` for an argument whose cotangent is returned."""

    __slots__ = ()
    __repr__ = lambda self: "GradValue()"


ad = SimpleNamespace(DidntWant=DidntWant, DontWant=DontWant, GradRef=GradRef, GradValue=GradValue)


class Pullback:
    """The result of `vjp`: maps a cotangent of the result to cotangents of the arguments.

    Attributes:
        args_res: List with each argument, in which leaves that the pullback does not read are `NotNeeded()`, and those of
            them that `saveable_args` excludes are `NotSaveable()`.
        opaque_residuals: List of the other residuals. Values in both lists can be replaced.
        jaxpr: The linear jaxpr.
        fun: Function of `(args_res, opaque_residuals, cotangent)`. It can be replaced; pullbacks of equal functions are then
            equal as pytrees, whatever their jaxprs.
        want_logs: True if it returns `(cotangents, logs)`, as `with_logs` does.

    Example:
        >>> y, f_vjp = vjp(lambda x, y: x * y, 2.0, 3.0)
        >>> f_vjp.args_res
        [2.0, 3.0]
    """

    __slots__ = ("program", "forwarded_leaves", "in_tree", "out_tree", "name", "residuals", "want_logs", "own_fun")

    def __init__(self, program: LinearMap, forwarded_leaves: Sequence[int | None], in_tree, out_tree, name: str,
                 want_logs: bool = False, residuals: tuple[list, list] | None = None, own_fun: Callable | None = None):
        """Make the pullback of a function.

        Args:
            program: The linearized function.
            forwarded_leaves: For each residual the index of the argument leaf that it is, None for others.
            in_tree: Pytree structure of the arguments.
            out_tree: Pytree structure of the result.
            name: Name of the function.
            want_logs: If True, the pullback also returns the logs of backward rules.
            residuals: `args_res` and `opaque_residuals`, if the residuals are not in `program`.
            own_fun: The function that replaced `fun`, if any.
        """
        self.program, self.forwarded_leaves, self.in_tree, self.out_tree = program, forwarded_leaves, in_tree, out_tree
        self.name, self.want_logs, self.residuals, self.own_fun = name, want_logs, residuals, own_fun

    @classmethod
    def at_primals(cls, program: LinearMap, primals: Sequence[Any], in_tree, out_tree, name: str,
                   saveable: Sequence[bool]) -> Pullback:
        """Make the pullback of a function linearized at `primals`, the leaves of its arguments; the leaves marked in
        `saveable` may be saved. Hot: once an eager `vjp`."""
        positions = {tracing.value_id(x): i for i, x in enumerate(primals)}
        if not all(saveable):  # a value that is passed twice is saved as a saveable argument
            positions.update([(tracing.value_id(x), i) for i, (x, s) in enumerate(zip(primals, saveable)) if s])
        forwarded = tuple([positions.get(tracing.value_id(c)) for c in program.consts])
        if not all(saveable):
            program = program.with_residuals([c if i is None or saveable[i] else NotSaveable()
                                              for c, i in zip(program.consts, forwarded)])
        return cls(program, forwarded, in_tree, out_tree, name)

    @property
    def out_nzs(self) -> Any:
        """Return a tree of bools, like the result: True for arrays whose tangent is not symbolically zero."""
        return tree_of_flags(self.out_tree, iter(self.program.outputs))

    def _split_residuals(self) -> tuple[list, list]:
        """Return `args_res` and `opaque_residuals`, moved out of `program` at the first call."""
        if self.residuals is None:
            program, forwarded = self.program, self.forwarded_leaves
            read = {i: c for i, c in zip(forwarded, program.consts) if i is not None}
            rest = iter([read.get(i, NotNeeded()) for i in range(self.in_tree.num_leaves)])
            args_res = [child.unflatten([next(rest) for _ in range(child.num_leaves)]) for child in self.in_tree.children()]
            self.residuals = args_res, [c for i, c in zip(forwarded, program.consts) if i is None]
            self.program = program.with_residuals([])
        return self.residuals

    def _consts(self, args_res: Sequence[Any], opaque_residuals: Sequence[Any]) -> list[Any]:
        leaves = [x for child, found in zip(self.in_tree.children(), args_res) for x in child.flatten_up_to(found)]
        index = itertools.count()
        return [opaque_residuals[next(index)] if i is None else leaves[i] for i in self.forwarded_leaves]

    @property
    def args_res(self) -> list[Any]:
        return self._split_residuals()[0]

    @args_res.setter
    def args_res(self, values: list[Any]) -> None:
        self.residuals = values, self._split_residuals()[1]

    @property
    def opaque_residuals(self) -> list[Any]:
        return self._split_residuals()[1]

    @opaque_residuals.setter
    def opaque_residuals(self, values: list[Any]) -> None:
        self.residuals = self._split_residuals()[0], values

    @property
    def jaxpr(self) -> Jaxpr:
        return self.program.jaxpr

    @property
    def fun(self) -> Callable:
        if self.own_fun is not None:
            return self.own_fun
        self._split_residuals()
        # The function takes the residuals as arguments, so it must not keep those of this pullback alive.
        without_residuals = Pullback(
            self.program, self.forwarded_leaves, self.in_tree, self.out_tree, self.name, self.want_logs, ([], []))
        return without_residuals._apply_at

    @fun.setter
    def fun(self, function: Callable) -> None:
        self.own_fun = function

    def _apply_at(self, args_res: Sequence[Any], opaque_residuals: Sequence[Any], cotangent: Any) -> Any:
        program = self.program.with_residuals(self._consts(args_res, opaque_residuals))
        return self._apply_program(program, cotangent, ())

    @property
    def with_logs(self) -> Pullback:
        """Return a pullback that returns `(cotangents, logs)`.

        `logs` is a dictionary of what the rules of `custom_vjp.defvjp_with_logs` log. In a `scan` logs are stacked; in a `cond`
        they are pairs of the index of the branch that was taken and a list of the values of each branch.

        Example:
            >>> square = xf.custom_gradient(lambda x: (x ** 2, lambda ct: (2 * x * ct, {"ct": ct})), with_logs=True)
            >>> cts, logs = xf.vjp(square, 3.0)[1].with_logs(1.0)
            >>> float(cts[0]), float(logs["ct"])
            (6.0, 1.0)
        """
        return Pullback(self.program, self.forwarded_leaves, self.in_tree, self.out_tree, self.name, True, self.residuals)

    def with_refs(self, *targets):
        """Return a pullback that adds cotangents to references.

        Args:
            targets: An entry for each argument, as a pytree like the arguments: a reference to which its cotangent is added,
                `ad.DontWant()` for a cotangent that is not needed, or anything else (`ad.GradValue()`) for one that is
                returned. For arguments that are references it must be a reference.

        Example:
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
            return self._apply(cotangent, others, entries)

        return pullback

    @boundary
    def __call__(self, cotangent, *others):
        return self._apply(cotangent, others, ())

    def _apply(self, cotangent, others, targets):
        if others:
            raise TypeError(f"the function that vjp of {self.name} returned takes a single argument, the cotangent, a pytree "
                            f"like its result {self.out_tree}; it was given {1 + len(others)} arguments.")
        if self.own_fun is not None and not targets:
            return self.own_fun(self.args_res, self.opaque_residuals, cotangent)
        program = self.program if self.residuals is None else self.program.with_residuals(self._consts(*self.residuals))
        return self._apply_program(program, cotangent, targets)

    def _apply_program(self, program: LinearMap, cotangent, targets):
        if lacking := [i for i, c in zip(self.forwarded_leaves, program.consts) if type(c) is NotSaveable]:
            paths = tree.leaf_paths(self.in_tree)
            raise ValueError(f"the vjp of {self.name} was called before its not-saveable residuals were restored: assign the "
                             f"values of args{', args'.join([tree.keystr(paths[i]) for i in dict.fromkeys(lacking)])}, which "
                             f"saveable_args excludes, to f_vjp.args_res.")
        checked = _checked_cotangents(f"the vjp of {self.name}", cotangent, self.out_tree, program.out_avals, ValueError,
                                      ValueError)
        unneeded = [type(x) is DontWant for x in targets] or [False] * self.in_tree.num_leaves
        targets = [x if is_ref(x) else None for x in targets] or [None] * self.in_tree.num_leaves
        for i, (aval, ref) in enumerate(zip(program.in_avals, targets)):
            if type(aval) is AbstractRef and ref is None:
                raise ValueError(f"the vjp of {self.name} needs a reference for the cotangent of its argument number {i}, "
                                 f"a reference of type {aval}. Give it one: f_vjp.with_refs(new_ref(numpy.zeros(...)), "
                                 "...)(ct).")
        logs = None
        if self.want_logs:
            in_cts, logs = pull_back_with_logs(program, checked, [not x for x in unneeded])
        else:
            in_cts = pull_back(program, checked, [not x for x in unneeded])
        found = as_results(in_cts) if program.forwards else [as_array(ct) for ct in in_cts]
        for i, ref in enumerate(targets):
            if ref is not None:
                _refs().addupdate(ref, ..., found[i])
                found[i] = GradRef()
            elif unneeded[i]:
                found[i] = DidntWant()
        return self.in_tree.unflatten(found) if logs is None else (self.in_tree.unflatten(found), logs)


# Registration as pytrees


class _Static(tuple):
    """Hashable static data of a pytree node: a tuple of lists and tuples."""

    __slots__ = ()

    def __hash__(self):
        return hash(tuple(map(tuple, self)))


def _static_fields(program: LinearMap) -> _Static:
    return _Static((program.inputs, program.outputs, program.in_avals, program.out_avals, [program.forwards]))


def _derivative_from(static, consts):
    jaxpr, [*fields, [forwards]], *rest = static
    return Derivative(LinearMap(jaxpr, list(consts), *fields, forwards), *rest)


def _transpose_from(static, values):
    jaxpr, [in_avals], *rest = static
    return Transpose(jaxpr, list(values), in_avals, *rest)


class _Uncompared:
    """Static data of a pytree node that does not distinguish it from others."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is _Uncompared

    def __hash__(self) -> int:
        return 0


def _flatten_pullback(f: Pullback) -> tuple[tuple, tuple]:
    program = f.jaxpr, _static_fields(f.program), f.forwarded_leaves
    return (f.args_res, f.opaque_residuals), (program if f.own_fun is None else _Uncompared(program), f.in_tree, f.out_tree,
                                              f.name, f.want_logs, f.own_fun)


def _pullback_from(static, residuals):
    program, *rest, own_fun = static
    jaxpr, [*fields, [forwards]], forwarded = program.value if type(program) is _Uncompared else program
    return Pullback(LinearMap(jaxpr, [], *fields, forwards), forwarded, *rest, residuals, own_fun)


tree.register_pytree_node(Derivative, lambda f: (
    tuple(f.program.consts), (f.program.jaxpr, _static_fields(f.program), f.in_tree, f.out_tree, f.name)), _derivative_from)
tree.register_pytree_node(Transpose, lambda f: (
    tuple(f.values), (f.jaxpr, _Static([f.in_avals]), f.in_tree, f.out_tree, f.name)), _transpose_from)
tree.register_pytree_node(Pullback, _flatten_pullback, _pullback_from)
tree.register_pytree_node(NotNeeded, lambda _: ((), ()), lambda *_: NotNeeded())
tree.register_pytree_node(NotSaveable, lambda _: ((), ()), lambda *_: NotSaveable())
