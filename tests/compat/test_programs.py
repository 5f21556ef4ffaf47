"""Functions that libraries import by their private names."""

import pickle

import numpy as np
import pytest

import xlafront.numpy as xnp
from xlafront.compat import renamed
from xlafront.compat.programs import check_close


def test_what_is_close():
    check_close({"a": xnp.ones(2), "b": 1}, {"a": np.ones(2), "b": 1})
    check_close(np.float32(1), np.float32(1 + 5e-7))
    check_close(xnp.bfloat16(1), np.float32(1.01))
    check_close(1.0, 1.05, atol=0.1, rtol=0.0)
    check_close(np.float32(1), np.float32(1.01), rtol={"float32": 0.1, "float64": 0.0})
    with pytest.raises(AssertionError):
        check_close(np.float32(1), np.float32(1.01), rtol={np.dtype("float64"): 0.1})
    for x, y in ((1.0, 1.1), (np.ones(2), np.ones(1)), (np.array([1]), np.array([2])), (np.float32(1), np.float32(1.001))):
        with pytest.raises(AssertionError):
            check_close(x, y)
    with pytest.raises(ValueError, match="."):
        check_close([1.0], (1.0,))


def test_numbers_that_know_their_dtype():
    for kind, value, dtype in ((renamed.TypedInt, 5, "int8"), (renamed.TypedFloat, 2.5, "float16"),
                               (renamed.TypedComplex, 1 + 2j, "complex64")):
        number = kind(value, np.dtype(dtype))
        assert number == value and number.dtype == dtype and repr(number) == f"{kind.__name__}({value}, dtype={dtype})"
        assert type(number + 1) is type(value) and pickle.loads(pickle.dumps(number)).dtype == dtype
        array = xnp.asarray(number)
        assert array.dtype == dtype and array.weak_type and array.item() == value
