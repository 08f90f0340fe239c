"""The web front end: an application on Tomcat with a pool of connections, before a server.

``application/`` is the application itself, in Java, built once by Maven. :class:`FrontEnd` starts
it under the account that runs servers, asks and changes it through its probe, and ends it.
:class:`Application` is that of a spec while a load runs. :class:`WebServerFigures` are those of a
web server of the user's.
"""

from pgdyno.front._application import Application
from pgdyno.front._figures import WebServerFigures
from pgdyno.front._java import application_jar, find_java
from pgdyno.front._process import FrontEnd
from pgdyno.front._settings import POOLS, FrontSettings

__all__ = [
    "POOLS",
    "Application",
    "FrontEnd",
    "FrontSettings",
    "WebServerFigures",
    "application_jar",
    "find_java",
]
