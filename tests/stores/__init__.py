"""What every store promises: transactions, connections, migrations."""
