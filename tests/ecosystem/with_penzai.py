"""Penzai: named axes, layers of named parameters, and models that are looked through and rewired."""

import jax
import jax.numpy as jnp
import numpy as np
from penzai import pz
from penzai.models import simple_mlp


def named_axes():
    rows = pz.nx.wrap(jnp.arange(12.0).reshape(3, 4), "row", "column")
    column_means = pz.nx.nmap(jnp.mean)(rows.untag("row"))
    centred = rows - column_means
    product = pz.nx.nmap(jnp.dot)(centred.untag("row"), rows.untag("row"))
    scaled = jax.jit(lambda x: (x * pz.nx.arange("column", 4)).untag("column").tag("feature"))(rows)
    return [*column_means.unwrap("column"), *product.unwrap("column"), scaled.untag("row", "feature").unwrap()[2, 3],
            pz.nx.concatenate([rows, centred], "row").named_shape["row"]]


def train_mlp():
    model = simple_mlp.MLP.from_config(name="mlp", init_base_rng=jax.random.key(1), feature_sizes=[2, 8, 8, 1])
    inputs = jnp.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], jnp.float32)
    x, y = pz.nx.wrap(inputs, "batch", "features"), jnp.array([0.0, 1.0, 1.0, 0.0])
    frozen, parameters = pz.unbind_params(model, freeze=True)

    @jax.jit
    def step(values):
        def loss(values):
            logits = pz.bind_variables(frozen, values)(x).untag("batch", "features").unwrap()[:, 0]
            return jnp.mean(jnp.log1p(jnp.exp(-jnp.where(y > 0, logits, -logits))))

        found, slopes = jax.value_and_grad(loss)(values)
        return found, jax.tree.map(lambda v, g: v - 0.5 * g, values, slopes)

    values = tuple(parameter.freeze() if hasattr(parameter, "freeze") else parameter for parameter in parameters)
    losses = []
    for _ in range(20):
        found, values = step(values)
        losses.append(found)
    return [losses[0], losses[-1], len(values)]


@pz.pytree_dataclass
class KeepNorm(pz.nn.Layer):
    """Return the input, and record its norm."""

    norms: pz.StateVariable

    def __call__(self, x, **_):
        self.norms.value = (*self.norms.value, jnp.linalg.norm(x.untag(*x.named_shape).unwrap()))
        return x


def rewired_model():
    model = simple_mlp.MLP.from_config(name="mlp", init_base_rng=jax.random.key(0), feature_sizes=[3, 4, 2])
    linear = pz.select(model).at_instances_of(pz.nn.Linear)
    norms = pz.StateVariable(value=(), label="norms")
    watched = linear.insert_after(KeepNorm(norms))
    x = pz.nx.wrap(jnp.arange(6.0).reshape(2, 3) / 6, "batch", "features")
    plain, seen = model(x), watched(x)
    weights = pz.select(model).at_instances_of(pz.Parameter)
    zeroed = weights.apply(lambda p: pz.Parameter(value=jax.tree.map(jnp.zeros_like, p.value), label=p.label))
    same = bool(np.all((plain == seen).untag("batch", "features").unwrap()))
    return [linear.count(), *norms.value, same, weights.count(), jnp.abs(zeroed(x).untag("batch", "features").unwrap()).sum(),
            "KeepNorm" in repr(watched)]


PROGRAMS = (named_axes, train_mlp, rewired_model)
