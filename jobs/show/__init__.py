"""What is stored of a group, for a terminal, a chat, a ticket or a program; nothing is locked or written."""
