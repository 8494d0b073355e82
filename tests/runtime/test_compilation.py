"""What a compiler reads, and how its refusal is shown."""

from pathlib import Path
from textwrap import dedent

from thunder_fuser.runtime.compilation import Unit, numbered, refusal

TEXT = "".join(f"line {n};\n" for n in range(1, 13))


def test_lines_around_the_fault_are_numbered() -> None:
    assert numbered(TEXT, 11) == dedent("""\
              8 | line 8;
              9 | line 9;
             10 | line 10;
        ->   11 | line 11;
             12 | line 12;""")
    assert numbered(TEXT, 1).splitlines()[0] == "->    1 | line 1;"


def test_messages_of_both_compilers_lead_to_the_line(tmp_path: Path) -> None:
    for log in ("k.cu(4): error: no such name", "k.cu:4:7: error: no such name"):
        error = refusal("cc 1.0", Unit("k", TEXT), f"k.cu(2): warning: odd\n{log}", str(tmp_path))
        assert "->    4 | line 4;" in str(error)
        assert str(error).startswith(f"cc 1.0 refused the kernel k, written to {tmp_path}/k.cu")


def test_message_without_a_line_is_shown_alone(tmp_path: Path) -> None:
    error = refusal("cc 1.0", Unit("k", TEXT), "out of registers", str(tmp_path))
    assert str(error).endswith("k.cu\n\nout of registers")


def test_lines_count_from_the_kernel_text_whatever_stands_before() -> None:
    unit = Unit("k", "text", before="header\nheader", after="entry")
    assert unit.complete == 'header\nheader\n#line 1 "k.cu"\ntext\nentry\n'
    assert Unit("k", "text").complete == "text"
