"""The first screen of a report: lead figures on one scale, and headlines chosen by numbers."""

import numpy as np
import penchant
import pytest
from matplotlib.figure import Figure
from penchant.results.result import Result
from penchant_nad.directional_accuracy import figures as directional_accuracy
from penchant_nad.nad import figures as nad_figures
from penchant_nad.nad.figures import described
from penchant_report.answer_section import answer_values
from penchant_report.answers import Entry, answers
from penchant_report.figures import headline_of
from penchant_report.lead_figures import align
from penchant_report.merging import by_pattern, merged
from penchant_testing import checks


def line_figure(values, *, picture=False):
    figure = Figure()
    axes = figure.subplots()
    axes.plot(range(len(values)), values)
    if picture:
        axes.imshow(np.zeros((2, 2)))
    return figure


def test_groups_side_by_side_have_one_scale():
    figures = [line_figure([0.0, 1.0]), line_figure([-3.0, 0.5, 2.0])]
    align(figures)
    limits = [(figure.axes[0].get_xlim(), figure.axes[0].get_ylim()) for figure in figures]
    assert limits[0] == limits[1]
    assert limits[0][1][0] <= -3.0 and limits[0][1][1] >= 2.0


def test_figures_with_other_axes_and_pictures_stay_as_they_are():
    pictures = [line_figure([0.0, 1.0], picture=True), line_figure([0.0, 9.0], picture=True)]
    before = [figure.axes[0].get_ylim() for figure in pictures]
    align(pictures)
    assert [figure.axes[0].get_ylim() for figure in pictures] == before
    several = Figure()
    several.subplots(1, 2)
    other = line_figure([0.0, 1.0])
    limits = other.axes[0].get_ylim()
    align([several, other])
    assert other.axes[0].get_ylim() == limits


def test_a_probe_without_a_headline_says_nothing():
    assert headline_of(Result({})) == ""


def waves(frequency, count=4, size=16):
    grid = np.arange(size)
    rows = [
        np.sin(2 * np.pi * frequency * (grid[:, None] + grid) + phase) for phase in range(count)
    ]
    directions = np.stack(rows).reshape(count, -1)
    return directions / np.linalg.norm(directions, axis=1, keepdims=True)


@pytest.mark.parametrize(("frequency", "words"), [(1 / 16, "slow waves"), (7 / 16, "fast waves")])
def test_directions_are_described_by_their_frequency(frequency, words):
    assert described(waves(frequency), (1, 16, 16)).startswith(words)


def test_random_directions_are_neither_slow_nor_fast_nor_in_the_middle():
    rows = np.random.default_rng(0).normal(size=(50, 256))
    text = described(rows, (1, 16, 16))
    assert text.startswith("waves of all frequencies (") and "middle" not in text.partition("(")[0]


def nad_result(above, rank):
    quantities = {
        "effective-rank": penchant.Quantity(rank, stderr=1.0, null=176.0, null_spread=1.0),
        "directions-above-null": penchant.Quantity(above, stderr=1.0, null=0.0),
    }
    record = {"shape": [1, 16, 16]}
    return Result(quantities, {"directions": waves(1 / 16)}, record=record)


def test_the_headline_of_nad_follows_its_numbers():
    text = nad_figures.headline(nad_result(3.0, 137.0))
    assert text.startswith("3 directions of 256 lie above the null (effective rank 137, 176 ")
    assert "slow waves" in text
    none = nad_figures.headline(nad_result(0.0, 176.0))
    assert none.startswith("No direction of the input is preferred")


def accuracies(p, sign=1.0):
    correlation = penchant.Quantity(sign * 0.9, stderr=0.1, null=0.0, null_spread=0.3, p=p)
    arrays = {"test-accuracy": np.array([0.93, 0.52]), "indices": np.array([0, 120])}
    return Result({"rank-correlation": correlation}, arrays)


def test_accuracy_falls_only_where_the_correlation_is_significant():
    headline = directional_accuracy.headline
    assert headline(accuracies(0.001)).startswith("Test accuracy falls along the directions: 0.93")
    assert headline(accuracies(0.001, -1.0)).startswith("Test accuracy rises")
    assert "does not follow" in headline(accuracies(0.2))


def fixed_caption(result):
    figure = line_figure([0.0, 1.0])
    figure.axes[0].set(title="Losses", xlabel="step")
    figure.set_label("Slow noise hurts more than fast noise.")
    return {"loss": figure}


def test_a_caption_that_claims_a_finding_whatever_the_numbers_is_refused():
    class Fixed(penchant.Probe):
        name, figures = "fixed", fixed_caption

    result = Result({"difference": penchant.Quantity(0.5, stderr=0.1, null=0.0)})
    with pytest.raises(
        AssertionError, match="'loss' of fixed says 'Slow noise hurts more than fast"
    ):
        checks.check_figures(Fixed, [result])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            ["Aligned: 0.31 ± 0.02 (null 0), p < 1e-6.", "Aligned: 0.5 ± 0.2 (null 0), p < 1e-6."],
            "Aligned: 0.31 to 0.5 (null 0), p < 1e-6.",
        ),
        (
            ["Gain −0.4 in conv2, p = 0.002.", "Gain 1.2e-5 in conv2, p = 0.05."],
            "Gain −0.4 to 1.2e-5 in conv2, p ≤ 0.05.",
        ),
        (["No order: 1, p = 0.02.", "No order: 2, p = 0.5."], "No order: 1 to 2, p = 0.02 to 0.5."),
        (["59% of NC1 to NC4", "7% of NC1 to NC4"], "7 to 59% of NC1 to NC4"),
    ],
)
def test_sentences_that_differ_in_numbers_only_become_one(texts, expected):
    names = {str(number): text for number, text in enumerate(texts)}
    assert list(by_pattern(names)) == [list(names)]
    assert merged(texts) == expected


def test_sentences_in_other_words_stay_apart():
    texts = {"a": "Loss rises by 3 in conv2.", "b": "Loss rises by 3 in conv3.", "c": "Loss falls."}
    assert list(by_pattern(texts)) == [["a"], ["b"], ["c"]]


def test_a_page_says_which_groups_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr("penchant_report.headlines.MOST_GROUPS", 5)
    widths = [
        {"name": "mlp", "label": f"width-{width}", "widths": [width]} for width in range(1, 9)
    ]
    raw = {"shape": [1, 4, 4], "architectures": widths, "executor": "serial"}
    run = penchant.run({**raw, "probes": [{"name": "nad", "networks": 4}]}, out=tmp_path)
    page = (run.folder / "report.html").read_text()
    assert "Figures of 6 of 8 groups; those of the others are in the sections" in page
    assert "The table has 3 more groups." in page


def test_sentences_compare_groups_that_differ_in_one_thing():
    entries = []
    for number, (network, data) in enumerate([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]):
        labels = {"probe": "p", "architecture": network, "dataset": data, "seed": 0}
        quantities = {"size": penchant.Quantity(float(number), stderr=0.01)}
        entries.append(Entry(str(number), "done", labels, "p", quantities=quantities))
    values = answer_values(answers(entries)[0])
    assert "2 architectures × 2 datasets" in values["eyebrow"]
    (sentence,) = values["found"]
    # b on y is three above a on x, but two things differ between them
    assert sentence.startswith("size: b on ") and " by 2.000 ± " in sentence


def test_findings_come_before_the_warnings_about_them(tmp_path):
    settings = {"shape": [1, 8, 8], "probes": [{"name": "nad", "networks": 8}]}
    settings["executor"] = "serial"
    run = penchant.run(
        {**settings, "architectures": [{"name": "logistic"}, {"name": "mlp"}]}, out=tmp_path
    )
    page = (run.folder / "report.html").read_text()
    finding = page.index("<strong>logistic, mlp:</strong> No direction of the input is preferred")
    # Both jobs warn, in sentences with the same words.
    assert page.count("<strong>Warning:</strong>") == 1
    assert finding < page.index("<strong>Warning:</strong> 8 networks for 64 inputs")


def test_a_single_group_has_the_name_of_its_network():
    labels = {"probe": "p", "architecture": "My CNN", "dataset": "import", "seed": 0}
    entry = Entry("0", "done", labels, "p", quantities={"size": penchant.Quantity(1.0, stderr=0.1)})
    assert answer_values(answers([entry])[0])["columns"] == ["My CNN"]
