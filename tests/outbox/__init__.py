"""The outbox on every store and in both colours: staging, relaying, dead letters."""
