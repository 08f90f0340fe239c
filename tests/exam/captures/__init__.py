"""The exam that proves captures: seven loads on a source server, each captured and made again, and
both measured by the exam itself.

``docs/captures.md`` has the outcomes.
"""
