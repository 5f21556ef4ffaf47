# Written by `python -m tests.stubs`.
from xlafront.staging.stored_programs import deserialize_and_load as deserialize_and_load
from xlafront.staging.stored_programs import serialize as serialize
import typing as _typing

annotations: _typing.Any
