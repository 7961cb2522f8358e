"""Compiled kernels of fair allocation, shared by live policies and simulations."""
