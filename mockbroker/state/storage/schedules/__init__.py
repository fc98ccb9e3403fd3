"""When logs are cleaned, and idle producers removed from them."""
