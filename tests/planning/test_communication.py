"""Times of collectives, against the loads of single links counted by brute force."""

from types import SimpleNamespace

import numpy as np
import pytest

from xlafront.planning import communication
from xlafront.planning.communication import Links, Path, Shape
from xlafront.runtime import topologies as chips


def slice_mesh(shape, sizes, axis_names, cores=1, permutation=None):
    """A mesh over devices that only have coordinates."""
    devices = np.empty(int(np.prod(shape)) * cores, dtype=object)
    for i, (*coords, core) in enumerate(np.ndindex(*shape, cores)):
        devices[i] = SimpleNamespace(platform="tpu", coords=tuple(coords), core_on_chip=core, slice_index=0)
    grid = devices.reshape(*shape, cores)
    if permutation is not None:
        grid = grid.transpose(permutation)
    return SimpleNamespace(devices=grid.reshape(sizes), axis_names=axis_names)


def ring_loads(size, closed):
    """The bytes on the busiest link, if each device sends one byte to each other on a shortest way."""
    loads = np.zeros((size, 2))
    for source in range(size):
        for target in range(size):
            ahead = (target - source) % size
            if closed and 2 * ahead == size:  # half of it either way
                ways = [(0.5, 1, ahead), (0.5, -1, ahead)]
            elif closed:
                ways = [(1.0, 1, ahead)] if 2 * ahead < size else [(1.0, -1, size - ahead)]
            else:
                ways = [(1.0, 1 if target > source else -1, abs(target - source))]
            for part, direction, steps in ways:
                for k in range(steps):
                    loads[(source + direction * k) % size, int(direction < 0)] += part
    return loads.max()


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("shape", [Shape.RING, Shape.LINE])
def test_an_all_to_all_takes_as_long_as_its_busiest_link(size, shape):
    busiest = ring_loads(size, shape is Shape.RING) / size  # each device sends one byte in all
    assert Path(size, 1.0, shape).exchange(1.0) == pytest.approx(busiest)


@pytest.mark.parametrize("count", [2, 5, 8])
def test_a_gather_in_a_line_is_bound_by_its_ends(count):
    """The device at the end receives all others' parts over its only link."""
    links = Links((Path(count, 10.0, Shape.LINE),), 1, 1.0)
    received = 1000.0 * (count - 1) / count
    assert links.seconds("all-gather", 1000.0) == pytest.approx(received / 10.0, rel=1e-3)
    assert links.seconds("reduce-scatter", 1000.0) == links.seconds("all-gather", 1000.0)
    assert links.seconds("all-reduce", 1000.0) == 2 * links.seconds("all-gather", 1000.0)


def test_axes_of_a_full_v5e_pod_are_rings_and_of_a_part_lines():
    chip = chips.TPUS["v5e"]
    pod = slice_mesh((16, 16, 1), (16, 16), ("a", "b"))
    assert communication.links(pod, ("a",), chip).paths == (Path(16, 50e9, Shape.RING),)
    assert communication.links(pod, ("a", "b"), chip).paths == (Path(16, 50e9, Shape.RING),) * 2
    part = slice_mesh((4, 8, 1), (4, 8), ("a", "b"))
    assert communication.links(part, ("b",), chip).paths == (Path(8, 50e9, Shape.LINE),)


def test_groups_that_skip_devices_share_links():
    chip = chips.TPUS["v5e"]
    mesh = slice_mesh((16, 16, 1), (4, 4, 16), ("far", "near", "b"))
    assert communication.links(mesh, ("near",), chip).paths == (Path(4, 50e9, Shape.LINE),)
    assert communication.links(mesh, ("far",), chip).paths == (Path(4, 12.5e9, Shape.RING),)


def test_cubes_of_v5p_are_rings_in_three_dimensions():
    chip = chips.TPUS["v5p"]
    mesh = slice_mesh((4, 4, 8), (128,), ("a",))
    assert communication.links(mesh, ("a",), chip).paths == (
        Path(4, 100e9, Shape.RING), Path(4, 100e9, Shape.RING), Path(8, 100e9, Shape.RING))
    mesh = slice_mesh((2, 2, 1), (4,), ("a",))
    assert {p.shape for p in communication.links(mesh, ("a",), chip).paths} == {Shape.LINE}


def test_cores_of_a_chip_share_its_links():
    chip = chips.TPUS["v4"]
    mesh = slice_mesh((4, 4, 4), (64, 2), ("a", "core"), cores=2)
    assert communication.links(mesh, ("core",), chip).paths == ()
    assert {p.rate for p in communication.links(mesh, ("a",), chip).paths} == {25e9}
    assert {p.rate for p in communication.links(mesh, ("a", "core"), chip).paths} == {50e9}


def test_hosts_of_gpus_are_joined_by_the_network():
    chip = chips.Chip("h100", "H100", 1, 1.0, 1.0, link=450e9, network=50e9)
    devices = np.array([SimpleNamespace(platform="cuda", process_index=i // 8) for i in range(32)], dtype=object)
    mesh = SimpleNamespace(devices=devices.reshape(4, 8), axis_names=("host", "card"))
    within = communication.links(mesh, ("card",), chip)
    assert within == Links((Path(8, 450e9, Shape.SWITCH),), 1, 50e9)
    assert within.seconds("all-to-all", 450e9) == pytest.approx(7 / 8, rel=1e-3)
    across = communication.links(mesh, ("host",), chip)
    assert across.domains == 4 and across.paths == ()
    assert across.seconds("all-gather", 50e9) == pytest.approx(3 / 4, rel=1e-3)
    both = communication.links(mesh, ("host", "card"), chip)  # each card brings an eighth of what comes from other hosts
    assert both.seconds("all-gather", 400e9) == pytest.approx(max(400 / 8 * 3 / 4 / 50, 400 * 7 / 8 / 450), rel=1e-3)


def test_slices_of_tpus_are_joined_by_the_network():
    chip = chips.TPUS["v5e"]
    one = slice_mesh((4, 4), (1, 16), ("data", "fsdp"))
    devices = np.array([SimpleNamespace(**vars(d) | {"slice_index": i}) for i in range(2) for d in one.devices.flat], dtype=object)
    mesh = SimpleNamespace(devices=devices.reshape(2, 16), axis_names=("data", "fsdp"))
    size = 3.125e9
    between = communication.links(mesh, ("data",), chip, "between slices")
    assert between.paths == () and between.seconds("all-reduce", size) == pytest.approx(1.0, rel=1e-3)  # twice a half
    within = communication.links(mesh, ("data", "fsdp"), chip, "within slices")
    assert within == communication.links(one, ("data", "fsdp"), chip) and within.domains == 1


def test_a_permutation_takes_one_link():
    links = Links((Path(8, 10.0, Shape.RING),), 1, 1.0)
    assert links.seconds("collective-permute", 100.0) == pytest.approx(10.0, rel=1e-3)
