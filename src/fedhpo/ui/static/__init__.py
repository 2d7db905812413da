"""The page itself: HTML, styles and modules."""
