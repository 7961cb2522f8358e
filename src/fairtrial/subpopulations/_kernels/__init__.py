"""Compiled kernels of the family, shared by live policies and simulations.

Kernels always maximise rewards, subject to floors and ceilings; policies flip the sign before they
call.
"""
