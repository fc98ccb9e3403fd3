"""The demo: five share consumers with different behaviours, a capture, Spark, and three counts that must agree."""
