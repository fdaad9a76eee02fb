"""Join the caller's open transaction: of a driver, of SQLAlchemy, or of Django."""
