"""Tables: the only place that knows Delta."""
