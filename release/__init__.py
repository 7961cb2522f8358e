"""What is published: built from the last commit, checked, and the steps that follow by hand.

``./dev release`` is the command; CONTRIBUTING.md has the recipe that it belongs to.
"""
