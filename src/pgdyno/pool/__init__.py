"""The size of a connection pool: the smallest with nearly all of the highest throughput.

``procedure`` measures, by the search that also finds the knee (``search/``); ``_beyond`` says what
connections beyond the best size cost, ``_settings`` translates the size for poolers and pool
libraries.
"""
