"""The storm tells the truth: its books balance, they can fail to, and nothing is left behind."""
