"""The levels below `messages` by columns: partitions, acquired records, acknowledgements and records.

Bodies of one message and version are read together into tables (`table_decoder`); other bodies are decoded one by one.
"""
