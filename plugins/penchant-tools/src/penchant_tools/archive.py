"""A finished run as one zip file to publish: `penchant archive`.

It holds `manifest-sha256.txt`, which `sha256sum --check` reads, and describes itself as an RO-Crate
(https://w3id.org/ro/crate/1.1), which Zenodo and others read.
"""

from __future__ import annotations

import datetime
import json
import zipfile
from pathlib import Path
from typing import Any

import penchant
from penchant.results.files import atomic, checksum
from penchant_numerics.statistics import counted

from penchant_tools.copies import finished

MANIFEST = "manifest-sha256.txt"
METADATA = "ro-crate-metadata.json"
TYPES = {
    ".json": "application/json",
    ".toml": "application/toml",
    ".png": "image/png",
    ".html": "text/html",
    ".csv": "text/csv",
}
MOMENT = (1980, 1, 1, 0, 0, 0)  # of every entry: the same files give the same bytes


def archive(folder: Path, path: Path) -> int:
    """Write the finished jobs of a run to a zip file; the number of its files."""
    if path.exists():
        raise penchant.Error(f"{path} exists; remove it or choose another name")
    files = [each for group in finished(folder) for each in group]
    names = {each.relative_to(folder).as_posix(): each for each in files}
    digests = {name: checksum(each) for name, each in names.items()}
    metadata = json.dumps(crate(folder, names, digests), indent=1, ensure_ascii=False)
    lines = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    with atomic(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in names.items():
            archive.writestr(_entry(name), each.read_bytes())
        archive.writestr(_entry(MANIFEST), lines)
        archive.writestr(_entry(METADATA), metadata)
    return len(names)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, MOMENT)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def crate(folder: Path, names: dict[str, Path], digests: dict[str, str]) -> dict[str, Any]:
    """What the zip file holds, as RO-Crate metadata."""
    run = penchant.read(folder)
    done = sum(name.endswith("/result.json") for name in names)
    software: dict[str, str] = run.record.get("environment", {})
    description = (
        f"{done} of {counted(len(run.jobs), 'job')} of an experiment measured with Penchant"
    )
    files = [
        {
            "@id": name,
            "@type": "File",
            "name": name,
            "contentSize": str(path.stat().st_size),
            "encodingFormat": TYPES.get(path.suffix, "application/octet-stream"),
            "sha256": digests[name],
        }
        for name, path in names.items()
    ]
    return {
        "@context": [
            "https://w3id.org/ro/crate/1.1/context",
            {"sha256": "https://schema.org/sha256"},
        ],
        "@graph": [
            {
                "@id": METADATA,
                "@type": "CreativeWork",
                "about": {"@id": "./"},
                "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
            },
            {
                "@id": "./",
                "@type": "Dataset",
                "name": run.title or folder.absolute().name,
                "description": description,
                "datePublished": datetime.date.today().isoformat(),
                "hasPart": [{"@id": each["@id"]} for each in files],
                "mentions": {"@id": "#penchant"},
            },
            {
                "@id": "#penchant",
                "@type": "SoftwareApplication",
                "name": "Penchant",
                "softwareVersion": str(software.get("penchant", "unknown")),
            },
            *files,
        ],
    }
