"""Kernels of block betting where one pull gives several measures."""
