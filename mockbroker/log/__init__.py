"""The log: lines by subject, with fields, whose repetitions are counted; and how the commands write it."""
