# Written by `python -m tests.stubs`.
from xlafront.transforms.calls.annotations import attr_get as attr_get
from xlafront.transforms.calls.annotations import dce_jaxpr_xla_metadata_rule as dce_jaxpr_xla_metadata_rule
from xlafront.transforms.calls.annotations import scheduling_group as scheduling_group
from xlafront.transforms.calls.annotations import xla_metadata_call as xla_metadata_call

