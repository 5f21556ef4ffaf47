"""Attributes that arrays of other libraries have, and NumPy's methods that write: errors that say what to write instead.

They are descriptors that raise AttributeError, so that `hasattr` is False for them. A `__getattr__` of arrays would slow down
all attributes of arrays.
"""

from __future__ import annotations

from types import CodeType
from typing import Any, NoReturn

_DEVICE = "write device_put(x, device); arrays are created on the default device, a GPU if there is one"
_IN_PLACE = "arrays are immutable: write x = "
_REMEDIES = {
    # PyTorch
    "numpy": "write np.asarray(x), with NumPy as np", "cpu": _DEVICE, "cuda": _DEVICE, "to": f"{_DEVICE}, or x.astype(dtype)",
    "detach": "write lax.stop_gradient(x)", "backward": "write grad(loss)(parameters) of a function loss",
    "requires_grad": "derivatives are those of functions: write grad(loss)(parameters)",
    "grad": "derivatives are those of functions: write grad(loss)(parameters)", "no_grad": "write lax.stop_gradient(x)",
    "unsqueeze": "write numpy.expand_dims(x, axis), or x[None]", "permute": "write x.transpose(axes)",
    "contiguous": "write x: arrays are contiguous", "expand": "write numpy.broadcast_to(x, shape)",
    "numel": "write x.size", "dim": "write x.ndim", "float": "write x.astype(float)", "double": "write x.astype('float64')",
    "half": "write x.astype('float16')", "bfloat16": "write x.astype('bfloat16')", "int": "write x.astype(int)",
    "long": "write x.astype(int)", "bool": "write x.astype(bool)", "type": "write x.astype(dtype)",
    "masked_fill": "write numpy.where(mask, value, x)", "index_select": "write numpy.take(x, indices, axis)",
    "gather": "write numpy.take_along_axis(x, indices, axis)", "mm": "write x @ y", "matmul": "write x @ y",
    "softmax": "write nn.softmax(x)", "relu": "write nn.relu(x)", "sigmoid": "write nn.sigmoid(x)",
    "add_": f"{_IN_PLACE}x + y", "sub_": f"{_IN_PLACE}x - y", "mul_": f"{_IN_PLACE}x * y",
    "zero_": f"{_IN_PLACE}numpy.zeros_like(x)", "fill_": f"{_IN_PLACE}numpy.full_like(x, value)", "copy_": f"{_IN_PLACE}y",
    # NumPy
    "fill": f"{_IN_PLACE}numpy.full_like(x, value)", "put": f"{_IN_PLACE}x.at[i].set(y)",
    "itemset": f"{_IN_PLACE}x.at[i].set(y)",
    "resize": f"{_IN_PLACE}numpy.resize(x, shape)", "setflags": "arrays are immutable", "tofile": "write numpy.save(file, x)",
    # TensorFlow
    "assign": f"{_IN_PLACE}y", "get_shape": "write x.shape",
} | {name: f"write numpy.{name}(x)" for name in (
    "exp", "log", "sqrt", "sin", "cos", "tanh", "abs", "square", "sign", "floor", "ceil")}


class Remedy:
    """An attribute that raises AttributeError with what to write instead."""

    __slots__ = ("name", "remedy")

    def __init__(self, name: str, remedy: str) -> None:
        self.name = name
        self.remedy = remedy

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        raise AttributeError(f"arrays have no attribute {self.name!r}: {self.remedy}.", name=self.name,
                             obj=owner if instance is None else instance)


# The methods of `x.at[i]` by the operator of an augmented assignment to `x[i]`.
UPDATES = {"+=": "add", "-=": "subtract", "*=": "multiply", "/=": "divide", "**=": "power"}


def augmented_operator(code: CodeType | None, lasti: int) -> str:
    """Return the operator of the assignment at a position in code: "=", or that of an augmented one, such as "+="."""
    if code is None:
        return "="
    import dis  # start-up: for a message

    before = [i for i in dis.get_instructions(code) if i.offset < lasti and i.opname not in ("SWAP", "CACHE", "EXTENDED_ARG")]
    last = before[-1] if before else None
    return last.argrepr if last is not None and last.opname == "BINARY_OP" and last.argrepr.endswith("=") else "="


REMEDIES = {name: Remedy(name, remedy) for name, remedy in _REMEDIES.items()}


def attributes_of(array: Any) -> list[str]:
    """Return the attributes of an array, its `__dir__`."""
    return [name for name in object.__dir__(array) if name not in REMEDIES]
