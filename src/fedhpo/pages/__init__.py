"""Pages: pieces of HTML, figures, numbers and sentences that reports and commands share."""
