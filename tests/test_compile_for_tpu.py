"""Programs for TPU pods, compiled by libtpu on a machine without one. Collected where libtpu is installed, as in CI."""

import os

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import NamedSharding, P
from xlafront.experimental import topologies


def over(mesh, shape, spec, dtype=np.float32):
    return xf.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


PODS = {"v2:2x2": 8, "v3:2x2": 8, "v4:2x2x1": 8, "v4:8x8x16": 2048, "v5e:2x4": 8, "v5e:16x16": 256, "v5litepod:4x4": 16,
        "v5p:8x8x8": 512, "v6e:16x16": 256, "v7x:2x2x1": 8}  # chips, times two where a chip is two devices


@pytest.mark.parametrize("name", PODS)
def test_devices(name):
    before = dict(os.environ)
    devices = topologies.get_topology_desc(name).devices
    assert len(devices) == PODS[name] == len({(*d.coords, d.core_on_chip) for d in devices})
    assert {d.platform for d in devices} == {"tpu"} and dict(os.environ) == before
    assert topologies.get_topology_desc(name).devices == devices  # the same objects: meshes over them are equal


def test_slices():
    devices = topologies.get_topology_desc("v5e:2x2", num_slices=2).devices
    assert len(devices) == 8 and {d.slice_index for d in devices} == {0, 1}


@pytest.mark.parametrize("name, why", [("v5e", "v5e:4x4"), ("v5e:", "v5e:4x4|v5e:16x16"), ("v5e:3x5", "not divisible"),
                                       ("v5e:axb", "sizes after the colon")])
def test_bad_shapes(name, why):
    with pytest.raises(ValueError, match=why):
        topologies.get_topology_desc(name)


@pytest.mark.parametrize("shape", [(256, 1), (128, 2), (16, 16), (4, 64)])
def test_a_gradient_over_256_devices(shape):
    mesh = topologies.make_mesh(topologies.get_topology_desc("v5e:16x16"), shape, ("data", "model"))
    scale = np.arange(1000, dtype=np.float32)  # a constant of the program

    def loss(w, x):
        return xnp.mean(xnp.tanh(x @ w) ** 2) + scale.sum() * 0

    w, x = over(mesh, (256, 512), P(None, "model")), over(mesh, (1024, 256), P("data"))
    lowered = xf.jit(xf.grad(loss), out_shardings=NamedSharding(mesh, P(None, "model"))).lower(w, x)
    compiled = lowered.compile()
    memory = compiled.memory_analysis()
    # at the least what the shards are, in tiles of 8 x 128 at the most
    model, data = 512 // shape[1], 1024 // shape[0]
    assert 4 * (256 * model + data * 256) <= memory.argument_size_in_bytes <= 4 * (256 * max(model, 128) + max(data, 8) * 256)
    assert compiled.output_shardings.shard_shape((256, 512)) == (256, model)
    # two products forward and backward, of this device's part
    assert compiled.cost_analysis()["flops"] >= 2 * 2 * data * 256 * model
    assert ("all-reduce" in compiled.as_text()) == (shape[0] > 1)
    with pytest.raises(RuntimeError, match="not here"):
        compiled(np.ones((256, 512), np.float32), np.ones((1024, 256), np.float32))


def test_callbacks_are_refused():
    mesh = topologies.make_mesh(topologies.get_topology_desc("v5e:2x2"), (4,), ("data",))
    with pytest.raises(NotImplementedError, match="pure_callback"):
        xf.jit(lambda x: xf.pure_callback(np.sin, x, x)).lower(over(mesh, (8,), P("data"))).compile()
