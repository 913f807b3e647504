"""The report: what it says, how it looks in a browser, and how small it stays."""

import csv
import io
import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import grid_run
import penchant
import pytest
from matplotlib.figure import Figure
from penchant_report.answer_section import answer_values
from penchant_report.answers import Entry, answers
from penchant_report.drawings import is_picture
from penchant_report.figures import as_pdf, picture
from penchant_report.hover_points import points_of
from penchant_report.report import write_report

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three architectures, four probes, two seeds; one job failed, one has a warning."""
    return grid_run.grid(tmp_path_factory.mktemp("report") / "run")


@pytest.fixture(scope="module")
def page(run):
    return (run.folder / "report.html").read_text()


class Text(HTMLParser):
    """Words of a page, without its script and style; links and ids beside them."""

    def __init__(self, page):
        super().__init__()
        self.words, self.links, self.ids, self.skipped = [], [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        if tag in ("script", "style"):
            self.skipped = tag

    def handle_endtag(self, tag):
        if tag == self.skipped:
            self.skipped = ""

    def handle_data(self, data):
        if not self.skipped:
            self.words.append(data)

    @property
    def said(self):
        return " ".join(" ".join(self.words).split())


def test_it_answers_before_it_lists(page):
    said = Text(page).said
    question = said.index("Do fresh networks see the line between the blobs")
    answer = said.index("above its null of")
    assert question < answer < said.index("Every job with its own figures")
    assert re.search(r"norm: wide exceeds narrow by \d\.\d+ ± 0\.\d+ \(z = \d+\)", said)
    assert "parameters: wide exceeds narrow by 300." in said
    nothing = "No significant difference from the null or between groups"
    assert re.search(rf"{nothing} \(1 % level, corrected for \d+ comparisons\)\.", said)
    assert said.count("z: the difference in standard errors") == 1


def said_of(first, second):
    """Sentences about two groups with these labels: both quantities differ, and from their nulls."""
    entries = []
    for label, value in ((first, 1.0), (second, 2.0)):
        found = penchant.Quantity(value, stderr=0.001, null=0.0, null_spread=0.001)
        quantities = {"norm": found, "slope": found}
        labels = {"probe": "p", "architecture": label, "seed": 0}
        entries.append(Entry(label, "done", labels, probe="p", quantities=quantities))
    (answer,) = answers(entries)
    return answer_values(answer)["found"]


def test_labels_stand_whole_in_sentences():
    found = said_of("narrow over all", "wide over all")
    assert found[2].startswith("norm: wide over all exceeds narrow over all by 1.")


def test_a_label_that_speaks_of_nulls_makes_no_null_sentence():
    plain = said_of("narrow", "wide")
    assert ["exceeds" in text for text in plain] == [False, False, True, True, False]
    found = said_of("narrow", "at its null")
    assert found == [text.replace("wide", "at its null") for text in plain]


def test_failures_and_warnings_stand_where_they_belong(page):
    said = Text(page).said
    assert "1 of 24 jobs failed ; the answers below are without it." in said
    assert said.index("the fit did not converge") < said.index("Do fresh networks see")
    assert said.count("8 networks are few") == 2, "once at the top, once in its job"
    assert "Traceback" in said and "RuntimeError" in said


def test_seeds_are_pooled(run, page):
    values = [
        result.quantities["norm"].value
        for result in run.results(architecture="wide", probe="weight-norm")
    ]
    mean = sum(values) / 2
    assert f"{mean:.2f}" in Text(page).said


def test_links_lead_somewhere(run, page):
    found = Text(page)
    assert len(found.ids) == len(set(found.ids))
    for link in found.links:
        if link.startswith("#"):
            assert link[1:] in found.ids, link
        else:
            assert (run.folder / unquote(link)).exists(), link
    assert any(link.endswith(".csv") and "/tables/" in link for link in found.links)
    assert any(link.endswith("arrays.npz") for link in found.links)


def test_figures_come_in_their_order_with_captions(page):
    said = Text(page).said
    first = said.index("Most networks are far to the right of the dashed line")
    assert first < said.index("A few networks are not aligned.")
    # 18 in the sections of jobs, and one lead figure for each of three architectures
    assert page.count("data:image/svg+xml;base64,") == 18 + 3
    assert "data:image/png" not in page


def test_numbers_stand_beside_the_page(run):
    with open(run.folder / "quantities.csv") as file:
        rows = list(csv.DictReader(file))
    table = run.table()
    assert len(rows) == len(table)
    assert [float(row["value"]) for row in rows] == [row["value"] for row in table]
    result = run.results(probe="alignment", architecture="wide", seed=0)[0]
    place = run.folder / "jobs" / result.record["id"] / "tables" / "correlations.csv"
    with open(place) as file:
        rows = list(csv.DictReader(file))
    assert [float(row["correlations"]) for row in rows] == result.arrays["correlations"].tolist()


def test_what_was_asked_for_can_be_done_again(run, page):
    said = Text(page).said
    assert "penchant run experiment.toml --out ../run-again" in said
    assert "seeds 0, 1" in said and "torch" in said


def test_a_page_is_one_file_and_runs_nothing_but_its_own_script(page):
    assert "http" not in page.replace("http-equiv", "")
    assert "default-src 'none'" in page and "unsafe-inline" not in page
    assert len(page.encode()) < 1_500_000


# ---- in a browser


@pytest.fixture(scope="module")
def browser():
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("chromium and chromedriver are not installed")
    options = selenium.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = selenium.Chrome(options=options, service=Service(driver))
    yield found
    found.quit()


def show(browser, path, *, width=1280, scheme="light"):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get(Path(path).as_uri())


CONTRAST = """
const luminance = (parts) => {
  const [r, g, b] = parts.map((p) => { p /= 255; return p <= .04045 ? p / 12.92 : ((p + .055) / 1.055) ** 2.4; });
  return .2126 * r + .7152 * g + .0722 * b;
};
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const found = numbers(getComputedStyle(element).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found.slice(0, 3);
  }
};
document.querySelectorAll("details").forEach((each) => { each.open = true; });
const bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let looked = 0;
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || ["SCRIPT", "TITLE"].includes(element.tagName.toUpperCase())) continue;
  const style = getComputedStyle(element);
  const ink = luminance(numbers(element.closest("svg") ? style.fill : style.color).slice(0, 3));
  const paper = luminance(behind(element));
  const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  looked += 1;
  if (ratio < 4.5) bad.push([element.tagName, element.className, ratio, walker.currentNode.textContent]);
}
return [looked, bad];
"""


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read_in_both_schemes(browser, run, width, scheme):
    show(browser, run.folder / "report.html", width=width, scheme=scheme)
    looked, bad = browser.execute_script(CONTRAST)
    assert looked > 500 and not bad, bad[:5]
    # With everything unfolded: nothing is wider than the window.
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width
    broken = browser.execute_script(
        "return [...document.images].filter((each) => !each.naturalWidth).length"
    )
    assert broken == 0
    assert browser.get_log("browser") == []


def test_tables_sort_and_jobs_are_found(browser, run):
    show(browser, run.folder / "report.html")
    order = """
    const table = document.querySelector("#answer-weight-norm table");
    table.querySelectorAll("thead button")[1].click();
    return [...table.tBodies[0].rows].map((row) => row.cells[0].firstChild.textContent);
    """
    assert browser.execute_script(order) == ["norm", "parameters"]
    assert browser.execute_script(order) == ["parameters", "norm"]
    found = browser.execute_script(
        """
        const input = document.querySelector("input[type=search]");
        input.value = "tilt narrow";
        input.dispatchEvent(new Event("input"));
        return [...document.querySelectorAll("details.job")].filter((job) => !job.hidden).length;
        """
    )
    assert found == 2


def test_a_link_to_a_job_unfolds_it(browser, run):
    from selenium.webdriver.support.wait import WebDriverWait

    show(browser, run.folder / "report.html")
    link = browser.find_element("css selector", ".failure a")
    target = link.get_attribute("href").partition("#")[2]
    link.click()
    # A browser says that the address has changed a moment after the click.
    is_open = "return document.getElementById(arguments[0]).open"
    assert WebDriverWait(browser, 10).until(lambda page: page.execute_script(is_open, target))


def test_the_keyboard_reaches_everything(browser, run):
    from selenium.webdriver import ActionChains, Keys

    show(browser, run.folder / "report.html")
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert browser.switch_to.active_element.text == "Skip to the answers"
    reached = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')].every((each) => each.tabIndex === 0)"
    )
    assert reached


def test_it_reads_without_javascript(browser, run):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, run.folder / "report.html")
        text = browser.find_element("css selector", "main").text
        job = browser.find_element("css selector", "details.job summary")
        job.click()
        opened = browser.find_element("css selector", "details.job figcaption").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "wide exceeds narrow" in text and "Search" not in text
    assert "Most networks are far to the right" in opened


def test_drawings_follow_into_the_dark(browser, run, tmp_path):
    from PIL import Image

    shades = {}
    for scheme in ("light", "dark"):
        show(browser, run.folder / "report.html", scheme=scheme)
        browser.execute_script("document.querySelector('details.job').open = true")
        image = browser.find_element("css selector", "details.job img")
        path = tmp_path / f"{scheme}.png"
        image.screenshot(str(path))
        shades[scheme] = Image.open(path).convert("L").getpixel((3, 3))
    assert shades["light"] > 240 and shades["dark"] < 40


# ---- large runs


def large_run(folder, jobs):
    """A run of many jobs as it would be on disk, made of one result."""
    entries = []
    for number in range(jobs):
        labels = {
            "probe": "output-spread",
            "architecture": f"net-{number // 4}",
            "seed": number % 4,
        }
        name = f"output-spread-net-{number // 4}-s{number % 4}-{number:08x}"
        quantities = {
            key: {"value": number * 0.1, "stderr": 0.3, "over": "networks", "count": 9, "null": 1.0}
            for key in ("spread", "mean", "trace", "rank")
        }
        record = {
            "schema": 1, "id": name, "status": "done", "labels": labels, "seed": number % 4,
            "probe": {"name": "output-spread", "options": {"networks": 64}},
            "quantities": quantities, "arrays": {"means": {"shape": [9], "dtype": "float64"}},
            "conventions": {"output": "the first"}, "warnings": ["few networks"],
            "cost": {"seconds": 1.5}, "question": "How differently do fresh networks answer?",
        }  # fmt: skip
        place = folder / "jobs" / name
        (place / "figures").mkdir(parents=True)
        (place / "figures" / "means.svg").write_text(
            "<svg xmlns='http://www.w3.org/2000/svg'/>" + " " * 2000
        )
        (place / "result.json").write_text(json.dumps(record))
        entries.append({"id": name, "status": "done", "labels": labels, "path": f"jobs/{name}"})
    record = {"schema": 1, "title": "Many", "seeds": [0, 1, 2, 3], "jobs": entries}
    (folder / "run.json").write_text(json.dumps(record))
    return penchant.read(folder)


def check_large(folder, jobs, most, monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a report reads no arrays")

    monkeypatch.setattr("penchant.results.job_folder.read_arrays", refuse)
    run = large_run(folder, jobs)
    size = write_report(run).stat().st_size
    assert size < most, size
    page = (folder / "report.html").read_text()
    assert f"{jobs} jobs" in page and page.count('class="job"') == jobs
    assert page.count("few networks") == 1
    return size


def test_a_large_run_has_a_small_page(tmp_path, monkeypatch):
    check_large(tmp_path, 600, 1_200_000, monkeypatch)


@pytest.mark.slow
def test_ten_thousand_jobs_stay_below_twenty_megabytes(tmp_path, monkeypatch):
    check_large(tmp_path, 10_000, 20_000_000, monkeypatch)


def test_figures_beyond_the_budget_are_linked(tmp_path, monkeypatch):
    monkeypatch.setattr("penchant_report.job_sections.MOST_EMBEDDED", 5000)
    run = large_run(tmp_path, 8)
    page = write_report(run).read_text()
    assert page.count("data:image/svg+xml") == 2
    assert page.count(">Figure means</a>") == 6


def test_figures_say_their_values_and_are_enlarged(browser, run):
    show(browser, run.folder / "report.html")
    said = """
    const figure = [...document.querySelectorAll("figure.drawn")].find((each) =>
      JSON.parse(each.dataset.points).length);
    const [series] = JSON.parse(figure.dataset.points);
    const [x, y, across, up] = series.points[0];
    const image = figure.querySelector("img");
    image.scrollIntoView({ block: "center" });
    const move = (image) => {
      const box = image.getBoundingClientRect();
      image.dispatchEvent(new PointerEvent("pointermove", {
        clientX: box.left + x * box.width + 2, clientY: box.top + y * box.height }));
      const tip = document.querySelector(".tip");
      return tip.hidden ? "" : tip.innerText;
    };
    const first = move(image);
    image.click();
    const dialog = document.querySelector("dialog");
    const large = dialog.querySelector("img");
    const before = large.getBoundingClientRect().width;
    [...dialog.querySelectorAll("button")].find((each) => each.textContent === "+").click();
    const after = large.getBoundingClientRect().width;
    return [first, [across, up], after / before];
    """
    first, expected, larger = browser.execute_script(said)
    assert first.splitlines()[-2:] == expected
    assert larger == pytest.approx(1.5, rel=0.02)
    assert browser.get_log("browser") == []


def test_tables_are_saved_by_a_button_with_the_numbers_of_the_run(browser, run):
    show(browser, run.folder / "report.html")
    text, names = browser.execute_script(
        """
        const found = document.querySelector("#answer-weight-norm pre.copied");
        found.closest("details").open = true;
        const names = [...found.parentElement.querySelectorAll("button")];
        return [found.textContent, names.map((each) => each.textContent)];
        """
    )
    assert names == ["Copy", "Save"]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["quantity"] for row in rows} >= {"norm", "parameters"}
    assert all(math.isfinite(float(row["value"])) for row in rows)


def test_points_of_curves_are_where_they_are_drawn():
    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    axes.plot([0, 1, 2], [5, 3, 4], label="loss")
    axes.axhline(3.5)
    axes.set(xlabel="step", ylabel="loss", xlim=(0, 2), ylim=(3, 5))
    ending, content = picture(figure)
    (series,) = points_of(figure, content)
    assert series["name"] == "loss"
    assert [point[2:] for point in series["points"]] == [
        ["step 0", "loss 5"],
        ["step 1", "loss 3"],
        ["step 2", "loss 4"],
    ]
    # The same places as in the drawing, whose unit is a point.
    wide, high = map(float, re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', content).groups())
    path = re.search(rb'id="line2d_\d+">\s*<path d="([^"]*)" clip-path', content).group(1)
    drawn = [float(number) for number in re.findall(rb"[\d.]+", path)]
    expected = [share for point in series["points"] for share in point[:2]]
    assert ending == "svg"
    sizes = [wide, high] * len(series["points"])
    assert len(drawn) == len(expected)
    for number, size, share in zip(drawn, sizes, expected):
        assert abs(number / size - share) < 0.005


@pytest.mark.parametrize(
    "name", [b"/OpenAction 3 0 R", b"/AA << >>", b"/J#61vaScript (1)", b"/Annots [ 4 0 R ]"]
)
def test_a_pdf_that_does_more_than_draw_is_not_linked(name):
    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([0, 1])
    drawn = as_pdf(figure)
    assert is_picture(drawn, "pdf")
    assert not is_picture(drawn.replace(b"/Type /Catalog", b"/Type /Catalog " + name), "pdf")
