"""Plans of programs for machines that are not attached: memory, work and collectives per device."""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.planning.compiling": "plan",
    "xlafront.planning.costs": "Buffer Collective",
    "xlafront.planning.report": "Memory Plan",
    "xlafront.planning.remat": "Choice RematPlan plan_remat",
    "xlafront.planning.search": "plan_search",
    "xlafront.planning.search_report": "Candidate SearchResult",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS)
