"""Calls with user-defined rules, annotated calls, and the functions on jaxprs that they share with control flow."""

from __future__ import annotations
