"""Published tables of a warehouse in a local folder, read without Spark; nothing is locked or written."""
