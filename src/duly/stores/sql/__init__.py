"""Shared by both databases: named statements, placeholders and migrations."""
