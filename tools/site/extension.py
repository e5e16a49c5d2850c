"""What Sphinx is told about this repository's docstrings, names and pages.

autodoc ─► docstring ─► parameters, errors, attributes          (`write_docstring`)
names in signatures, in docstrings and in guides ─► links       (`find_name`, `LinkedNames`)
faces ─► names that are described at another face ─► objects.inv (`add_names`)
pages ─► their Markdown beside them, `llms.txt`                 (`copy_markdown`)
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import re
import shutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.addnodes import pending_xref
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

from tools.site.docstrings import Part, parts, rest, with_code
from tools.site.faces import FACES, names_of
from tools.site.reference import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx
    from sphinx.domains.python import PythonDomain
    from sphinx.environment import BuildEnvironment


NAME = re.compile(r"(\w+(?:\.\w+)*)(?:\(.*\))?")
ALIAS = re.compile(rf"(?:TypeAliasForwardRef\(')?[\w.]+\.(\b(?:{'|'.join((*KINDS, 'Form'))})\b)(?:'\))?")
LONGEST_DEFAULT = 60


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("autodoc-process-docstring", write_docstring)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("doctree-read", make_exact)
    app.connect("missing-reference", find_name)
    app.connect("env-updated", add_names)
    app.connect("build-finished", copy_markdown)
    app.add_post_transform(LinkedNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_docstring(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """Replace the lines of a docstring by reStructuredText. A dataclass has all of its fields then."""
    text, names = "\n".join(lines), names_in(value)
    if not inspect.isclass(value) or not (dataclasses.is_dataclass(value) or issubclass(value, enum.Enum)):
        lines[:] = rest(text, names)
        return
    written = _attribute_of(value)
    lines[:] = rest(text, names, fields=written)
    if dataclasses.is_dataclass(value):
        said = {part.name for part in parts(text, names) if part.kind == "item"}
        fields = [each.name for each in dataclasses.fields(value) if not each.name.startswith("_")]
        lines += [line for name in fields if name not in said for line in written(Part("item", "", name))]


def names_in(value: Any) -> set[str]:
    """The names that `name: meaning` in the docstring of an object may have."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return {each.lower() for each in value.__members__}
    fields = {each.name for each in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
    return fields | _parameters(value)


def _parameters(value: Any) -> set[str]:
    try:
        return set(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return set()


def _attribute_of(cls: Any) -> Callable[[Part], list[str]]:
    """How the fields of a dataclass, or the members of an enumeration, are written."""
    fields = {each.name: each for each in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}

    def written(part: Part) -> list[str]:
        lines = [f".. py:attribute:: {part.name if fields else part.name.upper()}"]
        if part.name in fields:
            lines.append(f"   :type: {fields[part.name].type}")
            default = _default(fields[part.name])
            lines += [f"   :value: {default}"] if default else []
        return [*lines, "", f"   {with_code(part.text)}", ""]

    return written


def _default(field: dataclasses.Field[Any]) -> str:
    text = repr(field.default)
    return text if field.default is not dataclasses.MISSING and len(text) <= LONGEST_DEFAULT else ""


def shorten_signature(  # noqa: PLR0913, PLR0917
    app: Sphinx,  # noqa: ARG001
    what: str,  # noqa: ARG001
    name: str,  # noqa: ARG001
    value: Any,
    options: Any,  # noqa: ARG001
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None] | None:
    """Types of arguments without their module. A dataclass shows its fields below: its signature has the names only.

    A protocol and an enumeration are not called.
    """
    if inspect.isclass(value) and (getattr(value, "_is_protocol", False) or issubclass(value, enum.Enum)):
        return "", None
    if inspect.isclass(value) and dataclasses.is_dataclass(value):
        shown = [
            each.name if _required(each) else f"{each.name}={_default(each) or '...'}"
            for each in dataclasses.fields(value)
            if each.init and not each.name.startswith("_")
        ]
        return f"({', '.join(shown)})", None
    return _with_short_types(signature), _with_short_types(returns)


def _with_short_types(text: str | None) -> str | None:
    return None if text is None else ALIAS.sub(r"\1", text)


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _objects(env: BuildEnvironment) -> PythonDomain:
    return env.domains.python_domain


@functools.cache
def _by_last_name(env: BuildEnvironment) -> dict[str, str]:
    """Full names of the described objects by their last part, if only one has it; methods also with their class.

    Asked when all pages were read.
    """
    found: dict[str, list[str]] = {}
    for name, entry in _objects(env).objects.items():
        if not entry.aliased and entry.objtype != "module":
            parts = name.split(".")
            found.setdefault(parts[-1], []).append(name)
            found.setdefault(".".join(parts[-2:]), []).append(name)
    return {short: names[0] for short, names in found.items() if len(set(names)) == 1}


def make_exact(app: Sphinx, document: nodes.document) -> None:  # noqa: ARG001
    """Types are names of the page's module, or else of another one: `bytes` is no field. Dashes are long."""
    for reference in document.findall(pending_xref):
        reference.attributes.pop("refspecific", None)
    for text in [each for each in document.findall(nodes.Text) if each.astext() == " -- "]:
        text.parent.replace(text, nodes.Text(" – "))


def find_name(app: Sphinx, env: BuildEnvironment, node: pending_xref, contents: nodes.Element) -> nodes.Element | None:
    """A name that is not of the page's module: the only object of that name. In text only what can be nothing else."""
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].lstrip(".")
    full = _by_last_name(env).get(name)
    if full is None or (node["reftype"] == "obj" and not _is_telling(name)):
        return None
    entry = _objects(env).objects[full]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contents, full)


def add_names(app: Sphinx, env: BuildEnvironment) -> list[str]:  # noqa: ARG001
    """Have `objects.inv` know a name at each face that has it, wherever it is described."""
    domain = _objects(env)
    homes: dict[int, str] = {}
    for face in FACES:
        for name in names_of(face):
            value = getattr(import_module(face), name)
            home = homes.setdefault(id(value), face)
            if home != face and f"{home}.{name}" in domain.objects:
                entry = domain.objects[f"{home}.{name}"]
                domain.objects.setdefault(f"{face}.{name}", entry._replace(aliased=True))
    return []


class LinkedNames(SphinxPostTransform):
    """In the guides, code that is the name of a function or class leads to the reference."""

    default_priority = 400

    def run(self, **kwargs: Any) -> None:  # noqa: ARG002
        """Link the names of a page."""
        page = self.env.current_document.docname
        if page.startswith("api/"):
            return
        known = _by_last_name(self.env)
        for literal in list(self.document.findall(nodes.literal)):
            match = NAME.fullmatch(literal.astext())
            full = known.get(match[1]) if match else None
            if (
                full is None
                or isinstance(literal.parent, nodes.reference)
                or not _is_telling(match[1] if match else "")
            ):
                continue
            entry = _objects(self.env).objects[full]
            link = make_refnode(self.app.builder, page, entry.docname, entry.node_id, literal.deepcopy(), full)
            literal.replace_self(link)


def _is_telling(name: str) -> bool:
    """Whether code like this is a name of ours, and not a word that options, columns and other packages have too."""
    return "_" in name.strip("_") or bool(re.search(r"[a-z][A-Z]", name) and name[0].isupper())


def copy_markdown(app: Sphinx, error: Exception | None) -> None:
    """Put the Markdown of each page beside it, and the list of all: `llms.txt`."""
    if error is not None or app.builder.name != "html":
        return
    lines = ["# pyspark-azureblob", ""]
    for page in sorted(app.env.found_docs):
        source = Path(app.env.doc2path(page))
        if source.suffix == ".md":
            target = Path(app.outdir) / f"{page}.md"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            title = app.env.titles[page].astext()
            lines.append(f"- [{title}]({page}.md)")
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
