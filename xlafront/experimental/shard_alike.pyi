# Written by `python -m tests.stubs`.
from xlafront.lax.shard_alike import shard_alike as shard_alike

