# Written by `python -m tests.stubs`.
from xlafront.core.dtypes import TypePromotionError as TypePromotionError
from xlafront.core.dtypes import canonicalize_dtype as canonicalize_dtype
from xlafront.core.dtypes import extended as extended
from xlafront.core.dtypes import issubdtype as issubdtype
from xlafront.core.dtypes import itemsize_bits as itemsize_bits
from xlafront.core.dtypes import prng_key as prng_key
from xlafront.core.dtypes import promote_types as promote_types
from xlafront.core.dtypes import result_type as result_type
from xlafront.core.dtypes import scalar_type_of as scalar_type_of
import ml_dtypes as _ml_dtypes
import numpy as _numpy
import typing as _typing

bfloat16 = _ml_dtypes.bfloat16
finfo = _ml_dtypes.finfo
float0: _numpy.dtype[_typing.Any]
iinfo = _ml_dtypes.iinfo
