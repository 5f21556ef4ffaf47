# Written by `python -m tests.stubs`.
from xlafront.interpreters.call_arguments import argnums_partial as argnums_partial
from xlafront.interpreters.call_arguments import debug_info as debug_info
from xlafront.interpreters.call_arguments import donation_vector as donation_vector
from xlafront.interpreters.call_arguments import flatten_axes as flatten_axes
from xlafront.interpreters.call_arguments import flatten_fun as flatten_fun
from xlafront.interpreters.call_arguments import flatten_fun_nokwargs as flatten_fun_nokwargs
from xlafront.interpreters.call_arguments import rebase_donate_argnums as rebase_donate_argnums
from xlafront.interpreters.call_arguments import safe_map as safe_map
from xlafront.interpreters.call_arguments import shaped_abstractify as shaped_abstractify

