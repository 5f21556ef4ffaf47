"""Debug info of jaxprs: the function, the names of its arguments and the paths of its results, as in JAX."""

import functools

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

one, rows = np.float32(1), np.ones(3, np.float32)


def origins(f, *args, **kwargs):
    """Return the debug info of the jaxpr of `f` and of its inner jaxprs: purpose, function, names, paths."""
    return [shown(jaxpr.debug_info) for jaxpr in programs(xf.make_jaxpr(f)(*args, **kwargs).jaxpr)]


def programs(jaxpr):
    yield jaxpr
    for eqn in jaxpr.eqns:
        for value in eqn.params.values():
            for program in value if isinstance(value, tuple) else (value,):
                if hasattr(program, "eqns"):
                    yield from programs(getattr(program, "jaxpr", program))


def shown(info):
    return info.traced_for, info.func_name, info.arg_names, info.result_paths


def pair(x, y):
    return x + y, {"s": x * y}


def many(x, *args, k=1.0, **rest):
    return [x, *args, k, *rest.values()]


class Layer:
    def __call__(self, x, q):
        return x

    def method(self, x, q):
        return x


BOTH = ("result[0]", "result[1]['s']")


@pytest.mark.parametrize("f, args, kwargs, name, names, result_paths", [
    (pair, (1.0, 2.0), {}, "pair", ("x", "y"), BOTH),
    (pair, (), {"x": 1.0, "y": 2.0}, "pair", ("x", "y"), BOTH),
    (many, (1.0, 2.0, 3.0), {}, "many", ("x", "args[0]", "args[1]"), tuple(f"result[{i}]" for i in range(4))),
    (many, (1.0, 2.0), {"k": 2.0, "z": 3.0, "a": 4.0}, "many", ("x", "args[0]", "rest['a']", "k", "rest['z']"),
     tuple(f"result[{i}]" for i in range(5))),
    (lambda d: d["a"][0] + d["b"], ({"a": [1.0, 2.0], "b": 3.0},), {}, "<lambda>", ("d['a'][0]", "d['a'][1]", "d['b']"), ("result",)),
    (lambda x, y: None, (1.0, None), {}, "<lambda>", ("x",), ()),
    (functools.partial(pair, 1.0), (2.0,), {}, "pair", ("y",), BOTH),
    (functools.partial(pair, y=1.0), (2.0,), {}, "pair", ("x",), BOTH),
    (Layer().method, (1.0, 2.0), {}, "method", ("x", "q"), ("result",)),
    (Layer(), (1.0, 2.0), {}, "Layer", ("x", "q"), ("result",)),
    (xf.named_call(pair, name="n"), (1.0, 2.0), {}, "pair", ("x", "y"), BOTH),
    (xf.grad(lambda x, y: x * y), (1.0, 2.0), {}, "<lambda>", ("x", "y"), ("result",)),
    (xf.vmap(pair), (rows, rows), {}, "pair", ("x", "y"), BOTH)])
def test_debug_info_of_functions(f, args, kwargs, name, names, result_paths):
    assert origins(f, *args, **kwargs)[0] == ("jit", name, names, result_paths)


def test_static_arguments_have_no_name():
    info = xf.jit(lambda x, n, y: (x, y), static_argnums=1).trace(1.0, 2, 3.0).jaxpr.jaxpr.debug_info
    assert (info.arg_names, info.result_paths) == (("x", "y"), ("result[0]", "result[1]"))
    info = xf.jit(lambda x, n, y: (x, y), static_argnames="n").trace(1.0, n=2, y=3.0).jaxpr.jaxpr.debug_info
    assert info.arg_names == ("x", "y")


def below(c):
    return c[0] < 3.0


def double(c):
    return c[0] + 1, c[1] * 2


def stay(x):
    return x


def negate(x):
    return -x


def with_jvp(x, y):
    return x * y


def with_vjp(x, y):
    return x * y


OPERATIONS = [
    (lambda x: lax.scan(lambda c, a: (c + a, {"y": c}), x, rows),
     [("scan", "<lambda>", ("c", "a"), ("result[0]", "result[1]['y']"))]),
    (lambda x: lax.scan(lambda c, a: (c + a * x, None), 1.0, rows), [("scan", "<lambda>", ("", "c", "a"), ("result[0]",))]),
    (lambda x: lax.while_loop(below, double, (x, x)), [
        ("while_cond", "below", ("c[0]", "c[1]"), ("result",)),
        ("while_body", "double", ("c[0]", "c[1]"), ("result[0]", "result[1]"))]),
    (lambda x: lax.fori_loop(0, 3, lambda i, c: c + i, x), [("fori_loop", "<lambda>", ("i", "c"), ("result[0][0]", "result[0][1]"))]),
    (lambda x: lax.cond(x > 0, stay, negate, x), [("cond", "negate", ("x",), ("result",)), ("cond", "stay", ("x",), ("result",))]),
    (lambda x: lax.switch(x.astype(int), [negate, stay], x),
     [("switch", "negate", ("x",), ("result",)), ("switch", "stay", ("x",), ("result",))]),
    (lambda x: xf.jit(pair)(x, x)[0], [("jit", "pair", ("x", "y"), BOTH)]),
    (lambda x: xf.jit(lambda a: a * x)(x), [("jit", "<lambda>", ("", "a"), ("result",))]),
    (lambda x: xf.checkpoint(lambda a, *, b: a * b)(x, b=x), [("checkpoint / remat", "<lambda>", ("a", "b"), ("result",))]),
    (lambda x: xf.checkpoint(pair)(x, x)[0], [("checkpoint / remat", "pair", ("x", "y"), BOTH)]),
    (lambda x: lax.composite(lambda y: y * 2, "a.b")(x), [("composite", "<lambda>", ("y",), ("result",))]),
    (lambda x: lax.reduce(x, 0.0, lambda a, b: a + b * 1, (0,)), [("reduce comp", "<lambda>", ("a", "b"), ("result",))]),
    (lambda x: lax.reduce_window(x, 0.0, lambda a, b: a + b * 1, (2,), (1,), "VALID"),
     [("reduce_window comp", "<lambda>", ("a", "b"), ("result",))]),
]


@pytest.mark.parametrize("f, expected", OPERATIONS)
def test_debug_info_of_inner_jaxprs(f, expected):
    x = rows if any("reduce" in role for role, *_ in expected) else one
    assert origins(f, x)[1:] == expected


def test_debug_info_of_functions_with_custom_rules():
    by_jvp = xf.custom_jvp(with_jvp)
    by_jvp.defjvp(lambda primals, tangents: (primals[0] * primals[1], tangents[0]))
    assert origins(by_jvp, one, one)[1][:3] == ("custom_jvp fun", "with_jvp", ("x", "y"))
    by_vjp = xf.custom_vjp(with_vjp)
    by_vjp.defvjp(lambda x, y: (x * y, x), lambda x, ct: (ct, ct))
    assert origins(by_vjp, one, one)[1][:2] == ("custom_vjp fun", "with_vjp")
    mapped = xf.custom_batching.custom_vmap(with_jvp)
    mapped.def_vmap(lambda size, batched, x, y: (x * y, True))
    assert origins(mapped, one, one)[1][:3] == ("custom_vmap fun", "with_jvp", ("x", "y"))


def test_derived_jaxprs_have_the_debug_info_of_their_function():
    for f, role in ((lambda x: lax.scan(lambda c, a: (xnp.sin(c) * a, c), x, rows)[0], "scan"),
                    (xf.checkpoint(lambda x: xnp.sin(xnp.sin(x))), "checkpoint / remat"), (xf.jit(xnp.exp2), "jit"),
                    (lambda x: lax.cond(x > 0, xnp.sin, negate, x), "cond")):
        found = origins(xf.grad(f), one)[1:]
        assert found and {f[0] for f in found} == {role} and {f[2] for f in found} == {None}


def test_debug_info_attributes():
    info = xf.make_jaxpr(pair)(1.0, 2.0).jaxpr.debug_info
    line = pair.__code__.co_firstlineno
    assert (info.func_filename, info.func_lineno, info.func_src_info) == (__file__, line, f"pair at {__file__}:{line}")
    assert repr(info) == (f"DebugInfo(traced_for='jit', func_src_info='pair at {__file__}:{line}', arg_names=('x', 'y'), "
                          f"result_paths=('result[0]', \"result[1]['s']\"))")
    assert info == xf.make_jaxpr(lambda *xs: pair(*xs))(1.0, 2.0).jaxpr.debug_info._replace(
        func_src_info=info.func_src_info, arg_names=("x", "y"))
    assert hash(info) == hash(info._replace()) and info != info._replace(traced_for="scan")
    unknown = info.with_unknown_names()
    assert (unknown.arg_names, unknown.result_paths) == (None, None)
    assert (unknown.safe_arg_names(2), info.safe_arg_names(2), info.safe_result_paths(2)) == (("", ""), ("x", "y"), BOTH)
    assert (info.filter_arg_names([False, True]), info.filter_result_paths([False, True])) == (("y",), BOTH[1:])


def test_pruned_jaxprs_have_the_names_of_live_arguments():
    jaxpr = xf.make_jaxpr(lambda x, y, z: (x, z))(1.0, 2.0, 3.0).jaxpr
    part = jaxpr.replace(invars=[jaxpr.invars[2], jaxpr.invars[0]], outvars=jaxpr.outvars[1:])
    assert (part.debug_info.arg_names, part.debug_info.result_paths) == (("z", "x"), ("result[1]",))


def test_debug_info_does_not_reference_the_function():
    import gc
    import weakref

    class Big:
        pass

    def made():
        big = Big()

        def body(c, x):
            assert big is not None
            return c + x, None

        return weakref.ref(big), xf.make_jaxpr(lambda x: lax.scan(body, x, rows))(1.0)

    function, program = made()
    gc.collect()
    assert function() is None
    assert program.eqns[0].params["jaxpr"].jaxpr.debug_info.arg_names == ("c", "x")
