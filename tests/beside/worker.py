"""Runs calls in a process of its own and says what they gave, a line of JSON each; see `__main__`."""

import json
import os
import signal
import sys
import warnings

request = json.load(sys.stdin)
name = request["which"]
if name == "xlafront":
    sys.path.insert(0, os.getcwd())
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ[f"{'JAX' if name == 'jax' else 'XLAFRONT'}_PLATFORMS"] = "cpu"
warnings.simplefilter("ignore")

import importlib  # noqa: E402

import ml_dtypes  # noqa: E402, F401
import numpy as np  # noqa: E402

xf = importlib.import_module(name)
names = {"xf": xf, "np": np, "ml_dtypes": ml_dtypes, "P": xf.sharding.PartitionSpec}
for short, module in (("xnp", "numpy"), ("lax", "lax"), ("nn", "nn"), ("random", "random"), ("tree", "tree"),
                      ("tree_util", "tree_util"), ("dtypes", "dtypes"), ("jsp", "scipy"), ("image", "image"),
                      ("flatten_util", "flatten_util"), ("custom_batching", "custom_batching"), ("experimental", "experimental")):
    try:
        names[short] = importlib.import_module(f"{name}.{module}")
    except ImportError:
        pass
for setting, text in {**({"enable_x64": "True"} if request["x64"] else {}), **request["config"]}.items():
    xf.config.update(f"jax_{setting}" if name == "jax" else setting, {"True": True, "False": False}.get(text, text))

compilations = [0]
if name == "jax":
    xf.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compilations.__setitem__(0, compilations[0] + ("backend_compile" in event)))
else:
    from xlafront.staging import compiling

    compile_module = compiling.compile_module
    compiling.compile_module = lambda *args: (compilations.__setitem__(0, compilations[0] + 1), compile_module(*args))[1]


def numbers(x):
    """Elements as JSON has them."""
    if x.dtype.kind == "c":
        return [numbers(x.real), numbers(x.imag)]
    if x.dtype.kind in "fV":
        return x.astype(np.float64).tolist()
    return x.tolist()


def leaf(x) -> dict:
    if type(x).__name__ == "TypedNdArray":  # a NumPy array with a type of the reference's
        x = np.asarray(x)
    if isinstance(x, xf.Array):
        aval = getattr(x, "aval", None)
        found = {"kind": "array", "dtype": str(x.dtype).replace("key<fry>", "key<fry>"), "shape": list(x.shape),
                 "weak": bool(getattr(x, "weak_type", False))}
        if aval is not None and getattr(aval.sharding, "mesh", None) is not None and not aval.sharding.mesh.empty:
            found["sharding"] = str(aval.sharding.spec)
        if xf.dtypes.issubdtype(x.dtype, xf.dtypes.prng_key):
            x = xf.random.key_data(x)
        values = np.asarray(x)
        return found | {"value": numbers(values) if values.size <= 4096 else float(np.sum(np.abs(values.astype(np.float64))))}
    if isinstance(x, (np.ndarray, np.generic)):
        return {"kind": type(x).__name__.replace("TypedNdArray", "ndarray"), "dtype": str(x.dtype), "shape": list(x.shape),
                "value": numbers(np.asarray(x)) if x.dtype.kind in "fiubcV" and x.dtype.names is None else str(x)}
    if type(x) in (bool, str, type(None)):
        return {"kind": type(x).__name__, "value": x}
    for kind in (int, float, complex):  # numbers of a class of their own
        if isinstance(x, kind) and not isinstance(x, bool):
            return {"kind": kind.__name__, "value": str(complex(x)) if kind is complex else kind(x)}
    kind = "KeyTy" if type(x).__name__ == "PRNGKeyDType" else type(x).__name__  # one object each, under our name and theirs
    return {"kind": kind, "value": str(x).replace("xlafront", "jax") if len(str(x)) < 2000 else ""}


def late(*_):
    raise TimeoutError("took too long")


signal.signal(signal.SIGALRM, late)
for call in request["calls"]:
    before = compilations[0]
    signal.alarm(request["seconds"])
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        try:
            try:
                code = compile(call, "<call>", "eval")
            except SyntaxError:
                exec(compile(call, "<call>", "exec"), names)
                result = ()
            else:
                result = eval(code, names)
            leaves, treedef = xf.tree.flatten(result)
            answer = {"leaves": [leaf(x) for x in leaves], "tree": str(treedef)}
        except Exception as e:
            answer = {"error": [c.__name__ for c in type(e).__mro__], "text": str(e)[:400]}
        signal.alarm(0)
    answer["warnings"] = sorted({w.category.__name__ for w in log})
    answer["compilations"] = compilations[0] - before
    print("@ " + json.dumps(answer), flush=True)
