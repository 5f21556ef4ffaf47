"""Flash attention: softmax attention by blocks of queries and keys, without the matrix of logits in memory.

The forward pass is the online softmax of Milakov and Gimelshein (2018) by blocks, as in FlashAttention (Dao et al., 2022); the
backward pass recomputes the weights of a block from the log-sum-exp of its rows, as in FlashAttention-2 (Dao, 2023).
Arrays have the shape (batch, heads, length, width) in here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import lax
from xlafront.control.scan import scan
from xlafront.core import dtypes, errors
from xlafront.core.avals import ShapedArray
from xlafront.core.typing import Array, ArrayLike
from xlafront.kernels.reduction import Blocks, Reduction, dot, reduce_blocks, row_of
from xlafront.kernels.targets import Target, by_target
from xlafront.pallas.kernel_functions import cdiv
from xlafront.pallas.specs import CostEstimate
from xlafront.staging.library import library
from xlafront.transforms.calls.custom_vjp import custom_vjp

MASKED = -0.7 * float(np.finfo(np.float32).max)  # the logit of keys that a query does not attend to


@dataclass(frozen=True)
class Options:
    """The static options of attention.

    Args:
        scale: Factor of the products of queries and keys.
        before, after: Numbers of keys before and after a query's position that it attends to; None for all.
        soft_cap: Bound of the scaled products, `soft_cap * tanh(x / soft_cap)`; None for none.
        target: The compiler; None for that of the platform.
    """

    scale: float
    before: int | None = None
    after: int | None = None
    soft_cap: float | None = None
    target: Target | None = None


class _Plan:
    """The sizes of an attention, its blocks, and the parts of its kernels that forward and backward passes share."""

    def __init__(self, options: Options, target: Target, arrays: dict[str, Any], is_backward: bool = False):
        q, k = arrays["q"], arrays["k"]
        self.options, self.arrays = options, {name: x for name, x in arrays.items() if x is not None}
        self.batch, self.heads, self.queries, width = q.shape
        self.kv_heads, self.keys = k.shape[1:3]
        self.groups = self.heads // self.kv_heads
        rows, columns = target.attention(max(width, arrays["v"].shape[3]), q.dtype.itemsize, is_backward)
        self.rows, self.columns = target.block(rows, self.queries), target.block(columns, self.keys)
        self.num_rows, self.num_columns = cdiv(self.queries, self.rows), cdiv(self.keys, self.columns)
        self.width, self.value_width = target.covering(width), target.covering(arrays["v"].shape[3])
        self.dtype = np.dtype(np.float64) if q.dtype == np.float64 else np.dtype(np.float32)

    # The blocks of a row `i` and a column `j` of scores of a head

    def blocks(self, position: Callable[..., tuple], steps_over: str) -> list[Blocks]:
        """Return the blocks of each array.

        Args:
            position: Function of a step's indices that returns the batch element, head, and row and column of blocks.
            steps_over: "rows" or "columns", which depend on the step ("rows": also the head within its group); "" for none.
        """
        rows, columns = self.rows, self.columns
        by_row, by_column = {"rows": ((1, 2), ()), "columns": ((), (2,)), "": ((), ())}[steps_over]
        vector_by_row = (1, 3) if by_row else ()

        def at(of: Callable[[Any, Any, Any, Any], tuple]) -> Callable[..., tuple]:
            return lambda *indices: of(*position(*indices))

        found = {}
        for name, width in (("q", self.width), ("do", self.value_width)):
            found[name] = Blocks((None, None, rows, width), at(lambda b, h, i, j: (b, h, i, 0)), by_row)
        for name, width in (("k", self.width), ("v", self.value_width)):
            found[name] = Blocks((None, None, columns, width), at(
                lambda b, h, i, j: (b, _div(h, self.groups), j, 0)), by_column)
        for name in ("lse", "delta"):
            found[name] = Blocks((None, None, 1, rows), at(lambda b, h, i, j: (b, h, 0, i)), vector_by_row)
        found["q_segments"] = Blocks((None, 1, rows), at(lambda b, h, i, j: (b, 0, i)), (2,) if by_row else ())
        found["kv_segments"] = Blocks((None, 1, columns), at(lambda b, h, i, j: (b, 0, j)), (2,) if by_column else ())
        if "bias" in self.arrays:
            found["bias"] = self._bias_blocks(at, by_row, by_column)
        return [found[name] for name in self.arrays]

    def _bias_blocks(self, at: Callable, by_row: tuple, by_column: tuple) -> Blocks:
        many = [n > 1 for n in self.arrays["bias"].shape]
        stepped = [*[d for d in by_row if many[d]], *[3 for _ in by_column if many[3]]]
        return Blocks((None, None, self.rows if many[2] else 1, self.columns if many[3] else 1), at(
            lambda b, h, i, j: tuple([x if m else 0 for x, m in zip((b, h, i, j), many)])), tuple(stepped))

    # Scores

    def scores(self, i: Any, j: Any, values: tuple) -> tuple[Any, Any, dict[str, Any]]:
        """Return the logits of a block, a mask of those that count (None: all), and the values of the arrays by name."""
        options = self.options
        x = dict(zip(self.arrays, values))
        logits = dot(x["q"], x["k"], (1, 1)) * options.scale
        if options.soft_cap is not None:
            logits = options.soft_cap * xnp.tanh(logits / options.soft_cap)
        if "bias" in x:
            logits = logits + x["bias"].astype(logits.dtype)
        return logits, self.mask(i, j, x), x

    def mask(self, i: Any, j: Any, x: dict[str, Any]) -> Any:
        """Return the mask of a block of scores; None if all count."""
        masks = []
        if self.keys % self.columns or self.options.before is not None or self.options.after is not None:
            columns = j * self.columns + lax.broadcasted_iota(np.int32, (self.rows, self.columns), 1)
            if self.keys % self.columns:
                masks.append(columns < self.keys)
            distance = columns - (i * self.rows + lax.broadcasted_iota(np.int32, (self.rows, self.columns), 0))
            if self.options.after is not None:
                masks.append(distance <= self.options.after)
            if self.options.before is not None:
                masks.append(distance >= -self.options.before)
        if "q_segments" in x:
            masks.append(x["q_segments"].reshape(-1, 1) == x["kv_segments"])
        return functools.reduce(lambda a, b: a & b, masks) if masks else None

    def columns_of(self, i: Any) -> tuple[Any, Any]:
        """Return the first column of blocks that a row of blocks attends to, and their end."""
        return _band(i, self.rows, self.columns, self.num_columns, self.options.before, self.options.after)

    def rows_of(self, j: Any) -> tuple[Any, Any]:
        """Return the first row of blocks that attends to a column of blocks, and their end."""
        return _band(j, self.columns, self.rows, self.num_rows, self.options.after, self.options.before)

    @property
    def is_banded(self) -> bool:
        """True if some blocks of scores do not count at all."""
        return self.options.before is not None or self.options.after is not None

    def span(self, size: int, other: int, count: int) -> int | None:
        """Return the maximum number of blocks of size `other` that a block attends to; None for all."""
        before, after = self.options.before, self.options.after
        return None if before is None or after is None else max(1, min(count, cdiv(size + before + after, other) + 1))

    def cost(self, products: int) -> CostEstimate:
        """Return the cost of a kernel with this many matrix products for each score that counts."""
        positions = np.arange(self.queries)
        before, after = (self.keys + self.queries if n is None else n for n in (self.options.before, self.options.after))
        attended = np.clip(positions + after + 1, 0, self.keys) - np.clip(positions - before, 0, self.keys)
        scores = self.batch * self.heads * int(attended.clip(0).sum())
        return CostEstimate(2 * products * scores * self.width, scores, sum([x.nbytes for x in self.arrays.values()]))


def _div(x: Any, n: int) -> Any:
    return x if n == 1 else lax.div(x, np.int32(n)) if not isinstance(x, int) else x // n


def _band(i: Any, size: int, other: int, count: int, before: int | None, after: int | None) -> tuple[Any, Any]:
    """Return the first of `count` blocks of size `other` with elements near to those of block `i`, and the end."""
    start, stop = np.int32(0), np.int32(count)
    if before is not None:
        start = lax.div(xnp.maximum(i * size - before, 0), np.int32(other))
    if after is not None:
        stop = xnp.minimum(lax.div(xnp.maximum((i + 1) * size + after - 1, -other), np.int32(other)) + 1, count)
    return start, stop


# The online softmax, whose carry is a column of the largest logits, a column of totals, and the sums of weighted values


def softmax_carry(rows: int, width: int, dtype: Any) -> list[tuple]:
    """Return the carry of a reduction, for `Reduction`."""
    return [((rows, 1), dtype, MASKED), ((rows, 1), dtype, 0), ((rows, width), dtype, 0)]


def softmax_step(carry: tuple, logits: Any, mask: Any, values: Any) -> tuple:
    """Return the carry with more columns of logits, and the rows of values that belong to these columns."""
    largest, total, sums = carry
    if mask is not None:
        logits = xnp.where(mask, logits, MASKED)
    new = xnp.maximum(largest, logits.max(1, keepdims=True))
    weights, factor = xnp.exp(logits - new), xnp.exp(largest - new)
    if mask is not None:  # in rows without keys, `new` is MASKED
        weights = xnp.where(mask, weights, 0)
    return (new, factor * total + weights.sum(1, keepdims=True),
            factor * sums + dot(weights.astype(values.dtype), values))


def softmax_result(carry: tuple) -> tuple[Any, Any]:
    """Return the mean of the values with the softmax as weights, zeros for rows without columns, and the log-sum-exp."""
    largest, total, sums = carry
    is_empty = total == 0
    total = xnp.where(is_empty, 1, total)
    return sums / total, xnp.where(is_empty, -np.inf, largest + xnp.log(total))


# The forward pass


def _forward(options: Options, target: Target, q: Any, k: Any, v: Any, bias: Any, q_segments: Any, kv_segments: Any) -> tuple:
    """Return the attention's result and the log-sum-exp of its logits, of shape (batch, heads, 1, queries)."""
    plan = _Plan(options, target, dict(q=q, k=k, v=v, bias=bias, q_segments=q_segments, kv_segments=kv_segments))
    rows = plan.rows

    def step(at, carry, *values):
        logits, mask, x = plan.scores(at[2], at[3], values)
        return softmax_step(carry, logits, mask, x["v"])

    def finish(at, carry, *_):
        result, lse = softmax_result(carry)
        return result, row_of(target, lse)

    kernel = Reduction(
        name="flash_attention", grid=(plan.batch, plan.heads, plan.num_rows), steps=(plan.num_columns,),
        inputs=plan.blocks(lambda b, h, i, j: (b, h, i, j), "columns"), step=step, finish=finish,
        outputs=[Blocks((None, None, rows, plan.value_width), lambda b, h, i, j: (b, h, i, 0)),
                 Blocks((None, None, 1, rows), lambda b, h, i, j: (b, h, 0, i))],
        carry=softmax_carry(rows, plan.value_width, plan.dtype),
        bounds=(lambda b, h, i: plan.columns_of(i)) if plan.is_banded else None,
        span=plan.span(rows, plan.columns, plan.num_columns), cost=plan.cost(2))
    out_types = (ShapedArray((*q.shape[:3], v.shape[3]), q.dtype), ShapedArray((*q.shape[:2], 1, q.shape[2]), plan.dtype))
    return tuple(reduce_blocks(target, kernel, list(plan.arrays.values()), out_types))


# The backward pass


def _weights(plan: _Plan, i: Any, j: Any, values: tuple) -> tuple[Any, Any, dict[str, Any]]:
    """Return the weights of a block, the gradient of its logits, and the values of the arrays by name."""
    logits, mask, x = plan.scores(i, j, values)
    weights = xnp.exp(logits - x["lse"].reshape(-1, 1))
    if mask is not None:
        weights = xnp.where(mask, weights, 0)
    return weights, weights * (dot(x["do"], x["v"], (1, 1)) - x["delta"].reshape(-1, 1)), x


def _through_cap(plan: _Plan, gradient: Any, x: dict[str, Any]) -> Any:
    """Return the gradient of products of queries and keys from that of logits."""
    options = plan.options
    if options.soft_cap is not None:
        gradient = gradient * (1 - xnp.tanh(dot(x["q"], x["k"], (1, 1)) * (options.scale / options.soft_cap)) ** 2)
    return gradient * options.scale


def _query_gradient(options: Options, target: Target, *arrays: Any) -> Any:
    plan = _Plan(options, target, dict(zip(_BACKWARD_NAMES, arrays)), True)

    def step(at, carry, *values):
        _, gradient, x = _weights(plan, at[2], at[3], values)
        return (carry[0] + dot(_through_cap(plan, gradient, x).astype(x["k"].dtype), x["k"]),)

    kernel = Reduction(
        name="flash_attention_query_gradient", grid=(plan.batch, plan.heads, plan.num_rows), steps=(plan.num_columns,),
        inputs=plan.blocks(lambda b, h, i, j: (b, h, i, j), "columns"), step=step, finish=lambda at, carry, *_: carry,
        outputs=[Blocks((None, None, plan.rows, plan.width), lambda b, h, i, j: (b, h, i, 0))],
        carry=[((plan.rows, plan.width), plan.dtype, 0)],
        bounds=(lambda b, h, i: plan.columns_of(i)) if plan.is_banded else None,
        span=plan.span(plan.rows, plan.columns, plan.num_columns), cost=plan.cost(3))
    q = arrays[0]
    return reduce_blocks(target, kernel, list(plan.arrays.values()), [ShapedArray(q.shape, q.dtype)])[0]


def _key_value_gradients(options: Options, target: Target, *arrays: Any) -> tuple:
    plan = _Plan(options, target, dict(zip(_BACKWARD_NAMES, arrays)), True)

    def step(at, carry, *values):
        weights, gradient, x = _weights(plan, at[4], at[2], values)
        return (carry[0] + dot(_through_cap(plan, gradient, x).astype(x["q"].dtype), x["q"], (0, 0)),
                carry[1] + dot(weights.astype(x["do"].dtype), x["do"], (0, 0)))

    kernel = Reduction(
        name="flash_attention_key_value_gradients", grid=(plan.batch, plan.kv_heads, plan.num_columns),
        steps=(plan.groups, plan.num_rows), step=step, finish=lambda at, carry, *_: carry,
        inputs=plan.blocks(lambda b, h, j, g, i: (b, h * plan.groups + g, i, j), "rows"),
        outputs=[Blocks((None, None, plan.columns, width), lambda b, h, j, g, i: (b, h, j, 0))
                 for width in (plan.width, plan.value_width)],
        carry=[((plan.columns, width), plan.dtype, 0) for width in (plan.width, plan.value_width)],
        bounds=(lambda b, h, j: plan.rows_of(j)) if plan.is_banded else None,
        span=plan.span(plan.columns, plan.rows, plan.num_rows), cost=plan.cost(4))
    k, v = arrays[1:3]
    return tuple(reduce_blocks(target, kernel, list(plan.arrays.values()), [
        ShapedArray(k.shape, k.dtype), ShapedArray(v.shape, v.dtype)]))


def _logit_gradient(options: Options, target: Target, *arrays: Any) -> Any:
    """Return the gradient of all logits, of shape (batch, heads, queries, keys)."""
    plan = _Plan(options, target, dict(zip(_BACKWARD_NAMES, arrays)), True)
    kernel = Reduction(
        name="flash_attention_bias_gradient", grid=(plan.batch, plan.heads, plan.num_rows, plan.num_columns),
        inputs=plan.blocks(lambda b, h, i, j: (b, h, i, j), ""), step=lambda at, _, *values: (
            _weights(plan, at[2], at[3], values)[1],), finish=lambda at, carry, *_: carry,
        outputs=[Blocks((None, None, plan.rows, plan.columns), lambda b, h, i, j: (b, h, i, j))], cost=plan.cost(2))
    return reduce_blocks(target, kernel, list(plan.arrays.values()), [
        ShapedArray((plan.batch, plan.heads, plan.queries, plan.keys), plan.dtype)])[0]


def _bias_gradient(options: Options, target: Target, *arrays: Any) -> Any:
    """Return the gradient of the bias, summed over the dimensions in which it has size 1; one batch element at a time."""
    bias = arrays[3]
    axes = tuple([d for d in (1, 2, 3) if bias.shape[d] == 1])

    def one(*slices: Any) -> Any:
        return _logit_gradient(options, target, *slices).sum(axes, keepdims=True)

    if bias.shape[0] > 1 or arrays[0].shape[0] == 1:
        return one(*arrays).astype(bias.dtype)
    stepped = {i: x for i, x in enumerate(arrays) if x is not None and i != 3}

    def add(total: Any, elements: tuple) -> tuple:
        slices: list[Any] = [None] * len(arrays)
        for i, x in zip(stepped, elements):
            slices[i] = x[None]
        slices[3] = bias
        return total + one(*slices), None

    return scan(add, xnp.zeros(bias.shape, np.float32), tuple(stepped.values()))[0].astype(bias.dtype)


_BACKWARD_NAMES = ("q", "k", "v", "bias", "q_segments", "kv_segments", "do", "lse", "delta")


# The differentiable function


@library(static=("options",), name="flash_attention")
def _attend(q, k, v, bias, q_segments, kv_segments, options):
    def run(target: Target, *arrays: Any) -> tuple:
        return _forward(options, target, *arrays)

    return by_target(run, options.target, q, k, v, bias, q_segments, kv_segments)


@library(static=("options",), name="flash_attention_gradients")
def _gradients(arrays, options):
    def run(target: Target, *operands: Any) -> tuple:
        return _query_gradient(options, target, *operands), *_key_value_gradients(options, target, *operands)

    return by_target(run, options.target, *arrays)


@library(static=("options",), name="flash_attention_bias_gradient")
def _bias_gradients(arrays, options):
    def run(target: Target, *operands: Any) -> Any:
        return _bias_gradient(options, target, *operands)

    return by_target(run, options.target, *arrays)


@functools.partial(custom_vjp, nondiff_argnums=(6,))
def attend(q: Any, k: Any, v: Any, bias: Any, q_segments: Any, kv_segments: Any, options: Options) -> tuple:
    """Return attention of arrays of shape (batch, heads, length, width), and the log-sum-exp of its logits.

    Args:
        q, k, v: Queries, keys and values; the heads of the queries are a multiple of those of the others.
        bias: Array that is added to the logits, with sizes of 1 where it is broadcast; or None.
        q_segments, kv_segments: int32 arrays of shape (batch, 1, length), or None.
        options: Further options.

    Returns:
        The result, and the log-sum-exp of shape (batch, heads, 1, length).
    """
    return _attend(q, k, v, bias, q_segments, kv_segments, options=options)


def _attend_forward(q, k, v, bias, q_segments, kv_segments, options):
    out, lse = _attend(q, k, v, bias, q_segments, kv_segments, options=options)
    return (out, lse), ((q, k, v, bias, q_segments, kv_segments), out, lse)


def _attend_backward(options, residuals, cotangents):
    arrays, out, lse = residuals
    do, dlse = cotangents
    delta = (do.astype(lse.dtype) * out.astype(lse.dtype)).sum(-1)[:, :, None] - dlse
    operands = (*arrays, do, lse, delta)
    bias = None if arrays[3] is None else _bias_gradients(operands, options=options)
    return *_gradients(operands, options=options), bias, None, None


attend.defvjp(_attend_forward, _attend_backward)


# The public function


def flash_attention(query: ArrayLike, key: ArrayLike, value: ArrayLike, bias: ArrayLike | None = None, *,
                    segment_ids: tuple[ArrayLike, ArrayLike] | None = None, is_causal: bool = False,
                    local_window_size: int | tuple[int | None, int | None] | None = None, scale: float | None = None,
                    soft_cap: float | None = None, return_residual: bool = False) -> Array | tuple[Array, Array]:
    """Compute attention in blocks, with memory that grows linearly with the lengths.

    It is one kernel on TPUs (by Mosaic) and NVIDIA GPUs (by Triton), and a loop over blocks, compiled by XLA, on other
    platforms. Its gradient is two kernels, which compute the weights again, and a third one for the gradient of `bias`.

    Args:
        query: Queries of shape `(batch, length, heads, width)`.
        key, value: Keys and values of such a shape, with their own length. They may have fewer heads, each of which a group of
            query heads shares, and values may have another width.
        bias: Array added to the logits, which broadcasts to shape `(batch, heads, query length, key length)`.
        segment_ids: Integer arrays of shapes `(batch, query length)` and `(batch, key length)`. Queries attend to keys with
            their own number only.
        is_causal: If True, queries do not attend to later keys.
        local_window_size: Maximum distance of the keys that a query attends to, as an integer or `(left, right)`, where None
            is no limit.
        scale: Factor of the products of queries and keys. Default: `1 / sqrt(width)`.
        soft_cap: Bound of these products: they become `soft_cap * tanh(x / soft_cap)`, before the bias is added.
        return_residual: If True, also return the log-sum-exp of the logits.

    Returns:
        Array of shape `(batch, length, heads, width)`; zeros for queries without a key. With `return_residual`, a tuple of it
        and the log-sum-exp of shape `(batch, length, heads)`.

    Example:
        >>> x = xnp.ones((1, 300, 2, 16))
        >>> kernels.flash_attention(x, x, x, is_causal=True).shape
        (1, 300, 2, 16)
    """
    query, key, value = (xnp.asarray(x) for x in (query, key, value))
    _check(query, key, value)
    before, after = (local_window_size,) * 2 if isinstance(local_window_size, int) else local_window_size or (None, None)
    if is_causal:
        after = 0 if after is None else min(after, 0)
    shape = (query.shape[0], query.shape[2], query.shape[1], key.shape[1])
    if bias is not None:
        bias = _full_rank(xnp.asarray(bias), shape)
    options = Options(float(query.shape[-1] ** -0.5 if scale is None else scale), before, after,
                      None if soft_cap is None else float(soft_cap))
    segments = (None, None) if segment_ids is None else _segments(segment_ids, shape)
    out, lse = attend(*[xnp.swapaxes(x, 1, 2) for x in (query, key, value)], bias, *segments, options)
    out = xnp.swapaxes(out, 1, 2)
    return (out, xnp.swapaxes(lse[:, :, 0], 1, 2)) if return_residual else out


def _check(query: Any, key: Any, value: Any) -> None:
    named = {"query": query, "key": key, "value": value}
    if any([x.ndim != 4 for x in named.values()]) or key.shape[:3] != value.shape[:3] or (
            query.shape[0], query.shape[3]) != (key.shape[0], key.shape[3]) or query.shape[2] % key.shape[2]:
        raise ValueError(f"kernels.flash_attention got {', '.join([f'{name} {x.shape}' for name, x in named.items()])}. The "
                         f"shapes must be (batch, length, heads, width): keys as wide as queries, as many values as keys, and "
                         f"a number of query heads that is a multiple of theirs.")
    if len({x.dtype for x in named.values()}) > 1 or not dtypes.is_float(query.dtype):
        raise ValueError("kernels.flash_attention needs query, key and value of one floating-point dtype, got "
                         f"{', '.join([f'{name} {x.dtype}' for name, x in named.items()])}. Convert them with astype.")
    if 0 in (*query.shape, *key.shape, *value.shape):
        raise ValueError(f"kernels.flash_attention needs arrays with elements, got query {query.shape} and key {key.shape}.")


def _full_rank(bias: Any, shape: tuple[int, ...]) -> Any:
    full = (1,) * (4 - bias.ndim) + bias.shape
    if len(full) != 4 or any([n not in (1, m) for n, m in zip(full, shape)]):
        raise errors.incompatible_shapes("kernels.flash_attention", [("bias", bias.shape), ("logits", shape)],
                                         "They must broadcast to (batch, heads, query length, key length).")
    return bias.reshape(full)


def _segments(segment_ids: Any, shape: tuple[int, ...]) -> list[Any]:
    if not isinstance(segment_ids, (tuple, list)) or len(segment_ids) != 2:
        raise TypeError(f"segment_ids of kernels.flash_attention must be a pair of arrays, of queries and keys; got "
                        f"{errors.short(segment_ids)}.")
    found = []
    for name, x, length in zip(("queries", "keys"), map(xnp.asarray, segment_ids), shape[2:]):
        if x.shape != (shape[0], length) or not dtypes.is_integer(x.dtype):
            raise ValueError(f"segment_ids of kernels.flash_attention for {name} must be integers of shape "
                             f"{(shape[0], length)}, got {x.dtype} of shape {x.shape}.")
        found.append(x.astype(np.int32)[:, None])
    return found
