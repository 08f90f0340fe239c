"""The facts of some slices in a run file, before anything is concluded from them."""
