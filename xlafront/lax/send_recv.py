"""The primitives `psend` and `precv`, which are asynchronous halves of an exchange, and the tokens that order them.

GPUs have separate operations for both. On other platforms a send is deferred to the receive that takes its token, and both
are lowered to one exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from xlafront import lowering
from xlafront.core import errors
from xlafront.core.avals import Token, abstract_token
from xlafront.core.ir import Effect
from xlafront.core.primitive import MeshRules, Primitive
from xlafront.core.typing import Array
from xlafront.lax.named_axes import CHANNEL, axes_text, channel, source_target_pairs

if TYPE_CHECKING:
    from xlafront.core.avals import AbstractToken, ShapedArray
    from xlafront.core.typing import Dims
    from xlafront.lowering.equations import RuleContext
    from xlafront.lowering.mlir import ir


class SingleSideCollectiveEffect(Effect):
    """The effect of a send or receive, which must run even if its result is unused."""

    def __repr__(self) -> str:
        return "SingleSideCollective"


_one_sided = frozenset([SingleSideCollectiveEffect()])


# Tokens


def create_token(_: Any = None) -> Array:
    """Create a token without dependencies, for `precv` and `after_all`.

    Args:
        _: Ignored.

    Returns:
        A token.

    Example:
        >>> token = lax.create_token()
    """
    return create_token_p.bind()


def after_all(*operands: Array) -> Array:
    """Join tokens into one that follows all of them.

    A token is a value without elements. Operations that take and return tokens run in the order of the tokens.

    Args:
        operands: Tokens.

    Returns:
        A token.

    Example:
        >>> both = lax.after_all(lax.create_token(), lax.create_token())
    """
    for i, x in enumerate(operands):
        check_token(x, "after_all", f"operands[{i}]")
    return after_all_p.bind(*operands)


def check_token(x: Any, caller: str, argument: str) -> None:
    if type(x) is not Token and getattr(x, "aval", None) is not abstract_token:
        raise TypeError(f"{caller} takes tokens, as returned by psend, create_token and after_all; {argument} is a "
                        f"{type(x).__name__}: {errors.short(x)}.")


def _token_aval(*_: Any, **params: Any) -> AbstractToken:
    return abstract_token


def _lower_token(ctx: RuleContext, *tokens: ir.Value) -> ir.Value:
    return ctx.op("stablehlo.after_all", tokens)


create_token_p = Primitive("create_token", abstract=_token_aval, impl=Token, lower=_lower_token)
after_all_p = Primitive("after_all", abstract=_token_aval, impl=lambda *tokens: Token(), lower=_lower_token)


# Sends and receives


def _channel_attributes(ctx: RuleContext, axis_name: tuple, perm: tuple[tuple[int, int], ...]) -> dict:
    """Return the attributes of a send or receive. Those with the same pairs share a channel."""
    channels = ctx.module_context.pair_channels
    handle = channels.get((axis_name, perm))
    if handle is None:
        handle = channels[axis_name, perm] = channel(CHANNEL + len(channels))
    return {"channel_handle": handle, "source_target_pairs": lowering.mlir.dense_i64(source_target_pairs(ctx, axis_name, perm))}


def _lower_send(ctx: RuleContext, x: ir.Value, *, axis_name: tuple, perm: tuple[tuple[int, int], ...]) -> ir.Value:
    return ctx.op("stablehlo.send", [x, _lower_token(ctx)], **_channel_attributes(ctx, axis_name, perm))


def _lower_receive(ctx: RuleContext, token: ir.Value, *, out_shape: ShapedArray, axis_name: tuple,
                   perm: tuple[tuple[int, int], ...]) -> ir.Value:
    types = [out_shape, lowering.mlir.token_type()]
    return ctx.op("stablehlo.recv", [token], types, **_channel_attributes(ctx, axis_name, perm))[0]


def _defer_send(ctx: RuleContext, x: ir.Value, *, axis_name: tuple, perm: tuple[tuple[int, int], ...]) -> ir.Value:
    source_target_pairs(ctx, axis_name, perm)
    token = _lower_token(ctx)
    ctx.module_context.sent[token] = x, ctx.avals_in[0], axis_name, perm
    return token


def _lower_exchange(ctx: RuleContext, token: ir.Value, *, out_shape: ShapedArray, axis_name: tuple,
                    perm: tuple[tuple[int, int], ...]) -> ir.Value:
    sent = ctx.module_context.sent.get(token)
    if sent is None or sent[2:] != (axis_name, perm):
        raise NotImplementedError(
            f"precv over {axes_text(axis_name)} on {ctx.platform} is lowered together with its psend; only GPUs separate them. "
            f"Pass the token of the psend with the same axis and perm, in the same function, or use ppermute.")
    x, aval = sent[:2]
    if (aval.shape, aval.dtype) != (out_shape.shape, out_shape.dtype):
        raise ValueError(f"precv over {axes_text(axis_name)} expects {out_shape}, but psend with its token sends {aval}.")
    return ctx.op("stablehlo.collective_permute", [x], channel_handle=channel(),
                  source_target_pairs=lowering.mlir.dense_i64(source_target_pairs(ctx, axis_name, perm)))


def _reject_batch(trace_or_size: Any, operands: Sequence[Any], dims: Dims, *, axis_name: tuple, **_: Any) -> NoReturn:
    raise NotImplementedError(f"psend and precv over {axes_text(axis_name)} work between devices and cannot be mapped by vmap: "
                              f"a token does not say that the sent value is batched. Use ppermute.")


def _half_transfer(name: str, abstract: Callable, lower: Callable, lower_on_gpu: Callable) -> Primitive:
    return Primitive(name, abstract=abstract, lower={None: lower, "cuda": lower_on_gpu, "rocm": lower_on_gpu},
                     batch=_reject_batch, effects=lambda *_, **params: _one_sided,
                     mesh=MeshRules(over_axis=_reject_batch, communicates=True, states_vma=True))


psend_p = _half_transfer("psend", _token_aval, _defer_send, _lower_send)
precv_p = _half_transfer("precv", lambda token, *, out_shape, **_: out_shape, _lower_exchange, _lower_receive)
PRIMITIVES = {p.name: p for p in (create_token_p, after_all_p, psend_p, precv_p)}
