"""One query over the published tables, with Spark; nothing is locked or written."""
