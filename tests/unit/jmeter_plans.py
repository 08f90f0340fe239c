"""JMeter plans for tests: elements as their XML."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<jmeterTestPlan version="1.2" properties="5.0">\n'


def element(
    kind: str, *below: str, name: str = "", gui: str = "", records: str = "", **texts: str
) -> str:
    """An element with text properties (``__`` stands for a dot in their names) and those below."""
    properties = "".join(
        f'<stringProp name="{key.replace("__", ".")}">{escape(value)}</stringProp>'
        for key, value in texts.items()
    )
    attributes = f'testname={quoteattr(name or kind)} guiclass="{gui}" enabled="true"'
    tree = "\n".join(below)
    return f"<{kind} {attributes}>{properties}{records}</{kind}>\n<hashTree>\n{tree}\n</hashTree>"


def collection(key: str, *texts: str) -> str:
    """A collection of texts."""
    members = "".join(f'<stringProp name="">{escape(each)}</stringProp>' for each in texts)
    return f'<collectionProp name="{key}">{members}</collectionProp>'


def request(path: str, *below: str, method: str = "GET", **texts: str) -> str:
    """A sampler."""
    keys = {"HTTPSampler__path": path, "HTTPSampler__method": method, **texts}
    return element("HTTPSamplerProxy", *below, name=path, **keys)


def plan(*inside: str, beside: str = "", loops: str = "3", threads: str = "2", **group: str) -> str:
    """A plan with one thread group, for a server called shop.example."""
    controller = (
        '<elementProp name="ThreadGroup.main_controller" elementType="LoopController">'
        '<boolProp name="LoopController.continue_forever">false</boolProp>'
        f'<stringProp name="LoopController.loops">{loops}</stringProp></elementProp>'
    )
    keys = {"ThreadGroup__num_threads": threads, **group}
    defaults = element(
        "ConfigTestElement", gui="HttpDefaultsGui", HTTPSampler__domain="shop.example"
    )
    threads_of = element("ThreadGroup", *inside, name="Group", records=controller, **keys)
    top = element("TestPlan", defaults, beside, threads_of)
    return f"{HEAD}<hashTree>\n{top}\n</hashTree>\n</jmeterTestPlan>\n"
