"""The metrics endpoint: what a run records, for Prometheus, while it is recorded."""

from pgdyno.live._endpoint import Endpoint, open_endpoint
from pgdyno.live._watching import offering_metrics

__all__ = ["Endpoint", "offering_metrics", "open_endpoint"]
