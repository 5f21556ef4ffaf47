# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.custom_gradient import custom_gradient as custom_gradient
from xlafront.transforms.calls.custom_jvp import SymbolicZero as SymbolicZero
from xlafront.transforms.calls.custom_jvp import _CustomJvpCall as __CustomJvpCall
from xlafront.transforms.calls.custom_jvp import custom_jvp as custom_jvp
from xlafront.transforms.calls.custom_jvp import zero_from_primal as zero_from_primal
from xlafront.transforms.calls.custom_vjp import CustomVJPPrimal as CustomVJPPrimal
from xlafront.transforms.calls.custom_vjp import _CustomVjpCall as __CustomVjpCall
from xlafront.transforms.calls.custom_vjp import custom_vjp as custom_vjp
from xlafront.transforms.calls.custom_vjp import custom_vjp_primal_tree_values as custom_vjp_primal_tree_values
from xlafront.transforms.calls.custom_vjp_remat import _RematOpt as __RematOpt
from xlafront.transforms.calls.linear_call import closure_convert as closure_convert
from xlafront.transforms.calls.linear_call import linear_call as linear_call

custom_jvp_call_p: __CustomJvpCall
custom_vjp_call_p: __CustomVjpCall
remat_opt_p: __RematOpt
