"""The poolers, one file each; they are found by listing this directory."""
