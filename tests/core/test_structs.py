"""`ShapeDtypeStruct`, types and traced values: their attributes and their immutability."""

import collections.abc
import copy
import pickle

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.errors import ConcretizationTypeError, UnexpectedTracerError
from xlafront.experimental.layout import Format, Layout
from xlafront.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding


def mesh():
    return Mesh(np.array(xf.devices()[:1]), "i")


FIELDS = {"shape": (2,), "dtype": "int32", "weak_type": True, "sharding": None, "is_ref": True}


@pytest.mark.parametrize("name", FIELDS)
def test_structs_are_immutable(name):
    struct = xf.ShapeDtypeStruct((2, 3), "float32")
    with pytest.raises(RuntimeError, match=name):
        setattr(struct, name, FIELDS[name])
    changed = struct.update(**{name: FIELDS[name]})
    assert getattr(changed, name) == FIELDS[name] and struct == xf.ShapeDtypeStruct((2, 3), "float32")
    for same in (pickle.loads(pickle.dumps(changed)), copy.deepcopy(changed)):
        assert same == changed and hash(same) == hash(changed)
    with pytest.raises(AttributeError):
        struct.something = 1


class Batched(xf.ShapeDtypeStruct):
    def __init__(self, shape, dtype, vmap_axes):
        xf.ShapeDtypeStruct.__init__(self, shape, dtype)
        self.vmap_axes = vmap_axes


class SlottedBatched(xf.ShapeDtypeStruct):
    __slots__ = ("vmap_axes",)
    __init__ = Batched.__init__


@pytest.mark.parametrize("kind", [Batched, SlottedBatched])
def test_subclasses_of_structs_set_attributes_once(kind):
    struct = kind((2,), "int32", (1,))
    assert struct.vmap_axes == (1,) and repr(struct) == f"{kind.__name__}(shape=(2,), dtype=int32)"
    for name in ("vmap_axes", "shape"):
        with pytest.raises(RuntimeError, match=f"cannot assign to {name}: a {kind.__name__} is immutable"):
            setattr(struct, name, (3,))
    for same in (copy.copy(struct), pickle.loads(pickle.dumps(struct))):
        assert type(same) is kind and same == struct and same.vmap_axes == (1,)
    assert xf.eval_shape(lambda x: x * 2, struct) == xf.ShapeDtypeStruct((2,), "int32") == struct.update()


class OfOneType(xf.ShapeDtypeStruct):
    pass


def test_structs_like_structs_of_other_types():
    struct, given = xf.ShapeDtypeStruct, OfOneType((2,), "int8", weak_type=True)
    for kind in (struct, OfOneType):
        like = kind.like(given)
        assert type(like) is kind and like == given and like.weak_type
        like = kind.like(struct((3, 2), "float32", sharding=xnp.ones((3, 2)).format))
        assert type(like) is kind and like.format == xnp.ones((3, 2)).format


def test_struct_like_array():
    like = xf.ShapeDtypeStruct.like
    for x in (np.ones((2, 3), "int8"), xnp.ones(3), xf.random.key(0), 2.5, xnp.asarray(1.0)):
        struct, aval = like(x), xf.typeof(x)
        assert (struct.shape, struct.dtype, struct.weak_type, struct.sharding) == (aval.shape, aval.dtype, aval.weak_type, None)
    bound = xf.device_put(xnp.ones(3), xf.devices()[0])
    assert like(bound).sharding == bound.sharding and like(bound).format == bound.format
    with pytest.raises(TypeError):
        like("a")


def test_structs_with_formats():
    x = xnp.ones((3, 2))
    struct = xf.ShapeDtypeStruct((3, 2), "float32", sharding=x.format)
    assert struct.sharding == x.sharding and struct.format == x.format and "Layout" in repr(struct)
    assert struct.update(shape=(3, 2)) == struct and struct.update(sharding=None).format == Format()
    with pytest.raises(ValueError, match="Format"):
        struct.update(sharding=NamedSharding(mesh(), P()))
    with pytest.raises(TypeError, match="AUTO"):
        xf.ShapeDtypeStruct((3, 2), "float32", sharding=Format(Layout.AUTO))


@pytest.mark.parametrize("wrong, error", [
    (dict(sharding=3), ValueError), (dict(sharding="i"), ValueError), (dict(vma={"i"}), TypeError),
    (dict(manual_axis_type=3), TypeError)])
def test_invalid_arguments_raise(wrong, error):
    with pytest.raises(error):
        xf.ShapeDtypeStruct((2,), "float32", **wrong)


def test_specs_refer_to_the_current_mesh():
    over = mesh()
    with pytest.raises(ValueError, match="rank"):
        xf.ShapeDtypeStruct((), "float32", sharding=NamedSharding(over, P("i")))
    with xf.set_mesh(over):
        assert xf.ShapeDtypeStruct((4,), "float32", sharding=P("i")).sharding == NamedSharding(over, P("i"))
    struct = xf.ShapeDtypeStruct((4,), "float32", sharding=P("i"))
    for refused in (lambda: xf.eval_shape(lambda x: x, struct), lambda: struct.sharding, lambda: struct.format):
        with pytest.raises(TypeError, match="mesh"):
            refused()
    with xf.set_mesh(over):
        assert struct.sharding == struct.format.sharding == struct.update(shape=(8,)).sharding == NamedSharding(over, P("i"))
        assert struct == xf.ShapeDtypeStruct((4,), "float32", sharding=P("i")) and pickle.loads(pickle.dumps(struct)) == struct
        assert xf.jit(lambda x: x).lower(struct).compile().input_shardings[0][0] == NamedSharding(over, P("i"))
    with pytest.raises(ValueError, match="rank"):
        xf.ShapeDtypeStruct((), "float32", sharding=P("i"))


def test_structs_of_traced_values_have_the_shardings_of_their_types():
    over, seen = xf.make_mesh((1,), ("i",)), []

    def f(x):
        seen.append(xf.ShapeDtypeStruct.like(x))
        return x

    x = xf.device_put(np.ones(4, np.float32), NamedSharding(over, P("i")))
    xf.jit(f)(x)
    xf.jit(xf.shard_map(f, mesh=over, in_specs=P("i"), out_specs=P("i")))(x)
    xf.jit(f)(np.ones(4, np.float32))
    assert [s.sharding and s.sharding.spec for s in seen] == [P("i"), P(None), None]
    assert seen[0].sharding.mesh == over.abstract_mesh and seen[1].sharding.mesh.manual_axes == ("i",)
    assert seen[1].manual_axis_type.varying == {"i"} and seen[0].manual_axis_type is None


def test_types_are_immutable():
    aval = xnp.ones((2, 3), "bfloat16").aval
    for name in ("shape", "dtype", "weak_type", "ndim", "anything"):
        with pytest.raises(AttributeError, match=name):
            setattr(aval, name, None)
    assert (aval.nbytes, aval.itemsize, aval.size) == (12, 2, 6)
    with pytest.raises(TypeError):
        len(aval)
    assert str(xf.typeof(xnp.int32(1)).to_tangent_aval()) == "float0[]"


# Traced values


def within(transform, get):
    """Return the result of `get` for a traced vector, or for a traced scalar under vmap."""
    found = []

    def f(x):
        found.append(get(x))
        return x * 1.0

    x = xnp.arange(3.0)
    {"jit": lambda: xf.jit(f)(x), "grad": lambda: xf.grad(lambda v: f(v).sum())(x), "vmap": lambda: xf.vmap(f)(x),
     "jvp": lambda: xf.jvp(f, (x,), (x,)), "jit of grad": lambda: xf.jit(xf.grad(lambda v: f(v).sum()))(x),
     "vmap of grad": lambda: xf.vmap(xf.grad(f))(x)}[transform]()
    return found[0]


@pytest.mark.parametrize("transform", ("jit", "grad", "vmap"))
def test_attributes_of_concrete_arrays_raise(transform):
    attributes = "committed addressable_shards global_shards is_fully_replicated is_fully_addressable".split()
    methods = "devices delete is_deleted on_device_size_in_bytes unsafe_buffer_pointer tolist tobytes".split()
    for name in attributes:
        with pytest.raises(ConcretizationTypeError, match=name):
            within(transform, lambda x, name=name: getattr(x, name))
    for name in methods:
        with pytest.raises(ConcretizationTypeError, match=name):
            within(transform, lambda x, name=name: getattr(x, name)())
    for convert in (float, complex):
        with pytest.raises(ConcretizationTypeError):
            within(transform, lambda x, convert=convert: convert(x.sum()))


@pytest.mark.parametrize("transform, text", [
    ("jit", "JitTracer(float32[3])"), ("grad", "GradTracer(primal=[0. 1. 2.], typeof(tangent)=f32[3])"),
    ("vmap", "VmapTracer(aval=float32[], batched=float32[3])"), ("jvp", "JVPTracer(primal=[0. 1. 2.], tangent=[0. 1. 2.])"),
    ("jit of grad", "GradTracer(primal=JitTracer(float32[3]), typeof(tangent)=f32[3])"),
    ("vmap of grad", "GradTracer(primal=VmapTracer(aval=float32[], batched=float32[3]), typeof(tangent)=f32[])")])
def test_repr_of_traced_values(transform, text):
    assert within(transform, repr) == within(transform, str) == within(transform, lambda x: f"{x}") == text


def test_truth_of_several_elements_raises():
    with pytest.raises(ValueError, match="ambiguous"):
        within("jit", bool)
    assert not isinstance(xnp.ones(2), collections.abc.Hashable) and not isinstance(xf.random.key(0), collections.abc.Hashable)


# Making arrays of parts


def test_shards_of_arrays():
    device = xf.devices()[0]
    made = xf.make_array_from_process_local_data(device, np.arange(4.0))
    assert made.sharding == SingleDeviceSharding(device)
    np.testing.assert_array_equal(made, np.arange(4.0))
    for wrong in (dict(sharding="cpu"), dict(global_shape=(None, 5)), dict(global_shape=(8, 5))):
        with pytest.raises(ValueError):
            xf.make_array_from_process_local_data(**{"sharding": device, "local_data": np.ones((4, 5))} | wrong)
    with pytest.raises(UnexpectedTracerError):
        xf.jit(lambda: xf.make_array_from_callback((4,), made.sharding, lambda i: xnp.arange(4.0)[i]))()
    with pytest.raises(ValueError, match="default_device"), xf.default_device("nowhere"):
        xnp.array([1.0])


def test_enum_values():
    """Enums have JAX's values and texts; copies of a primitive are the primitive itself."""
    preset = lax.DotAlgorithmPreset.F32_F32_F32
    assert (str(preset), repr(preset), preset.value) == ("F32_F32_F32", "DotAlgorithmPreset.F32_F32_F32", 15)
    assert (str(lax.Precision.HIGH), repr(lax.Precision.HIGH), lax.Precision.HIGH.value) == ("HIGH", "Precision.HIGH", 1)
    assert [mode.value for mode in lax.GatherScatterMode] == [1, 2, 3, 4]
    for choice in (preset, lax.Precision.HIGH, lax.GatherScatterMode.CLIP):
        assert pickle.loads(pickle.dumps(choice)) is choice
    assert copy.copy(lax.sin_p) is copy.deepcopy(lax.sin_p) is lax.sin_p


def test_structs_of_abstract_extended_dtypes():
    """Libraries describe keys of any implementation this way; no array has this type."""
    kind = xf.dtypes.prng_key
    struct = xf.ShapeDtypeStruct((2,), kind)
    assert struct.dtype is kind and struct == xf.ShapeDtypeStruct((2,), kind) != xf.ShapeDtypeStruct((2,), xf.random.key(0).dtype)
    assert "prng_key" in repr(struct) and struct.update(shape=(3,)).dtype is kind
    with pytest.raises(TypeError):
        xf.eval_shape(lambda x: x, struct)
    with pytest.raises(TypeError):
        xf.ShapeDtypeStruct((2,), np.generic)
