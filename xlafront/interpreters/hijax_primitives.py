"""`HiPrim`: a primitive defined as a class with its computation and its transformation rules as methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.api.vmap import vmap
from xlafront.core import composite_lowering, source, tracing, tree
from xlafront.core.primitive import Primitive, Structured, Traits
from xlafront.core.zeros import Zero, is_undefined
from xlafront.interpreters.ad import instantiate_zeros
from xlafront.interpreters.batching import AxisData
from xlafront.lax.lower_fun import lower_fun
from xlafront.lax.reductions import reduce_sum_p
from xlafront.transforms.ad.linearize import LinearTrace
from xlafront.transforms.calls.accumulators import NullAccum, ValAccum
from xlafront.transforms.calls.custom_calls import Rule
from xlafront.transforms.calls.custom_jvp import to_rule_argument
from xlafront.transforms.calls.custom_vjp import custom_lin_p


class HiPrim:
    """A primitive on arrays, or pytrees of arrays, with methods as rules.

    A subclass sets three attributes, calls `super().__init__()`, and defines `expand(*args)`, the computation.

    Reverse mode needs `vjp_fwd(nzs_in, *args)`, which returns the result and the residuals, and either `vjp_bwd_retval(res,
    outgrad)` or `vjp_bwd(res, outgrad, *arg_accums)`. The former returns a tuple of the cotangents of the arguments (None for
    an array without cotangent). The latter gets for each argument a pytree with an accumulator in place of each array:
    `accum(ct)` adds a cotangent, any number of times, and `aval` is the type of the cotangent; a `NullAccum` drops it. Forward
    mode needs `jvp(primals, tangents)`, or `lin(nzs_in, *primals)` and `linearized(residuals, *tangents)`. One kind of rules
    follows from another by an assignment in the class: `jvp = jvp_from_lin`, `lin, linearized = linearize_from_jvp`,
    `vjp_fwd, vjp_bwd_retval = vjp_from_jvp` or `vjp_from_lin`. `vmap` needs `batch(axis_data, args, dims)`, which returns the
    result and its batch dimension; `vmap_rule` is often all that it calls.

    Args:
        in_avals: Tuple of the types of the arguments, pytrees for pytrees.
        out_aval: Type of the result.
        params: Dict of hashable parameters, which also become attributes.

    Example:
        >>> class Double(hijax.HiPrim):
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
    skip_linearization_on_zero_tangents = True  # the rules of derivatives never run without a tangent

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
            raise TypeError(f"{self} takes arguments of the structure of its in_avals, {self.in_tree}; got {structure}.")
        self.check(*[tree.map(tracing.aval_of, arg) for arg in args])
        trace = tracing.thread.trace
        if isinstance(trace, tracing.StagingTrace):
            return self.staging(trace, source.current_site(), *args)
        return self.out_tree.unflatten(call_hi_primitive_p.bind(*leaves, _prim=self))

    def check(self, *arg_tys: Any) -> None:
        """Check the types of the arguments; override to reject some."""

    def expand(self, *args: Any) -> Any:
        """Compute the result."""
        raise _missing_rule(self, "evaluation", "expand")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> tuple[Any, Any]:
        """Return the result and the residuals; `nzs_in` marks the arguments that are differentiated."""
        raise _missing_rule(self, "grad", "vjp_fwd")

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """Return the cotangents of the arguments."""
        raise _missing_rule(self, "grad", "vjp_bwd` or `vjp_bwd_retval")

    def vjp_bwd_retval_logs(self, res: Any, outgrad: Any, /) -> tuple[Any, Any]:
        """Return the cotangents of the arguments, and values to log, which gradients drop."""
        return self.vjp_bwd_retval(res, outgrad), None

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Accumulate the cotangents of the arguments, with `accum` of the accumulator of each array."""
        cts, _ = self.vjp_bwd_retval_logs(res, outgrad)
        tree.map(lambda accumulator, ct: accumulator.accum(ct), arg_accums, cts)

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        """Return the result and its tangent; `tangents` may contain `Zero`s."""
        raise _missing_rule(self, "jvp", "jvp")

    def lin(self, nzs_in: Any, *primals: Any) -> tuple[Any, Any]:
        """Return the result and the residuals of the linear map."""
        raise _missing_rule(self, "linearize", "lin")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """Apply the linear map to tangents."""
        raise _missing_rule(self, "linearize", "linearized")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Transpose a primitive that is linear in some arrays: accumulate their cotangents, with `accum` of their accumulators.

        The other arrays are passed as values; a cotangent may be a `Zero`.
        """
        raise _missing_rule(self, "linear_transpose", "transpose")

    def dce(self, used_outs: Any, live_ins: Any) -> tuple[Any, Any, HiPrim]:
        """Eliminate unused results: return the live arguments, the live results, and a primitive from these to those."""
        return live_ins, tree.map(lambda _: True, used_outs), self

    def remat(self, trace: Any, *args: Any) -> Any:
        """Apply the primitive in a trace of the setting `remat3`, which has no effect here: `checkpoint` never calls it."""
        return self(*args)

    def batch(self, axis_data: AxisData, args: Any, dims: Any) -> tuple[Any, Any]:
        """Return the batched result and its batch dimension."""
        raise _missing_rule(self, "vmap", "batch")

    def staging(self, trace: Any, source_info: Any, *args: Any) -> Any:
        """Append the call to the jaxpr that is being traced, and return the traced result; override to append others."""
        with tracing.current_trace(trace):
            return self.out_tree.unflatten(call_hi_primitive_p.bind(*tree.leaves(args), _prim=self))

    def physicalize(self, ctx: Any, *args: Any) -> Any:
        """Compute the result from key arrays replaced by their data. Never called here: lowering replaces them in `expand`."""
        return self.expand(*args)

    def pp_params(self) -> dict[str, Any]:
        """Return the parameters that jaxprs show."""
        return self.params

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), *self.in_avals_flat, self.in_tree))

    def _key(self) -> tuple:
        return self.in_avals_flat, self.in_tree, self.out_avals_flat, self.out_tree, self.params

    def __repr__(self) -> str:
        shown = " ".join([f"{name}={value}" for name, value in self.pp_params().items()])
        return type(self).__name__ + (f"[{shown}]" if shown else "")

    def _live(self, used_outs: Any, live_ins: Any) -> tuple[Any, Any, HiPrim]:
        return self.dce(used_outs, live_ins)


class VJPHiPrimitive(HiPrim):
    """A `HiPrim` by the older protocol, for programs written for JAX 0.10.

    It differs in three methods: `dce(used_outs)`, `remat(policy, *args)`, and `batch_dim_rule(axis_data, dims)`, which returns
    the batch dimension of the result and replaces `batch` where the batched primitive is the primitive under `vmap`.

    Args:
        in_avals: Tuple of the types of the arguments, pytrees for pytrees.
        out_aval: Type of the result.
        params: Dict of hashable parameters, which also become attributes.

    Example:
        >>> class Triple(hijax.VJPHiPrimitive):
        ...     def __init__(self, x):
        ...         self.in_avals, self.out_aval, self.params = (x,), x, {}
        ...         super().__init__()
        ...     def expand(self, x):
        ...         return 3 * x
        ...     def batch_dim_rule(self, axis_data, dims):
        ...         return dims[0]
        >>> xf.vmap(lambda x: Triple(xf.typeof(x))(x))(np.float32([1, 2]))
        Array([3., 6.], dtype=float32)
    """

    def dce(self, used_outs: Any) -> tuple[Any, Any, HiPrim]:  # type: ignore[override]
        """Eliminate unused results: return the live arguments, the live results, and a primitive from these to those."""
        raise _missing_rule(self, "the elimination of unused results", "dce")

    def remat(self, policy: Any, *args: Any) -> Any:
        """Apply the setting `remat3` under `checkpoint`, which has no effect here."""
        raise _missing_rule(self, "remat3", "remat")

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        """Return the batch dimension of the result, given those of the arguments; None if it is not batched."""
        raise _missing_rule(self, "vmap", "batch` or `batch_dim_rule")

    def batch(self, axis_data: AxisData, args: Any, dims: Any) -> tuple[Any, Any]:
        """Return the batched result and its batch dimension."""
        out_dims = self.batch_dim_rule(axis_data, dims)
        types = tree.map(tracing.aval_of, tuple(args))
        return _Batched(self, axis_data, types, dims, out_dims)(*args), out_dims

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.params}]"

    def _live(self, used_outs: Any, live_ins: Any) -> tuple[Any, Any, HiPrim]:
        return self.dce(used_outs)


def _missing_rule(primitive: HiPrim, use: str, method: str) -> NotImplementedError:
    return NotImplementedError(f"{primitive} has no rule for {use}: define `{method}` in the class {type(primitive).__name__}.")


def _has_rule(primitive: HiPrim, method: str) -> bool:
    if isinstance(primitive, _Batched):
        return _has_rule(primitive.inner, method)
    return getattr(type(primitive), method) not in (getattr(HiPrim, method), getattr(VJPHiPrimitive, method))


class _Batched(VJPHiPrimitive):
    """A batched primitive, made from the batch dimensions only: its rules are those of the element primitive under `vmap`."""

    inner: VJPHiPrimitive

    def __init__(self, inner: VJPHiPrimitive, axis_data: AxisData, types: tuple, dims: Any, out_dims: Any):
        self.dims, self.out_dims, self.axis_data = tuple(dims), out_dims, axis_data
        self.in_avals = types
        outs = tracing.trace_to_closed_jaxpr(
            lambda *xs: tree.leaves(self._mapped(inner.expand, self.dims, out_dims)(*tree.structure(types).unflatten(xs))),
            tree.leaves(types)).out_avals
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

        def element_bwd(res: Any, ct: Any) -> list[Any]:
            elements = [type(batch)(aval.to_ct_aval()) for batch, aval in zip(batches, self.inner.in_avals_flat)]
            self.inner.vjp_bwd(res, ct, *self.in_tree.unflatten(elements))
            return [None if type(ct) is Zero else ct for ct in [element.freeze() for element in elements]]

        dims = tree.leaves(self.dims, is_leaf=lambda d: d is None)
        cts = self._mapped(element_bwd, (0, self.out_dims), [0 if d is None else d for d in dims])(res, outgrad)
        for batch, dim, ct in zip(batches, dims, cts):
            batch.accum(ct if dim is not None or ct is None else reduce_sum_p.bind(ct, axes=(0,), out_sharding=None))

    def jvp(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        tangents = tuple([tree.map(instantiate_zeros, t) for t in tangents])
        tangent_dims = tuple([0 if d is None else d for d in self.dims])
        batched = [t if d is not None else tree.map(lambda x: self._mapped(lambda: x, (), 0)(), t)
                   for t, d in zip(tangents, self.dims)]
        rule = self._mapped(lambda xs, ts: self.inner.jvp(xs, ts), (self.dims, tangent_dims), (self.out_dims, self.out_dims))
        return rule(tuple(primals), tuple(batched))

    def batch_dim_rule(self, axis_data: AxisData, dims: Any, /) -> Any:
        """Return the batch dimension of the result; the inner rule counts dimensions without the first batch."""
        inner_dims = tuple([None if outer is None else outer - (own is not None and own < outer)
                            for outer, own in zip(dims, self.dims)])
        dim = self.inner.batch_dim_rule(axis_data, inner_dims)
        return None if dim is None else dim + (self.out_dims is not None and self.out_dims <= dim)


# The primitive in jaxprs

derived_reverse_rules: set[Callable] = set()  # rules that follow from `jvp` or `lin`, which serve both modes


def _derives_reverse_mode(primitive: HiPrim) -> bool:
    """True if the rules of reverse mode only transpose those of forward mode."""
    kind = type(primitive)
    return {kind.vjp_fwd, kind.vjp_bwd_retval} <= derived_reverse_rules and not (
        _has_rule(primitive, "vjp_bwd") or _has_rule(primitive, "vjp_bwd_retval_logs"))


def _results(primitive: HiPrim, value: Any, rule: str) -> list[Any]:
    leaves, structure = tree.flatten(value)
    types = [tracing.aval_of(x, rule) for x in leaves]
    expected = primitive.out_avals_flat
    if structure != primitive.out_tree or list(map(_signature, types)) != list(map(_signature, expected)):
        raise TypeError(f"{rule} of {primitive} must return values of the types of its out_aval, {primitive.out_aval}; it "
                        f"returned {value!r}.")
    return leaves


def _signature(aval: Any) -> Any:
    """Return the properties of a type that a rule must preserve."""
    return aval if aval.is_high else (aval.shape, aval.dtype)


def _expand(*xs: Any, _prim: HiPrim) -> list[Any]:
    return _results(_prim, _prim.expand(*_prim.in_tree.unflatten(xs)), "expand")


def _expand_and_lower(*xs: Any, _prim: HiPrim) -> list[Any]:
    """Compute the result on arrays; composite values inside are lowered to their components."""
    closed = tracing.trace_to_closed_jaxpr(lambda *xs: _expand(*xs, _prim=_prim), [tracing.aval_of(x) for x in xs])
    if composite_lowering.is_high(closed):
        closed = composite_lowering.program_on_components(closed)
    return closed(*xs)


def _unflatten_marks(primitive: HiPrim, marks: Sequence[bool]) -> Any:
    return primitive.in_tree.unflatten(marks)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, _prim: HiPrim) -> tuple[list, list]:
    trace = tracing.thread.trace
    args, active = _prim.in_tree.unflatten(primals), [type(t) is not Zero for t in tangents]
    linearizes = isinstance(trace, LinearTrace)
    if linearizes and _has_rule(_prim, "vjp_fwd") and not _derives_reverse_mode(_prim):
        return _with_pullback(trace.parent, args, tangents, active, _prim)
    if linearizes and _has_rule(_prim, "lin"):
        with tracing.current_trace(trace.parent):
            value, residuals = _prim.lin(_unflatten_marks(_prim, active), *args)
        out_tangents = _prim.linearized(residuals, *_prim.in_tree.unflatten(tangents))
    elif linearizes and not _has_rule(_prim, "jvp"):
        raise _missing_rule(_prim, "grad", "vjp_fwd")
    else:
        value, out_tangents = _prim.jvp(args, _prim.in_tree.unflatten(tangents))
    outs = _results(_prim, value, "jvp")
    return outs, [Zero(tracing.aval_of(x).to_tangent_aval()) if t is None else t for x, t in zip(
        outs, tree.leaves(out_tangents, is_leaf=lambda t: t is None or type(t) is Zero), strict=True)]


def _with_pullback(values: tracing.Trace, args: tuple, tangents: Sequence[Any], active: list[bool], primitive: HiPrim
                   ) -> tuple[list, list]:
    """Return the results of the forward rule, and tangents that are defined only by their transpose, the backward rule."""
    with tracing.current_trace(values):
        value, saved = primitive.vjp_fwd(_unflatten_marks(primitive, active), *args)
    outs = _results(primitive, value, "vjp_fwd")
    residuals, structure = tree.flatten(saved)
    in_avals = primitive.in_avals_flat

    def pullback(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        accumulators = [(ValAccum if needed else NullAccum)(aval.to_ct_aval()) for needed, aval in zip(active, in_avals)]
        outgrad = primitive.out_tree.unflatten([to_rule_argument(ct, False) for ct in cts])
        primitive.vjp_bwd(structure.unflatten(residuals), outgrad, *primitive.in_tree.unflatten(accumulators))
        return [a.freeze() for a in accumulators]

    out_avals = tuple([tracing.aval_of(x).to_tangent_aval() for x in outs])
    out_tangents = custom_lin_p.bind(
        *residuals, *[t for t in tangents if type(t) is not Zero], num_res=len(residuals), bwd=Rule(pullback, str(primitive)),
        in_zeros=tuple([not a for a in active]), out_avals=out_avals, symbolic_zeros=False, name=str(primitive))
    return outs, list(out_tangents)


def _transpose(cts: Sequence[Any], *operands: Any, _prim: HiPrim) -> list[Any]:
    accumulators = [ValAccum(x.aval.to_ct_aval()) if is_undefined(x) else x for x in operands]
    rule: Callable[..., Any] = _prim.transpose
    if rule(_prim.out_tree.unflatten(cts), *_prim.in_tree.unflatten(accumulators)) is not None:
        raise TypeError(f"transpose of {_prim} must return None: pass cotangents to `accum` of the accumulators, which it "
                        f"gets in place of the arrays that it is linear in.")
    in_cts = [accumulator.val if is_undefined(x) else None for accumulator, x in zip(accumulators, operands)]
    return [Zero(x.aval) if ct is None and is_undefined(x) else ct for ct, x in zip(in_cts, operands)]


def _dce(used: Sequence[bool], eqn: Any) -> Any:
    primitive = eqn.params["_prim"]
    if not any(used):
        return None
    if all(used) or not _has_rule(primitive, "dce"):
        return eqn
    live = primitive.in_tree.unflatten([True] * primitive.in_tree.num_leaves)
    needed, results, smaller = primitive._live(primitive.out_tree.unflatten(used), live)
    marks = tree.leaves_by_prefix("dce", needed, primitive.in_tree.unflatten(eqn.invars), lambda x: isinstance(x, bool))
    return eqn.replace(invars=[v for v, keep in zip(eqn.invars, marks) if keep],
                       outvars=[v for v, keep in zip(eqn.outvars, tree.leaves(results)) if keep], params={"_prim": smaller})


def _batch(trace: Any, values: Sequence[Any], dims: Sequence[int | None], *, _prim: HiPrim) -> tuple[list, list]:
    data = AxisData(trace.axis_name, trace.size)
    result, out_dims = _prim.batch(data, _prim.in_tree.unflatten(values), _prim.in_tree.unflatten(dims))
    return tree.leaves(result), tree.leaves_by_prefix("batch", out_dims, result, lambda d: d is None or isinstance(d, int))


call_hi_primitive_p = Primitive(
    "call_hi_primitive", multiple_results=True, abstract=lambda *_, _prim: list(_prim.out_avals_flat),
    lower=lower_fun(_expand_and_lower, True), impl=_expand, jvp=_jvp, transpose=_transpose, batch_with_axis=_batch,
    printed_as=lambda left, unread, atoms, eqn: f"{left} = {eqn.params['_prim']} {' '.join(atoms)}".rstrip(),
    structured=Structured(dce=_dce), traits=Traits(memoise=False, accepts_composites=True))
