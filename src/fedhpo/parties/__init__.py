"""What a client does when a server asks: its rows, its training, its answers to queries, its privacy."""
