"""The mathematics of the family, compiled; live policies and simulations call the same functions.

Inside, outcomes are always maximised: policies flip the sign on the way in.
"""
