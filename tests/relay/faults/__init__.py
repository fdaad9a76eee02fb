"""Relays that are killed, stopped, cut off and drained, and two applications in a storm."""
