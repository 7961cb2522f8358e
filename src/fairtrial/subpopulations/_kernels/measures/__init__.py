"""Kernels of block betting if one pull gives several measures."""
