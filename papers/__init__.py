"""Reproductions of five papers: their tables next to ours. Run one by ``./dev papers NAME``."""
