"""The relay: leases staged messages, sends them, and records the outcomes. Internal."""
