# Written by `python -m tests.stubs`.
from xlafront.host.checkify import checkify as checkify
from xlafront.host.checks import Error as Error
from xlafront.host.checks import Error as _Error
from xlafront.host.checks import ErrorCategory as ErrorCategory
from xlafront.host.checks import JaxRuntimeError as JaxRuntimeError
from xlafront.host.checks import check as check
from xlafront.host.checks import check_error as check_error
from xlafront.host.checks import debug_check as debug_check
import builtins as _builtins

all_checks: _builtins.frozenset
automatic_checks: _builtins.frozenset
div_checks: _builtins.frozenset
float_checks: _builtins.frozenset
index_checks: _builtins.frozenset
init_error: _Error
nan_checks: _builtins.frozenset
user_checks: _builtins.frozenset
