"""Mistakes that users make: each error names what was wrong and what to do."""

import functools
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import errors, scipy
from xlafront.core.source import is_internal
from xlafront.scipy import special, stats  # noqa: F401

jit = xf.jit
KEY = xf.random.key(0)


def branch(speed):
    return 1 if speed > 3 else 2


def shape_of(count):
    return xnp.zeros(count)


ROWS = [
    # name, call, exception, words that the message must have
    (
        "unhashable static argument",
        lambda: jit(lambda x, shape: x, static_argnums=1)(1, [2, 3]),
        ValueError,
        ["static", "shape", "list", "tuple"],
    ),
    (
        "unhashable static keyword",
        lambda: jit(lambda x, shape: x, static_argnames="shape")(1, shape=[2]),
        ValueError,
        ["static", "shape", "list"],
    ),
    (
        "static position out of range",
        lambda: jit(lambda x: x, static_argnums=3),
        ValueError,
        ["static_argnums", "3", "<lambda>(x)"],
    ),
    ("donated position out of range", lambda: jit(lambda x: x, donate_argnums=5), ValueError, ["donate_argnums", "5"]),
    ("unknown static name", lambda: jit(lambda x: x, static_argnames="y"), ValueError, ["static_argnames", "y"]),
    ("static and donated", lambda: jit(lambda x: x, static_argnums=0, donate_argnums=0), ValueError, ["both"]),
    (
        "argument that is no array",
        lambda: jit(lambda tree: 1)({"w": ["text"]}),
        TypeError,
        ["tree['w'][0]", "str", "'text'", "static"],
    ),
    ("function argument", lambda: jit(lambda f, x: f(x))(abs, 1), TypeError, ["argument f", "close over"]),
    ("result that is no array", lambda: jit(lambda x: {"a": (x, "done")})(1), TypeError, ["['a'][1]", "str", "'done'"]),
    ("list in place of an array", lambda: xnp.sum([1, 2]), TypeError, ["sum got argument a of type list", "[1, 2]", "asarray"]),
    ("list as a keyword", lambda: xnp.sum(xnp.ones(2), where=[True]), TypeError, ["sum got argument where", "[True]"]),
    ("list of a primitive", lambda: xf.lax.add([1.0], 2.0), TypeError, ["add got argument x of type list", "[1.0]"]),
    ("list of no parameter", lambda: xf.lax.reshape([1.0, 2.0], (2,)), TypeError, ["reshape got argument number 0", "[1.0, 2.0]"]),
    ("tuple of samples", lambda: xf.random.gamma(KEY, (1.0, 2.0)), TypeError, ["gamma got argument a of type tuple", "(1.0, 2.0)"]),
    *[
        (f"list for random.{f.__name__}", functools.partial(f, KEY, [0.25, 0.5]), TypeError, [f"{f.__name__} got", "[0.25, 0.5]"])
        for f in (xf.random.choice, xf.random.permutation, xf.random.bernoulli, xf.random.dirichlet, xf.random.poisson)
    ],
    ("list for scipy", lambda: scipy.stats.sem([1.0]), TypeError, ["sem got argument a of type list"]),
    ("shapes of scipy", lambda: scipy.special.xlogy(xnp.ones(2), xnp.ones(3)), TypeError, ["xlogy got incompatible", "(2,), (3,)"]),
    ("update of no place", lambda: xnp.ones(3).at.set(1), AttributeError, ["'set'", "x.at[index].set(...)"]),
    ("unknown update", lambda: xnp.ones(3).at.put(1), AttributeError, ["'put'", "add, apply, divide"]),
    (
        "if on a tracer",
        lambda: jit(branch)(1.0),
        errors.TracerBoolConversionError,
        ["`if`", "lax.cond", "where", "static"],
    ),
    (
        "if names the argument",
        lambda: jit(lambda velocity: 1 if velocity else 2)(1.0),
        errors.TracerBoolConversionError,
        ["argument velocity"],
    ),
    (
        "int of a tracer",
        lambda: jit(lambda x: int(x))(1),
        errors.ConcretizationTypeError,
        ["argument x", "static_argnums"],
    ),
    ("float of a tracer", lambda: jit(lambda x: float(x))(1.0), errors.ConcretizationTypeError, ["float32[]"]),
    (
        "tracer as a shape",
        lambda: jit(shape_of)(3),
        (TypeError, errors.TracerIntegerConversionError),
        ["argument count", "static"],
    ),
    (
        "tracer as a range",
        lambda: jit(lambda n: [i for i in range(n)])(3),
        errors.TracerIntegerConversionError,
        ["argument n", "fori_loop"],
    ),
    (
        "tracer in NumPy",
        lambda: jit(lambda x: np.sin(x))(1.0),
        errors.TracerArrayConversionError,
        ["xlafront.numpy", "pure_callback"],
    ),
    ("tracer as a dictionary key", lambda: jit(lambda x: {x: 1})(1), TypeError, ["unhashable"]),
    (
        "tracer pickled",
        lambda: jit(lambda x: __import__("pickle").dumps(x))(1.0),
        errors.ConcretizationTypeError,
        ["pickled"],
    ),
    (
        "shapes that do not broadcast",
        lambda: xnp.ones((2, 3)) + xnp.ones(4),
        (TypeError, ValueError),
        ["add", "(2, 3)", "(4,)"],
    ),
    ("matmul of wrong shapes", lambda: xnp.ones((2, 3)) @ xnp.ones((2, 3)), TypeError, ["matmul", "(2, 3)", "3", "2"]),
    ("dtypes in lax", lambda: xf.lax.add(np.float32(1), np.int32(1)), TypeError, ["float32", "int32", "astype"]),
    ("list as an array", lambda: xnp.sin([1.0, 2.0]), TypeError, ["sin", "list", "asarray"]),
    ("reshape to another size", lambda: xnp.ones(6).reshape(4, 2), TypeError, ["reshape", "(6,)", "(4, 2)"]),
    ("axis out of range", lambda: xnp.sum(xnp.ones(3), axis=2), ValueError, ["axis 2", "1"]),
    (
        "concatenate wrong shapes",
        lambda: xnp.concatenate([xnp.ones((2, 3)), xnp.ones((2, 4))]),
        TypeError,
        ["concatenate", "(2, 3)", "(2, 4)"],
    ),
    ("unknown platform", lambda: xf.devices("abacus"), RuntimeError, ["abacus", "cpu", "tpu"]),
    ("platform that is not here", lambda: xf.devices("tpu"), RuntimeError, ["tpu", "XLAFRONT_PLATFORMS"]),
    ("unknown setting", lambda: xf.config.update("enable_x46", True), AttributeError, ["enable_x46", "enable_x64"]),
    (
        "setting of a wrong type",
        lambda: xf.config.update("enable_x64", "perhaps"),
        ValueError,
        ["enable_x64", "perhaps", "true or false"],
    ),
    (
        "setting out of its choices",
        lambda: xf.config.update("numpy_rank_promotion", "maybe"),
        ValueError,
        ["allow", "warn", "raise"],
    ),
    (
        "devices after the start",
        lambda: (xf.devices("cpu"), xf.config.update("num_cpu_devices", 3)),
        RuntimeError,
        ["num_cpu_devices", "before"],
    ),
    ("jit of no function", lambda: jit(3), TypeError, ["function", "int"]),
    ("jit of a generator", lambda: jit(lambda: (yield 1)), TypeError, ["generator"]),
    ("missing argument", lambda: jit(lambda a, b: a)(1), TypeError, ["'b'"]),
    ("unknown name", lambda: xf.gradd, AttributeError, ["gradd", "grad"]),
    (
        "unknown precision",
        lambda: xnp.matmul(xnp.ones((2, 2)), xnp.ones((2, 2)), precision="best"),
        ValueError,
        ["best", "highest"],
    ),
    ("dtype that does not exist", lambda: xnp.zeros(2, "float33"), TypeError, ["float33"]),
    (
        "einsum of wrong shapes",
        lambda: xnp.einsum("ij,jk", np.ones((2, 3)), np.ones((2, 3))),
        ValueError,
        ["'j'", "3", "2"],
    ),
    ("None as an array", lambda: xnp.add(None, 1), TypeError, ["add", "None"]),
]

SEVERAL_DEVICES = [
    ("too few devices", lambda: xf.make_mesh((64,), ("x",)), ValueError, ["64", "8", "num_cpu_devices"]),
    (
        "sharding that does not divide",
        lambda: xf.device_put(np.ones(7), xf.NamedSharding(xf.make_mesh((8,), ("x",)), xf.P("x"))),
        ValueError,
        ["7", "8"],
    ),
    ("unknown mesh axis", lambda: xf.NamedSharding(xf.make_mesh((8,), ("x",)), xf.P("y")), ValueError, ["'y'", "'x'"]),
    (
        "arguments on two devices",
        lambda: jit(lambda a, b: a + b)(xf.device_put(1.0, xf.devices()[0]), xf.device_put(1.0, xf.devices()[1])),
        ValueError,
        ["a (shape ()) is on", "b", "device_put"],
    ),
]


@pytest.mark.cpu_only
@pytest.mark.parametrize("call, error, words", [row[1:] for row in SEVERAL_DEVICES], ids=[row[0] for row in SEVERAL_DEVICES])
def test_message_about_devices(call, error, words):
    test_messages_contain_the_words(call, error, words)


@pytest.mark.parametrize("call, error, words", [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_messages_contain_the_words(call, error, words):
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    for word in words:
        assert word in text, text
    # Whoever prints the traceback: it ends in the user's code, and no other error precedes it.
    internal = [entry for entry in caught.traceback if is_internal[str(entry.path)]]
    assert not internal, internal
    assert caught.value.__cause__ is None and (caught.value.__context__ is None or caught.value.__suppress_context__)


@pytest.mark.usefixtures("few_objects")
def test_leaked_tracers():
    leaked = []
    jit(lambda x: leaked.append(x * 2) or x)(1.0)
    with pytest.raises(errors.UnexpectedTracerError) as caught:
        leaked[0] + 1
    text = str(caught.value)
    assert "mul" in text and "test_bad_input.py" in text and "side effect" in text
    with xf.check_tracer_leaks(True), pytest.raises(errors.UnexpectedTracerError, match="argument y"):
        jit(lambda y: leaked.append(y) or y)(1.0)
    leaked.clear()
    with xf.check_tracer_leaks(True):
        assert jit(lambda y: y + 1)(1.0) == 2


def test_donated_and_deleted_arrays():
    step = jit(lambda state: state + 1, donate_argnums=0)
    state = xnp.ones(3)
    step(state)
    for use in (lambda: step(state), lambda: state + 1, lambda: np.asarray(state), lambda: jit(lambda x: x * 3)(state)):
        with pytest.raises(RuntimeError, match="deleted"):
            use()
    with pytest.raises(ValueError) as caught:  # of calls it is both
        step(state)
    assert "argument state" in str(caught.value) and "donate" in str(caught.value)
    deleted = xnp.ones(2)
    deleted.delete()
    with pytest.raises(RuntimeError, match="delete"):
        deleted.tolist()


def python(code, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def test_jax_in_the_same_process(tmp_path):
    (tmp_path / "jax.py").write_text("x = 1\n")
    environment = {"PYTHONPATH": f"{tmp_path}:{__import__('os').getcwd()}"}
    first = python("import jax\ntry:\n    import xlafront.numpy\nexcept ImportError as e: print(e)", **environment)
    assert "one process" in first.stdout and "process of its own" in first.stdout, first.stderr
    second = python("import xlafront.numpy\ntry:\n    import jax\nexcept ImportError as e: print(e)", **environment)
    assert "process of its own" in second.stdout, second.stderr
    without = python("import xlafront.numpy\ntry:\n    import jax\nexcept ModuleNotFoundError as e: print('absent', e)\n"
                     "except ImportError as e: print(e)")
    assert "absent" in without.stdout or "process of its own" in without.stdout


@pytest.mark.cpu_only
def test_platforms_from_the_environment():
    code = "import xlafront as xf\ntry:\n    print(xf.devices())\nexcept RuntimeError as e:\n    print('error', e)"
    assert "error" in python(code, XLAFRONT_PLATFORMS="tpu,cpu").stdout
    assert "abacus" in python(code, XLAFRONT_PLATFORMS="abacus").stdout
    assert "CpuDevice" in python(code, XLAFRONT_PLATFORMS="", JAX_PLATFORMS="cpu").stdout
    wrong = python("import xlafront.numpy as xnp\nxnp.ones(2)", XLAFRONT_ENABLE_X64="perhaps")
    assert "XLAFRONT_ENABLE_X64" in wrong.stderr and "perhaps" in wrong.stderr


@pytest.mark.cpu_only
def test_simulated_devices():
    code = "import xlafront as xf\nxf.config.update('num_cpu_devices', 3)\nprint(xf.device_count())"
    assert python(code, XLA_FLAGS="").stdout.strip() == "3"
    assert (
        python(
            "import xlafront as xf\nprint(xf.device_count())", XLA_FLAGS="--xla_force_host_platform_device_count=5"
        ).stdout.strip()
        == "5"
    )


def test_the_users_line_comes_last():
    """Internal frames are hidden, and a note says how to see them."""
    code = """
        import xlafront as xf, xlafront.numpy as xnp

        def user_function(x):
            return {}

        {}
    """
    for inside, outside in (
        ("xnp.dot(x, xnp.ones((5, 5)))", "xf.jit(user_function)(xnp.ones((2, 3)))"),
        ("x", "xnp.ones((2, 3)) @ xnp.ones((2, 3))"),
        ("x", "xf.grad(user_function)(xnp.ones(2))"),
    ):
        program = code.format(inside, outside)
        shown = python(program).stderr
        assert "TypeError" in shown and "/xlafront/" not in shown and "XLAFRONT_TRACEBACK_FILTERING" in shown, shown
        assert "/xlafront/" in python(program, XLAFRONT_TRACEBACK_FILTERING="off").stderr


def test_the_users_line_comes_last_in_notebooks():
    """IPython prints errors of cells by itself: it gets them without internal frames, unless another handler is installed."""
    code = """
        import sys, traceback, types

        class Shell:
            custom_exceptions = {}

            def set_custom_exc(self, kinds, handler):
                self.handler = handler

            def showtraceback(self, error, tb_offset=None):
                traceback.print_exception(*error)

        shell = Shell()
        sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
        import xlafront.numpy as xnp

        try:
            xnp.ones((2, 3)) @ xnp.ones((2, 3))
        except TypeError as e:
            shell.handler(shell, type(e), e, e.__traceback__)
    """
    shown = python(code.format("()")).stderr
    assert "TypeError" in shown and "/xlafront/" not in shown and "XLAFRONT_TRACEBACK_FILTERING" in shown, shown
    assert "no attribute 'handler'" in python(code.format("(ValueError,)")).stderr
