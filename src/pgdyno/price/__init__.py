"""The price of durability: the gain of each candidate setting, and its losses in a crash.

``candidates`` defines the list, ``_gain`` measures gains (pairs of slices on a real disk),
``_loss`` measures losses (drills), and ``pricing`` divides the time between the two and makes the
result. ``remedies`` prices the remedies that an investigation kept or offered.
"""
