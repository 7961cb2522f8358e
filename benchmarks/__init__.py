"""Benchmarks of fairtrial: scripts that print measurements, without pass or fail."""
