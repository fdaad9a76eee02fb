"""What worker and relay share."""
