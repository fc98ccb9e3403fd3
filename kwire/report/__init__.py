"""The HTML report about captures: its tables, computed by Spark, its plots and its page."""
