"""Postel's conformance cases for receivers, sent over HTTP to a real server on every store."""
