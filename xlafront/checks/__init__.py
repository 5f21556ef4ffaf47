"""Checks of finished traces that settings switch on: leaked tracers, random keys that are used twice, forbidden collectives."""

from __future__ import annotations

import weakref

from xlafront.base import config
from xlafront.base.collective_guard import no_collectives
from xlafront.core import staging
from xlafront.core.ir import Jaxpr
from xlafront.core.tracer import Tracer


def _check_leaks(ended: weakref.ref, name: str) -> None:
    from xlafront.checks import leaks  # start-up: 0.5 ms, only with the setting

    leaks.check_leaks(ended, Tracer, name)


def _check_key_use(jaxpr: Jaxpr) -> None:
    from xlafront.checks import key_use  # start-up: only with the setting

    key_use.use_of_program(jaxpr)


def _check_collectives(jaxpr: Jaxpr) -> None:
    from xlafront.checks import collectives  # start-up: only in the context

    collectives.check_collectives(jaxpr)


staging.trace_checks.append(_check_leaks)
staging.jaxpr_checks.append((config.debug_key_reuse, _check_key_use))
staging.jaxpr_checks.append((no_collectives, _check_collectives))
