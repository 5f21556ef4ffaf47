"""A Python scalar that a traced function passes to the library acts as a traced argument of the same weak type."""

import inspect

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from tests.beside import generated
from xlafront import lax

SCALARS = {1: [(True,), (2,), (1.5,), (1j,)], 2: [(2, 1.5), (True, 2), (1j, 2), (True, True), (-1.5, 2.5)]}
# Functions of sequences, functions that need Python values, and functions that return them.
CONCRETE = {name for names in (
    "array_repr array_str isscalar iscomplexobj isrealobj iterable ndim size shape vectorize frompyfunc dtype result_type promote_types",
    "can_cast isdtype issubdtype finfo iinfo broadcast_shapes unique unique_all unique_counts unique_inverse unique_values nonzero",
    "flatnonzero argwhere arange eye tri identity ones zeros empty full iota broadcasted_iota diag_indices tril_indices triu_indices",
    "hamming hanning bartlett blackman kaiser linspace logspace geomspace array asarray bincount repeat indices fromfunction save savez",
    "load fromiter fromfile frombuffer fromstring from_dlpack mask_indices setxor1d setdiff1d union1d intersect1d roots trim_zeros",
    "stop_gradient histogram_bin_edges broadcast_to column_stack concat concatenate dstack hstack stack vstack bernoulli astype delete",
    "expand_dims pad reshape tile top_k unravel_index bitcast_convert_type broadcast_to_rank collapse convert_element_type map pmax pmean",
    "pmin psum one_hot multigammaln",
) for name in names.split()}


def functions(arity: int) -> dict:
    found = {}
    for name, function in generated.functions().items():
        if name.rpartition(".")[0] in ("xnp", "lax", "nn", "jsp.special") and name.rpartition(".")[2] not in CONCRETE:
            required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty and p.kind in (0, 1)]
            if len(required) == arity:
                found[name] = function
    return found


def types(call, *arguments):
    """The types of results, or the class of the error."""
    try:
        return [(x.shape, x.dtype, x.weak_type) for x in xf.tree.leaves(xf.eval_shape(call, *arguments))]
    except Exception as e:
        return next(c for c in type(e).__mro__ if not c.__module__.startswith("xlafront"))


@pytest.mark.parametrize("arity, name", [(arity, name) for arity in (1, 2) for name in functions(arity)])
def test_literals_are_typed_as_arguments(arity, name):
    function = functions(arity)[name]
    for scalars in SCALARS[arity]:
        assert types(lambda: function(*scalars)) == types(function, *scalars), scalars


@pytest.mark.parametrize("name", [name for name in generated.functions() if name.startswith("jsp.stats.") and name.count(".") == 3])
def test_parameters_of_distributions_are_typed_as_arguments(name):
    function = generated.functions()[name]
    count = len(inspect.signature(function).parameters)
    for x in (xnp.ones((), "bfloat16"), xnp.ones(2, "float16"), xnp.ones(2, "int8")):
        for scalar in (2, 1.5):
            assert types(lambda x: function(x, *[scalar] * (count - 1)), x) == types(function, x, *[scalar] * (count - 1))


def test_a_sum_of_constant_booleans_is_true():
    """XLA folds the operation `add` of constant booleans to False."""
    values = np.array([True, True, False])
    for x in (True, values):
        np.testing.assert_array_equal(xf.jit(lambda: xnp.add(x, True))(), np.add(x, True))
    np.testing.assert_array_equal(xf.jit(lambda: xnp.add.outer(values, values))(), np.add.outer(values, values))


@pytest.mark.parametrize("call", [
    lambda x: lax.add(x, 1.5), lambda x: lax.mul(True, x), lambda x: lax.atan2(2, 1.5), lambda x: lax.eq(2, 1.5), lambda x: lax.igamma(2, 1.5),
    lambda x: lax.bitwise_xor(x, True), lambda x: lax.zeta(2, 1.5), lambda x: lax.nextafter(1.5, 2)])
def test_lax_refuses_other_dtypes_of_literals(call):
    for run in (call, xf.jit(call)):
        with pytest.raises(TypeError, match="dtype"):
            run(np.int32(1))
