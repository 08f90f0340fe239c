"""Capturing a load: the statements of a server, and the schema under them, as a file without its
data; and the likeness of the clone that is made of it."""

from pgdyno.capture._alike import alike
from pgdyno.capture._capturing import CaptureRequest, capture

__all__ = ["CaptureRequest", "alike", "capture"]
