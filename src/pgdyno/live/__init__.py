"""The metrics endpoint: what a run records, for Prometheus, while it is recorded."""

from pgdyno.live._endpoint import Endpoint, offering_metrics, open_endpoint

__all__ = ["Endpoint", "offering_metrics", "open_endpoint"]
