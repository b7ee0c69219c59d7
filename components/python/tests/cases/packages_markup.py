import bs4
import colorama
import defusedxml
import defusedxml.ElementTree
import feedparser
import jinja2
import markdown
import markdown_it
import markupsafe
import pygments
import pygments.formatters
import pygments.lexers

page = "<html><body><h1 class='x y'>T&amp;t</h1><ul><li>1<li>2</ul><a href='/u'>l</a><!-- c --></body></html>"
soup = bs4.BeautifulSoup(page, "html.parser")
print(soup.h1.text, soup.h1["class"], [li.get_text() for li in soup.find_all("li")], soup.select_one("body > a[href]")["href"])
soup.h1.string = "new"
print(soup.prettify())
try:
    bs4.BeautifulSoup(page, "lxml")
except bs4.FeatureNotFound as error:
    print("no lxml:", str(error).partition(".")[0])

environment = jinja2.Environment(autoescape=True, loader=jinja2.DictLoader({"base": "[{% block b %}{% endblock %}]"}))
template = environment.from_string("{% extends 'base' %}{% block b %}{% for k, v in d|dictsort %}{{ loop.index }}{{ k }}={{ v }};{% endfor %}{% endblock %}")
print(template.render(d={"b": "<i>", "a": markupsafe.Markup("<b>")}))
try:
    jinja2.Template("{{ x.y }}", undefined=jinja2.StrictUndefined).render()
except jinja2.UndefinedError as error:
    print(error)
try:
    environment.from_string("{% if %}")
except jinja2.TemplateSyntaxError as error:
    print(error, error.lineno)

text = "# T\n\n* a\n* *b*\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```python\nprint(1)\n```\n"
print(markdown.markdown(text, extensions=["tables", "fenced_code", "toc"]))
print(markdown_it.MarkdownIt("commonmark").enable("table").render(text))
print(pygments.highlight("def f(x):\n    return 'é'\n", pygments.lexers.get_lexer_by_name("python"), pygments.formatters.HtmlFormatter(nowrap=True)))
print(pygments.lexers.guess_lexer_for_filename("a.yaml", "a: 1").name, len(list(pygments.lexers.get_all_lexers())) > 400)

feed = """<rss version="2.0"><channel><title>F</title><item><title>One &lt;b&gt;</title><link>http://e.test/1</link>
<pubDate>Mon, 06 May 2024 10:00:00 GMT</pubDate></item></channel></rss>"""
parsed = feedparser.parse(feed)
print(parsed.version, parsed.feed.title, parsed.entries[0].title, tuple(parsed.entries[0].published_parsed)[:5], parsed.bozo)

print(defusedxml.ElementTree.fromstring("<a><b/></a>")[0].tag)
try:
    defusedxml.ElementTree.fromstring('<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>')
except defusedxml.EntitiesForbidden as error:
    print(error)
print(repr(colorama.Fore.RED + "x" + colorama.Style.RESET_ALL))
