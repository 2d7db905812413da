"""What all reproductions share: runs that resume, pages, tables, verdicts."""
