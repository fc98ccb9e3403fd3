"""Display filters: conditions on the rows of a level, for `kwire decode --filter`, as `api=ShareFetch and error!=0`.

`tokenizer` splits the text, `parser` builds an `expression`, `fields` has the fields of a level, and `operands` parses
the values. `display_filter.DisplayFilter` is the interface for other packages. docs/captures.md describes the syntax.
"""
