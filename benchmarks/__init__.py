"""How fast duly is next to what an expert would write by hand: ratios, measured in one run."""
