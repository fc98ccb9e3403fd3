"""The methods of `mockbroker.Cluster`, by subject: each class here is a base of it."""
