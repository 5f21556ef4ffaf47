"""`api_util`: results compared with recorded results of JAX."""

import numpy as np
import pytest

import xlafront as xf
from xlafront import api_util
from xlafront.extend.linear_util import wrap_init

STRUCTURE = xf.tree.structure


def triple(x, y, z):
    return x, y, z


def test_donated_positions():
    assert api_util.rebase_donate_argnums((1, 2), (0,)) == (0, 1) and api_util.rebase_donate_argnums((0, 2), (1,)) == (0, 1)
    in_tree = STRUCTURE((((1, 2), 3), {"a": 1, "b": 2}))
    assert api_util.donation_vector((0,), ("a",), in_tree) == (True, True, False, True, False)
    assert api_util.donation_vector((), ("a",), in_tree) == (False, False, False, True, False)
    assert api_util.donation_vector((5,), (), STRUCTURE(((1, 2), {"a": 1}))) == (False, False, False)
    assert api_util.donation_vector((1,), (), STRUCTURE(((1, 2), 3)), kws=False) == (False, False, True)
    with pytest.raises(ValueError, match="static"):
        api_util.rebase_donate_argnums((1,), (1,))


def test_prefixes():
    pair = STRUCTURE((1, (2, 3)))
    assert api_util.flatten_axes("n", pair, (0, None)) == [0, None, None] and api_util.flatten_axes("n", pair, 0) == [0, 0, 0]
    call = STRUCTURE(((1, 2), {"a": 3}))
    assert api_util.flatten_axes("n", call, (5, 6), kws=True) == [5, 5, 6]
    assert api_util.flatten_axes("n", call, ((5, 6), {"a": 1}), kws=True) == [5, 6, 1]
    for wrong in ((0,), (0, (1, 2, 3))):
        with pytest.raises(ValueError, match="axes_of_x.*prefix"):
            api_util.flatten_axes("axes_of_x", pair, wrong, tupled_args=True)


def test_flatten_fun():
    flat, out_tree = api_util.flatten_fun(wrap_init(lambda x, y: {"a": x + y}), STRUCTURE(((1,), {"y": 2})))
    assert flat.call_wrapped(3, 4) == [7] and out_tree() == STRUCTURE({"a": 0})
    flat, out_tree = api_util.flatten_fun_nokwargs(wrap_init(lambda x: {"a": x}), STRUCTURE(((1, 2),)))
    assert flat.call_wrapped(3, 4) == [3, 4] and out_tree() == STRUCTURE({"a": (0, 0)})


def test_argnums_partial():
    g, active = api_util.argnums_partial(wrap_init(triple), (0, 2), (1, 2, 3))
    assert active == (1, 3) and g.call_wrapped(7, 8) == (7, 2, 8)
    assert api_util.argnums_partial(wrap_init(triple), -1, (1, 2, 3))[1] == (3,)
    with pytest.raises(ValueError, match="hashed"):
        api_util.argnums_partial(wrap_init(triple), 0, (1, [2], 3))
    g, active = api_util.argnums_partial(wrap_init(triple), 0, (1, [2], 3), require_static_args_hashable=False)
    assert active == (1,) and g.call_wrapped(5) == (5, [2], 3)
    with pytest.raises(ValueError, match="no argument 5"):
        api_util.argnums_partial(wrap_init(triple), 5, (1, 2))
    same = [api_util.argnums_partial(wrap_init(triple), 0, (1, 2, 3))[0] for _ in range(2)]
    assert same[0] == same[1] and hash(same[0]) == hash(same[1])


def test_types_and_names():
    assert api_util.shaped_abstractify(np.ones((2, 3), "float32")).shape == (2, 3)
    assert api_util.shaped_abstractify(1.0).weak_type
    with pytest.raises(TypeError):
        api_util.shaped_abstractify("a")
    info = api_util.debug_info("jit", triple, (1, {"a": 2}), {"z": 3}, static_argnums=(0,))
    assert info.traced_for == "jit" and tuple(info.arg_names) == ("y['a']", "z") and "triple" in info.func_src_info
    assert api_util.safe_map(lambda x, y: x + y, [1, 2], [3, 4]) == [4, 6] and api_util.safe_map(len, (), ()) == []
    with pytest.raises(ValueError, match="lengths"):
        api_util.safe_map(lambda x, y: x + y, [1, 2], [3])
