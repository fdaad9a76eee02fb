"""The ledger: what every stage stands on. Claims, leases on claims, and the order guard."""
