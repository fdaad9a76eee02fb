"""Orders, payments and stock."""
