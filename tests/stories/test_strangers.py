"""What a stranger sends is only read: nothing in it runs, and nothing outside of it is touched.

Run folders, checkpoints, data files and working folders that would each leave a trace if anything
in them ran. All commands that only read are let loose on them; an audit hook of Python sees every
file that is opened, every module that is imported and every process that is started.
"""

import inspect
import io
import json
import os
import pickle
import re
import shutil
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import penchant
import pytest
import torch
from click.testing import CliRunner
from penchant.cli import main
from penchant.experiments.arrays import read_array
from penchant_import.state_files import read_tensors
from penchant_vision.files.pickled_arrays import read_arrays as read_batch

SECRET = "the-secret-of-this-machine"
JOB = "output-spread-perceptron-two-blobs-s0-44fe60ba"
_seen = []  # what the audit hook saw, while a test listens
_listening = []


def _audit(event, arguments):
    if not _listening:
        return
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        written = arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        _seen.append(("write" if written else "read", os.fsdecode(arguments[0])))
    elif event in ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"):
        paths = [os.fsdecode(each) for each in arguments[:2] if isinstance(each, (str, bytes))]
        _seen.extend(("write", path) for path in paths)
    elif event in ("import", "os.system", "subprocess.Popen", "os.exec", "socket.connect"):
        _seen.append((event, str(arguments[0])))


sys.addaudithook(_audit)


@pytest.fixture
def place(root, tmp_path, monkeypatch):
    """A working folder with a run folder `sent`, and beside it what must not be touched."""
    import matplotlib.font_manager  # noqa: F401  it keeps a cache of its own

    here, outside = tmp_path / "here", tmp_path / "outside"
    outside.mkdir()
    shutil.copytree(root / "tests/fixtures/run-schema-1", here / "sent")
    shutil.copytree(here / "sent", here / "own")
    (outside / "secret.txt").write_text(SECRET)
    (outside / "result.json").write_text(json.dumps({"schema": 1, "title": SECRET}))
    (outside / "figures").mkdir()
    # A module that anything which looks for it would find.
    (here / "sent" / "canary.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(str(here / "sent"))
    yield here / "sent"
    assert not (tmp_path / "ran").exists()
    sys.modules.pop("canary", None)


def changed(folder, **entries):
    """Replace entries of the first result; its checksum is that of what it says now."""
    path = folder / "jobs" / JOB / "result.json"
    record = json.loads(path.read_text())
    record.update(entries)
    record.pop("quantities_sha256", None)
    path.write_text(json.dumps(record))


def quantity(folder, **numbers):
    changed(folder, quantities={"spread": {"value": 0.5, **numbers}})


def renamed(folder, name):
    """Give the first job another id."""
    path = folder / "run.json"
    record = json.loads(path.read_text())
    record["jobs"][0]["id"] = name
    path.write_text(json.dumps(record))


def relabelled(folder, **labels):
    path = folder / "run.json"
    record = json.loads(path.read_text())
    for job in record["jobs"]:
        job["labels"].update(labels)
    path.write_text(json.dumps(record))


def linked(folder, name, to):
    """Replace a file or folder by a link that leads out."""
    path = folder / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(folder.parent.parent / "outside" / to)


def archive(folder, **members):
    """An archive of arrays that the result names, packed."""
    path = folder / "jobs" / JOB / "arrays.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    changed(folder, arrays={name: {"shape": [1], "dtype": "float64"} for name in members})
    _without_checksum(folder)


def _without_checksum(folder):
    path = folder / "jobs" / JOB / "result.json"
    record = json.loads(path.read_text())
    record.pop("arrays_sha256", None)
    record["figures"] = "canary:draw"
    path.write_text(json.dumps(record))


def head(shape, kind="<f8"):
    """The head of an npy file that promises numbers, and none of them."""
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def pickled(folder):
    path = folder / "jobs" / JOB / "arrays.npz"
    np.savez(path, means=np.array([Attack(str(folder.parent.parent / "ran"))], dtype=object))
    _without_checksum(folder)


class Attack:
    def __init__(self, path="ran"):
        self.path = path

    def __reduce__(self):
        return eval, (f"open({self.path!r}, 'w').close()",)


def sparse(folder, name, size=2_000_000_000):
    with (folder / name).open("wb") as file:
        file.truncate(size)


def pipe(folder, name):
    path = folder / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def drawn(folder, content):
    """A picture that came with the folder."""
    figures = folder / "jobs" / JOB / "figures"
    figures.mkdir()
    (figures / "means.svg").write_text(content)
    captions = {"means": "<script>alert(1)</script>", "../../../../outside/secret": "a", "\0": "b"}
    (figures / "figures.json").write_text(json.dumps({"schema": 1, "captions": captions}))


HOSTILE_SVG = (
    "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>"
)
DRAWS = "penchant_example.output_spread.figures:draw"
RESULT = f"jobs/{JOB}/result.json"
RUN_FOLDERS = {
    "figures name a module": lambda sent: changed(sent, figures="canary:draw"),
    "figures name a function of Python": lambda sent: changed(sent, figures="os:abort"),
    "figures and their pictures": lambda sent: [
        changed(sent, figures="canary:draw"),
        drawn(sent, "<svg/>"),
    ],
    "probe is a module": lambda sent: changed(
        sent, probe={"name": "canary:draw"}, figures="canary:draw"
    ),
    "probe of another plugin": lambda sent: changed(
        sent, probe={"name": "x", "plugin": "canary"}, figures="canary:draw"
    ),
    "no probe": lambda sent: changed(sent, probe=None, figures="canary:draw"),
    "linked experiment": lambda sent: linked(sent, "experiment.toml", "secret.txt"),
    "linked run.json": lambda sent: linked(sent, "run.json", "result.json"),
    "linked result": lambda sent: linked(sent, RESULT, "result.json"),
    "linked arrays": lambda sent: linked(sent, f"jobs/{JOB}/arrays.npz", "secret.txt"),
    "linked job": lambda sent: linked(sent, f"jobs/{JOB}", "."),
    "linked jobs": lambda sent: linked(sent, "jobs", "."),
    "linked figures": lambda sent: [
        changed(sent, figures=DRAWS),
        linked(sent, f"jobs/{JOB}/figures", "figures"),
    ],
    "linked tables": lambda sent: [
        changed(sent, figures=DRAWS),
        linked(sent, f"jobs/{JOB}/tables", "figures"),
    ],
    "linked queue": lambda sent: [(sent / "queue").mkdir(), linked(sent, "queue/locks", "figures")],
    "linked report": lambda sent: linked(sent, "report.html", "secret.txt"),
    "linked numbers": lambda sent: linked(sent, "quantities.csv", "secret.txt"),
    "linked picture": lambda sent: [
        drawn(sent, "<svg/>"),
        linked(sent, f"jobs/{JOB}/figures/means.svg", "secret.txt"),
    ],
    "id that leads up": lambda sent: renamed(sent, "../../outside"),
    "id of two dots": lambda sent: renamed(sent, ".."),
    "id that is a path": lambda sent: renamed(sent, "/etc"),
    "id with a zero byte": lambda sent: renamed(sent, "a\0b"),
    "id of 5000 characters": lambda sent: renamed(sent, "x" * 5000),
    "id that is a number": lambda sent: renamed(sent, 3),
    "labels that are a list": lambda sent: relabelled(sent, probe=["x"]),
    "label of a page": lambda sent: relabelled(sent, architecture="<script>alert(1)</script>"),
    "label of an attribute": lambda sent: relabelled(sent, dataset="\" onclick='alert(1)' x=\""),
    "seed that is text": lambda sent: relabelled(sent, seed="0"),
    "negative error": lambda sent: quantity(sent, stderr=-1.0),
    "negative spread": lambda sent: quantity(sent, null=0.1, null_spread=-1.0),
    "value of 400 digits": lambda sent: quantity(sent, value=10**400),
    "value of the largest size": lambda sent: quantity(sent, value=1.7e308, stderr=1e308),
    "value that is text": lambda sent: quantity(sent, value="1"),
    "value that is a list": lambda sent: quantity(sent, value=[1]),
    "count of 400 digits": lambda sent: quantity(sent, count=10**400),
    "p of 7": lambda sent: quantity(sent, null=0.1, p=7),
    "unit that is a table": lambda sent: quantity(sent, unit={}),
    "quantities that are a list": lambda sent: changed(sent, quantities=[1]),
    "arrays that are a list": lambda sent: changed(sent, arrays=["means"]),
    "shape that is text": lambda sent: changed(sent, arrays={"means": {"shape": "8"}}),
    "array outside": lambda sent: changed(sent, arrays={"../../../../outside/secret": {}}),
    "warnings that are a number": lambda sent: changed(sent, warnings=3),
    "conventions of lists": lambda sent: changed(sent, conventions={"mean": []}),
    "trajectory without steps": lambda sent: changed(sent, conventions={"trajectory": "x"}),
    "training that is text": lambda sent: changed(sent, training="x"),
    "estimators that are text": lambda sent: changed(sent, estimators="x"),
    "seconds that are text": lambda sent: changed(sent, cost={"seconds": "x"}),
    "outputs that are text": lambda sent: changed(sent, shape=[1], outputs="x"),
    "status that is a list": lambda sent: changed(sent, status=["done"]),
    "options of 500 levels": lambda sent: (sent / RESULT).write_text(
        '{"schema": 1, "status": "done", "probe": ' + '{"a":' * 500 + "1" + "}" * 501
    ),
    "pickled array": pickled,
    "array that promises much": lambda sent: archive(sent, means=head((10**15,))),
    "array of negative size": lambda sent: archive(sent, means=head((-1, -(10**9)))),
    "array of objects": lambda sent: archive(sent, means=head((1,), "|O") + b"\x00" * 8),
    "array with a nested head": lambda sent: archive(
        sent, means=b"\x93NUMPY\x01\x00\x10\x27" + b"(" * 10000
    ),
    "packed arrays": lambda sent: archive(sent, means=head((10**6,)) + bytes(8 * 10**6)),
    "sparse result": lambda sent: sparse(sent, RESULT),
    "sparse run.json": lambda sent: sparse(sent, "run.json"),
    "sparse experiment": lambda sent: sparse(sent, "experiment.toml"),
    "result that is a pipe": lambda sent: pipe(sent, RESULT),
    "run.json that is a pipe": lambda sent: pipe(sent, "run.json"),
    "experiment that is a pipe": lambda sent: pipe(sent, "experiment.toml"),
    "arrays that are a pipe": lambda sent: [
        changed(sent, figures="canary:draw"),
        pipe(sent, f"jobs/{JOB}/arrays.npz"),
    ],
    "figures that are a pipe": lambda sent: pipe(sent, f"jobs/{JOB}/figures"),
    "picture that runs": lambda sent: drawn(sent, HOSTILE_SVG),
    "date of no calendar": lambda sent: os.utime(sent / "run.json", (1e15, 1e15)),
}
READING = [
    ["report", "sent"],
    ["cite", "sent"],
    ["status", "sent"],
    ["compare", "sent", "own"],
    ["compare", "own", "sent"],
]


def snapshot(folder):
    return {
        path: (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in [folder, *folder.rglob("*")]
    }


def listened(function):
    """What a function returns, and what the audit hook saw meanwhile."""
    _seen.clear()
    _listening.append(True)
    try:
        return function(), list(_seen)
    finally:
        _listening.clear()


def check_untouched(seen, place):
    """Nothing of a stranger's was imported, nothing outside opened, nothing started."""
    outside = str(place.parent.parent / "outside")
    for event, what in seen:
        assert event in ("import", "read", "write"), (event, what)
        if event == "import":
            assert "canary" not in what
            continue
        path = os.path.realpath(what)
        assert not path.startswith(outside), (event, what)
        written = event == "write" and not is_compiled_penchant(path)
        assert not written or path.startswith((str(place.parent), "/dev/")), what


def is_compiled_penchant(path):
    """Is it what Python keeps of a module of ours that it has imported for the first time?"""
    folders = {
        Path(module.__file__).resolve().parent
        for name, module in list(sys.modules.items())
        if name.startswith("penchant") and getattr(module, "__file__", None)
    }
    cache = Path(path).parent
    return cache.name == "__pycache__" and cache.parent in folders


@pytest.mark.filterwarnings("ignore:.* is damaged")
@pytest.mark.parametrize("attack", RUN_FOLDERS)
def test_a_run_folder_is_only_read(place, attack):
    outside = place.parent.parent / "outside"
    RUN_FOLDERS[attack](place)
    before = snapshot(outside)
    for arguments in READING:
        done, seen = listened(lambda arguments=arguments: CliRunner().invoke(main, arguments))
        assert isinstance(done.exception, (SystemExit, type(None))), (arguments, done.exc_info)
        assert done.exit_code in (0, 2), arguments
        check_untouched(seen, place)
        assert SECRET not in done.output
    assert snapshot(outside) == before
    for page in [place / "report.html", place.parent / "compare.html"]:
        if page.is_file() and not page.is_symlink():
            text = page.read_text()
            assert SECRET not in text
            assert "alert(1)</script>" not in text and "onclick='" not in text


# ---- a working folder


LET_LOOSE = """
import sys, warnings
from click.testing import CliRunner
from penchant.cli import main
for typed in sys.argv[1:]:
    done = CliRunner().invoke(main, typed.split())
    print(typed, done.exit_code, "canary" in done.output, repr(done.exception))
"""
TYPED = [
    "list",
    "list probes --json",
    "plugins",
    "plugins --json",
    "explain output-spread",
    "report sent",
    "cite sent",
    "status",
    "status sent",
    "compare sent own",
    "--help",
]


def plant(folder, ran):
    """A plugin, and modules with names that commands import, each of which leaves a file."""
    code = f"open({str(ran)!r}, 'w').close()\nraise SystemExit(9)\n"
    for name in ("canary", "jinja2", "pandas", "penchant_tools", "sitecustomize", "conftest"):
        (folder / f"{name}.py").write_text(code)
    info = folder / "canary-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: canary\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penchant]\ncanary = canary\n")


def test_commands_that_only_read_do_not_search_the_working_folder(root, tmp_path, command):
    ran = tmp_path / "ran"
    plant(tmp_path, ran)
    for name in ("sent", "own"):
        shutil.copytree(root / "tests/fixtures/run-schema-1", tmp_path / name)
    script = tmp_path / "scripts" / "let_loose.py"
    script.parent.mkdir()
    script.write_text(LET_LOOSE)
    done = command(script, *TYPED, script=True)
    assert done.returncode == 0, done.stderr
    for typed, line in zip(TYPED, done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{typed} {2 if typed == 'status' else 0} False"), line
    assert not ran.exists()
    # Where the folder is searched, the same plugin runs.
    command(script, "list", script=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert ran.exists()


def test_python_m_penchant_does_not_search_it_either(tmp_path, command):
    plant(tmp_path, tmp_path / "ran")
    assert "canary" not in command("list").stdout
    assert not (tmp_path / "ran").exists()


def test_a_plugin_in_the_working_folder_is_none_also_where_code_is_run(tmp_path, command):
    """`run` and `probe` find own.py there, but no plugin."""
    plant(tmp_path, tmp_path / "ran")
    done = command("doctor")
    assert "canary" not in done.stdout + done.stderr
    assert not (tmp_path / "ran").exists()


# ---- checkpoints


def text(value):
    return b"V" + str(value).encode() + b"\n"


def named(module, name):
    return f"c{module}\n{name}\n".encode()


def shapes(ran):
    """Pickles that would leave a file behind, each by another of the ways to call something."""
    code = text(f"open({str(ran)!r}, 'w').close()")
    call = named("builtins", "eval")
    flipped = pickle.dumps(({"neg": True},), 2)[2:-1]
    return {
        "call": call + b"(" + code + b"tR.",
        "call by a name from the stack": b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93"
        + code
        + b"\x85R.",
        "instance": b"(" + code + b"ibuiltins\neval\n.",
        "object": b"(" + call + code + b"o.",
        "new object": b"\x80\x02" + call + code + b"\x85\x81.",
        "new object with names": b"\x80\x04" + call + code + b"\x85}\x92.",
        "name with dots": b"\x80\x04\x8c\x05torch\x8c\x09os.system\x93"
        + text(f"touch {ran}")
        + b"\x85R.",
        "persistent id": b"\x80\x02" + code + b"Q.",
        "extension": b"\x80\x02\x82\x01" + code + b"\x85R.",
        "state of a function": b"\x80\x02"
        + named("torch._utils", "_rebuild_tensor_v2")
        + b"N}U\x0c__defaults__"
        + flipped
        + b"s\x86b0}.",
        "state of a class": b"\x80\x02"
        + named("collections", "OrderedDict")
        + b"N}U\x06update"
        + call
        + b"s\x86b0}.",
        "state of a dict": b"\x80\x02"
        + named("collections", "OrderedDict")
        + b")R}U\x05items"
        + call
        + b"sb.",
    }


SHAPES = list(shapes("ran"))


def in_archive(path, content, **more):
    """A file of `torch.save` with another pickle in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3\n")
        for name, data in more.items():
            archive.writestr(f"archive/{name}", data)


def functions_of_torch():
    """Everything that a pickle could change of what makes tensors."""
    found = {}
    for module in (torch._utils, torch.serialization, torch._tensor):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            parts = (function.__defaults__, function.__kwdefaults__, function.__code__)
            found[module.__name__, name] = (*map(repr, parts), sorted(vars(function)))
    return found


def check_unchanged(function, tmp_path):
    """What is saved and loaded before is the same afterwards, and so is what loads it."""
    state = {"w": torch.arange(-3.0, 3.0), "p": torch.nn.Parameter(torch.ones(2))}
    torch.save(state, tmp_path / "good.pt")
    before = functions_of_torch()
    try:
        function()
    except penchant.Error as error:
        assert "\n" not in str(error) and "trusted" not in str(error), error
    assert functions_of_torch() == before
    found = torch.load(tmp_path / "good.pt", weights_only=True)
    assert torch.equal(found["w"], state["w"]) and torch.equal(found["p"], state["p"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["archive", "bare"])
def test_a_checkpoint_is_only_read(tmp_path, shape, kind):
    ran, path = tmp_path / "ran", tmp_path / "sent.pt"
    content = shapes(ran)[shape]
    if kind == "archive":
        in_archive(path, content)
    else:
        path.write_bytes(content)
    check_unchanged(lambda: read_tensors(path), tmp_path)
    assert not ran.exists()


def program(path, ran):
    code = f"open({str(ran)!r}, 'w').close()"
    in_archive(path, shapes(ran)["call"], **{"constants.pkl": b"", "code/__torch__.py": code})


def taped(path, ran):
    with tarfile.open(path, "w") as tape:
        for name in ("sys_info", "pickle", "storages", "tensors", "../escaped"):
            content = shapes(ran)["call"]
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tape.addfile(member, io.BytesIO(content))


def bomb(path, ran):
    tensor = b"\x80\x02}."
    in_archive(path, tensor, **{"data/0": bytes(20_000_000)})


def index(names):
    def make(path, ran):
        path.write_text(json.dumps({"weight_map": names}))

    return make


def tensors(header, data=b""):
    def make(path, ran):
        content = header.encode()
        path.write_bytes(struct.pack("<Q", len(content)) + content + data)

    return make


CHECKPOINTS = {
    "sent.pt": {
        "TorchScript": (program, "it is a TorchScript program"),
        "tar": (taped, "cannot be read as a checkpoint"),
        "bomb": (bomb, "unpacks to 200000"),
        "nothing": (lambda path, ran: path.write_bytes(b""), "cannot be read as a checkpoint"),
        "text": (lambda path, ran: path.write_text("hello"), "cannot be read as a checkpoint"),
        "class": (
            lambda path, ran: path.write_bytes(shapes(ran)["call"]),
            "it names eval, which is never loaded",
        ),
    },
    "sent.safetensors": {
        "promise": (tensors("x" * 8, b""), "cannot be read as a checkpoint"),
        "longer": (
            tensors('{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,8]}}', bytes(8)),
            "cannot be read as a checkpoint",
        ),
        "overlap": (
            tensors('{"w":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}', bytes(8)),
            "cannot be read as a checkpoint",
        ),
    },
    "model.safetensors.index.json": {
        "up": (index({"w": "../outside.pt"}), "expected a file of the same folder"),
        "path": (index({"w": "/etc/passwd"}), "expected a file of the same folder"),
        "itself": (index({"w": "model.safetensors.index.json"}), "a file of the same folder"),
        "number": (index({"w": 3}), "expected a file of the same folder"),
        "list": (index(["w"]), "no table weight_map"),
        "deep": (lambda path, ran: path.write_text("[" * 10**5), "cannot be read"),
    },
}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, kinds in CHECKPOINTS.items() for kind in kinds]
)
def test_a_file_that_is_no_checkpoint_is_one_sentence(tmp_path, name, kind):
    make, message = CHECKPOINTS[name][kind]
    path, ran = tmp_path / "folder" / name, tmp_path / "ran"
    path.parent.mkdir()
    (tmp_path / "outside.pt").write_text(SECRET)
    make(path, ran)
    before = snapshot(tmp_path)
    with pytest.raises(penchant.Error, match=message) as caught:
        read_tensors(path)
    # No advice of torch how to switch the protection off.
    for word in ("trusted", "weights_only", "arbitrary"):
        assert word not in str(caught.value)
    assert snapshot(tmp_path) == before


# ---- data


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_of_pictures_is_only_read(tmp_path, shape):
    ran, path = tmp_path / "ran", tmp_path / "data_batch_1"
    path.write_bytes(shapes(ran)[shape])
    with pytest.raises(penchant.Error):
        read_batch(path)
    assert not ran.exists()


def test_what_reads_a_batch_cannot_be_changed_by_one(tmp_path):
    path = tmp_path / "data_batch_1"
    state = b"N}U\x0c__defaults__U\x05utf-7\x85s\x86b0}."
    path.write_bytes(b"\x80\x02" + named("_codecs", "encode") + state)
    from penchant_vision.files import pickled_arrays

    with pytest.raises(penchant.Error, match="sets attributes"):
        read_batch(path)
    assert pickled_arrays._latin1.__defaults__ == ("latin1",)


def of_objects(path, ran):
    np.save(path, np.array([Attack(str(ran))], dtype=object))


DATA = {
    "objects": of_objects,
    "pickle": lambda path, ran: path.write_bytes(shapes(ran)["call"]),
    "promise": lambda path, ran: path.write_bytes(head((10**15,))),
    "no size": lambda path, ran: path.write_bytes(head((0, 10**30))),
    "archive": lambda path, ran: zipfile.ZipFile(path, "w").close(),
    "kind of code": lambda path, ran: path.write_bytes(head((1,), "__import__('os')")),
    "pipe": lambda path, ran: os.mkfifo(path),
}


@pytest.mark.parametrize("kind", DATA)
def test_a_file_of_numbers_is_only_read(tmp_path, kind):
    path, ran = tmp_path / "sent.npy", tmp_path / "ran"
    DATA[kind](path, ran)
    with pytest.raises(penchant.Error, match="sent.npy"):
        read_array(str(path), "directions")
    assert not ran.exists()


def test_an_array_of_a_run_that_leads_out_is_not_read(place):
    linked(place, f"jobs/{JOB}/arrays.npz", "secret.txt")
    with pytest.raises(penchant.Error, match="leads out"):
        read_array(f"run:{place}/jobs/{JOB}#means", "directions")


# ---- pages and tables

MARK = "<b>x</b> | [y](javascript:alert(1)) `z` \\input{a}\n\\write18{b} & _c_"


def test_texts_of_a_run_are_no_code_of_a_page_or_a_table(place):
    changed(
        place,
        labels={"probe": "p", "architecture": MARK, "seed": 0},
        summary=MARK,
        warnings=[MARK],
        conventions={MARK: MARK},
        meanings={"spread": MARK},
        quantities={"spread": {"value": 1.0, "stderr": 0.1, "unit": MARK, "over": MARK}, MARK: {}},
        error=MARK,
        traceback=MARK,
        versions={MARK: MARK},
    )
    relabelled(place, architecture=MARK, probe=MARK)
    run = penchant.read(place)
    # Markdown: nothing of HTML, one line for a row, every mark escaped.
    table = run.to_markdown()
    assert "<" not in table and "&lt;b&gt;" in table
    assert "](" not in table.replace(r"\](", "")
    rows = [line for line in table.splitlines() if line.startswith("|")]
    columns = {len(line.replace(r"\|", "").split("|")) for line in rows}
    assert len(columns) == 1
    # LaTeX: no command of theirs, also not behind a comment.
    for line in run.to_latex().splitlines():
        bare = line.partition("%")[0]
        assert r"\input{" not in bare and r"\write" not in bare, line
    # HTML, in a notebook and in the page.
    for page in (run._repr_html_(), run.result(JOB)._repr_html_()):
        assert "<b>" not in page and "&lt;b&gt;" in page
    CliRunner().invoke(main, ["report", "sent"])
    page = (place / "report.html").read_text()
    assert "<b>" not in page and 'href="javascript' not in page


PICTURES = {
    "nothing more": ("svg", "<svg xmlns='http://www.w3.org/2000/svg'><path d='M0 0'/></svg>", True),
    "script": ("svg", "<svg xmlns='http://www.w3.org/2000/svg'><script>x</script></svg>", False),
    "event": ("svg", "<svg xmlns='http://www.w3.org/2000/svg' onload='x'/>", False),
    "page": (
        "svg",
        "<svg xmlns='http://www.w3.org/2000/svg'><h:script xmlns:h='http://www.w3.org/1999/xhtml'/>"
        "</svg>",
        False,
    ),
    "other name": (
        "svg",
        "<a:svg xmlns:a='http://www.w3.org/2000/svg'><a:script>x</a:script></a:svg>",
        False,
    ),
    "sheet": ("svg", "<?xml-stylesheet href='x'?><svg xmlns='http://www.w3.org/2000/svg'/>", False),
    "entity": (
        "svg",
        "<!DOCTYPE svg [<!ENTITY a 'b'>]><svg xmlns='http://www.w3.org/2000/svg'>&a;</svg>",
        False,
    ),
    "link": (
        "svg",
        "<svg xmlns='http://www.w3.org/2000/svg' xmlns:x='http://www.w3.org/1999/xlink'>"
        "<use x:href='http://a.b/c'/></svg>",
        False,
    ),
    "address": (
        "svg",
        "<svg xmlns='http://www.w3.org/2000/svg'><style>@import 'x'</style></svg>",
        False,
    ),
    "no drawing": ("svg", "<html><script>x</script></html>", False),
    "not a png": ("png", "<svg/>", False),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_that_runs_is_left_out_of_the_page(place, kind):
    ending, content, shown = PICTURES[kind]
    figures = place / "jobs" / JOB / "figures"
    figures.mkdir()
    (figures / f"means.{ending}").write_text(content)
    (figures / "figures.json").write_text('{"schema": 1, "captions": {"means": "Means."}}')
    CliRunner().invoke(main, ["report", "sent"])
    page = (place / "report.html").read_text()
    assert (f"figures/means.{ending}" in page) is shown
    assert (f"means.{ending} is left out: it is more than a drawing" in page) is not shown


def test_every_figure_that_is_drawn_is_a_picture():
    """What is left out of a page is never one of our own."""
    import matplotlib.pyplot as plt
    from penchant_report.drawings import is_picture
    from penchant_report.figures import figure_style, picture

    with figure_style():
        figure, axes = plt.subplots(2, 3)
        axes[0, 0].plot([1, 2], label="$x^2$")
        axes[0, 0].legend()
        axes[0, 1].imshow(np.eye(3))
        axes[0, 2].bar([1, 2], [1, 2], hatch="/")
        axes[1, 0].pcolormesh(np.eye(3), shading="gouraud")
        axes[1, 1].fill_between([1, 2], [1, 2], alpha=0.5)
        axes[1, 2].contourf(np.eye(3))
        for largest in (10**9, 0):
            ending, content = picture(figure, largest=largest)
            assert is_picture(content, ending), ending
        plt.close(figure)


def test_a_report_changes_nothing_but_its_own_files(place):
    """Also where a figure fails: its result stays as it was sent."""
    path = place / "jobs" / JOB / "arrays.npz"
    np.savez(path, other=np.ones(3))
    _without_checksum(place)
    changed(place, arrays={"other": {"shape": [3]}}, figures=DRAWS)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    done = CliRunner().invoke(main, ["report", "sent"])
    assert done.exit_code == 0 and "figures could not be drawn: KeyError" in done.output
    after = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert {path.name for path in after.keys() - before.keys()} == {"report.html", "quantities.csv"}
    assert {path: after[path] for path in before} == before


def test_a_folder_of_a_probe_that_is_not_installed_says_so(place):
    changed(place, figures="canary:draw", probe={"name": "x"})
    done = CliRunner().invoke(main, ["report", "sent"])
    sentence = "no installed probe is called 'x', so nothing is drawn for it"
    assert sentence in done.output
    assert "no installed probe is called &#39;x&#39;" in (place / "report.html").read_text()
    assert "% probe x: not installed here" in CliRunner().invoke(main, ["cite", "sent"]).output


def test_every_promise_names_a_test(root):
    named = set(re.findall(r"`(test_\w+)`", (root / "SECURITY.md").read_text()))
    files = [*root.glob("plugins/*/tests/test_*.py"), root / "tests/stories/test_strangers.py"]
    defined = {
        name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)
    }
    assert len(named) > 8 and named <= defined
