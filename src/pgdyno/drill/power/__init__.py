"""Power cuts: many images of one recorded load, and the minimisation of a failing one.

``filemap`` finds the file that owns a byte of a disk, ``names`` the relation and block in that
file, ``walrecords`` the WAL records that refer to the block; ``minimise`` finds the smallest set of
lost sectors that causes a failure.
"""
