"""Research: tables and their replay, comparisons of methods, advice about noise."""
