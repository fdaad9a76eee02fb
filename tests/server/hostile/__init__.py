"""Clients that mean harm, or cannot do better, against a real server in a process of its own."""
