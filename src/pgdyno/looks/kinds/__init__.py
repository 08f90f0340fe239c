"""The looks, one file for each subject with its ``LOOKS``; nothing else lists them."""
