"""The exam: what is found depends on how fast this machine is and what else it does.

It is no part of the tests, which pass wherever they are run; ``make exam`` asks it on a quiet
machine.
"""
