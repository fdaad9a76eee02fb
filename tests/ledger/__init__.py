"""The ledger: claims, leases, order guard."""
