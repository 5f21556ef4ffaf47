# Written by `python -m tests.stubs`.
from xlafront.parallel.custom_partitioning import custom_partitioning as custom_partitioning
from xlafront.parallel.partitioning_rules import ArrayMapping as ArrayMapping
from xlafront.parallel.partitioning_rules import CompoundFactor as CompoundFactor
from xlafront.parallel.partitioning_rules import SdyShardingRule as SdyShardingRule
import builtins as _builtins
import typing as _typing

BATCHING: _builtins.str
custom_partitioning_p: _typing.Any
