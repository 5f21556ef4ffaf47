"""BlackJAX: samplers with window adaptation, sequential Monte Carlo."""

import blackjax
import jax
import jax.numpy as jnp


def log_density(x):
    return -0.5 * jnp.sum((x - jnp.array([1.0, -2.0])) ** 2 / jnp.array([1.0, 4.0]))


def run(sampler, state, key, steps):
    def step(state, key):
        state, info = sampler.step(key, state)
        return state, state.position

    return jax.jit(lambda state, keys: jax.lax.scan(step, state, keys)[1])(state, jax.random.split(key, steps))


def nuts():
    warmup = blackjax.window_adaptation(blackjax.nuts, log_density)
    (state, parameters), _ = warmup.run(jax.random.key(0), jnp.zeros(2), num_steps=300)
    positions = run(blackjax.nuts(log_density, **parameters), state, jax.random.key(1), 500)
    return jnp.stack([*positions.mean(0), *positions.std(0)])


def others():
    found = []
    for sampler in (blackjax.hmc(log_density, 0.3, jnp.ones(2), 10), blackjax.mala(log_density, 0.5),
                    blackjax.additive_step_random_walk(log_density, blackjax.mcmc.random_walk.normal(jnp.ones(2)))):
        found.append(run(sampler, sampler.init(jnp.zeros(2)), jax.random.key(2), 500)[-100:].sum())
    return jnp.stack(found)


def sequential():
    smc = blackjax.adaptive_tempered_smc(
        lambda x: -0.5 * jnp.sum(x ** 2) / 25, log_density, blackjax.hmc.build_kernel(), blackjax.hmc.init,
        {"step_size": jnp.array([0.3]), "inverse_mass_matrix": jnp.ones((1, 2)), "num_integration_steps": jnp.array([5])},
        blackjax.smc.resampling.systematic, 0.5, num_mcmc_steps=3)
    state = smc.init(5 * jax.random.normal(jax.random.key(3), (200, 2)))
    step = jax.jit(smc.step)
    for i in range(20):
        if state.tempering_param >= 1:
            break
        state, _ = step(jax.random.key(i), state)
    return jnp.stack([*state.particles.mean(0), state.tempering_param * 1.0])


PROGRAMS = (nuts, others, sequential)
