"""The second, slow pass over what the generated code has refused: which field is wrong, where, and why."""

from kwire.careful.reading import read, read_lenient
from kwire.careful.writing import check_absent, is_default, write

__all__ = ["check_absent", "is_default", "read", "read_lenient", "write"]
