"""Compiled kernels of the family, shared by live policies and simulations.

Kernels always maximise rewards with unit noise, and the arms span all coordinates;
`Problem.reduced` transforms a problem into this form.
"""
