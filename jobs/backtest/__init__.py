"""How well stored generations are predicted from the ones before them, for commands that show it."""
