"""A tea shop on Django and PostgreSQL: the project."""
