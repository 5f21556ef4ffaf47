# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.annotations import fuse_limit as fuse_limit
from xlafront.transforms.calls.annotations import must_fuse_call as must_fuse_call
from xlafront.transforms.calls.annotations import set_xla_metadata as set_xla_metadata
from xlafront.transforms.calls.annotations import xla_metadata_call as xla_metadata_call
from xlafront.transforms.calls.annotations import xla_metadata_call2 as xla_metadata_call2

