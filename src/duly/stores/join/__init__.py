"""Frameworks that keep books about a transaction, and so must see it begin and nest."""
