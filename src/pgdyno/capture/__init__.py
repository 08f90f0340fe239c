"""Capturing a load: what a server executes, and the schema under it, as a file without its data."""

from pgdyno.capture._capturing import CaptureRequest, capture

__all__ = ["CaptureRequest", "capture"]
