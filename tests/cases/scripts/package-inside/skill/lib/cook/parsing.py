import json
import re
from dataclasses import dataclass, field
from importlib import resources


class RecipeError(ValueError):
    pass


@dataclass
class Recipe:
    title: str = ""
    serves: int = 0
    ingredients: list = field(default_factory=list)
    steps: list = field(default_factory=list)


UNITS = json.loads(resources.files(__package__).joinpath("data/units.json").read_text(encoding="utf-8"))


def metric_of(text):
    def volume(m):
        return f"{float(m[1]) * UNITS['cup']:g} ml "

    text = re.sub(r"([\d.]+) cups? ", volume, text)
    return re.sub(r"(\d+) F\b", lambda m: f"{round((int(m[1]) - 32) / 1.8)} °C", text)


def parse(text, metric=False):
    recipe = Recipe()
    for line in text.splitlines():
        match line.split(maxsplit=1):
            case ["Title:", title]:
                recipe.title = title
            case ["Serves:", n]:
                recipe.serves = int(n)
            case ["-", thing]:
                recipe.ingredients.append(metric_of(thing) if metric else thing)
            case [n, step] if n.rstrip(".").isdigit():
                recipe.steps.append(metric_of(step) if metric else step)
            case []:
                pass
            case _:
                raise RecipeError(f"what is this? {line!r}")
    return recipe
