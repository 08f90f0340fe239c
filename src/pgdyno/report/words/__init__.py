"""Text and tables that the terminal and the page share."""
