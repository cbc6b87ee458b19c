"""Reporting: tables -> a page, a summary, and files for programs. Plain Python after ``queries``; names are masked first."""
