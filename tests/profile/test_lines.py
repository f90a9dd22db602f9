"""Messages about a TOML file name the line of the key or of the string."""

from pathlib import Path

import pytest

from binary_checks.declaring import find_checks
from binary_checks.errors import ProfileError
from binary_checks.profile import (
    convert_table,
    find_profile,
    load_profile,
    parse_toml,
    validate,
)

CHECKS = find_checks()

LONG = '''\
text = """
[no]
colour = "no key" """
raw = \'\'\'
key = 'no key'
\'\'\'
many = [ # [comment]
  "one", "#two",
  { name = "a", "quoted name".part = 1 },
]
'''


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("colour = 1\n", 1),
        ("\n\r\n# colour = 1\ncolour = 1", 4),
        ("[colour]\n", 1),
        ("[[colour]]\n[[colour]]\n", 1),
        ("[colour.deep]\nx = 1\n", 1),
        (f"{LONG}colour = 1\n", 11),
        (f"{LONG}  'colour' . x = 1\n", 11),
        (f'{LONG}[ "colour" ] # [[not]]\n', 11),
        (LONG.replace("\n", "\r\n") + "colour = 1\r\n", 11),
    ],
)
def test_an_unknown_key_is_named_with_its_line(text: str, line: int) -> None:
    known = dict.fromkeys(("text", "raw", "many"), object)
    with pytest.raises(ProfileError, match=rf"^own\.toml:{line}: unknown key 'colour'$"):
        convert_table(parse_toml(text.encode(), "own.toml"), known, "own.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.binary_checks]\n\ncolour = 1", "3: unknown key 'colour'"),
        ("[tool]\nbinary_checks.colour = 1", "2: unknown key 'colour'"),
        ("tool = { binary_checks = {\n colour = 1 } }", None),  # TOML 1.0 has no such line break
        (
            "[[tool.binary_checks.installs]]\nname = 'a'\n[[tool.binary_checks.installs]]\n"
            "name = 'b'\ncolour = 1",
            "5: installs, entry 2: unknown key 'colour'",
        ),
        (
            "[tool.binary_checks]\nenable = [\n  'import-fails',\n  'import-fials',\n]",
            "4: unknown check 'import-fials'; did you mean 'import-fails'?",
        ),
        (
            "[tool.binary_checks]\n[tool.binary_checks.levels.import-fails]\n'a/*' = 'eror'",
            "3: levels.import-fails.a/*: unknown level 'eror'; did you mean 'error'?",
        ),
        (
            "[[tool.binary_checks.known_problems]]\nreason = 'r'\nchek = 'x'",
            "3: known_problems[0]: unknown key 'chek'; did you mean 'check'?",
        ),
    ],
)
def test_a_mistake_in_a_pyproject_is_named_with_its_line(
    tmp_path: Path, text: str, message: str | None
) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ProfileError) as caught:
        validate(find_profile(tmp_path), CHECKS)
    shown = f"profile pyproject.toml:{message}" if message else "profile pyproject.toml: not TOML"
    assert str(caught.value).startswith(shown)


def test_a_mistake_in_an_extended_profile_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("\n[options.import-fails]\ncolour = 1\n")
    (tmp_path / "own.toml").write_text("extends = 'base.toml'\n")
    own = tmp_path / "own.toml"
    shown = f"profile {own}: options.import-fails: profile base.toml:3: unknown option 'colour'"
    with pytest.raises(ProfileError, match=rf"^{shown}"):
        validate(load_profile(str(own)), CHECKS)
