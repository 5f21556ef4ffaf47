"""Exports with effects: tokens are arguments and results, and effects are identified by their class."""

import numpy as np
import pytest

import xlafront as xf
from xlafront import export, lowering
from xlafront.core.avals import ShapedArray
from xlafront.core.ir import Effect
from xlafront.core.primitive import Primitive

X = np.arange(3, dtype=np.float32)


class Noted(Effect):
    """An ordered effect that is not visible outside of the program."""

    ordered = True

    def __eq__(self, other):
        return type(other) is Noted

    def __hash__(self):
        return hash(Noted)

    def __repr__(self):
        return "Noted"


class LiveEffect(Effect):
    """An unordered effect: operations with it are not eliminated."""


class Numbered(Effect):
    def __init__(self, number):
        self.number = number


def lower(ctx, x, *, effect):
    if effect.ordered:
        [token] = ctx.tokens([effect])
        ctx.set_tokens([effect], [ctx.op("stablehlo.after_all", [token], [lowering.mlir.token_type()])])
    return ctx.op("stablehlo.negate", [x])


note_p = Primitive("note", abstract=lambda x, effect: ShapedArray(x.shape, x.dtype), lower=lower,
                   effects=lambda x, effect: frozenset([effect]))
live = LiveEffect()


def test_tokens_of_ordered_effects():
    exported = export.export(xf.jit(lambda x: note_p.bind(note_p.bind(x, effect=Noted()), effect=live) * 2))(X)
    assert exported.ordered_effects == (Noted(),) and exported.unordered_effects == (live,)
    [main] = [line for line in exported.mlir_module().splitlines() if "@main" in line]
    assert main.index("!stablehlo.token") < main.index("tensor<3xf32>") and main.count("!stablehlo.token") == 2
    read = export.deserialize(exported.serialize())
    assert read.ordered_effects == (Noted(),) and [type(e) for e in read.unordered_effects] == [LiveEffect]
    np.testing.assert_array_equal(read.call(X), 2 * X)

    def outer(x):
        return read.call(note_p.bind(read.call(x), effect=Noted()))

    assert {str(e) for e in xf.make_jaxpr(outer)(X).effects} >= {"Noted"}
    np.testing.assert_array_equal(xf.jit(outer)(X), -4 * X)
    nested = export.export(xf.jit(outer), platforms=(export.default_export_platform(), "tpu"))
    with pytest.raises(ValueError, match="exported for the platform"):
        nested(X)
    several = export.export(xf.jit(lambda x: note_p.bind(x, effect=Noted())), platforms=(export.default_export_platform(), "tpu"))(X)
    np.testing.assert_array_equal(xf.jit(lambda x: several.call(several.call(x)))(X), X)
    assert "call_exported" in str(xf.make_jaxpr(lambda x: [read.call(x), x][1])(X))


def test_effects_that_cannot_be_serialized():
    exported = export.export(xf.jit(lambda x: note_p.bind(x, effect=Numbered(3))))(X)
    with pytest.raises(ValueError, match="effect .*Numbered.*without arguments"):
        exported.serialize()
