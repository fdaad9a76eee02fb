"""Schedules: which slots are due, and who enqueues them."""
