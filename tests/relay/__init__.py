"""The relay: destinations, breakers and leases; and crashes, stops and cuts in faults."""
