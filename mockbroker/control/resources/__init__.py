"""The functions of the operations by subject: each translates to a method of the cluster and back."""
