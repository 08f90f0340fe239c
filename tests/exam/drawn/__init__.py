"""The exam that nobody wrote: loads and causes drawn from a seed, and what pgdyno says of them.

``make exam-random`` carries out *draws*. A draw has tables, statements and clients (``schema.py``,
``statements.py``), and no cause, one or two of the grammar in ``causes/``. Whether a cause is worth
anything is measured with it and without it (``truth.py``); ``grading.py`` compares that with what
``pgdyno run`` says. ``docs/exam.md`` has the outcomes.
"""
