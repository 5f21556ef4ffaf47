"""Kernels: functions of references to blocks of arrays, run once for each point of a grid."""
