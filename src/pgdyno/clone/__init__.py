"""A load and its schema from a capture file: tables, rows and scripts."""

from pgdyno.clone._files import read_capture, write_capture
from pgdyno.clone._made import clone_of
from pgdyno.clone.capture_file import SUFFIX, Capture

__all__ = ["SUFFIX", "Capture", "clone_of", "read_capture", "write_capture"]
