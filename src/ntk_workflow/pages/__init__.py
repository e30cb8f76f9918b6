"""Pages for people: HTML of one file each, and Markdown, from the templates in this folder."""
