# Written by `python -m tests.stubs`.
from xlafront.api.numerical_checks import check_grads as check_grads
from xlafront.api.numerical_checks import check_jvp as check_jvp
from xlafront.api.numerical_checks import check_vjp as check_vjp

