"""Calling the outside world over HTTP, behind the egress guard. Needs the extra ``http``."""
