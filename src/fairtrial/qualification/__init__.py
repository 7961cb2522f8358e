"""Qualify an installation: checks of its files, decisions and storage, with a report of them."""
