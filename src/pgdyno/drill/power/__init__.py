"""Power cuts: many images of one recorded load, and what a failing one comes down to.

``filemap`` knows which file owns a byte of a disk, ``names`` what PostgreSQL keeps in that file,
``walrecords`` which WAL records touch a block; ``minimise`` finds the few lost sectors on which a
failure hangs.
"""
