"""What every SQL store shares: named statements, placeholders, and the plan of migrations."""
