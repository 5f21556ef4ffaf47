"""Element types: promotion, canonicalization, extended dtypes."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "ml_dtypes": "bfloat16",
    "xlafront.core.dtypes": """canonicalize_dtype extended finfo float0 iinfo issubdtype itemsize_bits prng_key promote_types
        result_type scalar_type_of TypePromotionError""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
