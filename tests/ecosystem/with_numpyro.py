"""NumPyro: NUTS, variational inference, effect handlers, distributions."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.handlers import condition, seed, substitute, trace
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density

x = jnp.linspace(-1, 1, 20)
y = 0.5 + 2 * x + 0.1 * jnp.sin(7 * x)


def model(x, y=None):
    a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("data", x.shape[0]):
        return numpyro.sample("y", dist.Normal(a + b * x, sigma), obs=y)


def nuts():
    mcmc = MCMC(NUTS(model), num_warmup=200, num_samples=300, num_chains=2, chain_method="vectorized", progress_bar=False)
    mcmc.run(jax.random.key(0), x, y)
    samples = mcmc.get_samples()
    return jnp.stack([samples["a"].mean(), samples["b"].mean(), samples["sigma"].mean()])


def variational():
    guide = AutoNormal(model)
    svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO(num_particles=4))
    result = svi.run(jax.random.key(1), 300, x, y, progress_bar=False)
    predictive = Predictive(guide, params=result.params, num_samples=50)(jax.random.key(2), x)
    return jnp.stack([result.losses[-1], guide.median(result.params)["b"], predictive["a"].mean()])


def handlers():
    sampled = trace(seed(model, jax.random.key(3))).get_trace(x)
    conditioned = trace(seed(condition(model, {"a": 1.0}), jax.random.key(3))).get_trace(x, y)
    density, _ = log_density(substitute(model, {"a": 0.5, "b": 2.0, "sigma": 0.2}), (x, y), {}, {})
    return jnp.stack([sampled["y"]["value"].sum(), conditioned["a"]["value"] * 1.0, density,
                      jax.grad(lambda b: log_density(model, (x, y), {}, {"a": 0.5, "b": b, "sigma": 0.2})[0])(1.9)])


def distributions():
    key = jax.random.key(4)
    made = [dist.Beta(2.0, 3.0), dist.StudentT(4.0), dist.LKJCholesky(3, 2.0), dist.TruncatedNormal(0.0, 1.0, low=0.5),
            dist.MultivariateNormal(jnp.zeros(2), jnp.array([[2.0, 0.5], [0.5, 1.0]])),
            dist.TransformedDistribution(dist.Normal(0, 1), dist.transforms.ExpTransform()),
            dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), dist.Normal(jnp.array([0.0, 2.0]), 1.0))]
    return jnp.stack([jnp.sum(d.log_prob(d.sample(key, (3,)))) for d in made])


PROGRAMS = (nuts, variational, handlers, distributions)
