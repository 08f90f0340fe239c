"""The rules: one function for each bottleneck or fault, by subject; ``rule.py`` lists them."""
