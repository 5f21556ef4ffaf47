"""Names of topologies, their tables and errors; compiling for them is in `test_compile_for_tpu.py` and `..._cuda.py`."""

import pytest

import xlafront as xf
from xlafront.base.jaxlib_compat import JaxRuntimeError
from xlafront.experimental import topologies
from xlafront.planning import topologies as module
from xlafront.planning.topologies import across_slices
from xlafront.runtime import clients, topologies as runtime

pytestmark = pytest.mark.cpu_only


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


def test_platform_of_topology_name():
    assert {runtime.platform_of(n) for n in ("v5e:2x2", "v5litepod:4x4", "V4:2x2x1", "v7x:2x2x1", "2xv5e:4x4", "4 x v5p:2x2x2")
            } == {"tpu"}
    assert {runtime.platform_of(n) for n in ("h100:8", "H200:4x8", "a100-80gb")} == {"cuda"}


@pytest.mark.parametrize("shape, slices, factors", [((4, 8), 2, [2, 1]), ((2, 16), 4, [2, 2]), ((1, 8, 4), 8, [1, 8, 1]),
                                                    ((3, 9), 2, None)])
def test_the_first_axes_of_a_mesh_are_over_slices(shape, slices, factors):
    assert across_slices(shape, slices) == factors


def test_no_name():
    with pytest.raises(ValueError, match="v5e:16x16"):
        topologies.get_topology_desc()
    with pytest.raises(NotImplementedError, match="cpu"):
        topologies.get_topology_desc(platform="cpu")
    with pytest.raises(NotImplementedError, match="no platform 'abacus'"):
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
    found = runtime.with_install_hint(JaxRuntimeError(text))
    assert isinstance(found, clients.PlatformError) and f"needs {tool}," in str(found)
    assert "pip install nvidia-cuda-nvcc nvidia-nvvm" in str(found)


def test_other_compiler_errors_are_unchanged():
    error = JaxRuntimeError("INTERNAL: ptxas exited with status 1 for a reason of its own")
    assert runtime.with_install_hint(error) is error


@pytest.mark.parametrize("card", runtime.CARDS.values(), ids=lambda card: card.name)
def test_data_of_cards_are_consistent(card):
    """The data sheets' figures belong together: multiprocessors, clock and width give the float32 rate that bounds the
    tensor cores' from below; memory fits the name."""
    limits = runtime.ARCHITECTURES[card.capability]
    vector_rate = 2 * card.multiprocessors * limits.fpus * card.clock * 1e9
    assert vector_rate < card.flops < 40 * vector_rate
    assert card.cache < card.memory / 100 and 1e11 < card.bandwidth < 1e13
    assert limits.shared_memory_of_block <= limits.shared_memory and limits.threads % 32 == 0
    text = runtime.target_config(card)
    assert text.count("{") == text.count("}") and f'"{card.description}"' in text and f"core_count: {card.multiprocessors} " in text


class FakeDevice:
    def __init__(self, platform, kind):
        self.platform, self.device_kind = platform, kind


def test_memory_of_chips(monkeypatch):
    for variable in ("XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION",
                     "XLA_CLIENT_MEM_FRACTION"):
        monkeypatch.delenv(variable, raising=False)
    v5e, h100 = FakeDevice("tpu", "TPU v5 lite"), FakeDevice("gpu", "NVIDIA H100 80GB HBM3")
    assert runtime.chip_of(v5e).name == "v5e" and 15 << 30 < runtime.chip_of(v5e).memory < 16 << 30
    all_memory = runtime.CARDS["h100"].memory
    assert runtime.chip_of(h100).memory == int(0.75 * all_memory) and "75%" in runtime.chip_of(h100).note
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9")
    assert runtime.chip_of(h100).memory == int(0.9 * all_memory)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION")
    assert runtime.chip_of(h100).memory == all_memory and not runtime.chip_of(h100).note
    assert runtime.chip_of(xf.devices("cpu")[0]) is None


def test_serialized_topologies():
    topology = topologies.get_attached_topology()
    written = topology.serialize()
    read = topologies.TopologyDescription.deserialize(written)  # of other device objects, where jaxlib has its own format
    assert isinstance(written, bytes) and [d.id for d in read.devices] == [d.id for d in topology.devices]
    assert {(d.platform, d.device_kind) for d in read.devices} == {(d.platform, d.device_kind) for d in topology.devices}
    with pytest.raises(ValueError, match="parse"):
        topologies.TopologyDescription.deserialize(b"abc")


def test_serialized_topologies_of_other_processes(monkeypatch):
    monkeypatch.setattr(module, "HAS_TOPOLOGY_FILES", False)
    with pytest.raises(ValueError, match="does not have"):
        topologies.TopologyDescription.deserialize(b'{"platform": "cpu", "ids": [12345]}')
    described = topologies.TopologyDescription(["device"], {"name": "v9:4x4", "platform": "tpu", "options": {}})
    monkeypatch.setattr(module, "get_topology_desc", lambda name, platform, **options: (name, platform, options))
    assert topologies.TopologyDescription.deserialize(described.serialize()) == ("v9:4x4", "tpu", {})
