"""The published evidence: what is measured, stored as JSON, and shown in `docs/evidence`."""
