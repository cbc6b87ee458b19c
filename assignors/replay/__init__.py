"""The replay of a group's history."""
