"""Whole applications, started and tried as their README says."""
