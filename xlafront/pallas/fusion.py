"""Kernels that take the computations before and after them as arguments: `fusible`, `fuse`, and block specs of fusions."""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from xlafront.core import errors, tracing, tree
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.primitive import Primitive
from xlafront.core.refs import AbstractRef
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.traceback_filter import boundary
from xlafront.lax.lower_fun import lower_fun
from xlafront.pallas.block_fusion import Pulled, as_spec, aval_of, block_of, push, run_flat, trace
from xlafront.pallas.specs import BlockSpec, NoBlockSpec, no_block_spec

_Parameters, _Result = ParamSpec("_Parameters"), TypeVar("_Result")


@dataclasses.dataclass(frozen=True, eq=False)
class Fusion(Generic[_Parameters, _Result]):
    """A computation before or after a kernel, which the kernel can do on its blocks. Call it to compute the whole.

    In annotations, `Fusion[[A, B], C]` takes values of the types A and B and returns one of type C.

    Args:
        func: The computation. It closes over the arrays that it reads.
        in_type: Types of its arguments, `(args, kwargs)`; for results of a kernel their pytree in place of `args`.
        out_type: Type of its result, or types in their structure.
        strict_mode: True if values of an output that are used twice must have one block.

    Example:
        >>> fusion = pl.fuser.Fusion(lambda: xnp.ones(3), ((), {}), xf.ShapeDtypeStruct((3,), "float32"))
        >>> fusion.shape, fusion().sum()
        ((3,), Array(3., dtype=float32))
    """

    func: Callable
    in_type: tuple[Any, dict]
    out_type: Any
    strict_mode: bool = True

    type = property(lambda self: self.out_type, doc="Type of the result.")
    shape = property(lambda self: tree.map(lambda a: a.shape, self.out_type), doc="Shape of the result.")
    dtype = property(lambda self: tree.map(lambda a: a.dtype, self.out_type), doc="dtype of the result.")
    in_shape = property(lambda self: tree.map(lambda a: a.shape, self.in_type), doc="Shapes of the arguments.")
    in_dtype = property(lambda self: tree.map(lambda a: a.dtype, self.in_type), doc="dtypes of the arguments.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)


# Kernels that can be fused


@dataclasses.dataclass(frozen=True, eq=False)
class _Call:
    """A call of a fusible function: the parameter of its equation. The structure of its results is None until it is traced."""

    function: Callable
    in_tree: Any
    kwargs: dict
    prefix: Any
    out_tree: Any = None

    def run(self, inputs: Sequence[Fusion], outputs: Any) -> Any:
        return self.function(*self.in_tree.unflatten(inputs), outputs, **self.kwargs)

    def plain(self, *leaves: Any) -> Any:
        """Run the function without fusions."""
        return self.run([Fusion(lambda x=x: x, ((), {}), aval_of(x)) for x in leaves], tree.map(lambda _: None, self.prefix))


_is_fusing: contextvars.ContextVar[bool] = contextvars.ContextVar("is_fusing", default=False)
fusible_p = Primitive(
    "fusible", multiple_results=True, abstract=lambda *avals, call, out_avals: list(out_avals),
    lower=lower_fun(lambda *leaves, call, out_avals: tree.leaves(call.plain(*leaves)), multiple_results=True))


@boundary
def fusible(f: Any = None, *, output_fusion_prefix: Any = True) -> Callable:
    """Mark a function that calls a kernel, so that `fuse` passes it the computations before and after it.

    Args:
        f: Function of a `Fusion` for each array, in the structure of the arguments, and of the output fusion, which is None
            where nothing follows. An output fusion takes the results of the kernel, and returns a tuple, which `f` returns.
            Keyword arguments are static.
        output_fusion_prefix: Structure of the output fusions, if there are several: a prefix of the pytree of results, with an
            entry for each group of them. A fusion takes its group.

    Returns:
        A function of arrays; without `f` a decorator.

    Example:
        >>> @pl.fuser.fusible
        ... def identity(x_fusion, out_fusion):
        ...     return x_fusion() if out_fusion is None else out_fusion(x_fusion())
        >>> pl.fuser.fuse(lambda x: identity(2 * x) + 1)(xnp.ones(2))
        Array([3., 3.], dtype=float32)
    """
    if f is None:
        return lambda function: fusible(function, output_fusion_prefix=output_fusion_prefix)
    if not callable(f):
        raise errors.not_callable("fusible", f)

    @boundary
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree.flatten(args)
        found = _Call(f, in_tree, kwargs, output_fusion_prefix)
        if not _is_fusing.get():
            return found.plain(*leaves)
        traced = trace(found.plain, tuple(leaves), {})
        avals = tuple([v.aval for v in traced.jaxpr.outvars])
        traced_call = dataclasses.replace(found, out_tree=traced.out_tree)
        return traced.out_tree.unflatten(fusible_p.bind(*leaves, call=traced_call, out_avals=avals))

    call.__name__ = getattr(f, "__name__", "fusible")
    return call


@boundary
def fuse(f: Any = None, *, resolve_fusion_dtypes: bool = True, debug: bool = False, strict_mode: bool = True,
         static_argnums: int | Sequence[int] | None = None, static_argnames: str | Iterable[str] | None = None) -> Callable:
    """Pass the computations before and after a fusible function to it.

    Args:
        f: Function that calls one function which `fusible` has marked.
        resolve_fusion_dtypes: Ignored.
        debug: If True, print the jaxpr of `f`.
        strict_mode: If True, a value of an output that is used twice must have one block.
        static_argnums, static_argnames: Arguments that are not arrays, by position and by name.

    Returns:
        The function with equal results; without `f` a decorator.

    Example:
        >>> @pl.fuser.fusible
        ... def identity(x_fusion, out_fusion):
        ...     return x_fusion() if out_fusion is None else out_fusion(x_fusion())
        >>> pl.fuser.fuse(lambda x: identity(2 * x) + 1)(xnp.ones(2))
        Array([3., 3.], dtype=float32)
    """
    if f is None:
        return lambda function: fuse(function, debug=debug, strict_mode=strict_mode, static_argnums=static_argnums,
                                     static_argnames=static_argnames)
    if not callable(f):
        raise errors.not_callable("fuse", f)
    numbers = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums or ())
    names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames or ())

    @boundary
    def fused(*args: Any, **kwargs: Any) -> Any:
        dynamic = tuple([None if i in numbers else x for i, x in enumerate(args)])

        def run(*positional: Any, **named: Any) -> Any:
            return f(*[args[i] if i in numbers else x for i, x in enumerate(positional)], **named,
                     **{k: x for k, x in kwargs.items() if k in names})

        named = {k: x for k, x in kwargs.items() if k not in names}
        token = _is_fusing.set(True)
        try:
            traced = trace(run, dynamic, named)
        finally:
            _is_fusing.reset(token)
        if debug:
            print(f"\nThe fused function:\n{traced.jaxpr}")
        results = _Fused(traced.jaxpr.with_consts(traced.consts), tree.leaves((dynamic, named)), strict_mode).run()
        return traced.out_tree.unflatten(results)

    fused.__name__ = getattr(f, "__name__", "fused")
    return fused


class _Fused:
    """A jaxpr with one call of a fusible function, and values of its arguments."""

    def __init__(self, jaxpr: Jaxpr, args: Sequence[Any], strict: bool) -> None:
        self.jaxpr, self.args, self.strict = jaxpr, list(args), strict
        calls = [eqn for eqn in jaxpr.eqns if eqn.primitive is fusible_p]
        if len(calls) != 1:
            raise ValueError(f"fuse takes a function that calls one function marked with fuser.fusible, outside of loops and "
                             f"branches; this one has {len(calls)} such calls.")
        [self.eqn] = calls

    def _compute(self, outvars: Sequence[Any], given: Sequence[Any] = (), values: Sequence[Any] = ()) -> list[Any]:
        """Compute variables from the arguments, and from results of the call if they are given."""
        known, eqns, needed_vars = set(given), list[JaxprEqn](), {v for v in outvars if not v.is_literal}
        for eqn in reversed(self.jaxpr.eqns):
            if any([v in needed_vars and v not in known for v in eqn.outvars]):
                eqns.insert(0, eqn)
                needed_vars |= {v for v in eqn.invars if not v.is_literal}
        part = self.jaxpr.replace(invars=[*self.jaxpr.invars, *given], eqns=eqns, outvars=list(outvars))
        return run_flat(part.with_consts(self.jaxpr.consts), [*self.args, *values])

    def _dependent(self, outvars: Sequence[Any]) -> set:
        """Return the variables that depend on some results of the call."""
        found = set(outvars)
        for eqn in self.jaxpr.eqns:
            if eqn is not self.eqn and any([not v.is_literal and v in found for v in eqn.invars]):
                found |= set(eqn.outvars)
        return found

    def run(self) -> list[Any]:
        call, results = self.eqn.params["call"], self.jaxpr.outvars
        inputs = [Fusion(lambda v=v: self._compute([v])[0], ((), {}), v.aval, self.strict) for v in self.eqn.invars]
        prefix_tree = tree.structure(call.prefix)
        subtrees = self._grouped(prefix_tree)
        groups = [tree.leaves(x) for x in subtrees]
        dependent = [self._dependent(g) for g in groups]
        owners = [[i for i, d in enumerate(dependent) if not v.is_literal and v in d] for v in results]
        if any([len(o) > 1 for o in owners]):
            raise ValueError("fuse: a result depends on several groups of results of the fusible function, as "
                             "output_fusion_prefix defines them. Use one group.")
        outputs: list[Any] = []
        order: list[list[int]] = []
        for i, (group, subtree) in enumerate(zip(groups, subtrees)):
            own = [k for k, o in enumerate(owners) if o == [i]]
            is_plain = [results[k] for k in own] == group
            order.append(own)
            outputs.append(None if is_plain else self._output(subtree, [results[k] for k in own]))
        found = tree.leaves(call.run(inputs, prefix_tree.unflatten(outputs)))
        positions = [k for own in order for k in own]
        if len(found) != len(positions):
            raise ValueError(f"the fusible function returned {len(found)} results; it must return those of its output fusions, "
                             f"{len(positions)}.")
        rest = [k for k, o in enumerate(owners) if not o]
        values = dict(zip(positions, found)) | dict(zip(rest, self._compute([results[k] for k in rest])))
        return [values[k] for k in range(len(results))]

    def _grouped(self, prefix_tree: Any) -> list[Any]:
        """Return the results of the call that each entry of the prefix stands for, as pytrees."""
        call = self.eqn.params["call"]
        try:
            return prefix_tree.flatten_up_to(call.out_tree.unflatten(self.eqn.outvars))
        except ValueError as error:
            raise ValueError(f"fusible: output_fusion_prefix={call.prefix} is no prefix of the results, a pytree "
                             f"{call.out_tree}. Give one entry for each group of them, in their structure.") from error

    def _output(self, group: Any, outvars: Sequence[Any]) -> Fusion:
        """Return the function of a group of results, which takes them as a pytree or one by one."""
        variables, structure = tree.flatten(group)
        return Fusion(lambda *values: tuple(self._compute(outvars, variables, tree.leaves(values))),
                      (structure.unflatten([v.aval for v in variables]), {}), tuple([v.aval for v in outvars]), self.strict)


# Functions for fusible functions


@boundary
def get_fusion_values(fusion: Callable, *args: Any, **kwargs: Any) -> tuple[Callable, tuple, tuple]:
    """Return a fusion as a function of the arrays that it closes over.

    Args:
        fusion: The fusion.
        args, kwargs: Arguments of the fusion, or their shapes and dtypes.

    Returns:
        A function `(values, *args, **kwargs)`; the values, arrays that need blocks; and scalars that only select positions of
        slices, which are for scalar prefetch.

    Example:
        >>> x = xnp.ones((4, 8))
        >>> function, values, scalars = pl.fuser.get_fusion_values(lambda: 2 * x)
        >>> function(values).sum(), len(values), scalars
        (Array(64., dtype=float32), 1, ())
    """
    traced = trace(fusion, args, kwargs)
    if any([type(v.aval) is AbstractRef for v in traced.jaxpr.constvars]):
        raise ValueError("get_fusion_values takes a function that uses no references. Use get_stateful_input_fusion_values, or "
                         "get_stateful_output_fusion_values for one that writes.")
    is_scalar = [traced.is_scalar(v) for v in traced.jaxpr.constvars]

    def function(values: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        it = iter(values)
        consts = [c if s else next(it) for c, s in zip(traced.consts, is_scalar)]
        return traced.out_tree.unflatten(run_flat(traced.jaxpr.with_consts(consts), tree.leaves((args, kwargs))))

    regular, scalars = ([c for c, s in zip(traced.consts, is_scalar) if s is kind] for kind in (False, True))
    return function, tuple(regular), tuple(scalars)


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, (BlockSpec, NoBlockSpec))


def _blocks(caller: str, specs: Any, avals: Sequence[Any]) -> list[Any]:
    leaves = tree.leaves(specs, is_leaf=_is_spec)
    if len(leaves) == 1 and len(avals) > 1:
        leaves *= len(avals)
    if len(leaves) != len(avals):
        raise ValueError(f"{caller} takes a BlockSpec for each array, got {len(leaves)} for {len(avals)} arrays.")
    return [block_of(s, a) for s, a in zip(leaves, avals)]


@boundary
def pull_block_spec(f: Callable, out_block_specs: Any, *, scalar_prefetch_handler: Any = None, grid_len: int | None = None,
                    strict_mode: bool = True) -> Callable:
    """Compute the block specs of a function's arguments from those of its results.

    Args:
        f: The function, such as one that `get_fusion_values` returns.
        out_block_specs: A BlockSpec for each result.
        scalar_prefetch_handler: Function from the prefetched scalars of the kernel to those of `f`, as
            `make_scalar_prefetch_handler` makes one.
        grid_len: Number of the axes of the grid. Needed for slices at prefetched scalars, and to compare blocks.
        strict_mode: If True, a value that is used twice must have one block; if False, blocks of one size.

    Returns:
        A function of the arguments of `f`, or of their shapes and dtypes. It returns a function for the kernel and the specs of
        the positional and of the keyword arguments. The function for the kernel takes the indices of the grid, the prefetched
        scalars and blocks of the arguments, and returns blocks of the results.

    Example:
        >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        >>> function, (spec,), _ = pl.fuser.pull_block_spec(lambda x: 2 * x.T, rows, grid_len=1)(xnp.ones((128, 32)))
        >>> spec.block_shape, spec.index_map(3)
        ((128, 8), (0, 3))
    """
    @boundary
    def pull(*args: Any, **kwargs: Any) -> tuple[Callable, Any, Any]:
        traced = trace(f, args, kwargs)
        if not all([traced.is_scalar(v) for v in traced.jaxpr.constvars]):
            raise ValueError("pull_block_spec takes a function that closes over no arrays. Make one with get_fusion_values, "
                             "and pass the values as arguments.")
        outputs = _blocks("pull_block_spec", out_block_specs, [v.aval for v in traced.jaxpr.outvars])
        pulled = Pulled(traced, outputs, scalar_prefetch_handler, grid_len, strict_mode)
        specs = [as_spec(pulled.blocks.get(v)) for v in traced.jaxpr.invars]

        def kernel_function(program_ids: Sequence[Any], scalar_prefetch: Any, *args: Any, **kwargs: Any) -> Any:
            leaves = tree.leaves((args, kwargs))
            return traced.out_tree.unflatten(pulled.evaluate(program_ids, tuple(scalar_prefetch or ()), leaves))

        return kernel_function, *traced.in_tree.unflatten(specs)

    return pull


@boundary
def push_block_spec(f: Callable, *in_spec_args: Any, scalar_prefetch_handler: Any = None, grid_len: int | None = None,
                    strict_mode: bool = True, return_out_type: bool = False, **in_spec_kwargs: Any) -> Callable:
    """Compute the block specs of a function's results from those of its arguments.

    Args:
        f: The function, such as an output fusion that `get_fusion_values` returns.
        in_spec_args, in_spec_kwargs: A BlockSpec for each argument; `pl.no_block_spec` for those that follow from the others.
        scalar_prefetch_handler, grid_len, strict_mode: Ignored: results have the blocks of the arguments.
        return_out_type: If True, also return the shapes and dtypes of the results.

    Returns:
        A function of the arguments of `f`, or of their shapes and dtypes, which returns the specs.

    Example:
        >>> rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        >>> pl.fuser.push_block_spec(lambda x: 2 * x.T, rows)(xnp.ones((32, 128))).block_shape
        (128, 8)
    """
    @boundary
    def run(*args: Any, **kwargs: Any) -> Any:
        traced = trace(f, args, kwargs)
        expanded = tree.broadcast((in_spec_args, in_spec_kwargs), (args, kwargs), is_leaf=_is_spec)
        inputs = _blocks("push_block_spec", expanded, [v.aval for v in traced.jaxpr.invars])
        specs = traced.out_tree.unflatten([as_spec(b) for b in push(traced, inputs)])
        if not return_out_type:
            return specs
        types = [ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in traced.jaxpr.outvars]
        return specs, traced.out_tree.unflatten(types)

    return run


@boundary
def push_pull_block_spec(f: Callable, *block_specs: Any, scalar_prefetch_handler: Any = None, grid_len: int | None = None,
                         **block_spec_kwargs: Any) -> Callable:
    """Compute the block specs of an output fusion: of its results, and then of the arrays that it reads besides its arguments.

    Args:
        f: Function `(values, *args, **kwargs)`, as `get_fusion_values` returns it.
        block_specs, block_spec_kwargs: A BlockSpec for each of `args` and `kwargs`, the results of the kernel.
        scalar_prefetch_handler, grid_len: As for `pull_block_spec`.

    Returns:
        A function of the arguments of `f`, or of their shapes and dtypes. It returns a function for the kernel, the specs of
        `values` and of `kwargs`, and the types and specs of the results.

    Example:
        >>> rows, out = pl.BlockSpec((8, 128), lambda i: (i, 0)), xf.ShapeDtypeStruct((32, 128), "float32")
        >>> bias = xnp.ones((1, 128))
        >>> f, values, _ = pl.fuser.get_fusion_values(lambda x: x + bias, out)
        >>> _, (spec,), _, _, _ = pl.fuser.push_pull_block_spec(f, rows, grid_len=1)(values, out)
        >>> spec.block_shape
        (1, 128)
    """
    @boundary
    def run(values: Any, *args: Any, **kwargs: Any) -> tuple:
        none = tree.map(lambda _: no_block_spec, values)
        specs, types = push_block_spec(f, none, *block_specs, return_out_type=True, **block_spec_kwargs)(
            values, *args, **kwargs)
        function, (value_specs, *_), named = pull_block_spec(
            f, specs, scalar_prefetch_handler=scalar_prefetch_handler, grid_len=grid_len, strict_mode=False)(
                values, *args, **kwargs)
        return function, value_specs, named, types, specs

    return run


def make_scalar_prefetch_handler(*args: Any) -> Callable:
    """Make the function that selects the prefetched scalars of one fusion.

    Args:
        args: Indices, which are applied one after the other to the tuple of the kernel's prefetched scalars.

    Returns:
        The function.

    Example:
        >>> pl.fuser.make_scalar_prefetch_handler(1)("a", ("b", "c"))
        ('b', 'c')
    """
    def handler(*scalars: Any) -> Any:
        found: Any = scalars
        for i in args:
            found = found[i]
        return found

    return handler


def block_spec_with_prefetch(block_specs: Any, scalar_prefetch_smem_refs: Sequence[Any]) -> Any:
    """Append prefetched scalars to the arguments of index maps.

    Args:
        block_specs: Pytree of BlockSpecs.
        scalar_prefetch_smem_refs: References to the scalars.

    Returns:
        The BlockSpecs, whose index maps take the grid's indices only.

    Example:
        >>> spec = pl.BlockSpec((8,), lambda i, start: (i + start,))
        >>> pl.fuser.block_spec_with_prefetch(spec, (3,)).index_map(2)
        (5,)
    """
    def append(spec: Any) -> Any:
        index_map = getattr(spec, "index_map", None)
        if index_map is None:
            return spec
        return spec.replace(index_map=lambda *indices: index_map(*indices, *scalar_prefetch_smem_refs))

    return tree.map(append, block_specs, is_leaf=_is_spec)


def filter_no_block_specs(values: Any, block_specs: Any) -> tuple[Any, Any]:
    """Replace arrays without a BlockSpec, and their `pl.no_block_spec`, by None.

    Args:
        values: Pytree of arrays.
        block_specs: Their BlockSpecs.

    Returns:
        Both pytrees.

    Example:
        >>> pl.fuser.filter_no_block_specs((1, 2), (pl.no_block_spec, pl.no_block_spec))
        ((None, None), (None, None))
    """
    is_none = tree.map(lambda s: isinstance(s, NoBlockSpec), block_specs, is_leaf=_is_spec)
    return (tree.map(lambda none, v: None if none else v, is_none, values),
            tree.map(lambda none, s: None if none else s, is_none, block_specs))


@boundary
def evaluate(f: Callable, *, allow_transpose: bool = True) -> Callable:
    """Make a function that runs another one operation by operation, and refuses what a fused kernel cannot have.

    Args:
        f: The function, of positional arguments.
        allow_transpose: If False, refuse transpositions.

    Returns:
        The function. It raises NotImplementedError for loops and branches, ValueError for transpositions.

    Example:
        >>> pl.fuser.evaluate(lambda x: 2 * x)(xnp.ones(2))
        Array([2., 2.], dtype=float32)
    """
    def check(eqn: Any) -> None:
        if eqn.primitive.name in ("scan", "while", "cond"):
            raise NotImplementedError(f"fuser.evaluate: {eqn.primitive.shown_as} is not possible. Use elementwise operations.")
        if eqn.primitive.name == "transpose" and not allow_transpose:
            raise ValueError("fuser.evaluate: the function transposes an array, and allow_transpose is False.")

    @boundary
    def run(*args: Any) -> Any:
        traced = trace(f, args, {})
        jaxpr = traced.jaxpr.with_consts(traced.consts)
        return traced.out_tree.unflatten(run_flat(jaxpr, [tracing.as_operand(x) for x in tree.leaves(args)], check))

    return run
