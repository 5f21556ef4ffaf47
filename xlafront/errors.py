"""The exceptions that users meet, under the names they know."""

from xlafront.faces import lazy

_PLACES = {
    "xlafront.core.errors": """ConcretizationTypeError InconclusiveDimensionOperation JAXIndexError JaxprTypeError
        JaxRuntimeError JAXTypeError KeyReuseError NonConcreteBooleanIndexError TracerArrayConversionError
        TracerBoolConversionError TracerIntegerConversionError UnexpectedTracerError""",
}
__getattr__, __dir__, __all__ = lazy(__name__, _PLACES)
