"""Random primitives as libraries read them in jaxprs: names and parameters equal those of JAX."""

import re

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import random
from xlafront.extend.core import jaxpr_as_fun, jaxprs_in_params, primitives

K, WORDS = random.key(5), random.PRNGKey(5)
KEYS = random.split(K, (2, 3))


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(getattr(inner, "jaxpr", inner))


def shown(f, *args) -> list[str]:
    """Return the random equations of a jaxpr as `result = name[parameters] operands` with their types."""
    found = []
    for eqn in equations(xf.make_jaxpr(f)(*args).jaxpr):
        if eqn.primitive.name.startswith("random_"):
            params = " ".join(f"{name}={value}" for name, value in sorted(eqn.params.items()))
            found.append(f"{eqn.outvars[0].aval.str_short(True)} = {eqn.primitive}[{params}] "
                         + " ".join(v.aval.str_short(True) for v in eqn.invars))
    return found


WRAP, UNWRAP = "key<fry>[] = random_wrap[impl=fry] u32[2]", "random_unwrap[] key<fry>"
BITS, SPLIT = "u32[3] = random_bits[bit_width=32 shape=(3,)] key<fry>[]", "key<fry>[2] = random_split[shape=(2,)] key<fry>[]"
OPERATIONS = [
    (lambda k: random.normal(k, (3,)), K, [BITS]), (lambda k: random.normal(k, (3,)), WORDS, [WRAP, BITS]),
    (lambda k: random.bernoulli(k, 0.5, (3,)), K, [BITS]), (lambda k: random.categorical(k, xnp.ones(3)), K, [BITS]),
    (lambda k: random.bits(k, (3,), "uint8"), K, ["u8[3] = random_bits[bit_width=8 shape=(3,)] key<fry>[]"]),
    (random.split, K, [SPLIT]), (random.split, WORDS, [WRAP, SPLIT, f"u32[2,2] = {UNWRAP}[2]"]),
    (lambda k: random.fold_in(k, 3), K, ["key<fry>[] = random_fold_in[] key<fry>[] u32[]"]),
    (lambda k: random.fold_in(k, 3), WORDS, [WRAP, "key<fry>[] = random_fold_in[] key<fry>[] u32[]", f"u32[2] = {UNWRAP}[]"]),
    (random.key, 3, ["key<fry>[] = random_seed[impl=fry] i32[]"]),
    (random.PRNGKey, 3, ["key<fry>[] = random_seed[impl=fry] i32[]", f"u32[2] = {UNWRAP}[]"]),
    (random.key_data, K, [f"u32[2] = {UNWRAP}[]"]), (random.wrap_key_data, WORDS, [WRAP]),
    (random.clone, K, ["key<fry>[] = random_clone[] key<fry>[]"]),
    (lambda k: random.gamma(k, 2.0, (3,)), K, ["f32[3] = random_gamma[log_space=False] key<fry>[] f32[3]"]),
    (lambda k: random.randint(k, (3,), 0, 9), K, [SPLIT, BITS, BITS]),
    (xf.vmap(xf.vmap(lambda k: random.bits(k, (4,))), in_axes=1), KEYS,
     ["u32[2,3,4] = random_bits[bit_width=32 shape=(4,)] key<fry>[2,3]"]),
    (xf.vmap(random.key), np.arange(3), ["key<fry>[3] = random_seed[impl=fry] i32[3]"]),
    (xf.vmap(random.fold_in, (None, 0)), (K, np.arange(3)), ["key<fry>[3] = random_fold_in[] key<fry>[] u32[3]"]),
]


@pytest.mark.parametrize("f, args, expected", OPERATIONS, ids=range(len(OPERATIONS)))
def test_equations_of_random_functions(f, args, expected):
    assert shown(f, *(args if isinstance(args, tuple) else (args,))) == expected


def test_evaluated_jaxprs_equal_the_functions():
    """Jaxprs give the same values evaluated equation by equation, compiled, and one by one over arrays of keys."""
    def f(key):
        first, second = random.split(key)
        return random.key_data(random.fold_in(second, 7)), random.bits(first, (2,))

    program = xf.make_jaxpr(f)(K)
    for run in (jaxpr_as_fun(program), lambda k: xf.core.eval_jaxpr(program.jaxpr, program.consts, k), xf.jit(f)):
        for found, expected in zip(run(K), f(K)):
            np.testing.assert_array_equal(found, expected)
    alone = [[primitives.random_bits_p.bind(KEYS[i, j], bit_width=32, shape=(2,)) for j in range(3)] for i in range(2)]
    np.testing.assert_array_equal(primitives.random_bits_p.bind(KEYS, bit_width=32, shape=(2,)), alone)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (1, 0)])
def test_fold_in_over_batches(axes):
    data = np.arange(6).reshape(3, 2) if axes[0] == 1 else np.arange(6).reshape(2, 3)
    mapped = xf.vmap(xf.vmap(random.fold_in, [None if a is None else 0 for a in axes]), axes)
    keys = KEYS if axes[0] is not None else K
    by_data, by_keys = (lambda i, j: data[i, j]) if axes[1] == 0 else (lambda i, j: 9), lambda i, j: K
    if axes[0] is not None:
        by_keys = (lambda i, j: KEYS[j, i]) if axes[0] else (lambda i, j: KEYS[i, j])
    found = random.key_data(mapped(keys, data if axes[1] == 0 else 9))
    for i, j in np.ndindex(found.shape[:2]):
        np.testing.assert_array_equal(found[i, j], random.key_data(random.fold_in(by_keys(i, j), by_data(i, j))))


def test_rbg_batches_use_the_first_key():
    keys = random.split(random.key(3, impl="rbg"), (2, 3))
    found = xf.vmap(xf.vmap(lambda k: random.bits(k, (2,))), in_axes=1)(keys)
    assert found.tolist() == [[[1371555265, 1452559527], [2893763945, 2982907734]],
                              [[3446207111, 86879976], [402330956, 1669737476]],
                              [[3289051117, 189864274], [3638159454, 723759365]]]


def test_operands_without_key_dtype_raise():
    with pytest.raises(TypeError, match="random_bits takes random keys, got an array of dtype float32"):
        primitives.random_bits_p.bind(xnp.ones(2), bit_width=32, shape=())
    with pytest.raises(TypeError, match="random_fold_in takes uint32 numbers"):
        primitives.random_fold_in_p.bind(K, xnp.ones(2))


@pytest.mark.cpu_only
def test_keys_are_derived_before_sampling_loops():
    """LLVM takes ten times as long for both in one loop; each contains the cipher once."""
    draw = xf.jit(lambda key: random.normal(random.split(key)[0], (100,)))
    text = draw.lower(random.key(0)).compile().as_text()
    kernels = re.findall(r"^%?fused_computation.*?^}", text, re.S | re.M)
    assert len(kernels) == 2 and max(kernel.count("shift-left(") for kernel in kernels) == 20
