"""Conditions over the rows of a level, as `kwire decode --filter` takes them: `api=ShareFetch and error!=0`.

`tokens` cuts the text, `syntax` makes a `condition` of it, `fields` knows what a name means on a level, `operands`
what may stand behind an operator; `where.Where` is what others use. `docs/captures.md` ("Filters") is its page.
"""
