"""The rules, one file each with its ``RULE``; nothing else lists them."""
