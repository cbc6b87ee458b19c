"""Changes to groups, rehearsed before they are made; nothing is locked or written."""
