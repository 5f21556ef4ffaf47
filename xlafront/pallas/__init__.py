"""Kernels: functions of references to blocks of arrays, which run once for each point of a grid."""
