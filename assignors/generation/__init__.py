"""Facts about one generation: who may be given what, who holds what, how evenly."""
