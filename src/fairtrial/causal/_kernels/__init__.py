"""Compiled kernels of block betting on interventions."""
