"""Compiled kernels of fair allocation: one source for live and simulated decisions."""
