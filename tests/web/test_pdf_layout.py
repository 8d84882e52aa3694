from webgpt_jax.web.pdf_layout import Block, Line, paragraphs, reading_order


def block(x: float, y: float, *texts: str, width: float = 5) -> Block:
    """Lines of 10 points with 2 between them, the first one's top at y; a letter is `width` wide."""
    return Block([Line(text, x, y - 12 * n - 10, x + width * len(text), y - 12 * n) for n, text in enumerate(texts)])


def order(*blocks: Block) -> list[str]:
    return [block.lines[0].text for block in reading_order(blocks)]


LONG = "as wide as the page, from the left margin to the right margin......"


def column(x: float, y: float, name: str) -> Block:
    return block(x, y, name, "a line of the column", "another line of it")


def test_nothing() -> None:
    assert reading_order([]) == []
    assert paragraphs([]) == []


def test_one_column_is_read_from_top_to_bottom() -> None:
    assert order(block(50, 100, "c"), block(80, 300, "a"), block(50, 200, "b")) == ["a", "b", "c"]


def test_columns_are_read_one_after_the_other_between_what_spans_them() -> None:
    assert (
        order(
            column(250, 605, "right 1"),  # its top is higher than the left column's
            column(50, 600, "left 1"),
            column(50, 550, "left 2"),
            column(250, 520, "right 2"),
            block(50, 700, LONG),
            block(50, 400, LONG[1:]),
            column(50, 300, "left 3"),
            column(250, 300, "right 3"),
        )
        == [LONG, "left 1", "left 2", "right 1", "right 2", LONG[1:], "left 3", "right 3"]
    )


def test_three_columns() -> None:
    columns = [column(x, y, f"{x} {y}") for y in (600, 500) for x in (50, 250, 450)]
    assert order(*columns) == ["50 600", "50 500", "250 600", "250 500", "450 600", "450 500"]


def test_a_table_is_read_row_by_row() -> None:
    cells = [block(x, y, f"{x} {y}") for y in (600, 580, 560, 540) for x in (50, 150, 250)]
    assert order(*reversed(cells))[:4] == ["50 600", "150 600", "250 600", "50 580"]


def test_many_blocks_are_no_trouble() -> None:
    assert order(*(block(y % 7, y, f"{y}") for y in range(0, 240_000, 12)))[:2] == ["239988", "239976"]
    assert len(reading_order([block(x, y, "x") for x in range(0, 6000, 10) for y in range(0, 1000, 12)])) == 600 * 84


def test_the_lines_of_a_paragraph_are_joined() -> None:
    assert paragraphs([block(0, 100, "a first line of text", "a second one of it", "end")]) == [
        "a first line of text a second one of it end"
    ]


def test_a_word_parted_by_a_hyphen_is_made_whole() -> None:
    assert paragraphs([block(0, 100, "they are remem-", "bered")]) == ["they are remembered"]
    assert paragraphs([block(0, 100, "they are remem\u2010", "bered")]) == ["they are remembered"]
    assert paragraphs([block(0, 100, "from 1999-", "2001 or so")]) == ["from 1999- 2001 or so"]
    assert paragraphs([block(0, 100, "the North-", "American j")]) == ["the North- American j"]


def test_east_asian_lines_are_joined_without_a_blank() -> None:
    assert paragraphs([block(0, 100, "烏は贈り物を", "持って来る。")]) == ["烏は贈り物を持って来る。"]


def test_a_short_line_ends_its_paragraph() -> None:
    assert paragraphs([block(0, 100, "a heading", "the text that follows it is longer", "and goes on")]) == [
        "a heading",
        "the text that follows it is longer and goes on",
    ]


def test_an_indent_begins_a_paragraph() -> None:
    lines = [Line("the end of one paragraph.", 0, 90, 125, 100), Line("The next one begins", 15, 78, 125, 88)]
    assert paragraphs([Block([*lines, Line("here and goes on.", 0, 66, 125, 76)])]) == [
        "the end of one paragraph.",
        "The next one begins here and goes on.",
    ]


def test_an_indented_first_line_in_a_block_of_its_own_is_joined_to_what_follows() -> None:
    first = Block([Line("  An indented first line,", 15, 90, 140, 100)])
    assert paragraphs([first, Block([Line("a short end.", 0, 78, 60, 88)])]) == [
        "  An indented first line, a short end."
    ]


def test_list_items_stand_on_their_own_lines_with_what_hangs_from_them() -> None:
    lines = [
        Line("• the first item of a list which", 0, 90, 160, 100),
        Line("hangs from its mark", 15, 78, 160, 88),
        Line("• the second", 0, 66, 160, 76),
        Line("2.1 a numbered one", 0, 54, 160, 64),
        Line("(b) a lettered one", 0, 42, 160, 52),
        Line("3rd is none", 0, 30, 160, 40),
    ]
    assert paragraphs([Block(lines)]) == [
        "• the first item of a list which hangs from its mark",
        "• the second",
        "2.1 a numbered one",
        "(b) a lettered one 3rd is none",
    ]


def test_centred_lines_stay_together() -> None:
    lines = [Line("A Title that is Set in the Middle", 0, 90, 165, 100), Line("of the Sheet", 40, 78, 125, 88)]
    wide = Line("Crows", 20, 102, 145, 112)
    assert paragraphs([Block([wide, *lines[1:]])]) == ["Crows of the Sheet"]


def test_what_stands_side_by_side_is_one_line() -> None:
    row = [Line("$ 7.50", 200, 90, 230, 100), Line("coffee", 0, 91, 30, 101)]
    assert paragraphs([Block(row)]) == ["coffee $ 7.50"]


def test_blocks_of_another_size_or_place_are_not_joined() -> None:
    heading, below = block(0, 100, "a heading that is long"), Block([Line("text of the same length", 0, 73, 115, 88)])
    assert paragraphs([heading, below]) == ["a heading that is long", "text of the same length"]
    assert paragraphs([heading, block(300, 88, "beside it")]) == ["a heading that is long", "beside it"]
    assert paragraphs([heading, block(0, 60, "far below, of any length")]) == [
        "a heading that is long",
        "far below, of any length",
    ]
