"""Events: libraries record that something happened, or how long it took, and monitoring systems listen."""

from __future__ import annotations

from collections.abc import Callable

_events: list[Callable] = []
_durations: list[Callable] = []
_time_spans: list[Callable] = []
_scalars: list[Callable] = []


def is_heard() -> bool:
    """Whether anybody listens."""
    return bool(_events or _durations or _time_spans or _scalars)


def record_event(event: str, **kwargs: str | int) -> None:
    """Tell the listeners that something happened.

    - `event`: what, by convention a path: `/my_library/checkpoint_written`.
    - `kwargs`: what else there is to say of it.

    >>> record_event("/example/started", worker=0)
    """
    for listener in [*_events]:
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell the listeners how long something took.

    - `event`: what, by convention a path.
    - `duration`: the seconds that it took.
    - `kwargs`: what else there is to say of it.

    >>> record_event_duration_secs("/example/load", 1.5)
    """
    for listener in [*_durations]:
        listener(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: str | int) -> None:
    """Tell the listeners when something began and ended.

    - `event`: what, by convention a path.
    - `start_time`, `end_time`: in seconds, of the clock that the listeners expect.
    - `kwargs`: what else there is to say of it.

    >>> record_event_time_span("/example/load", 0.0, 1.5)
    """
    for listener in [*_time_spans]:
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Tell the listeners a number.

    - `event`: what it is of, by convention a path.
    - `value`: the number.
    - `kwargs`: what else there is to say of it.

    >>> record_scalar("/example/loss", 0.5, step=10)
    """
    for listener in [*_scalars]:
        listener(event, value, **kwargs)


def register_event_listener(callback: Callable[..., None]) -> None:
    """Have a function called for each `record_event`.

    - `callback`: it takes the event, and keywords.

    >>> register_event_listener(lambda event, **details: None)
    """
    _events.append(callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Have a function called for each `record_event_duration_secs`.

    - `callback`: it takes the event, the seconds, and keywords.

    >>> register_event_duration_secs_listener(lambda event, seconds, **details: None)
    """
    _durations.append(callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Have a function called for each `record_event_time_span`.

    - `callback`: it takes the event, the two times, and keywords.

    >>> register_event_time_span_listener(lambda event, start, end, **details: None)
    """
    _time_spans.append(callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Have a function called for each `record_scalar`.

    - `callback`: it takes the event, the number, and keywords.

    >>> register_scalar_listener(lambda event, value, **details: None)
    """
    _scalars.append(callback)


def _unregister(listeners: list[Callable], callback: Callable) -> None:
    assert callback in listeners, f"{callback} does not listen: it was not registered, or is unregistered already"
    listeners.remove(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """No longer call a function that `register_event_listener` was given.

    - `callback`: the function.

    >>> listener = lambda event, **details: None
    >>> register_event_listener(listener); unregister_event_listener(listener)
    """
    _unregister(_events, callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """No longer call a function that `register_event_duration_secs_listener` was given.

    - `callback`: the function.

    >>> listener = lambda event, seconds, **details: None
    >>> register_event_duration_secs_listener(listener); unregister_event_duration_listener(listener)
    """
    _unregister(_durations, callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """No longer call a function that `register_event_time_span_listener` was given.

    - `callback`: the function.

    >>> listener = lambda event, start, end, **details: None
    >>> register_event_time_span_listener(listener); unregister_event_time_span_listener(listener)
    """
    _unregister(_time_spans, callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """No longer call a function that `register_scalar_listener` was given.

    - `callback`: the function.

    >>> listener = lambda event, value, **details: None
    >>> register_scalar_listener(listener); unregister_scalar_listener(listener)
    """
    _unregister(_scalars, callback)


def clear_event_listeners() -> None:
    """Forget all listeners, of every kind.

    >>> clear_event_listeners()
    """
    for listeners in (_events, _durations, _time_spans, _scalars):
        listeners.clear()
