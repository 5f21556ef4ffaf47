"""`VJPHiPrimitive`: an operation of which a class says what it computes and how transformations treat it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import errors, parts, tracing, tree
from xlafront.core.ir import eval_jaxpr
from xlafront.core.primitive import Primitive
from xlafront.core.zeros import Zero, is_undefined
from xlafront.interpreters.ad import add_jaxvals, instantiate_zeros
from xlafront.interpreters.batching import AxisData
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.reductions import reduce_sum_p
from xlafront.transforms.ad.linearize import LinearTrace
from xlafront.transforms.batching.vmap import vmap
from xlafront.transforms.calls.custom_calls import Rule
from xlafront.transforms.calls.custom_jvp import given_to_rule
from xlafront.transforms.calls.custom_vjp import custom_lin_p


class VJPHiPrimitive:
    """An operation on arrays, or pytrees of them. A subclass sets three attributes and calls `super().__init__()`:

    - `in_avals`: a tuple of the arguments' types, pytrees where these are; `out_aval`: that of the result.
    - `params`: a dict of what else distinguishes it, hashable, which become attributes too.

    and defines `expand(*args)`, what it computes. Where it is differentiated, it needs `vjp_fwd(nzs_in, *args)`, which returns
    the result and what the backward pass needs, and `vjp_bwd_retval(res, outgrad)`, a tuple of the cotangents of the arguments
    (None in place of an array that has none), or `vjp_bwd(res, outgrad, *arg_accums)`, which gets for each argument a pytree
    with an accumulator in place of each array: `accum(ct)` of it takes a cotangent, as often as there is a part of it, and
    `aval` is the cotangent's type; what a `NullAccum` takes is not needed. `jvp(primals, tangents)` is for forward mode, or
    `lin(nzs_in, *primals)` and `linearized(residuals, *tangents)`. Under `vmap` it needs `batch_dim_rule(axis_data, dims)`, the
    dimension of the result that is the batch's, or `batch(axis_data, args, dims)`, which returns that and the result.

    >>> class Double(hijax.VJPHiPrimitive):
    ...     def __init__(self, x):
    ...         self.in_avals, self.out_aval, self.params = (x,), x, {}
    ...         super().__init__()
    ...     def expand(self, x):
    ...         return 2 * x
    ...     def vjp_fwd(self, nzs_in, x):
    ...         return self(x), None
    ...     def vjp_bwd_retval(self, res, outgrad):
    ...         return (10 * outgrad,)
    >>> xf.grad(lambda x: Double(xf.typeof(x))(x))(1.0)
    Array(10., dtype=float32, weak_type=True)
    """

    in_avals: tuple
    out_aval: Any
    params: dict[str, Any]
    effects: frozenset = frozenset()

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise AttributeError(f"{type(self).__name__}.__init__ must set self.{name} before it calls super().__init__().")
        self.in_avals_flat, self.in_tree = tree.flatten(tuple(self.in_avals))
        self.out_avals_flat, self.out_tree = tree.flatten(self.out_aval)
        self.__dict__.update(self.params)

    def __call__(self, *args: Any) -> Any:
        leaves, structure = tree.flatten(args)
        if structure != self.in_tree:
            raise TypeError(f"{self} takes arguments of the structure {self.in_tree}, as its in_avals say; got {structure}.")
        self.check(*[tree.map(tracing.aval_of, arg) for arg in args])
        return self.out_tree.unflatten(call_hi_primitive_p.bind(*leaves, _prim=self))

    def check(self, *arg_tys: Any) -> None:
        """May refuse arguments, by their types."""

    def expand(self, *args: Any) -> Any:
        """What it computes."""
        raise _lacks(self, "evaluation", "expand")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> tuple[Any, Any]:
        """The result, and what the backward pass needs; `nzs_in` says in which arguments derivatives are taken."""
        raise _lacks(self, "grad", "vjp_fwd")

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """The cotangents of the arguments."""
        raise _lacks(self, "grad", "vjp_bwd` or `vjp_bwd_retval")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Gives the cotangents of the arguments to `accum` of what stands in the place of each array."""
        tree.map(lambda accumulator, ct: accumulator.accum(ct), arg_accums, self.vjp_bwd_retval(res, outgrad))

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        """The result, and its derivative in a direction, in which tangents may be `Zero`s."""
        raise _lacks(self, "jvp", "jvp")

    def lin(self, nzs_in: Any, *primals: Any) -> tuple[Any, Any]:
        """The result, and what the derivative there depends on."""
        raise _lacks(self, "linearize", "lin")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The derivative in a direction."""
        raise _lacks(self, "linearize", "linearized")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """For an operation that is linear in some arrays: gives their cotangents to `accum` of what stands in their places.
        The others are given as they are; a cotangent may be a `Zero`."""
        raise _lacks(self, "linear_transpose", "transpose")

    def dce(self, used_outs: Any) -> tuple[Any, Any, VJPHiPrimitive]:
        """Which arguments are needed for some of the results, which results there are then, and an operation from these
        arguments to these results."""
        raise _lacks(self, "leaving out results that nobody reads", "dce")

    def remat(self, policy: Any, *args: Any) -> Any:
        """What the setting `remat3`, which has no effect here, makes of it under `checkpoint`."""
        raise _lacks(self, "remat3", "remat")

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        """Which dimension of the result is the batch's, from those of the arguments; None where it is not batched."""
        raise _lacks(self, "vmap", "batch` or `batch_dim_rule")

    def batch(self, axis_data: AxisData, args: Any, dims: Any) -> tuple[Any, Any]:
        """The result for batches, and which of its dimensions is the batch's."""
        out_dims = self.batch_dim_rule(axis_data, dims)
        kinds = tree.map(tracing.aval_of, tuple(args))
        return _Batched(self, axis_data, kinds, dims, out_dims)(*args), out_dims

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), *self.in_avals_flat, self.in_tree))

    def _key(self) -> tuple:
        return self.in_avals_flat, self.in_tree, self.out_avals_flat, self.out_tree, self.params

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"


def _lacks(primitive: VJPHiPrimitive, use: str, method: str) -> NotImplementedError:
    return NotImplementedError(f"{primitive} has no rule for {use}: define `{method}` in the class {type(primitive).__name__}.")


def _has(primitive: VJPHiPrimitive, method: str) -> bool:
    if isinstance(primitive, _Batched):
        return _has(primitive.inner, method)
    return getattr(type(primitive), method) is not getattr(VJPHiPrimitive, method)


class _Batched(VJPHiPrimitive):
    """An operation on batches of which a rule only says where they are: all its rules are those of the elements, mapped."""

    inner: VJPHiPrimitive

    def __init__(self, inner: VJPHiPrimitive, axis_data: AxisData, kinds: tuple, dims: Any, out_dims: Any):
        self.dims, self.out_dims, self.axis_data = tuple(dims), out_dims, axis_data
        self.in_avals = kinds
        outs = tracing.trace_to_closed_jaxpr(
            lambda *xs: tree.leaves(self._mapped(inner.expand, self.dims, out_dims)(*tree.structure(kinds).unflatten(xs))),
            tree.leaves(kinds)).out_avals
        self.out_aval = inner.out_tree.unflatten(outs)
        self.params = {"inner": inner, "over": (axis_data.name, axis_data.size)}
        super().__init__()

    def _mapped(self, f: Callable, in_axes: Any, out_axes: Any) -> Callable:
        data = self.axis_data
        named = {} if data.name is None or type(data.name) is object else {"axis_name": data.name}
        return vmap(f, in_axes, out_axes, axis_size=data.size, **named)

    def expand(self, *args: Any) -> Any:
        return self._mapped(self.inner.expand, self.dims, self.out_dims)(*args)

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> tuple[Any, Any]:
        return self._mapped(lambda *xs: self.inner.vjp_fwd(nzs_in, *xs), self.dims, (self.out_dims, 0))(*args)

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        batches = tree.leaves(arg_accums)

        def of_element(res: Any, ct: Any) -> list[Any]:
            elements = [type(batch)(aval) for batch, aval in zip(batches, self.inner.in_avals_flat)]
            self.inner.vjp_bwd(res, ct, *self.in_tree.unflatten(elements))
            return [element.value for element in elements]

        dims = tree.leaves(self.dims, is_leaf=lambda d: d is None)
        found = self._mapped(of_element, (0, self.out_dims), [0 if d is None else d for d in dims])(res, outgrad)
        for batch, dim, ct in zip(batches, dims, found):
            batch.accum(ct if dim is not None or ct is None else reduce_sum_p.bind(ct, axes=(0,), out_sharding=None))

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        tangents = tuple([tree.map(instantiate_zeros, t) for t in tangents])
        moving = tuple([0 if d is None else d for d in self.dims])
        spread = [t if d is not None else tree.map(lambda x: self._mapped(lambda: x, (), 0)(), t)
                  for t, d in zip(tangents, self.dims)]
        return self._mapped(lambda xs, ts: self.inner.jvp(xs, ts), (self.dims, moving), (self.out_dims, self.out_dims))(
            tuple(primals), tuple(spread))

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        """Where the batch is, as if it were the only one; the inner dimension is counted without it."""
        inner_dims = tuple([None if outer is None else outer - (own is not None and own < outer)
                            for outer, own in zip(dims, self.dims)])
        found = self.inner.batch_dim_rule(axis_data, inner_dims)
        return None if found is None else found + (self.out_dims is not None and self.out_dims <= found)


class ValAccum:
    """What the cotangents of one array are given to: it holds their sum."""

    __slots__ = "aval", "value"

    def __init__(self, primal: Any):
        self.aval = primal.to_ct_aval()
        self.value: Any = None

    def accum(self, ct: Any) -> None:
        """Add a cotangent, of which None and a `Zero` stand for zeros."""
        if ct is None or type(ct) is Zero:
            return
        kind = tracing.aval_of(ct)
        if not kind.is_high and kind.shape != self.aval.shape:
            raise ValueError(f"a rule gave {errors.short(ct)} as the cotangent of an array, where a cotangent of the type "
                             f"{self.aval}, of the array's shape, is expected.")
        self.value = ct if self.value is None else add_jaxvals(self.value, ct)


class NullAccum(ValAccum):
    """In place of an array whose cotangent is not needed: it takes what it is given, and holds nothing."""

    __slots__ = ()

    def accum(self, ct: Any) -> None:
        """Forget a cotangent."""


# The operation in programs


def _results(primitive: VJPHiPrimitive, value: Any, rule: str) -> list[Any]:
    leaves, structure = tree.flatten(value)
    kinds = [tracing.aval_of(x, rule) for x in leaves]
    expected = primitive.out_avals_flat
    if structure != primitive.out_tree or list(map(_kind, kinds)) != list(map(_kind, expected)):
        raise TypeError(f"{rule} of {primitive} must return what its out_aval says, {primitive.out_aval}; it returned "
                        f"{value!r}.")
    return leaves


def _kind(aval: Any) -> Any:
    """What of a type a rule has to keep to."""
    return aval if aval.is_high else (aval.shape, aval.dtype)


def _expanded(*xs: Any, _prim: VJPHiPrimitive) -> list[Any]:
    return _results(_prim, _prim.expand(*_prim.in_tree.unflatten(xs)), "expand")


def _lowered(*xs: Any, _prim: VJPHiPrimitive) -> list[Any]:
    """What it computes of arrays, in which there may be values that consist of others."""
    program = tracing.trace_to_closed_jaxpr(lambda *xs: _expanded(*xs, _prim=_prim), [tracing.aval_of(x) for x in xs])
    if parts.is_high(program.jaxpr):
        program = parts.program_on_parts(program)
    return eval_jaxpr(program.jaxpr, program.consts, *xs)


def _marks(primitive: VJPHiPrimitive, marks: Sequence[bool]) -> Any:
    return primitive.in_tree.unflatten(marks)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, _prim: VJPHiPrimitive) -> tuple[list, list]:
    trace = tracing.thread.trace
    args, active = _prim.in_tree.unflatten(primals), [type(t) is not Zero for t in tangents]
    linearizes = isinstance(trace, LinearTrace)
    if linearizes and _has(_prim, "vjp_fwd"):
        return _with_pullback(trace.parent, args, tangents, active, _prim)
    if linearizes and _has(_prim, "lin"):
        with tracing.current_trace(trace.parent):
            value, residuals = _prim.lin(_marks(_prim, active), *args)
        moved = _prim.linearized(residuals, *_prim.in_tree.unflatten(tangents))
    elif linearizes and not _has(_prim, "jvp"):
        raise _lacks(_prim, "grad", "vjp_fwd")
    else:
        value, moved = _prim.jvp(args, _prim.in_tree.unflatten(tangents))
    outs = _results(_prim, value, "jvp")
    return outs, [Zero(tracing.aval_of(x).to_tangent_aval()) if t is None else t for x, t in zip(
        outs, tree.leaves(moved, is_leaf=lambda t: t is None or type(t) is Zero), strict=True)]


def _with_pullback(values: tracing.Trace, args: tuple, tangents: Sequence[Any], active: list[bool], primitive: VJPHiPrimitive
                   ) -> tuple[list, list]:
    """The values of the forward rule, and tangents known only by their transpose, the backward rule."""
    with tracing.current_trace(values):
        value, kept = primitive.vjp_fwd(_marks(primitive, active), *args)
    outs = _results(primitive, value, "vjp_fwd")
    residuals, structure = tree.flatten(kept)
    in_avals = primitive.in_avals_flat

    def pullback(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        accumulators = [(ValAccum if needed else NullAccum)(aval) for needed, aval in zip(active, in_avals)]
        outgrad = primitive.out_tree.unflatten([given_to_rule(ct, False) for ct in cts])
        primitive.vjp_bwd(structure.unflatten(residuals), outgrad, *primitive.in_tree.unflatten(accumulators))
        return [Zero(a.aval) if a.value is None else a.value for a in accumulators]

    out_avals = tuple([tracing.aval_of(x).to_tangent_aval() for x in outs])
    found = custom_lin_p.bind(
        *residuals, *[t for t in tangents if type(t) is not Zero], num_res=len(residuals), bwd=Rule(pullback, str(primitive)),
        in_zeros=tuple([not a for a in active]), out_avals=out_avals, symbolic_zeros=False, name=str(primitive))
    return outs, list(found)


def _transpose(cts: Sequence[Any], *operands: Any, _prim: VJPHiPrimitive) -> list[Any]:
    places = [ValAccum(x.aval) if is_undefined(x) else x for x in operands]
    rule: Callable[..., Any] = _prim.transpose
    if rule(_prim.out_tree.unflatten(cts), *_prim.in_tree.unflatten(places)) is not None:
        raise TypeError(f"transpose of {_prim} must return None: cotangents are given to `accum` of what stands in the places "
                        f"of the arrays that it is linear in.")
    found = [place.value if is_undefined(x) else None for place, x in zip(places, operands)]
    return [Zero(x.aval) if ct is None and is_undefined(x) else ct for ct, x in zip(found, operands)]


def _dce(used: Sequence[bool], eqn: Any) -> Any:
    primitive = eqn.params["_prim"]
    if not any(used):
        return None
    if all(used) or not _has(primitive, "dce"):
        return eqn
    needed, kept, smaller = primitive.dce(primitive.out_tree.unflatten(used))
    marks = tree.leaves_by_prefix("dce", needed, primitive.in_tree.unflatten(eqn.invars), lambda x: isinstance(x, bool))
    return eqn.replace(invars=[v for v, keep in zip(eqn.invars, marks) if keep],
                       outvars=[v for v, keep in zip(eqn.outvars, tree.leaves(kept)) if keep], params={"_prim": smaller})


def _batch(trace: Any, values: Sequence[Any], dims: Sequence[int | None], *, _prim: VJPHiPrimitive) -> tuple[list, list]:
    data = AxisData(trace.axis_name, trace.size)
    result, out_dims = _prim.batch(data, _prim.in_tree.unflatten(values), _prim.in_tree.unflatten(dims))
    return tree.leaves(result), tree.leaves_by_prefix("batch", out_dims, result, lambda d: d is None or isinstance(d, int))


call_hi_primitive_p = Primitive(
    "call_hi_primitive", multiple_results=True, abstract=lambda *_, _prim: list(_prim.out_avals_flat), memoise=False,
    lower=lower_fun(_lowered, True), impl=_expanded, jvp=_jvp, transpose=_transpose, dce=_dce)
call_hi_primitive_p.batch_with_axis = _batch
call_hi_primitive_p.of_high_types = True
