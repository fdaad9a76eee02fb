"""The databases under proof: how they are put back as they were, and what is in them."""

from duly.prove.databases.base import Base, Column, Left, Rows, Table
from duly.prove.databases.finding import store_of

__all__ = ["Base", "Column", "Left", "Rows", "Table", "store_of"]
