"""Documentation cannot lag: its examples run, its links lead somewhere, its words are kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import duly
from duly.outbox import egress, lease, message, registry
from duly.outbox import networks as addresses
from duly.relay import settings
from tests.support.sizes import mostly_wide

ROOT = Path(__file__).parents[2]
FOLDERS = ("*.md", "docs/**/*.md", "tests/*.md", "verification/*.md", "examples/*/*.md")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(folder) if page.is_file())
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
ANCHOR = re.compile(r"\]\((?!https?://)([^)#\s]*)#([^)\s]+)\)")


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return [code for kind, code in BLOCK.findall(page.read_text()) if kind == language]


WITH_EXAMPLES = [page for page in PAGES if blocks(page, "python")]


# Pages of which each example stands alone; those of any other page are one program, in order.
APART = {"README"}
# What a second run in the same folder prints instead, which the page says in a sentence.
SECOND_RUN = {
    "README": ("first {'shipped': 'evt_1'}", "duplicate {'shipped': 'evt_1'}"),
    "joining": ("True False", "False False"),
    "frameworks": (
        '200 {"status": "accepted", "event": "msg_1"}\n'
        '200 {"status": "duplicate", "event": "msg_1"}\n'
        '200 {"status": "accepted", "event": "msg_2"}\n'
        "mailed msg_0\nmailed msg_1\n3 jobs",
        '200 {"status": "duplicate", "event": "msg_1"}\n' * 2
        + '200 {"status": "duplicate", "event": "msg_2"}\nmailed msg_0\n1 jobs',
    ),
}


@pytest.mark.parametrize(
    "page",
    mostly_wide(WITH_EXAMPLES, shown=lambda page: page.stem == "README"),
    ids=lambda page: page.stem,
)
def test_the_examples_of_a_page_run_twice_in_one_folder_and_print_what_it_says(
    page: Path, tmp_path: Path, own_postgres_url: str
) -> None:
    programs = blocks(page, "python")
    programs = programs if page.stem in APART else ["\n".join(programs)]
    told = "".join(blocks(page, "text"))

    assert printed(programs, tmp_path, own_postgres_url) == told
    assert printed(programs, tmp_path, own_postgres_url) == told.replace(
        *SECOND_RUN.get(page.stem, ("", ""))
    )


def printed(programs: list[str], folder: Path, database: str) -> str:
    """What these programs print, one after the other, as a user would run them."""
    output = []
    script = folder / "example.py"
    for program in programs:
        script.write_text(program)
        ran = subprocess.run(
            [sys.executable, "-W", "error", script.name],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "DATABASE_URL": database},
        )
        assert ran.returncode == 0, ran.stderr
        output.append(ran.stdout)
    return "".join(output)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    missing = [
        target
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).resolve().exists()
    ]
    assert missing == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub writes them."""
    text = BLOCK.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_anchors_of_a_page_are_headings(page: Path) -> None:
    linked = [
        ((page.parent / target).resolve() if target else page, anchor)
        for target, anchor in ANCHOR.findall(page.read_text())
    ]
    assert [
        (target.name, anchor)
        for target, anchor in linked
        if target.suffix == ".md" and anchor not in anchors(target)
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_nobody_is_promised_what_nobody_can_keep(page: Path) -> None:
    assert "exactly-once delivery" not in page.read_text().lower()


def test_every_public_name_is_documented() -> None:
    text = "".join(page.read_text() for page in PAGES)
    undocumented = [
        name for name in duly.__all__ if not re.search(rf"`(duly\.)?(aio\.)?{name}\b", text)
    ]
    assert undocumented == []


def test_every_decision_is_in_the_list_of_decisions() -> None:
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text()
    numbered = [page.name for page in ROOT.glob("docs/decisions/0*.md")]
    assert numbered
    assert [name for name in numbered if f"]({name})" not in listed] == []


def test_every_refused_network_is_on_the_page_about_egress() -> None:
    page = (ROOT / "docs" / "egress.md").read_text()
    networks = [network for network, _ in (*addresses.REFUSED, *addresses.REFUSED_SIX)]
    carriers = [network for network, _ in addresses.CARRIERS]
    within = [one for one in networks if one.version == 4 or one.overlaps(addresses.UNICAST)]
    missing = [str(one) for one in (*within, *carriers) if f"`{one}`" not in page]
    assert missing == []


@pytest.mark.parametrize(
    "line",
    [
        f"| `--concurrency N` | {settings.CONCURRENCY} |",
        f"| `--per-destination N` | {settings.PER_DESTINATION} |",
        f"| `--lease SECONDS` | the longest call, and {settings.SLACK.seconds} more |",
        f"| `--grace SECONDS` | {settings.GRACE.seconds} |",
        f"| attempts | {message.ATTEMPTS} unless given, {message.MOST_ATTEMPTS:,} at most |",
        f"| rescues | {lease.MOST_RESCUES} |",
        f"| body | {message.MOST_BYTES // 1024**2} MiB",
        f"| headers | {message.MOST_HEADERS},",
        f"| URL, or address of a transport | {registry.LONGEST:,} characters |",
        f"| one call by HTTP, from the name to the last byte | {egress.DEADLINE.seconds} seconds",
        f"| of the answer is read | {egress.LIMIT // 1024} KiB",
    ],
)
def test_the_numbers_on_the_page_about_the_outbox_are_those_of_the_code(line: str) -> None:
    assert line in (ROOT / "docs" / "outbox.md").read_text()


def test_the_listing_of_django_is_that_of_the_example() -> None:
    project = ROOT / "examples" / "django_shop"
    [listing] = [
        code
        for code in blocks(ROOT / "docs" / "frameworks.md", "py")
        if code.startswith("# shopsite/")
    ]
    parts = re.split(r"^# (\w+/[\w/]+\.py)\b.*\n", listing, flags=re.MULTILINE)[1:]
    shown = list(zip(parts[::2], parts[1::2], strict=True))
    assert len(shown) >= 6
    for file, code in shown:
        assert code.strip() in (project / file).read_text(), file
