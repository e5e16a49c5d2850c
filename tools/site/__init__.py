"""The site: the documents of this repository as they are, and pages made of the code.

    *.md, docs/, notebooks/ ─ staging ─┐
    faces ─ reference ─────────────────┼─► build/site-source ─► Sphinx (conf, docstrings) ─► build/site
    command lines ─ command_lines ─────┘

`python -m tools.site` builds it; a link that leads nowhere is an error.
"""
