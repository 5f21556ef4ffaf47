# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.checkpoint import Offloadable as Offloadable
from xlafront.transforms.calls.checkpoint import checkpoint_name as _source_checkpoint_name_fwd
from xlafront.transforms.calls.checkpoint import checkpoint_name as checkpoint_name
from xlafront.transforms.calls.checkpoint import print_saved_residuals as print_saved_residuals
import typing as _typing

Recompute: _typing.Any
Saveable: _typing.Any
checkpoint_name_fwd = _source_checkpoint_name_fwd
checkpoint_policies: _typing.Any
name_p: _typing.Any
