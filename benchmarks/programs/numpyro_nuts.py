"""The eight schools by NumPyro's NUTS; a step is a run of 100 samples after 100 of warm-up."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from numpyro.infer.reparam import LocScaleReparam
from timing import Timer

timer = Timer()
effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
errors = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


@numpyro.handlers.reparam(config={"theta": LocScaleReparam(0)})
def schools(errors, effects):
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effects", dist.Normal(theta, errors), obs=effects)


sampler = MCMC(NUTS(schools), num_warmup=100, num_samples=100, progress_bar=False)
for i in range(3):
    sampler.run(jax.random.key(i), errors, effects)
    timer.step(sampler.get_samples()["mu"])
timer.report(sampler.get_samples()["mu"].mean(), tolerance=3.0)  # chains that differ in last digits part soon
