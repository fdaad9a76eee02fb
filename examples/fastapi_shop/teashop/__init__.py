"""A tea shop on FastAPI, SQLAlchemy and PostgreSQL."""
