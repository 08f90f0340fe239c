"""Charts of the page, one file per subject."""
