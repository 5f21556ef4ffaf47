# Written by `python -m tests.stubs`.
from xlafront.core.primitive import Primitive as _Primitive
from xlafront.transforms.calls.checkpoint import Offloadable as Offloadable
from xlafront.transforms.calls.checkpoint import _Policies as __Policies
from xlafront.transforms.calls.checkpoint import _SaveDecision as __SaveDecision
from xlafront.transforms.calls.checkpoint import checkpoint_name as _source_checkpoint_name_fwd
from xlafront.transforms.calls.checkpoint import checkpoint_name as checkpoint_name
from xlafront.transforms.calls.checkpoint import print_saved_residuals as print_saved_residuals

Recompute: __SaveDecision
Saveable: __SaveDecision
checkpoint_name_fwd = _source_checkpoint_name_fwd
checkpoint_policies: __Policies
name_p: _Primitive
