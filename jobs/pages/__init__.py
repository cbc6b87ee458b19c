"""What all HTML pages have in common: their shell, style and script, and how they write values."""
