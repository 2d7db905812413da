"""`fedhpo reproduce` and `fedhpo bench`."""
