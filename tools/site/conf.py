"""Sphinx reads this. All that the site needs is in it: no page loads anything from elsewhere."""

from pathlib import Path

from tools.site.reference import KINDS

project = "pyspark-azureblob"
author = "the authors of pyspark-azureblob"
project_copyright = ""
release = version = "0.1.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "tools.site.extension"]
root_doc = "index"
nitpicky = False
highlight_language = "none"
smartquotes = False
exclude_patterns = ["README.md"]

myst_heading_anchors = 4
myst_enable_extensions: list[str] = []

autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 110
autodoc_type_aliases = {name: f"foundation.arguments.{name}" for name in KINDS} | {
    "Kept": "foundation.arguments.Count",
    "Stated": "foundation.arguments.Natural",
    "Form": "adjunct_store.view.Form",
}
add_module_names = False
toc_object_entries_show_parents = "hide"

_here = Path(__file__).parent
html_theme = "furo"
html_title = project
pygments_dark_style = "github-dark"
html_static_path = [str(_here / "static")]
html_css_files = ["site.css"]
templates_path = [str(_here / "templates")]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {"top_of_page_buttons": ["view"]}

# A link to a host that refuses robots, or answers late, is not a broken one.
linkcheck_timeout = 15
linkcheck_retries = 2
linkcheck_rate_limit_timeout = 60
linkcheck_allow_unauthorized = True
linkcheck_report_timeouts_as_broken = False
linkcheck_anchors = False
linkcheck_ignore = [r"https?://localhost.*", r"https://<account>.*", r".*\.core\.windows\.net.*"]
