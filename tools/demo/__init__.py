"""The demo: five share consumers with habits of their own, a capture, Spark, and three counts that must agree."""
