"""The looks: queries, and files of the machine; nothing else lists them."""
