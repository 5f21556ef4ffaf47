# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.custom_jvp import SymbolicZero as SymbolicZero
from xlafront.transforms.calls.custom_jvp import custom_jvp as custom_jvp
from xlafront.transforms.calls.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from xlafront.transforms.calls.custom_vjp import custom_vjp as _custom_vjp
from xlafront.transforms.calls.custom_vjp import custom_vjp as custom_vjp
import builtins as _builtins
import typing as _typing

def closure_convert(fun: _typing.Callable, *example_args: _typing.Any) -> _builtins.tuple[_typing.Callable, _builtins.list[_typing.Any]]: ...
def custom_gradient(fun: _typing.Callable) -> _custom_vjp: ...
custom_jvp_call_p: _typing.Any
custom_vjp_call_p: _typing.Any
def custom_vjp_primal_tree_values(tree: _typing.Any) -> _typing.Any: ...
def linear_call(fun: _typing.Callable, fun_transpose: _typing.Callable, residual_args: _typing.Any, linear_args: _typing.Any) -> _typing.Any: ...
remat_opt_p: _typing.Any
def zero_from_primal(val: _typing.Any, symbolic_zeros: _builtins.bool = ...) -> _typing.Any: ...
