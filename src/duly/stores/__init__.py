"""Where it is kept: the databases behind the ledger, duly's own connections and yours."""
