"""Stateful generators. Expected samples are literals computed by JAX."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax, random
from xlafront.experimental.random import StatefulPRNG, stateful_rng

KEY = random.key(7)


def fold(i):
    return random.fold_in(KEY, i)


def same(x, y) -> bool:
    return np.array_equal(random.key_data(x), random.key_data(y))


def test_samples_equal_those_of_jax():
    rng = stateful_rng(42)
    samples = [rng.uniform(), rng.uniform(-1, 2, (3,)), rng.uniform(-1, 2, 3, dtype="float16"), rng.normal(),
             rng.normal(1.0, 2.0, (2, 3))]
    expected = [0.5302608, [1.1829927, 1.3636026, -0.4549172], [-0.1357, 0.05762, 0.8516], -0.2818947,
              [[2.3098354, 1.3469043, 4.203681], [2.5461376, 2.5040703, 1.5403507]]]
    for x, y in zip(samples, expected):
        assert np.array_equal(x, np.asarray(y, x.dtype))
    assert samples[2].dtype == "float16"


def test_each_sample_uses_the_next_key():
    rng = stateful_rng(7)
    assert same(rng.key(), fold(0))
    assert same(rng.key((2,)), random.split(fold(1), 2)) and same(rng.key(3), random.split(fold(2), 3))
    assert rng.normal(size=2) .tolist() == random.normal(fold(3), (2,)).tolist()
    assert rng.integers(5, 9, 4).tolist() == random.randint(fold(4), (4,), 5, 9).tolist()
    assert int(rng.integers(5)) == int(random.randint(fold(5), (), 0, 5))
    assert rng.random((2, 2)).tolist() == random.uniform(fold(6), (2, 2)).tolist()
    assert rng.normal(xnp.ones((3, 1)), xnp.ones(2)).shape == (3, 2)
    children = rng.spawn(2)
    assert all(same(child._base_key, key) for child, key in zip(children, random.split(fold(8), 2)))
    assert same(rng.split(3)._base_key, random.split(fold(9), 3))
    assert int(rng._counter[...]) == 10 and int(children[0]._counter[...]) == 0


def test_in_transformed_functions():
    rng = stateful_rng(7)
    uniform = [float(random.uniform(fold(i))) for i in range(6)]
    draw = xf.jit(rng.uniform)
    assert [float(draw()), float(draw())] == uniform[:2]
    assert float(xf.jit(lambda rng: rng.uniform())(rng)) == uniform[2]
    _, samples = lax.scan(lambda carry, _: (carry, rng.uniform()), 0, None, 3)
    assert samples.tolist() == pytest.approx(uniform[3:])
    rngs = rng.split(3)
    keys = [random.fold_in(key, 0) for key in random.split(fold(6), 3)]
    assert xf.vmap(lambda rng: rng.uniform())(rngs).tolist() == pytest.approx([float(random.uniform(k)) for k in keys])
    assert float(xf.jit(lambda: stateful_rng(3).uniform())()) == pytest.approx(0.008695364)


def test_seeds():
    assert isinstance(stateful_rng(), StatefulPRNG)
    assert not same(stateful_rng()._base_key, stateful_rng()._base_key)
    assert stateful_rng(1, impl="rbg")._base_key.dtype.name == "key<rbg>"
    with pytest.raises(TypeError, match="needs a seed"):
        xf.jit(lambda: stateful_rng().uniform())()
    for seed in (random.key(1), np.arange(2), 1.5):
        with pytest.raises(TypeError):
            stateful_rng(seed)


def test_split_generator_outside_vmap_raises():
    with pytest.raises(ValueError, match="vmap"):
        stateful_rng(0).split(3).uniform()
