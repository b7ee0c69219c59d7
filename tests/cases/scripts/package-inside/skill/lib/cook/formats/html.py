# Named like a module of the standard library, which it uses.
from html import escape
from string import Template

PAGE = Template("<h1>$title</h1>\n<ul>\n$items</ul>\n<p>für ${serves}, $$0</p>\n")


def to_html(recipe):
    items = "".join(f"  <li>{escape(i)}</li>\n" for i in recipe.ingredients)
    return PAGE.substitute(title=escape(recipe.title), items=items, serves=recipe.serves)
