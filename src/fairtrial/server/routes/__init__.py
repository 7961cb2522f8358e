"""The routes under ``/v1``, and those by which a service is watched."""
