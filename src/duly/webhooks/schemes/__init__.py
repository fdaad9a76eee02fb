"""The ways in which senders prove who they are, as small parts that a profile puts together."""
