"""Escaping of text in markup and in embedded JSON."""

from __future__ import annotations

import json

from kwire.report.markup import data_island, tag


def test_text_and_attributes_are_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b>&", tag("b", "x"), title='"<') == '<p title="&quot;&lt;">&lt;b&gt;&amp;<b>x</b></p>'


def test_embedded_data_cannot_end_its_element_and_reads_back_the_same() -> None:
    tree = {"</script><!--": ["\u2028", "&amp;", "\ud800"]}

    written = data_island(tree)

    assert not set("<>&\u2028") & set(written)
    assert json.loads(written) == tree
