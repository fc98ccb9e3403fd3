"""The cases, in packages by family. `find_cases` of `mockbroker.certify.case_table` collects them."""
