"""The command `kwire decode`: arguments, filters, views and output."""
