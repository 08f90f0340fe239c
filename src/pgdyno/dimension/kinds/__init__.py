"""The dimensions, one file each; ``listing.dimensions`` finds them here."""
