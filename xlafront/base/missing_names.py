"""Errors for names that a module lacks, with the closest names, and a note where xlafront stands in for jax."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from xlafront.base.version import REFERENCE

_AS_JAX = (" In this process xlafront answers for jax {0}. If jax {0} has this name, please report that it is missing here, "
           "with the line that needs it and what `python -m xlafront info` prints. If a library needs it of another version of "
           "jax, install a release for jax {0}.")

# What to do instead of names that modules no longer have, by module and name.
remedies: dict[tuple[str, str], str] = {}

_LAYERS = ("layers with parameters come with libraries such as Flax and Equinox (import xlafront.as_jax first); "
           "example_libraries.stax has small ones")
_KEYS = "random numbers come from explicit keys: key = random.key(seed), then {}"
# What to write instead of names of PyTorch, TensorFlow, NumPy and early JAX, by module.
_HABITS: dict[str, dict[str, str]] = {
    "xlafront": {
        "tree_map": "write tree.map",
        "tree_multimap": "write tree.map, which takes several trees",
        "no_grad": "derivatives are computed only where grad or vjp is called; hold a value constant with lax.stop_gradient",
        "tensor": "write numpy.array", "Tensor": "the type of arrays is Array", "Variable": "arrays are immutable; see new_ref",
        "manual_seed": _KEYS.format("random.normal(key, shape)"),
        "optim": "optimizers come with libraries such as Optax (import xlafront.as_jax first); "
                 "example_libraries.optimizers has small ones",
        "vectorized_map": "write vmap", "GradientTape": "write grad or value_and_grad of a function",
    },
    "xlafront.numpy": {
        "float": "write float32, or Python's float", "int": "write int32, or Python's int",
        "object": "arrays hold numbers only", "complex": "write complex64, or Python's complex",
        "tensor": "write array", "from_numpy": "write asarray", "cat": "write concatenate", "mm": "write matmul",
        "bmm": "write matmul", "unsqueeze": "write expand_dims", "permute": "write transpose", "clamp": "write clip",
        "manual_seed": _KEYS.format("random.normal(key, shape)"), "random": "write xlafront.random: " + _KEYS.format(
            "random.normal(key, shape)"),
        "reduce_mean": "write mean", "reduce_sum": "write sum", "reduce_max": "write max", "cast": "write astype",
        "index_update": "write x.at[i].set(y)", "in1d": "write isin", "trapz": "write trapezoid", "product": "write prod",
        "cumproduct": "write cumprod", "alltrue": "write all", "sometrue": "write any", "row_stack": "write vstack",
        "float128": "the widest dtype is float64", "NaN": "write nan", "Inf": "write inf", "infty": "write inf",
    },
    "xlafront.random": {
        "seed": _KEYS.format("pass it on"), "rand": _KEYS.format("random.uniform(key, shape)"),
        "randn": _KEYS.format("random.normal(key, shape)"), "default_rng": _KEYS.format("random.normal(key, shape)"),
        "RandomState": _KEYS.format("random.normal(key, shape)"), "shuffle": "write random.permutation(key, x)",
    },
    "xlafront.nn": dict.fromkeys(("Dense", "Linear", "Conv", "Conv2d", "Dropout", "BatchNorm", "LayerNorm", "Module",
                                  "Sequential", "Embedding", "MultiHeadAttention"), _LAYERS)
    | {"functional": "write nn.relu and so on"},
    "xlafront.ops": {
        "index_update": "write x.at[i].set(y)", "index_add": "write x.at[i].add(y)", "index_mul": "write x.at[i].multiply(y)",
        "index_min": "write x.at[i].min(y)", "index_max": "write x.at[i].max(y)", "index": "write x.at[i]",
    },
}

# Modules that have none of their names.
_EMPTY_MODULES = dict.fromkeys(
    ("xlafront.experimental.pallas.mosaic_gpu", "jax.experimental.mosaic.gpu", "jax.experimental.mosaic.gpu.profiler",
     "jax.experimental.mosaic.gpu.utils"),
    " and no other name of Mosaic GPU: kernels for GPUs are compiled by Triton. Write them with pallas and pallas.triton, or "
    "in CUDA C++ for ffi.ptx_call.")


def missing(module: str, name: str, known: Iterable[str], owners: Callable[[str], Iterable[str]] | None = None
            ) -> AttributeError | ImportError:
    """Return the error that the `__getattr__` of a module raises for a name that the module lacks.

    `from module import name` gets an ImportError, because Python would replace an AttributeError by one with a shorter message.
    So does `module.name` of a module that has no names, as libraries that can do without such modules expect.
    Functions such as `hasattr` get a message that is cheap to build, since they may try a name on all modules.

    Args:
        module: Name of the module.
        name: The name that it lacks.
        known: The names that it has.
        owners: Function that returns the public modules that have a name.
    """
    from opcode import opname  # start-up: for a message

    caller = sys._getframe(2)
    opcode = opname[caller.f_code.co_code[caller.f_lasti]] if caller.f_lasti >= 0 else ""
    is_written = opcode in ("LOAD_ATTR", "LOAD_METHOD")
    if opcode == "IMPORT_FROM" and f"{module}.{name}" not in sys.modules or (  # a submodule may be loading
            is_written and module in _EMPTY_MODULES):
        return ImportError(unknown(module, name, known, owners), name=module)
    text = unknown(module, name, known, owners) if is_written else unknown(module, name, ())
    return AttributeError(text, name=name, obj=sys.modules[module])


def unknown(module: str, name: str, known: Iterable[str], owners: Callable[[str], Iterable[str]] | None = None) -> str:
    """Return the message for a name that a module lacks; the arguments are those of `missing`."""
    if remedy := remedies.get((module, name)):
        return f"{module} has no {name!r} any more: {remedy}."
    if remedy := _HABITS.get(module, {}).get(name):
        return f"{module} has no {name!r}: {remedy}."
    if owners is not None and (found := [*owners(name)]):
        hint = f"; it is in {' and '.join(found)}."
    elif names := [*known]:
        from difflib import get_close_matches  # start-up: 1.4 ms, for a message

        close_matches = get_close_matches(name, names, 2)
        hint = f"; did you mean {' or '.join(close_matches)}?" if close_matches else "."
    else:
        hint = "."
    hint = _EMPTY_MODULES.get(module, hint)
    return f"{module} has no {name!r}{hint}{_AS_JAX.format(REFERENCE) if 'jax' in sys.modules else ''}"
