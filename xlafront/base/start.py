"""The process when xlafront was imported."""

import os

try:
    working_directory = os.getcwd()
except OSError:  # it was removed
    working_directory = ""
