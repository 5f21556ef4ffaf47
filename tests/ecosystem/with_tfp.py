"""TensorFlow Probability on its JAX backend: distributions, bijectors, a sampler, special functions."""

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp

tfd, tfb = tfp.distributions, tfp.bijectors


def distributions():
    key = jax.random.PRNGKey(0)
    made = [tfd.Normal(0.0, 1.0), tfd.Gamma(2.0, 1.0), tfd.Beta(2.0, 3.0), tfd.StudentT(4.0, 0.0, 1.0), tfd.Poisson(3.0), tfd.VonMises(0.0, 2.0),
            tfd.MultivariateNormalTriL(jnp.zeros(2), jnp.array([[1.0, 0.0], [0.5, 2.0]])), tfd.Dirichlet(jnp.ones(3)),
            tfd.MixtureSameFamily(tfd.Categorical(logits=jnp.zeros(2)), tfd.Normal(jnp.array([-1.0, 1.0]), 0.5))]
    return jnp.stack([jnp.sum(d.log_prob(d.sample(3, seed=key))) for d in made] + [
        tfd.kl_divergence(tfd.Normal(0.0, 1.0), tfd.Normal(1.0, 2.0)), made[1].cdf(1.5), made[0].quantile(0.9)])


def bijectors():
    chain = tfb.Chain([tfb.Exp(), tfb.Scale(2.0), tfb.Shift(1.0)])
    x = jnp.array([0.1, 0.5])
    triangular = tfb.FillScaleTriL()
    flow = tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), chain)

    @jax.jit
    def run(x):
        y = chain.forward(x)
        return jnp.stack([y.sum(), chain.inverse(y).sum(), chain.forward_log_det_jacobian(x, 0).sum(),
                          triangular.forward(jnp.arange(3.0)).sum(), flow.log_prob(y).sum(), tfb.SoftmaxCentered().forward(x)[2]])

    return jnp.concatenate([run(x), jax.grad(lambda x: run(x)[4])(x)])


def sampler():
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(tfp.mcmc.HamiltonianMonteCarlo(
        lambda x: -0.5 * jnp.sum((x - 1.0) ** 2), step_size=0.5, num_leapfrog_steps=5), num_adaptation_steps=100)
    samples = jax.jit(lambda key: tfp.mcmc.sample_chain(
        300, current_state=jnp.zeros(2), kernel=kernel, num_burnin_steps=100, trace_fn=None, seed=key))(jax.random.PRNGKey(0))
    return jnp.stack([samples.mean(), samples.std()])


def special_functions():
    x = jnp.array([0.3, 1.7])
    return jnp.concatenate([tfp.math.lambertw(x), tfp.math.log1mexp(x), tfp.math.bessel_ive(0.5, x), tfp.math.lbeta(x, 2.0),
                            tfp.math.cholesky_update(jnp.eye(2), jnp.array([0.5, 1.0])).ravel()])


PROGRAMS = (distributions, bijectors, sampler, special_functions)
