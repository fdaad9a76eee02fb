"""Receiving over HTTP: read a request, verify it, commit its events, answer. Internal."""
