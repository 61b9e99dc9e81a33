"""Pages from templates: self-contained, and with everything escaped that came from outside."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(template: str, **values: object) -> str:
    """The page as HTML; a value that the template wants and that is not given is an error."""
    environment = Environment(
        loader=PackageLoader("gencard.client.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
