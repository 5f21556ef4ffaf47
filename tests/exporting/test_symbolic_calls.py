"""Every function of `symbolic_calls` and `symbolic_compositions`, traced and lowered once for sizes that are not known, against itself at known ones."""

import re

import numpy as np
import pytest
from exporting import symbolic_calls, symbolic_compositions

import xlafront as xf

CASES = symbolic_calls.CASES | symbolic_compositions.CASES
SIZES = {"b": 4, "c": 3, "h": 3}
KINDS = {"f": "float", "i": "int", "u": "uint"}
# Of every way in which sizes are computed one case; the others take a minute.
QUICK = {
    "sin", "add, broadcast", "size as value", "arange step", "linspace", "eye", "reshape -1", "concatenate", "tile by size", "pad by size",
    "mean over b", "argmax over b", "cumsum over b", "sort over b", "top_k of size", "x[1:]", "x[indices]", "x.at[i].add",
    "dynamic_slice of size", "matmul over b", "einsum", "conv of symbolic images", "reduce_window of size", "cholesky", "fori_loop",
    "scan", "cond", "grad of softmax", "grad of scan", "grad of slice", "vmap of dynamic_slice", "vmap axis_index", "random.normal", "mlp",
}


def arguments(text):
    """Types and values from `f32[b,3]; i32[b]`."""
    scope = xf.export.SymbolicScope()
    for i, part in enumerate(text.split(";")):
        kind, bits, shape = re.match(r"\s*(\w)(\d+)\[(.*)\]", part).groups()
        dtype = np.dtype(f"{KINDS[kind]}{bits}")
        sizes = tuple(eval(n, {}, SIZES) for n in shape.split(",") if n.strip())
        draw = np.random.default_rng(i)
        value = draw.normal(size=sizes) if kind == "f" else draw.integers(0, 3, size=sizes)
        yield xf.ShapeDtypeStruct(xf.export.symbolic_shape(shape, scope=scope), dtype), np.asarray(value, dtype)


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.soak) for n in CASES])
def test_a_function_of_symbolic_shapes_is_that_of_known_ones(name):
    function, text = CASES[name]
    types, values = zip(*arguments(text))
    exported = xf.export.export(xf.jit(function), disabled_checks=[
        xf.export.DisabledSafetyCheck.custom_call(target) for target in ("ApproxTopK", "lapack_sgtsv_ffi")])(*types)
    found, expected = xf.tree.leaves(exported.call(*values)), xf.tree.leaves(xf.jit(function)(*values))
    assert len(found) == len(expected)
    for x, y in zip(found, expected):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)
