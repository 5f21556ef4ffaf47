"""Chex, einops, jaxtyping and Distrax: assertions, dataclasses, annotations checked at run time, distributions."""

import sys

import chex
import distrax
import einops
import jax
import jax.numpy as jnp
from beartype import beartype
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, TypeCheckError, jaxtyped


def refused(error, function, *args):
    try:
        function(*args)
    except error:
        return 1.0
    return 0.0


def assertions():
    x = jnp.ones((2, 3))
    found = [refused(AssertionError, chex.assert_shape, x, (3, 2)), refused(AssertionError, chex.assert_rank, x, 1),
             refused(AssertionError, chex.assert_type, x, int), refused(AssertionError, chex.assert_trees_all_close, x, 2 * x),
             refused(AssertionError, chex.assert_tree_all_finite, {"a": x / 0}), refused(AssertionError, chex.assert_axis_dimension, x, 0, 3)]
    chex.assert_equal_shape([x, 2 * x])
    chex.assert_shape(x, (2, None))
    chex.assert_trees_all_equal_shapes_and_dtypes({"a": x}, {"a": 2 * x})
    chex.assert_tree_all_finite({"a": x})

    @jax.jit
    @chex.assert_max_traces(n=1)
    def f(x):
        chex.assert_shape(x, (2, ...))
        return x.sum()

    found += [f(x), refused(AssertionError, f, jnp.ones((2, 4)))]
    return jnp.stack([jnp.float32(v) for v in found])


def dataclasses():
    @chex.dataclass
    class State:
        position: chex.Array
        step: chex.Numeric

    state = State(position=jnp.arange(3.0), step=0)
    moved = jax.jit(lambda s: s.replace(position=s.position * 2, step=s.step + 1))(state)
    total = jax.tree.reduce(lambda a, b: a + b, jax.tree.map(jnp.sum, moved))
    scanned, _ = jax.lax.scan(lambda s, _: (s.replace(position=s.position + 1, step=s.step + 1), None), moved, None, 3)
    key, value = next(iter(scanned.items()))
    return jnp.stack([total, scanned.position.sum(), scanned["step"] + 0.0, float(key == "position"), value[0]])


def annotations():
    @jaxtyped(typechecker=beartype)
    def attend(q: Float[Array, "batch n d"], k: Float[Array, "batch m d"], key: PRNGKeyArray) -> Float[Array, "batch n m"]:
        return jnp.einsum("bnd,bmd->bnm", q, k)

    @jaxtyped(typechecker=beartype)
    def total(tree: PyTree[Int[Array, "..."]]) -> Int[Array, ""]:
        return sum(x.sum() for x in jax.tree.leaves(tree))

    q, k, key = jnp.ones((2, 3, 4)), jnp.ones((2, 5, 4)), jax.random.key(0)
    return jnp.stack([attend(q, k, key).sum(), jax.jit(attend)(q, k, key).sum(), total({"a": jnp.arange(3), "b": [jnp.arange(4)]}) + 0.0,
                      refused(TypeCheckError, attend, q, jnp.ones((2, 5, 3)), key), refused(TypeCheckError, total, [q]),
                      refused(TypeCheckError, jax.jit(attend), q, jnp.ones((2, 5, 4), int), key)])


def patches():
    x = jnp.arange(2 * 4 * 6.0).reshape(2, 4, 6)

    @jax.jit
    def f(x):
        y = einops.rearrange(x, "b (h p) (w q) -> b (h w) (p q)", p=2, q=3)
        return einops.reduce(y, "b n c -> n c", "mean"), einops.repeat(y[0, 0], "c -> c k", k=2), einops.einsum(y, y, "b n c, b m c -> b n m")

    reduced, repeated, products = f(x)
    packed, shapes = einops.pack([x, x[:, :2]], "b * w")
    return jnp.stack([(reduced * jnp.arange(6)).sum(), repeated.sum(), products[1, 2, 3], packed.sum(),
                      einops.unpack(packed, shapes, "b * w")[1].sum(), einops.parse_shape(x, "a b c")["c"] + 0.0])


def distributions():
    key = jax.random.PRNGKey(0)
    mixture = distrax.MixtureSameFamily(distrax.Categorical(logits=jnp.array([0.0, 1.0])), distrax.Normal(jnp.array([-1.0, 2.0]), 0.5))
    flow = distrax.Transformed(distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2)), distrax.Block(
        distrax.Chain([distrax.ScalarAffine(1.0, 2.0), distrax.Tanh()]), 1))
    sample, log_prob = jax.jit(lambda key: flow.sample_and_log_prob(seed=key, sample_shape=(5,)))(key)
    beta = distrax.Beta(2.0, 3.0)
    return jnp.stack([mixture.sample(seed=key, sample_shape=(4,)).sum(), mixture.log_prob(0.3), sample.sum(), log_prob.sum(),
                      beta.kl_divergence(distrax.Beta(1.0, 1.0)), distrax.Normal(0.0, 1.0).entropy(),
                      jax.grad(lambda a: distrax.Gamma(a, 1.0).sample(seed=key))(2.0), distrax.Categorical(probs=jnp.array([0.2, 0.8])).entropy()])


def assertions_of_values():
    @chex.chexify
    @jax.jit
    def logarithm(x):
        chex.assert_tree_all_finite(x)
        chex.assert_scalar_positive(1)
        return jnp.log(x)

    @chex.chexify
    @jax.jit
    def row(x, i):
        chex.assert_trees_all_equal(x[0], x[i])
        return jax.vmap(jnp.sum)(x)

    def waits(f, *args):
        result = f(*args)
        chex.block_until_chexify_assertions_complete()
        return result

    x = jnp.ones((2, 3))
    automatic = chex.chexify(jax.jit(lambda x, i: x[i] / x[0]), errors=chex.ChexifyChecks.automatic, async_check=False)
    return jnp.stack([waits(logarithm, x).sum(), waits(row, x, 1).sum(), refused(AssertionError, waits, logarithm, x / 0),
                      refused(AssertionError, waits, row, jnp.arange(6.0).reshape(2, 3), 1), automatic(jnp.ones(3), 2),
                      refused(ValueError, automatic, jnp.ones(3), 3), refused(ValueError, automatic, jnp.zeros(3), 2)])


def command_line():
    """Settings as flags, as programs of absl have them."""
    given, sys.argv = sys.argv, ["program", "--jax_numpy_rank_promotion=warn", "--jax_log_compiles", "--own=3", "file"]
    try:
        jax.config.parse_flags_with_absl()
        found = [jax.config.jax_numpy_rank_promotion == "warn", jax.config.jax_log_compiles, sys.argv[-1] == "file"]
    finally:
        sys.argv = given
        jax.config.update("jax_numpy_rank_promotion", "allow")
        jax.config.update("jax_log_compiles", False)
    return jnp.array(found, float)


PROGRAMS = (assertions, dataclasses, annotations, patches, distributions, assertions_of_values, command_line)
