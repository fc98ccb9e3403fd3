"""The exchanges of a capture that match conditions, one by one or many at once; begin with `filtered_reader`."""
