"""The exception classes of the public API."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.core.errors": """ConcretizationTypeError ForbiddenCollectiveError InconclusiveDimensionOperation JAXIndexError
        JaxprTypeError JaxRuntimeError JAXTypeError KeyReuseError NonConcreteBooleanIndexError TracerArrayConversionError
        TracerBoolConversionError TracerIntegerConversionError UnexpectedTracerError""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
