"""Grids of TPU devices: how the reference arranges them (facts), and what every arrangement along a torus has to fulfil."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import xlafront as xf
from xlafront.experimental import mesh_utils, topologies


@dataclasses.dataclass(frozen=True)
class Device:
    id: int
    coords: tuple
    device_kind: str
    core_on_chip: int = 0
    platform: str = "tpu"
    process_index: int = 0
    slice_index: int = 0


def torus(kind, size, cores=1):
    """The devices of a part of the hardware, numbered as the hardware does: x first, and the cores of a chip before it."""
    coordinates = [coords[::-1] for coords in itertools.product(*map(range, size[::-1]))]
    return [Device(i * cores + core, place, kind, core) for i, place in enumerate(coordinates) for core in range(cores)]


def numbers(shape, devices, **options):
    return [d.id for d in mesh_utils.create_device_mesh(shape, devices, **options).flat]


RING_OF_4, RING_OF_8 = [0, 1, 3, 2], [0, 1, 2, 3, 7, 6, 5, 4]
RING_OF_16 = [0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4]
TRAY = [0, 1, 2, 3, 6, 7, 4, 5]


@pytest.mark.parametrize("kind, size, cores, shape, expected", [
    ("TPU v2", (2, 2, 1), 2, (4, 2), TRAY), ("TPU v3", (4, 2, 1), 2, (2, 8), TRAY + [8 + i for i in TRAY]),
    ("TPU v3", (4, 2, 1), 2, (8, 2), list(range(16))), ("TPU v5 lite", (2, 2, 1), 1, (2, 2), RING_OF_4),
    ("TPU v5 lite", (4, 2, 1), 1, (2, 2, 2), RING_OF_8), ("TPU v6 lite", (2, 4, 1), 1, (8,), RING_OF_8),
    ("TPU v5 lite", (4, 4, 1), 1, (1, 16), RING_OF_16), ("TPU v5 lite", (4, 4, 1), 1, (4, 4), list(range(16))),
    ("TPU v4", (2, 2, 1), 1, (4,), [0, 2, 1, 3]), ("TPU v4", (2, 2, 2), 1, (2, 4), [0, 2, 1, 3, 4, 6, 5, 7]),
    ("TPU v4", (2, 2, 2), 1, (4, 2), [0, 1, 4, 5, 2, 3, 6, 7]), ("TPU v4", (2, 2, 2), 1, (8,), [0, 4, 2, 6, 1, 5, 3, 7]),
    ("TPU7x", (2, 2, 1), 2, (2, 4), TRAY), ("TPU7x", (2, 2, 2), 2, (16,), TRAY + [8 + i for i in TRAY])])
def test_small_slices(kind, size, cores, shape, expected):
    assert numbers(shape, torus(kind, size, cores)) == expected


@pytest.mark.parametrize("kind, size, cores, shape, split, first", [
    ("TPU v4", (4, 4, 4), 1, (64,), False, [0, 16, 32, 48, 4, 20]), ("TPU v4", (4, 4, 4), 1, (16, 4), False, [0, 1, 2, 3, 16, 17]),
    ("TPU v4", (4, 4, 8), 1, (4, 32), False, [0, 16, 32, 48, 64, 80, 96, 112, 1, 17]),
    ("TPU v4", (4, 4, 16), 1, (16, 16), False, [0, 4, 8, 12, 1, 5]), ("TPU v4", (4, 4, 4), 1, (32, 2), True, [0, 1, 16, 17, 32, 33]),
    ("TPU v4", (4, 4, 4), 1, (2, 32), True, [0, 16, 4, 20, 8, 24]), ("TPU v4", (4, 4, 8), 1, (8, 8, 2), True, [0, 1, 16, 17, 32, 33]),
    ("TPU v5 lite", (8, 8, 1), 1, (4, 16), True, [0, 8, 1, 9, 2, 10]), ("TPU v5 lite", (4, 8, 1), 1, (2, 16), True, [0, 4, 8, 12, 16, 20]),
    ("TPU v5 lite", (4, 8, 1), 1, (4, 4, 2), True, [0, 1, 4, 5, 2, 3]), ("TPU7x", (4, 4, 4), 2, (128,), False, [0, 1, 32, 33, 64, 65]),
    ("TPU7x", (4, 4, 4), 2, (2, 64), False, [0, 32, 64, 96, 8, 40]), ("TPU7x", (4, 4, 4), 2, (4, 32), True, [0, 1, 8, 9, 16, 17])])
def test_along_the_torus(kind, size, cores, shape, split, first):
    assert numbers(shape, torus(kind, size, cores), allow_split_physical_axes=split)[:len(first)] == first


@pytest.mark.parametrize("size, shape, first", [
    ((2, 2, 1), (2, 2), [0, 1, 2, 3]), ((2, 2, 4), (4, 1, 4), [0, 2, 1, 3, 4, 6, 5, 7]), ((4, 4, 4), (16, 4), [0, 1, 2, 3, 4, 5]),
    ((4, 8, 8), (4, 64), [0, 4, 8, 12, 16, 20])])
def test_contiguous_submeshes(size, shape, first):
    assert numbers(shape, torus("TPU v4", size), contiguous_submeshes=True)[:len(first)] == first
    with pytest.raises(ValueError, match="no contiguous submeshes .* only for"):
        mesh_utils.create_device_mesh((math.prod(size),), torus("TPU v4", size), contiguous_submeshes=True)


@pytest.mark.parametrize("size", [(4, 4, 4), (4, 4, 8), (8, 8, 1), (4, 8, 1), (2, 6, 1)])
def test_every_split_grid_has_each_device_once_and_steps_along_links(size):
    """Of a grid of two axes all of one is a product of parts of the axes of the torus: the chips of each row are the same, but
    for where the row is."""
    devices = torus("TPU v4", size)
    count = len(devices)
    for rows in [n for n in range(1, count + 1) if count % n == 0]:
        grid = mesh_utils.create_device_mesh((rows, count // rows), devices, allow_split_physical_axes=True)
        assert sorted(d.id for d in grid.flat) == list(range(count))
        coordinates = np.array([[d.coords for d in row] for row in grid])
        moved = coordinates - coordinates[:, :1]
        assert (moved == moved[:1]).all()


def test_order_of_the_devices_given():
    """TPUs are where they are; other devices stay as they come."""
    devices = torus("TPU v4", (2, 2, 2))
    assert numbers((2, 4), devices[::-1]) == numbers((2, 4), devices)
    assert numbers((2, 2), [dataclasses.replace(d, platform="gpu") for d in devices[3::-1]]) == [3, 2, 1, 0]
    part = [d for d in torus("TPU v4", (4, 4, 4)) if d.coords[0] >= 2]
    assert numbers((32,), part)[:5] == [2, 18, 34, 50, 6]


def test_invalid_meshes_raise():
    devices = torus("TPU v4", (4, 4, 4))
    with pytest.raises(NotImplementedError, match="product 2 .* 4x4x4.* allow_split_physical_axes=True"):
        mesh_utils.create_device_mesh((32, 2), devices)
    with pytest.raises(ValueError, match="64 devices.* product of mesh_shape"):
        mesh_utils.create_device_mesh((3, 3), devices)
    with pytest.raises(ValueError, match="do not fill"):
        mesh_utils.create_device_mesh((48,), [d for d in devices if d.coords[0] != 2])
    with pytest.raises(ValueError, match="megacore"):
        mesh_utils.create_device_mesh((8,), torus("TPU v4", (2, 2, 1), 2))


def test_either_name_of_axis_sizes():
    mesh = xf.make_mesh(axis_sizes=(1,), axis_names=("a",))
    assert mesh == xf.make_mesh(axis_shapes=(1,), axis_names=("a",)) == xf.make_mesh((1,), ("a",))
    with pytest.raises(TypeError, match="axis_sizes"):
        xf.make_mesh((1,), ("a",), axis_shapes=(1,))
    with pytest.raises(TypeError, match="axis_sizes"):
        xf.make_mesh(axis_names=("a",))


def test_make_mesh_uses_the_best_order():
    devices = torus("TPU v4", (4, 4, 4))
    for shape in ((4, 16), (32, 2)):
        mesh = xf.make_mesh(shape, ("a", "b"), devices=devices)
        assert mesh.devices.tolist() == mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True).tolist()
    odd = [d for d in devices if d.coords[0] != 2]
    assert xf.make_mesh((48,), ("a",), devices=odd).devices.tolist() == odd


def test_meshes_of_topologies():
    topology = topologies.TopologyDescription(torus("TPU v4", (2, 2, 4)))
    mesh = topologies.make_mesh(topology, (4, 4), ("a", "b"), contiguous_submeshes=True)
    assert [[d.coords[2] for d in row] for row in mesh.devices] == [[z] * 4 for z in range(4)]
    assert topologies.make_mesh(topology, (8, 2), ("a", "b")).shape == {"a": 8, "b": 2}
    with pytest.raises(ValueError, match="no contiguous submeshes"):
        topologies.make_mesh(topology, (8, 2), ("a", "b"), contiguous_submeshes=True)
