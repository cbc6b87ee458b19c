"""A change to a group, played to its end before anybody makes it."""
