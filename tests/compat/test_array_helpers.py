"""Private helpers of `jax.numpy` that libraries of arrays with units use."""

import pytest

import xlafront.numpy as xnp
from xlafront.compat.array_helpers import (
    CClass,
    RClass,
    _apply_excluded,
    _check_output_dims,
    _IndexUpdateHelper,
    _IndexUpdateRef,
    _parse_gufunc_signature,
    _parse_input_dimensions,
)


def test_signatures():
    arguments, results = _parse_gufunc_signature("(n,k),(k)->(n),()")
    assert arguments == [("n", "k"), ("k",)] and results == [("n",), ()]
    assert _parse_input_dimensions([xnp.ones((5, 2, 3)), xnp.ones((1, 3))], arguments) == ((5,), {"n": 2, "k": 3})
    for arrays, names, error in (([xnp.ones((2, 3)), xnp.ones(4)], arguments, ValueError), ([xnp.ones(())], [("n",)], ValueError),
                                 ([xnp.ones(2)], [], TypeError)):
        with pytest.raises(error, match="in f"):
            _parse_input_dimensions(arrays, names, "in f")


def test_results_are_checked():
    sizes = {"n": 2}
    assert _check_output_dims(lambda: xnp.ones(2), sizes, [("n",)])().tolist() == [1, 1] and sizes == {"n": 2}
    assert _check_output_dims(lambda x: (x, x.sum()), sizes, [("m",), ()])(xnp.ones(3))[1] == 3
    with pytest.raises(ValueError, match="inconsistent size for core dimension 'n'"):
        _check_output_dims(lambda: xnp.ones(3), sizes, [("n",)])()
    with pytest.raises(TypeError, match="expected 2, got 1"):
        _check_output_dims(lambda: xnp.ones(2), sizes, [("n",), ()])()


def test_arguments_are_left_out():
    function, args, kwargs = _apply_excluded(lambda x, y, z=1, w=2: (x, y, z, w), {1, "z"}, (10, 20), {"z": 5, "w": 6})
    assert (list(args), kwargs) == ([10], {"w": 6}) and function(7, w=8) == (7, 20, 5, 8)
    assert _apply_excluded(max, (), (1,), {}) == (max, (1,), {})


def test_classes_of_the_objects_that_join():
    class Rows(RClass):
        def __getitem__(self, key):
            return super().__getitem__(key) + 1

    assert Rows()[1, 2:4].tolist() == [2, 3, 4] and isinstance(xnp.r_, RClass.__mro__[1])
    assert CClass()[xnp.ones(2), xnp.zeros(2)].tolist() == [[1, 0], [1, 0]]


def test_updates_of_other_arrays():
    class Ref(_IndexUpdateRef):
        def set(self, value):
            return "set", super().set(value).tolist()

    class Helper(_IndexUpdateHelper):
        def __getitem__(self, index):
            return Ref(self.array, index)

    assert Helper(xnp.zeros(2))[1].set(3.0) == ("set", [0, 3])
