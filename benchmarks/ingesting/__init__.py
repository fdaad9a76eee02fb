"""Deliveries over HTTP, one server process each: the load, the peers and who is measured when.

Every peer is served by the same HTTP server, event loop and parser, checks the same signature,
parses the same JSON and stores the same: the raw body, chosen headers, the type, the fingerprint
and one job, as durably as duly does. What is left to differ is how each uses its database.
"""
