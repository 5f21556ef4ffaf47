# Written by `python -m tests.stubs`.
from xlafront.random.stateful import StatefulPRNG as StatefulPRNG
from xlafront.random.stateful import StatefulPRNG as _StatefulPRNG
from xlafront.typing import ArrayLike as _ArrayLike
import typing as _typing

def stateful_rng(seed: _ArrayLike | None = ..., *, impl: _typing.Any = ...) -> _StatefulPRNG: ...
