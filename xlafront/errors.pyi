# Written by `python -m tests.stubs`.
from xlafront.base.jaxlib_types import JaxRuntimeError as JaxRuntimeError
from xlafront.core.errors import ConcretizationTypeError as ConcretizationTypeError
from xlafront.core.errors import ForbiddenCollectiveError as ForbiddenCollectiveError
from xlafront.core.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from xlafront.core.errors import JAXIndexError as JAXIndexError
from xlafront.core.errors import JAXTypeError as JAXTypeError
from xlafront.core.errors import JaxprTypeError as JaxprTypeError
from xlafront.core.errors import KeyReuseError as KeyReuseError
from xlafront.core.errors import NonConcreteBooleanIndexError as NonConcreteBooleanIndexError
from xlafront.core.errors import TracerArrayConversionError as TracerArrayConversionError
from xlafront.core.errors import TracerBoolConversionError as TracerBoolConversionError
from xlafront.core.errors import TracerIntegerConversionError as TracerIntegerConversionError
from xlafront.core.errors import UnexpectedTracerError as UnexpectedTracerError

