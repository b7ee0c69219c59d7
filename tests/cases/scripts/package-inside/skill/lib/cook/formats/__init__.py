from ..parsing import Recipe
from .html import to_html


def to_text(recipe: Recipe) -> str:
    lines = [recipe.title, "=" * len(recipe.title), *(f"* {i}" for i in recipe.ingredients)]
    return "\n".join(lines + [f"{n}) {s}" for n, s in enumerate(recipe.steps, 1)]) + "\n"


to_text.suffix, to_html.suffix = ".txt", ".html"
ALL = {"html": to_html, "text": to_text}
