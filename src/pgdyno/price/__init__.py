"""What durability costs and what it buys: the gain of each candidate setting beside its loss.

``candidates`` lists what is priced, ``gain`` measures what each buys (pairs of slices on a real
disk), ``loss`` what a crash takes under it (drills), ``pricing`` shares the time between the two
and puts the price list together. ``remedies`` prices what an investigation offered or kept.
"""
