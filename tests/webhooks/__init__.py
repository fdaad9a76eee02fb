"""Stage 2, the gate: every promise of it, without any server."""
