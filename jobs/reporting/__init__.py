"""What the report shows, from plain rows: no Spark, no HTML. Names are made printable before anything else sees them."""
