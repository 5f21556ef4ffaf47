"""Orbax: a network's state saved and restored, a manager of several checkpoints."""

import tempfile

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from flax import nnx
from flax.training import checkpoints, train_state
from jax.experimental.array_serialization.serialization import GlobalAsyncCheckpointManager, get_tensorstore_spec


def linen_state():
    model = nn.Dense(3)
    x = jnp.ones((2, 4))
    state = train_state.TrainState.create(apply_fn=model.apply, params=model.init(jax.random.key(0), x), tx=optax.adam(0.1))
    grads = jax.grad(lambda p: model.apply(p, x).sum())(state.params)
    state = state.apply_gradients(grads=grads)
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(f"{folder}/state", state)
        checkpointer.wait_until_finished()
        again = checkpointer.restore(f"{folder}/state", jax.tree.map(ocp.utils.to_shape_dtype_struct, state))
    again = again.apply_gradients(grads=grads)
    return jnp.stack([jax.tree.reduce(lambda a, b: a + b.sum(), again.params, 0.0), again.step + 0.0])


def nnx_module():
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    graph, state = nnx.split(model)
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(f"{folder}/state", nnx.to_pure_dict(state))
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(f"{folder}/state")
    nnx.replace_by_pure_dict(state, restored)
    return nnx.merge(graph, state)(jnp.ones((1, 3))).sum()


def manager():
    with tempfile.TemporaryDirectory() as folder:
        options = ocp.CheckpointManagerOptions(max_to_keep=2)
        with ocp.CheckpointManager(folder, options=options) as manager:
            for step in range(4):
                manager.save(step, args=ocp.args.StandardSave({"w": jnp.full(3, step), "b": jnp.array(1.5, jnp.bfloat16)}))
            manager.wait_until_finished()
            restored = manager.restore(3)
            steps = manager.all_steps()
        checkpoints.save_checkpoint(f"{folder}/old", {"w": jnp.arange(3.0)}, step=1)
        old = checkpoints.restore_checkpoint(f"{folder}/old", target=None)
    return jnp.stack([restored["w"].sum() + 0.0, restored["b"] + 0.0, *map(jnp.float32, steps), old["w"].sum()])


def arrays_by_themselves():
    """The functions that Flax and Orbax use of `jax.experimental.array_serialization`."""
    manager, sharding = GlobalAsyncCheckpointManager(), jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with tempfile.TemporaryDirectory() as folder:
        specs = [get_tensorstore_spec(f"{folder}/{name}", ocdbt=True) for name in "ab"]
        manager.serialize([jnp.arange(6.0).reshape(2, 3), jnp.array(1.5, jnp.bfloat16)], specs)
        manager.wait_until_finished()
        a, b = manager.deserialize([sharding] * 2, specs, global_shapes=[(3, 2), ()], dtypes=["float32", "float32"])
    return jnp.stack([a.sum(), a[1, 1], a[2].sum(), b])


PROGRAMS = (linen_state, nnx_module, manager, arrays_by_themselves)
