"""Compiled kernels of the family, shared by live policies and simulations.

Kernels always maximise outcomes; policies flip the sign before they call.
"""
