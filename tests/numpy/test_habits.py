"""Errors for attributes of arrays of other libraries: they name the expression to write instead."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.numpy import habits

NUMBERS = np.float32([4.0, 1.0, 9.0])


@pytest.mark.parametrize("name", habits.REMEDIES)
def test_attributes_of_other_libraries_are_missing(name):
    x = xnp.asarray(NUMBERS)
    assert not hasattr(x, name) and name not in dir(x) and not hasattr(xf.Array, name)
    with pytest.raises(AttributeError, match=f"arrays have no attribute '{name}': ") as caught:
        getattr(x, name)
    assert caught.value.name == name and caught.value.obj is x
    assert xf.eval_shape(lambda x: xnp.float32(hasattr(x, name)), x).shape == ()  # of traced arrays too


@pytest.mark.parametrize("name", habits.REMEDIES)
def test_remedies_can_be_written(name):
    """The expression after "write" runs, if it only needs the array."""
    import xlafront.lax as lax
    import xlafront.nn as nn

    _, _, remedy = habits.REMEDIES[name].remedy.partition("write ")
    expression = remedy.partition(",")[0].partition(";")[0].partition(": ")[0].removeprefix("x = ")
    names = {"x": xnp.asarray(NUMBERS), "y": xnp.ones(3), "np": np, "numpy": xnp, "lax": lax, "nn": nn, "mask": NUMBERS > 2,
             "value": 1.0, "indices": np.array([0]), "axis": 0, "shape": (3,), "dtype": "int32", "i": slice(None), "axes": (0,)}
    if not any(word in expression for word in ("grad(", "device_put", "save(", "immutable")) and expression.count("(") == (
            expression.count(")")):
        assert np.asarray(eval(expression, names)) is not None if expression else True


@pytest.mark.parametrize("statement, remedy", [
    ("x[0] = 1", "x.at[0].set(y)"), ("x[0] += 1", "x.at[0].add(y)"), ("x[1:2] -= 1", "x.at[slice(1, 2, None)].subtract(y)"),
    ("x[0] *= 1", "x.at[0].multiply(y)"), ("x[0] /= 1", "x.at[0].divide(y)"), ("x[0] **= 2", "x.at[0].power(y)"),
    ("x[0] = x[1] + 1", "x.at[0].set(y)"), ("x[0] //= 2", "x.at[0].set(y)"),
])
def test_assignments_name_the_method_of_the_operator(statement, remedy):
    with pytest.raises(TypeError, match="arrays are immutable") as caught:
        exec(statement, {"x": xnp.asarray(NUMBERS)})
    assert remedy in str(caught.value)
    method = remedy.split(".")[2].partition("(")[0]
    assert hasattr(xnp.ones(3).at[0], method)
