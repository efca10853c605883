"""The runner of guides: what is run, what is compared, and what it notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import guides

PAGE = """
Some words, and `make`.

```sh
greeting=hello
echo "$greeting   12 of 3,000 in 1.5 s"
```

```text
hello 7 of 9 in 2 s
```

<!-- not tried: it would end the test -->
```sh
exit 3
```

```sh
echo "$greeting" from example.org/there
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path / "page.md"


def test_blocks_run_in_order_in_one_shell_and_numbers_may_differ(page: Path, tmp_path: Path) -> None:
    last = guides.run(page, tmp_path, {}, {"example.org": "nowhere"}, after='echo "and $greeting again"')
    assert last == "and hello again\n"


def test_a_block_that_prints_something_else_is_noticed(page: Path, tmp_path: Path) -> None:
    page.write_text(PAGE.replace("greeting=hello", "greeting=bye"))
    with pytest.raises(AssertionError, match="hello 7 of 9"):
        guides.run(page, tmp_path, {})


def test_a_block_that_fails_is_noticed(page: Path, tmp_path: Path) -> None:
    page.write_text(PAGE.replace("greeting=hello", "echo why >&2; false"))
    with pytest.raises(AssertionError, match="why"):
        guides.run(page, tmp_path, {})


def test_a_place_to_fill_in_that_a_page_does_not_name_is_noticed(page: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="does not say"):
        guides.run(page, tmp_path, {}, {"elsewhere.org": "nowhere"})
