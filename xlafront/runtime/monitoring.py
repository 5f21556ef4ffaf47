"""Monitoring events: libraries record events and durations, and listeners receive them."""

from __future__ import annotations

from collections.abc import Callable

_events: list[Callable] = []
_durations: list[Callable] = []
_time_spans: list[Callable] = []
_scalars: list[Callable] = []


def has_listeners() -> bool:
    """Return True if there are listeners."""
    return bool(_events or _durations or _time_spans or _scalars)


def record_event(event: str, **kwargs: str | int) -> None:
    """Record an event: call the event listeners.

    Args:
        event: Name of the event, by convention a path: `/my_library/checkpoint_written`.
        kwargs: Further details of the event.

    Example:
        >>> record_event("/example/started", worker=0)
    """
    for listener in [*_events]:
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Record the duration of an event: call the duration listeners.

    Args:
        event: Name of the event, by convention a path.
        duration: Duration in seconds.
        kwargs: Further details of the event.

    Example:
        >>> record_event_duration_secs("/example/load", 1.5)
    """
    for listener in [*_durations]:
        listener(event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: str | int) -> None:
    """Record the time span of an event: call the time span listeners.

    Args:
        event: Name of the event, by convention a path.
        start_time, end_time: Times in seconds, by the clock that the listeners expect.
        kwargs: Further details of the event.

    Example:
        >>> record_event_time_span("/example/load", 0.0, 1.5)
    """
    for listener in [*_time_spans]:
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Record a scalar value: call the scalar listeners.

    Args:
        event: Name of the value, by convention a path.
        value: The value.
        kwargs: Further details of the event.

    Example:
        >>> record_scalar("/example/loss", 0.5, step=10)
    """
    for listener in [*_scalars]:
        listener(event, value, **kwargs)


def register_event_listener(callback: Callable[..., None]) -> None:
    """Register a listener that is called for each `record_event`.

    Args:
        callback: Function of the event's name and keyword arguments.

    Example:
        >>> register_event_listener(lambda event, **details: None)
    """
    _events.append(callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Register a listener that is called for each `record_event_duration_secs`.

    Args:
        callback: Function of the event's name, the duration in seconds, and keyword arguments.

    Example:
        >>> register_event_duration_secs_listener(lambda event, seconds, **details: None)
    """
    _durations.append(callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Register a listener that is called for each `record_event_time_span`.

    Args:
        callback: Function of the event's name, start and end times, and keyword arguments.

    Example:
        >>> register_event_time_span_listener(lambda event, start, end, **details: None)
    """
    _time_spans.append(callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Register a listener that is called for each `record_scalar`.

    Args:
        callback: Function of the event's name, the value, and keyword arguments.

    Example:
        >>> register_scalar_listener(lambda event, value, **details: None)
    """
    _scalars.append(callback)


def _unregister(listeners: list[Callable], callback: Callable) -> None:
    assert callback in listeners, f"{callback} does not listen: it was not registered, or is unregistered already"
    listeners.remove(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """Unregister a listener of `register_event_listener`.

    Args:
        callback: The listener.

    Example:
        >>> listener = lambda event, **details: None
        >>> register_event_listener(listener); unregister_event_listener(listener)
    """
    _unregister(_events, callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """Unregister a listener of `register_event_duration_secs_listener`.

    Args:
        callback: The listener.

    Example:
        >>> listener = lambda event, seconds, **details: None
        >>> register_event_duration_secs_listener(listener); unregister_event_duration_listener(listener)
    """
    _unregister(_durations, callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Unregister a listener of `register_event_time_span_listener`.

    Args:
        callback: The listener.

    Example:
        >>> listener = lambda event, start, end, **details: None
        >>> register_event_time_span_listener(listener); unregister_event_time_span_listener(listener)
    """
    _unregister(_time_spans, callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """Unregister a listener of `register_scalar_listener`.

    Args:
        callback: The listener.

    Example:
        >>> listener = lambda event, value, **details: None
        >>> register_scalar_listener(listener); unregister_scalar_listener(listener)
    """
    _unregister(_scalars, callback)


def clear_event_listeners() -> None:
    """Unregister all listeners of every kind.

    Example:
        >>> clear_event_listeners()
    """
    for listeners in (_events, _durations, _time_spans, _scalars):
        listeners.clear()
