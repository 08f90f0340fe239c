"""The capacity of a server: the knee of throughput by clients, or the rate that meets a limit.

``_rates`` decides which rate is measured next and what the answer is, as ``search.sizes`` does for
clients; they know figures and no server, and are tested with simulated ones. ``capacity`` measures.
"""
