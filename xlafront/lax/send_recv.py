"""The records of `psend` and `precv`, the two halves of an exchange, and of the tokens that say what comes before what.

GPUs have operations for the halves. Elsewhere a send waits for the receive that takes its token, and both are one exchange.
"""

from __future__ import annotations

from typing import Any

from xlafront import lowering
from xlafront.core import errors
from xlafront.core.avals import Token, abstract_token
from xlafront.core.ir import Effect
from xlafront.core.primitive import Primitive
from xlafront.core.typing import Array
from xlafront.lax.named_axes import CHANNEL, axes_text, channel, pairs_of_devices


class SingleSideCollectiveEffect(Effect):
    """Of half an exchange between devices: it happens even where nobody reads its result."""

    def __repr__(self):
        return "SingleSideCollective"


_one_side = frozenset([SingleSideCollectiveEffect()])


# Tokens


def create_token(_: Any = None) -> Array:
    """A token that depends on nothing, for `precv` and `after_all`.

    - `_`: means nothing.

    >>> token = lax.create_token()
    """
    return create_token_p.bind()


def after_all(*operands: Array) -> Array:
    """A token that comes after several others. A token is a value without elements: operations that take and give one run in
    the order in which they hand it on.

    - `operands`: the tokens.

    >>> both = lax.after_all(lax.create_token(), lax.create_token())
    """
    for i, x in enumerate(operands):
        check_token(x, "after_all", f"operands[{i}]")
    return after_all_p.bind(*operands)


def check_token(x, user: str, argument: str) -> None:
    if type(x) is not Token and getattr(x, "aval", None) is not abstract_token:
        raise TypeError(f"{user} takes tokens, as psend, create_token and after_all make them; {argument} is a "
                        f"{type(x).__name__}: {errors.short(x)}.")


def _token_type(*_, **params):
    return abstract_token


def _lower_token(ctx, *tokens):
    return ctx.op("stablehlo.after_all", tokens)


create_token_p = Primitive("create_token", abstract=_token_type, impl=Token, lower=_lower_token)
after_all_p = Primitive("after_all", abstract=_token_type, impl=lambda *tokens: Token(), lower=_lower_token)


# Halves of an exchange


def _half(ctx, axis_name, perm) -> dict:
    """The attributes of a half: those with the same pairs share a channel."""
    known = ctx.module_context.pair_channels
    handle = known.get((axis_name, perm))
    if handle is None:
        handle = known[axis_name, perm] = channel(CHANNEL + len(known))
    return {"channel_handle": handle, "source_target_pairs": lowering.mlir.dense_i64(pairs_of_devices(ctx, axis_name, perm))}


def _lower_send(ctx, x, *, axis_name, perm):
    return ctx.op("stablehlo.send", [x, _lower_token(ctx)], **_half(ctx, axis_name, perm))


def _lower_receive(ctx, token, *, out_shape, axis_name, perm):
    return ctx.op("stablehlo.recv", [token], [out_shape, lowering.mlir.token_type()], **_half(ctx, axis_name, perm))[0]


def _send_later(ctx, x, *, axis_name, perm):
    pairs_of_devices(ctx, axis_name, perm)
    token = _lower_token(ctx)
    ctx.module_context.sent[token] = x, ctx.avals_in[0], axis_name, perm
    return token


def _exchange(ctx, token, *, out_shape, axis_name, perm):
    sent = ctx.module_context.sent.get(token)
    if sent is None or sent[2:] != (axis_name, perm):
        raise NotImplementedError(
            f"precv over {axes_text(axis_name)} on {ctx.platform} is one operation together with its psend, which only GPUs do "
            f"apart: give it the token of the psend with the same axis and perm, in the same function. ppermute does both.")
    x, aval = sent[:2]
    if (aval.shape, aval.dtype) != (out_shape.shape, out_shape.dtype):
        raise ValueError(f"precv over {axes_text(axis_name)} expects {out_shape}, but psend with its token sends {aval}.")
    return ctx.op("stablehlo.collective_permute", [x], channel_handle=channel(),
                  source_target_pairs=lowering.mlir.dense_i64(pairs_of_devices(ctx, axis_name, perm)))


def _cannot_map(trace_or_size, operands, dims, *, axis_name, **_):
    raise NotImplementedError(f"psend and precv work between devices and cannot be mapped by vmap: what goes over "
                              f"{axes_text(axis_name)} would be a batch that the token does not tell of. Use ppermute.")


psend_p = Primitive("psend", abstract=_token_type, lower=_send_later, batch=_cannot_map, effects=lambda *_, **params: _one_side)
precv_p = Primitive("precv", abstract=lambda token, *, out_shape, **_: out_shape, lower=_exchange, batch=_cannot_map,
                    effects=lambda *_, **params: _one_side)
psend_p.own_vma = precv_p.own_vma = True
for _primitive, _rule in ((psend_p, _lower_send), (precv_p, _lower_receive)):
    _primitive.over_axis = _cannot_map
    _primitive.lowerings["cuda"] = _primitive.lowerings["rocm"] = _rule
PRIMITIVES = {p.name: p for p in (create_token_p, after_all_p, psend_p, precv_p)}
