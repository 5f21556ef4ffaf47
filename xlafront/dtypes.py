"""Element types: promotion, canonicalisation, the extended dtypes."""

from xlafront.core.dtypes import (
    TypePromotionError as TypePromotionError,
    canonicalize_dtype as canonicalize_dtype,
    extended as extended,
    finfo as finfo,
    float0 as float0,
    iinfo as iinfo,
    issubdtype as issubdtype,
    itemsize_bits as itemsize_bits,
    prng_key as prng_key,
    promote_types as promote_types,
    result_type as result_type,
    scalar_type_of as scalar_type_of,
)
