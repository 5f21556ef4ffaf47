"""Rules of a `HiPrim` that follow from its other rules, and what its batching rules are written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xlafront.api.derivatives import linear_transpose
from xlafront.api.vmap import vmap
from xlafront.core import tree
from xlafront.core.avals import with_dimension, without_dimension
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.core.zeros import Zero
from xlafront.interpreters.ad import instantiate_zeros
from xlafront.interpreters.batching import AxisData, bdim_at_front
from xlafront.interpreters.hijax_primitives import HiPrim, derived_reverse_rules


class MappingSpec:
    """Base class of the specs that say how `vmap` maps values of a composite type; types define subclasses.

    Example:
        >>> class Rows(hijax.MappingSpec):
        ...     axis = 0
    """


# Rules of derivatives


@tree.register_pytree_node_class
class _Residuals(NamedTuple):
    """The residuals of a derived forward rule, with marks of the arguments that have tangents, which are static."""

    values: Any
    active: Any

    def tree_flatten(self) -> tuple[tuple, Any]:
        marks, structure = tree.flatten(self.active)
        return (self.values,), (tuple(marks), structure)

    @classmethod
    def tree_unflatten(cls, static: Any, children: Any) -> _Residuals:
        marks, structure = static
        [values] = children
        return cls(values, structure.unflatten(marks))


def _is_zero(x: Any) -> bool:
    return type(x) is Zero


def jvp_from_lin(self: HiPrim, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Compute the JVP rule of a `HiPrim` by its rules `lin` and `linearized`: assign it in the class.

    Args:
        self: The primitive.
        primals: Tuple of arguments.
        tangents: Tuple of tangents, which may contain `Zero`s.

    Returns:
        The result and its tangent.

    Example:
        >>> class Square(hijax.HiPrim):
        ...     in_avals, out_aval, params = (xf.typeof(1.0),), xf.typeof(1.0), {}
        ...     def expand(self, x):
        ...         return x * x
        ...     def lin(self, nzs_in, x):
        ...         return self(x), 2 * x
        ...     def linearized(self, residuals, tangent):
        ...         return residuals * tangent
        ...     jvp = hijax.jvp_from_lin
        >>> xf.linearize(Square(), 3.0)[1](1.0)
        Array(6., dtype=float32, weak_type=True)
    """
    value, residuals = self.lin(tree.map(lambda t: not _is_zero(t), tuple(tangents), is_leaf=_is_zero), *primals)
    return value, self.linearized(residuals, *tangents)


def _lin_by_jvp(self: HiPrim, nzs_in: Any, /, *primals: Any) -> tuple[Any, Any]:
    return self(*primals), primals


def _linearized_by_jvp(self: HiPrim, residuals: Any, /, *tangents: Any) -> Any:
    return self.jvp(residuals, tangents)[1]


def _forward_by_jvp(self: HiPrim, nzs_in: Any, /, *primals: Any) -> tuple[Any, Any]:
    return self(*primals), _Residuals(primals, nzs_in)


def _backward_by_jvp(self: HiPrim, res: _Residuals, outgrad: Any, /) -> Any:
    return _transposed(self, res.active, lambda *tangents: self.jvp(res.values, tangents)[1], outgrad)


def _forward_by_lin(self: HiPrim, nzs_in: Any, /, *primals: Any) -> tuple[Any, Any]:
    value, residuals = self.lin(nzs_in, *primals)
    return value, _Residuals(residuals, nzs_in)


def _backward_by_lin(self: HiPrim, res: _Residuals, outgrad: Any, /) -> Any:
    return _transposed(self, res.active, lambda *tangents: self.linearized(res.values, *tangents), outgrad)


def _transposed(primitive: HiPrim, active: Any, linear: Callable, outgrad: Any) -> Any:
    """Apply the transpose of a linear map of tangents. Arguments without tangents get `Zero` cotangents."""
    types = [aval.to_tangent_aval() for aval in primitive.in_avals_flat]
    marks = tree.leaves(active)

    def of_active(*tangents: Any) -> Any:
        given = iter(tangents)
        full = primitive.in_tree.unflatten([next(given) if marked else Zero(aval) for marked, aval in zip(marks, types)])
        out = tree.leaves(linear(*full), is_leaf=lambda t: t is None or _is_zero(t))
        zeros = [Zero(aval.to_tangent_aval()) for aval in primitive.out_avals_flat]
        return primitive.out_tree.unflatten([instantiate_zeros(z if t is None else t) for t, z in zip(out, zeros, strict=True)])

    examples = [ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type) for t, marked in zip(types, marks) if marked]
    cts = iter(linear_transpose(of_active, *examples)(outgrad))
    return primitive.in_tree.unflatten([next(cts) if marked else Zero(aval) for marked, aval in zip(marks, types)])


class _LinearizeRules(NamedTuple):
    """The rules `lin` and `linearized` that follow from `jvp`."""

    lin: Callable
    linearized: Callable


class _ReverseRules(NamedTuple):
    """The rules `vjp_fwd` and `vjp_bwd_retval` that follow from other rules."""

    vjp_fwd: Callable
    vjp_bwd_retval: Callable


linearize_from_jvp = _LinearizeRules(_lin_by_jvp, _linearized_by_jvp)
vjp_from_jvp = _ReverseRules(_forward_by_jvp, _backward_by_jvp)
vjp_from_lin = _ReverseRules(_forward_by_lin, _backward_by_lin)
derived_reverse_rules.update((*vjp_from_jvp, *vjp_from_lin))


# Batching rules


def _is_axis(d: Any) -> bool:
    return d is None or isinstance(d, int)


def unmap_avals(axis_data: AxisData, avals: Any, dims: Any) -> Any:
    """Return the types of batches, from those of elements.

    Args:
        axis_data: The mapped axis, as the rule `batch` gets it.
        avals: Pytree of the types of elements.
        dims: Pytree of the same structure with the position of the mapped axis in each batch; None where there is none.

    Returns:
        Pytree of the types of batches.

    Example:
        >>> from xlafront.interpreters.batching import AxisData
        >>> hijax.unmap_avals(AxisData("i", 3), (xf.typeof(xnp.ones(2)),), (0,))
        (ShapedArray(float32[3,2]),)
    """
    return tree.map(lambda d, aval: aval if d is None else with_dimension(aval, d, axis_data.size), dims, avals,
                    is_leaf=_is_axis)


def bdims_at_front(axis_data: AxisData, args: Any, dims: Any) -> Any:
    """Return batches with the mapped axis in front; arrays that are not mapped are broadcast.

    Args:
        axis_data: The mapped axis, as the rule `batch` gets it.
        args: Pytree of arrays.
        dims: Pytree of the same structure with the position of the mapped axis in each array; None where there is none.

    Returns:
        Pytree of arrays.

    Example:
        >>> from xlafront.interpreters.batching import AxisData
        >>> hijax.bdims_at_front(AxisData("i", 3), (xnp.ones((2, 3)),), (1,))[0].shape
        (3, 2)
    """
    return tree.map(lambda d, x: bdim_at_front(x, d, axis_data.size), dims, args, is_leaf=_is_axis)


def vmap_rule(axis_data: AxisData, f: Callable, in_axes: Any, out_axes: Any, *, sum_match: bool = False) -> Callable:
    """Return a function mapped over the axis that a batching rule gets; `Zero`s are mapped as arrays of their type are.

    Args:
        axis_data: The mapped axis, as the rule `batch` gets it.
        f: Function of elements.
        in_axes: Position of the mapped axis in each argument, or a pytree prefix; None for arguments that are not mapped.
        out_axes: Position of the mapped axis in each result, or a pytree prefix; None for results that are not mapped.
        sum_match: If True, sum results over the mapped axis where `out_axes` is None.

    Returns:
        A function of batches.

    Example:
        >>> from xlafront.interpreters.batching import AxisData
        >>> hijax.vmap_rule(AxisData("i", 2), lambda x, y: x * y.sum(), (0, None), 0)(xnp.arange(2.0), xnp.ones(3))
        Array([0., 3.], dtype=float32)
    """
    named = {} if axis_data.name is None or type(axis_data.name) is object else {"axis_name": axis_data.name}
    axes_of_results = list(dict.fromkeys(tree.leaves(out_axes, is_leaf=lambda d: d is None)))

    def batched(*args: Any) -> Any:
        leaves, structure = tree.flatten(args, _is_zero)
        axes = tree.leaves_by_prefix("vmap_rule", tuple(in_axes), structure.unflatten(range(len(leaves))), _is_axis)
        elements = [Zero(x.aval if d is None else without_dimension(x.aval, d)) if _is_zero(x) else None
                    for x, d in zip(leaves, axes)]
        results: list[Any] = []  # structure, leaves of elements, and their axes

        def of_arrays(*xs: Any) -> list[list[Any]]:
            arrays = iter(xs)
            value = f(*structure.unflatten([next(arrays) if zero is None else zero for zero in elements]))
            out, out_structure = tree.flatten(value, _is_zero)
            out_dims = tree.leaves_by_prefix("vmap_rule", out_axes, out_structure.unflatten(range(len(out))), _is_axis)
            results[:] = out_structure, [x if _is_zero(x) else None for x in out], out_dims
            return [[x for x, d in zip(out, out_dims) if d == axis and not _is_zero(x)] for axis in axes_of_results]

        mapped = vmap(of_arrays, tuple([d for x, d in zip(leaves, axes) if not _is_zero(x)]), axes_of_results,
                      axis_size=axis_data.size, sum_match=sum_match, **named)
        groups = {d: iter(xs) for d, xs in zip(axes_of_results, mapped(*[x for x in leaves if not _is_zero(x)]))}
        out_structure, zeros, out_dims = results
        return out_structure.unflatten([
            next(groups[d]) if zero is None else zero if d is None else Zero(with_dimension(zero.aval, d, axis_data.size))
            for zero, d in zip(zeros, out_dims)])

    return batched
