"""Calls of functions with rules of the user's, and programs as functions."""
