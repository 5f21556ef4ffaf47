"""Names of topologies, their tables and errors; compiling for them is in `test_compile_for_tpu.py` and `..._cuda.py`."""

import numpy as np
import pytest

import xlafront as xf
from xlafront.experimental import topologies
from xlafront.runtime import clients, topologies as runtime
from xlafront.runtime.jaxlib_compat import JaxRuntimeError


def test_attached_devices():
    topology = topologies.get_attached_topology()
    assert topology.devices == xf.devices() and topologies.get_attached_topology("cpu").devices == xf.devices("cpu")
    assert "8" in repr(topology)
    mesh = topologies.make_mesh(topology, (4, 2), ("x", "y"))
    assert mesh.shape == {"x": 4, "y": 2} and list(mesh.devices.flat) == xf.devices()
    with pytest.raises(ValueError, match="16 devices"):
        topologies.make_mesh(topology, (16,), ("x",))
    with pytest.raises(ValueError, match=r"\(2, 2\) is of 4 devices.*has 8"):
        topologies.make_mesh(topology, (2, 2), ("x", "y"))


@pytest.mark.parametrize("name", ["v9:2x2", "rtx99:8", "tpu", "16x16"])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(ValueError, match="v5e:16x16.*h100:8"):
        topologies.get_topology_desc(name)


def test_names_say_their_platform():
    assert {runtime.platform_of(n) for n in ("v5e:2x2", "v5litepod:4x4", "V4:2x2x1", "v7x:2x2x1")} == {"tpu"}
    assert {runtime.platform_of(n) for n in ("h100:8", "H200:4x8", "a100-80gb")} == {"cuda"}


def test_no_name():
    with pytest.raises(ValueError, match="v5e:16x16"):
        topologies.get_topology_desc()
    with pytest.raises(NotImplementedError, match="cpu"):
        topologies.get_topology_desc(platform="cpu")
    with pytest.raises(clients.PlatformError, match="no platform 'abacus'"):
        topologies.get_topology_desc("v5e:2x2", "abacus")


def test_a_plugin_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(clients, "find_tpu", lambda: None)
    monkeypatch.setattr(clients, "find_cuda", lambda: None)
    with pytest.raises(RuntimeError, match="pip install libtpu"):
        topologies.get_topology_desc("v5e:4x12")
    with pytest.raises(RuntimeError, match=r"pip install 'xlafront\[cuda13-compiler\]'"):
        topologies.get_topology_desc("h100:24")


@pytest.mark.parametrize("text, tool", [("INTERNAL: libdevice not found at ./libdevice.10.bc", "libdevice"), (
    "INTERNAL: no way to compile:\n - ptxas_path: Couldn't find a suitable version of ptxas. The following locations", "ptxas")])
def test_tools_that_are_not_installed_are_named(text, tool):
    found = runtime.explained(JaxRuntimeError(text))
    assert isinstance(found, clients.PlatformError) and f"needs {tool}," in str(found)
    assert "pip install nvidia-cuda-nvcc nvidia-nvvm" in str(found)


def test_other_errors_of_the_compiler_stay_themselves():
    error = JaxRuntimeError("INTERNAL: ptxas exited with status 1 for a reason of its own")
    assert runtime.explained(error) is error


@pytest.mark.parametrize("card", runtime.CARDS.values(), ids=lambda card: card.name)
def test_cards(card):
    """The data sheets' figures belong together: multiprocessors, clock and width give the float32 rate that bounds the
    tensor cores' from below; memory fits the name."""
    limits = runtime.ARCHITECTURES[card.capability]
    vector_rate = 2 * card.multiprocessors * limits.fpus * card.clock * 1e9
    assert vector_rate < card.flops < 40 * vector_rate
    assert card.cache < card.memory / 100 and 1e11 < card.bandwidth < 1e13
    assert limits.shared_memory_of_block <= limits.shared_memory and limits.threads % 32 == 0
    text = runtime.target_config(card)
    assert text.count("{") == text.count("}") and f'"{card.description}"' in text and f"core_count: {card.multiprocessors} " in text


class FakeMember:
    """A device of a process."""

    platform, coords = "tpu", (0, 0, 0)

    def __init__(self, process, core):
        self.process_index, self.core_on_chip = process, core


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (8,), (2, 2, 2)])
def test_blocks_of_processes(shape):
    """Cores 0, 2, 4, 6 belong to process 0 and the others to process 1: each must be half of the mesh."""
    topology = topologies.TopologyDescription([FakeMember(core % 2, core) for core in range(8)])
    grid = np.vectorize(lambda d: d.process_index, otypes=[int])(
        topologies.make_mesh(topology, shape, "abc"[:len(shape)], contiguous_submeshes=True).devices)
    assert grid.ravel().tolist() in ([0] * 4 + [1] * 4, [0, 1] * 4) and grid.sum() == 4
    boxes = [np.prod(np.ptp(np.argwhere(grid == process), axis=0) + 1) for process in (0, 1)]
    assert boxes == [4, 4]


def test_blocks_that_cannot_be():
    topology = topologies.TopologyDescription([FakeMember(core // 3, core) for core in range(6)])  # processes of three
    with pytest.raises(ValueError, match="contiguous_submeshes"):
        topologies.make_mesh(topology, (3, 2), ("a", "b"), contiguous_submeshes=True)
    assert topologies.make_mesh(topology, (2, 3), ("a", "b"), contiguous_submeshes=True).shape == {"a": 2, "b": 3}


class FakeDevice:
    def __init__(self, platform, kind):
        self.platform, self.device_kind = platform, kind


def test_memory_of_chips(monkeypatch):
    for variable in ("XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION",
                     "XLA_CLIENT_MEM_FRACTION"):
        monkeypatch.delenv(variable, raising=False)
    v5e, h100 = FakeDevice("tpu", "TPU v5 lite"), FakeDevice("gpu", "NVIDIA H100 80GB HBM3")
    assert runtime.chip_of(v5e).name == "v5e" and 15 << 30 < runtime.chip_of(v5e).memory < 16 << 30
    whole = runtime.CARDS["h100"].memory
    assert runtime.chip_of(h100).memory == int(0.75 * whole) and "75%" in runtime.chip_of(h100).note
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9")
    assert runtime.chip_of(h100).memory == int(0.9 * whole)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION")
    assert runtime.chip_of(h100).memory == whole and not runtime.chip_of(h100).note
    assert runtime.chip_of(xf.devices("cpu")[0]) is None


class FakeCore:
    """A TPU core at a place."""

    def __init__(self, x, y, z, core=0):
        self.coords, self.core_on_chip, self.platform = (x, y, z), core, "tpu"

    def __lt__(self, other):
        raise AssertionError("devices have no order of their own")


@pytest.fixture
def cores():
    made = [FakeCore(x, y, z) for z in range(2) for y in range(3) for x in range(4)]
    return [made[i] for i in np.random.default_rng(0).permutation(len(made))]


def distance(a, b):
    return sum(abs(i - j) for i, j in zip(a.coords, b.coords))


def test_a_single_axis_winds_through_the_hardware(cores):
    from xlafront.staging.meshes import in_torus_order

    for shape in ((24,), (1, 24), (24, 1)):
        order = in_torus_order(cores, shape)
        assert set(order) == set(cores) and all(distance(a, b) == 1 for a, b in zip(order, order[1:]))


def test_several_axes_lie_along_rows_and_columns(cores):
    from xlafront.staging.meshes import in_torus_order

    grid = np.array(in_torus_order(cores, (6, 4)), dtype=object).reshape(6, 4)
    assert all(len({d.coords[1:] for d in row}) == 1 and [d.coords[0] for d in row] == [0, 1, 2, 3] for row in grid)
    assert all(len({d.coords[0] for d in column}) == 1 for column in grid.T)
