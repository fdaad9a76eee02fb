"""Proofs that break things on purpose: README.md says who checks which promise."""
