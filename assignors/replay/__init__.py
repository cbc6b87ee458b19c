"""A group's history played again."""
