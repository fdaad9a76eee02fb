"""The outbox: messages, their leases, signers and the egress guard. Internal."""
