"""Rules of TPU kernels for random keys: of the core's generator, and of Threefry, whose bits are those of other programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront import lax
from xlafront.base import config
from xlafront.core import tracing
from xlafront.core.avals import ShapedArray
from xlafront.lowering.mlir import ir
from xlafront.pallas.kernel_equations import unsupported
from xlafront.pallas.kernel_mlir import Rule
from xlafront.pallas.to_mosaic import gathers
from xlafront.pallas.to_mosaic.memrefs import Key
from xlafront.random.threefry import split_words, threefry2x32_p

if TYPE_CHECKING:
    from xlafront.pallas.to_mosaic.writer import MosaicWriter

_WORD = ShapedArray((), np.dtype(np.uint32))


def _emit(w: MosaicWriter, function: Callable[..., Sequence[Any]], avals: Sequence[Any], values: Sequence[ir.Value]
          ) -> list[Any]:
    """Emit the operations of a function of arrays."""
    return w.lower(tracing.trace_to_closed_jaxpr(function, avals), values)


def _random_bits(w: MosaicWriter, avals_in, avals_out, params, key):
    """Emit the bits of a key: of the core's generator, which it seeds, or of Threefry, by the positions of the elements."""
    [aval], [out], name = avals_in, avals_out, avals_in[0].dtype.impl.name
    if name == "pallas_tpu" and out.dtype == np.uint32:
        w.effect("tpu.prng_set_seed_32", list(key.words))
        return w.op("tpu.prng_random_bits", [], w.types_of(avals_out)[0])
    if name != "threefry2x32" or aval.shape or out.dtype.itemsize > 4 or not config.threefry_partitionable.value:
        raise unsupported(w, f"random numbers of a key of type {aval}, in words of {params['bit_width']} bits,",
                          "Use dtypes of 32 bits, and one key of the implementation threefry2x32, or one that "
                          "pltpu.to_pallas_key has made before the kernel.")

    def bits(*words):
        position: Any = np.uint32(0)
        for d in range(out.ndim):
            index = lax.broadcasted_iota(np.uint32, out.shape, d)
            position = position + index * np.uint32(math.prod(out.shape[d + 1:]))
        first, second = threefry2x32_p.bind(*words, np.uint32(0), position)
        return [(first ^ second).astype(out.dtype)]

    return _emit(w, bits, [_WORD] * 2, key.words)


def _fold_in(w: MosaicWriter, avals_in, avals_out, params, key, data):
    if any([a.shape for a in avals_in]):
        raise unsupported(w, "random.fold_in of several keys or numbers", "Fold in one number at a time.")
    return Key(tuple(_emit(w, lambda *xs: threefry2x32_p.bind(*xs[:2], *split_words(xs[2])), [_WORD] * 3, [*key.words, data])))


def _seed(w: MosaicWriter, avals_in, avals_out, params, seed):
    if avals_in[0].shape or params["impl"].name not in ("threefry2x32", "pallas_tpu"):
        raise unsupported(w, f"random.key of {params['impl'].name}", "Make the key outside of the kernel, and pass it.")
    return Key(tuple(_emit(w, split_words, avals_in, [seed])))


def _wrap(w: MosaicWriter, avals_in, avals_out, params, x):
    [aval] = avals_in
    if avals_out[0].shape or params["impl"].name not in ("threefry2x32", "pallas_tpu"):
        raise unsupported(w, f"random.wrap_key_data of {aval}", "Wrap two words, as a key of threefry2x32.")
    ones = (1,) * aval.ndim
    return Key(tuple([w.reshape(gathers.extract(w, x, [*[0] * (aval.ndim - 1), i], ones, aval.dtype), ones, (), aval.dtype)
                      for i in range(2)]))


def _unwrap(w: MosaicWriter, avals_in, avals_out, params, key):
    [out] = avals_out
    ones = (1,) * out.ndim
    return w.op("tpu.concatenate", [w.broadcast(x, (), ones) for x in key.words], w.types_of(avals_out)[0], {
        "dimension": w.attribute(f"{out.ndim - 1} : i32")})


RULES: dict[str, Rule] = {"random_bits": _random_bits, "random_fold_in": _fold_in, "random_seed": _seed, "random_wrap": _wrap,
                          "random_unwrap": _unwrap}
