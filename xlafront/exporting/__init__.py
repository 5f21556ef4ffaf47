"""Export of functions as StableHLO modules with their calling information, and files of exported functions."""
