# Written by `python -m tests.stubs`.
from xlafront.host.checkify import checkify as checkify
from xlafront.host.checks import Error as Error
from xlafront.host.checks import JaxRuntimeError as JaxRuntimeError
from xlafront.host.checks import check as check
from xlafront.host.checks import check_error as check_error
from xlafront.host.checks import debug_check as debug_check
import typing as _typing

ErrorCategory: _typing.Any
all_checks: _typing.Any
automatic_checks: _typing.Any
div_checks: _typing.Any
float_checks: _typing.Any
index_checks: _typing.Any
init_error: _typing.Any
nan_checks: _typing.Any
user_checks: _typing.Any
