"""Source locations of equations, and stacks of name scopes."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.core.source": "SourceInfo",
    "xlafront.interpreters.source_info_util": """NameStack Scope current current_name_stack extend_name_stack new_name_stack
        new_source_info register_exclusion reset_name_stack set_name_stack summarize transform_name_stack user_context""",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
