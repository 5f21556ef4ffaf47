"""Functions with rules of their own for fusion into kernels: `custom_fusion`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import errors, tracing, tree
from xlafront.core.avals import ShapedArray
from xlafront.core.traceback_filter import boundary
from xlafront.pallas.kernel_operation import kernel_operation


def _null_transform(*block_indices: Any) -> Any:
    return block_indices[0] if len(block_indices) == 1 else block_indices


@dataclasses.dataclass(frozen=True, eq=False)
class BlockIndexTransform:
    """A block of a value in a fusion: its shape, and its index as a function of the indices of the blocks of the results.

    Args:
        block_shape: Sizes of the block; None for a dimension to drop. None for all of the array.
        block_index_transform: Function of a tuple for each result of the fused function. It returns the index of the block.
        memory_space: The memory of the block.
        pipeline_mode: How blocks are buffered.

    Example:
        >>> first = pl.fuser.BlockIndexTransform((8, 128), lambda index: (0, index[1]))
        >>> first.block_index_transform((3, 4))
        (0, 4)
    """

    block_shape: Sequence[Any] | None
    block_index_transform: Callable[..., Any] = _null_transform
    memory_space: Any = dataclasses.field(default=None, kw_only=True)
    pipeline_mode: Any = dataclasses.field(default=None, kw_only=True)

    def replace(self, **changes: Any) -> BlockIndexTransform:
        """Return a copy with other fields."""
        return dataclasses.replace(self, **changes)


@dataclasses.dataclass(frozen=True, eq=False)
class CustomEvalContext:
    """The step of the grid in which an evaluation rule computes blocks.

    Args:
        out_block_specs: BlockSpec of each result; None for results without a block.
        out_block_indices: Indices of these blocks in the step of the grid.
        scalar_prefetch: Prefetched scalars of the kernel.
        scalar_prefetch_handler: Function from them to those of the fusion.
    """

    out_block_specs: tuple
    out_block_indices: tuple
    scalar_prefetch: tuple
    scalar_prefetch_handler: Callable | None


class custom_fusion:  # noqa: N801
    """A function with rules for its fusion into kernels. For use as a decorator; the three rules are needed before a call.

    Args:
        fun: The function of arrays, which computes the result outside of kernels.

    Example:
        >>> @pl.fuser.custom_fusion
        ... def double(x):
        ...     return 2 * x
        >>> double.def_pull_block_spec(lambda out_transforms: out_transforms)
        >>> double.def_push_block_spec(lambda in_specs: in_specs)
        >>> double.def_eval_rule(lambda context, x: (2 * x,))
        >>> double(xnp.ones(2))
        Array([2., 2.], dtype=float32)
    """

    def __init__(self, fun: Callable) -> None:
        if not callable(fun):
            raise errors.not_callable("custom_fusion", fun)
        self.fun = fun
        self.__name__ = getattr(fun, "__name__", "custom_fusion")
        self.__doc__ = getattr(fun, "__doc__", None)
        self.eval_rule: Callable | None = None
        self.pull_block_spec_rule: Callable | None = None
        self.push_block_spec_rule: Callable | None = None
        self.pallas_impl: Callable | None = None

    def def_eval_rule(self, eval_rule: Callable) -> None:
        """Set the rule `(context, *blocks)` from blocks of the operands to a tuple with a block of each result."""
        self.eval_rule = eval_rule

    def def_pull_block_spec(self, pull_block_spec_rule: Callable) -> None:
        """Set the rule from a tuple of the results' BlockIndexTransforms to one of the operands'."""
        self.pull_block_spec_rule = pull_block_spec_rule

    def def_push_block_spec(self, push_block_spec_rule: Callable) -> None:
        """Set the rule from a tuple of the operands' BlockSpecs to one of the results'."""
        self.push_block_spec_rule = push_block_spec_rule

    def def_pallas_impl(self, pallas_impl: Callable) -> None:
        """Set the function that compiled kernels compute in place of `fun`."""
        self.pallas_impl = pallas_impl

    @boundary
    def __call__(self, *args: Any) -> Any:
        rules = {"def_pull_block_spec": self.pull_block_spec_rule, "def_push_block_spec": self.push_block_spec_rule,
                 "def_eval_rule": self.eval_rule}
        for name, rule in rules.items():
            if rule is None:
                raise ValueError(f"the custom_fusion {self.__name__} lacks a rule. Define it with {self.__name__}.{name}.")
        leaves, in_tree = tree.flatten(args)
        leaves = [tracing.as_operand(x) for x in leaves]
        out_tree: Any = None

        def flat(*xs: Any) -> list[Any]:
            nonlocal out_tree
            results, out_tree = tree.flatten(self.fun(*in_tree.unflatten(xs)))
            return results

        avals = [ShapedArray(tracing.aval_of(x).shape, tracing.aval_of(x).dtype) for x in leaves]
        closed = tracing.trace_to_closed_jaxpr(flat, avals)
        found = custom_fusion_p.bind(*leaves, rules=self, computation=closed, in_tree=in_tree)
        return out_tree.unflatten(found)


custom_fusion_p = kernel_operation(
    "custom_fusion", lambda *xs, rules, computation, in_tree: computation(*xs), multiple_results=True,
    abstract=lambda *_, rules, computation, in_tree: list(computation.out_avals))


def in_kernels(*xs: Any, rules: custom_fusion, computation: Any, in_tree: Any) -> list[Any]:
    """Compute a custom fusion in a compiled kernel."""
    if rules.pallas_impl is None:
        return computation(*xs)
    return tree.leaves(rules.pallas_impl(*in_tree.unflatten(xs)))
