"""The mathematics of the family, compiled; live policies and simulations call the same functions.

Inside, rewards are always maximised, between floors and ceilings: policies flip the sign on
the way in.
"""
