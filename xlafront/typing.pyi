# Written by `python -m tests.stubs`.
from xlafront.core.typing import ArrayLike as ArrayLike
from xlafront.core.typing import DTypeLike as DTypeLike

