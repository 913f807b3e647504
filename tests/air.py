"""How much air the code has: syntax nodes a line, large functions, comments.

    python tests/air.py                        the kernel, the numerics and every plugin
    python tests/air.py plugins/penchant-nad   one folder, with the functions that are too large

A function's nodes a line are its syntax nodes, without the marks of reading and writing
(`ast.expr_context`), over its lines without its docstring. A function is large by all its nodes.
Comment lines are those that stand on their own.
"""

import argparse
import ast
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LARGE = 350  # nodes of a function that should be unfolded
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def density(function):
    """Syntax nodes of a function over its lines without its docstring."""
    docstring = ast.get_docstring(function, clean=False)
    written = docstring.count("\n") + 1 if docstring else 0
    lines = function.end_lineno - function.lineno + 1 - written
    marks = [isinstance(node, ast.expr_context) for node in ast.walk(function)]
    return marks.count(False) / max(1, lines)


def own_comprehensions(statement):
    """Comprehensions of a statement, without those of the statements inside it."""
    found, waiting = 0, [statement]
    while waiting:
        node = waiting.pop()
        found += isinstance(node, COMPREHENSIONS)
        children = ast.iter_child_nodes(node)
        waiting.extend(child for child in children if not isinstance(child, ast.stmt))
    return found


class Figures:
    """What is counted over the files of one folder."""

    def __init__(self, folder):
        self.lines = self.comments = self.crowded = 0
        self.density, self.large = [], []
        for path in sorted(folder.rglob("*.py")):
            if "tests" not in path.relative_to(folder).parts:
                self.add(path)

    def add(self, path):
        text = path.read_text()
        lines = text.splitlines()
        self.lines += len(lines)
        self.comments += sum(line.lstrip().startswith("#") for line in lines)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.stmt):
                self.crowded += own_comprehensions(node) > 1
            if isinstance(node, ast.FunctionDef):
                size = sum(1 for _ in ast.walk(node))
                self.density.append(density(node))
                if size > LARGE:
                    self.large.append(f"{path}:{node.lineno} {node.name} ({size} nodes)")

    def row(self):
        """Median and 90 % of nodes a line, large functions, crowded statements, comments, lines."""
        if not self.density:
            return "nothing"
        ordered = sorted(self.density)
        median = statistics.median(ordered)
        ninth = ordered[int(0.9 * (len(ordered) - 1))]
        share = 100 * self.comments / max(1, self.lines)
        return (
            f"{median:6.1f} {ninth:6.1f} {len(self.large):6} {self.crowded:8} "
            f"{share:7.1f} % {self.lines:7}"
        )


def main():
    """Print a row a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    chosen = parser.parse_args().folders
    plugins = sorted((ROOT / "plugins").iterdir())
    everything = [ROOT / "framework/penchant", ROOT / "framework/penchant_numerics", *plugins]
    print(f"{'':40} median    90 %  large  crowded  comments   lines")
    for folder in chosen or everything:
        figures = Figures(folder)
        print(f"{folder.name:40} {figures.row()}")
        if chosen:
            print("\n".join(figures.large))


if __name__ == "__main__":
    main()
