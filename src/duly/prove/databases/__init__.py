"""The databases under proof: how they are put back as they were, and what is in them."""

from duly.prove.databases.base import Column, RestorableDatabase, Rows, Table, UnfinishedWork
from duly.prove.databases.discovery import store_of

__all__ = ["Column", "RestorableDatabase", "Rows", "Table", "UnfinishedWork", "store_of"]
