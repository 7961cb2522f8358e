"""The mathematics of the family, compiled; live policies and simulations call the same functions.

Inside, rewards are always maximised and have unit noise, and the arms span all coordinates:
`Problem.reduced` takes the problem there.
"""
