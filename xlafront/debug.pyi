# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.host.callbacks import DebugEffect as DebugEffect
from xlafront.host.callbacks import DebugEffect as _DebugEffect
from xlafront.host.callbacks import OrderedDebugEffect as OrderedDebugEffect
from xlafront.host.callbacks import OrderedDebugEffect as _OrderedDebugEffect
from xlafront.host.debug import callback as callback
from xlafront.host.debug import log as log
from xlafront.host.debug import print as print
from xlafront.host.debugger import breakpoint as breakpoint
from xlafront.host.sharding_views import inspect_array_sharding as inspect_array_sharding
from xlafront.host.sharding_views import visualize_array_sharding as visualize_array_sharding
from xlafront.host.sharding_views import visualize_sharding as visualize_sharding

debug_callback_p: _Primitive
debug_effect: _DebugEffect
debug_print_p: _Primitive
ordered_debug_effect: _OrderedDebugEffect
