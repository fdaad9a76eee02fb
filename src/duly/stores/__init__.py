"""PostgreSQL and SQLite behind the ledger, through duly's own connections and the caller's."""
