"""The relay: what it makes of crashes, stops and cuts."""
