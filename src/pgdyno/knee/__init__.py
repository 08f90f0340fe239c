"""The capacity of a server: the knee of throughput by clients, or the rate that meets a limit.

``_clients`` and ``_rates`` decide what is measured next and what the answer is; they know figures
and no server, and are tested with simulated ones. ``_points`` measures, ``capacity`` puts both
together.
"""
