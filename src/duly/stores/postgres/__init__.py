"""PostgreSQL: many machines, one ledger."""
