"""The routes under ``/v1``, and those for monitoring."""
