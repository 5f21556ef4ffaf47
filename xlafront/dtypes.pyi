# Written by `python -m tests.stubs`.
from xlafront.core.dtypes import TypePromotionError as TypePromotionError
from xlafront.core.dtypes import canonicalize_dtype as canonicalize_dtype
from xlafront.core.dtypes import issubdtype as issubdtype
from xlafront.core.dtypes import itemsize_bits as itemsize_bits
from xlafront.core.dtypes import promote_types as promote_types
from xlafront.core.dtypes import result_type as result_type
from xlafront.core.dtypes import scalar_type_of as scalar_type_of
import typing as _typing

bfloat16: _typing.TypeAlias = _typing.Any
extended: _typing.TypeAlias = _typing.Any
finfo: _typing.TypeAlias = _typing.Any
float0: _typing.Any
iinfo: _typing.TypeAlias = _typing.Any
prng_key: _typing.TypeAlias = _typing.Any
