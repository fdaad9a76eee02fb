"""Transactions that the user's own ORM opens for handlers, one module for each ORM."""
