# Written by `python -m tests.stubs`.
from xlafront.host.checkify import ErrorCategory as _ErrorCategory
from xlafront.host.checkify import Out as _Out
from xlafront.host.checks import Error as Error
from xlafront.host.checks import Error as _Error
from xlafront.host.checks import JaxRuntimeError as JaxRuntimeError
from xlafront.typing import ArrayLike as _ArrayLike
import builtins as _builtins
import typing as _typing

ErrorCategory: _typing.Any
all_checks: _typing.Any
automatic_checks: _typing.Any
def check(pred: _ArrayLike, msg: _builtins.str, *fmt_args: _typing.Any, debug: _builtins.bool = ..., **fmt_kwargs: _typing.Any) -> None: ...
def check_error(error: _Error) -> None: ...
def checkify(f: _typing.Callable[..., _Out], errors: _builtins.frozenset[_ErrorCategory] = ...) -> _typing.Callable[..., _builtins.tuple[_Error, _Out]]: ...
def debug_check(pred: _ArrayLike, msg: _builtins.str, *fmt_args: _typing.Any, **fmt_kwargs: _typing.Any) -> None: ...
div_checks: _typing.Any
float_checks: _typing.Any
index_checks: _typing.Any
init_error: _typing.Any
nan_checks: _typing.Any
user_checks: _typing.Any
